//! Bounded schemas for types that are not ours (label selectors, conditions, times), for use in our own kinds only.
//!
//! Every list and string of a kind that has CEL rules is bounded, or a real API server refuses the rules' cost.
//! Nothing here may be used for a kind of KubeStellar's: those schemas are copied as they are.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Kubernetes' grammar of a label value; KubeStellar refuses a BindingPolicy with any other.
pub(crate) const LABEL_VALUE_PATTERN: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// Kubernetes' grammar of a qualified label key: an optional DNS prefix and a slash, then a name.
pub(crate) const LABEL_KEY_PATTERN: &str =
    "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";

/// Selectors over cluster labels: at most 64, keys and values in Kubernetes' grammar, as KubeStellar's CRD asks.
pub(crate) fn cluster_selectors(_: &mut SchemaGenerator) -> Schema {
    selectors(
        &json_schema!({"type": "string", "maxLength": 63, "pattern": LABEL_VALUE_PATTERN}),
        &label_key(),
    )
}

/// Selectors over object or namespace labels: at most 64, any text in keys and values, as KubeStellar's CRD has it.
pub(crate) fn label_selectors(_: &mut SchemaGenerator) -> Schema {
    let value = json_schema!({"type": "string", "maxLength": 63});
    selectors(&value, &json_schema!({"type": "string", "maxLength": 317}))
}

/// Standard conditions, at most 16; the messages are at most 1024 characters.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "description": "When the condition last changed its status.",
                    "type": "string",
                    "format": "date-time",
                },
                "message": {"description": "Why, for a human.", "type": "string", "maxLength": 1024},
                "observedGeneration": {
                    "description": "The generation of the object that the condition is about.",
                    "type": "integer",
                    "format": "int64",
                },
                "reason": {"description": "Why, in one word.", "type": "string", "maxLength": 256},
                "status": {
                    "description": "Whether it holds.\n\n- True: it holds.\n- False: it does not hold.\n- Unknown: it is not known whether it holds.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "type": {"description": "What the condition says.", "type": "string", "maxLength": 256},
            },
        },
    })
}

/// Any JSON value, kept as it is. Kubernetes asks no type of such a node.
pub(crate) fn any_json(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

fn label_key() -> Schema {
    json_schema!({"type": "string", "maxLength": 317, "pattern": LABEL_KEY_PATTERN})
}

/// One selector over object labels, in Kubernetes' grammar.
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    let value = json_schema!({"type": "string", "maxLength": 63, "pattern": LABEL_VALUE_PATTERN});
    selector(&value, &label_key())
}

fn selectors(value: &Schema, key: &Schema) -> Schema {
    json_schema!({"type": "array", "maxItems": 64, "items": selector(value, key)})
}

fn selector(value: &Schema, key: &Schema) -> Schema {
    let mut key = key.clone();
    key.insert("description".to_owned(), "The label's key.".into());
    json_schema!({
        "type": "object",
        "properties": {
            "matchLabels": {
                "description": "Keys and values that must all be among the labels.",
                "type": "object",
                "maxProperties": 64,
                "additionalProperties": value,
            },
            "matchExpressions": {
                "description": "Requirements that the labels must all meet.",
                "type": "array",
                "maxItems": 64,
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": key,
                        "operator": {
                            "description": "How the label is compared.\n\n- In: its value is among `values`.\n- NotIn: its value is not among \
                                            `values`, or the label is absent.\n- Exists: the label is present.\n- DoesNotExist: the label is absent.",
                            "type": "string",
                            "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
                        },
                        "values": {
                            "description": "At least one for In and NotIn; none for Exists and DoesNotExist.",
                            "type": "array",
                            "maxItems": 256,
                            "items": value,
                        },
                    },
                },
            },
        },
    })
}
