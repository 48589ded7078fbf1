//! Stand-ins for the definitions of KubeStellar and its inventory, written from what they accept and refuse.
//!
//! No bounds and no rules of ours: KubeStellar overwrites a definition that differs from its own. Descriptions are
//! left out. Fields that these kinds do not have are pruned, or refused under strict validation, as on the real ones.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::bounds::{LABEL_KEY_PATTERN, LABEL_VALUE_PATTERN};
use crate::{INVENTORY_GROUP, KUBESTELLAR_GROUP, VERSION};

/// BindingPolicy, Binding, StatusCollector, CombinedStatus, WorkStatus and ManagedCluster.
pub(super) fn all() -> Vec<CustomResourceDefinition> {
    let kinds = [
        binding_policy(),
        binding(),
        status_collector(),
        combined_status(),
        work_status(),
        managed_cluster(),
    ];
    kinds.into_iter().map(Kind::into_crd).collect()
}

pub(super) struct Kind {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) plural: &'static str,
    pub(super) short_names: &'static [&'static str],
    pub(super) namespaced: bool,
    pub(super) has_status: bool,
    pub(super) columns: Value,
    pub(super) properties: Value,
    pub(super) required: &'static [&'static str],
}

impl Kind {
    /// A cluster-scoped kind of KubeStellar's with a status subresource, like most.
    fn kubestellar(kind: &'static str, plural: &'static str, properties: Value) -> Self {
        Self {
            group: KUBESTELLAR_GROUP,
            version: VERSION,
            kind,
            plural,
            short_names: &[],
            namespaced: false,
            has_status: true,
            columns: json!([]),
            properties,
            required: &[],
        }
    }

    pub(super) fn into_crd(self) -> CustomResourceDefinition {
        let mut properties = self.properties;
        for (name, kind) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
            properties[name] = json!({"type": kind});
        }
        let mut version = json!({
            "name": self.version, "served": true, "storage": true, "additionalPrinterColumns": self.columns,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": properties, "required": self.required}},
        });
        if self.has_status {
            version["subresources"] = json!({"status": {}});
        }
        let crd = json!({
            "metadata": {"name": format!("{}.{}", self.plural, self.group)},
            "spec": {
                "group": self.group,
                "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
                "names": {
                    "kind": self.kind, "listKind": format!("{}List", self.kind), "plural": self.plural,
                    "singular": self.kind.to_lowercase(), "shortNames": self.short_names,
                },
                "versions": [version],
            },
        });
        serde_json::from_value(crd).expect("the definition is built of constants and is tested to decode")
    }
}

fn binding_policy() -> Kind {
    let mut clause = modulation();
    for list in ["resources", "namespaces", "objectNames"] {
        clause[list] = list_of(&string());
    }
    clause["apiGroup"] = string();
    clause["namespaceSelectors"] = list_of(&selector(&string(), &string(), &string()));
    clause["objectSelectors"] = clause["namespaceSelectors"].clone();
    let criteria = [
        "apiGroup",
        "resources",
        "namespaces",
        "namespaceSelectors",
        "objectSelectors",
        "objectNames",
    ];
    let any_of: Vec<Value> = criteria
        .iter()
        .map(|criterion| json!({"required": [criterion]}))
        .collect();
    let cluster_selector = selector(
        &json!({"type": "string", "pattern": LABEL_VALUE_PATTERN}),
        &json!({"type": "string", "pattern": LABEL_KEY_PATTERN}),
        &json!({"type": "string", "pattern": "^(In|NotIn|Exists|DoesNotExist)$"}),
    );
    let spec = json!({"type": "object", "properties": {
        "clusterSelectors": list_of(&cluster_selector),
        "downsync": list_of(&json!({"type": "object", "properties": clause, "anyOf": any_of})),
    }});
    Kind {
        short_names: &["bp"],
        columns: json!([
            {"name": "SYNCED", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Synced\")].status"},
            {"name": "READY", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "TYPE", "type": "string", "jsonPath": ".spec.type"},
            {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]),
        ..Kind::kubestellar(
            "BindingPolicy",
            "bindingpolicies",
            json!({"spec": spec, "status": reconciled()}),
        )
    }
}

fn binding() -> Kind {
    let scope = |keys: &[&str]| {
        let mut properties = modulation();
        for name in keys.iter().chain(&["version", "resourceVersion"]) {
            properties[name] = string();
        }
        let mut required = keys.to_vec();
        required.extend(["version", "resourceVersion"]);
        list_map(
            keys,
            &json!({"type": "object", "properties": properties, "required": required}),
        )
    };
    let destination = json!({"type": "object", "properties": {"clusterId": string()}, "required": ["clusterId"]});
    let spec = json!({"type": "object", "properties": {
        "workload": {"type": "object", "properties": {
            "clusterScope": scope(&["group", "resource", "name"]),
            "namespaceScope": scope(&["group", "resource", "namespace", "name"]),
        }},
        "destinations": list_map(&["clusterId"], &destination),
    }});
    let kind = Kind::kubestellar("Binding", "bindings", json!({"spec": spec, "status": reconciled()}));
    Kind {
        short_names: &["bdg"],
        ..kind
    }
}

fn status_collector() -> Kind {
    let named = object(&["name", "def"], json!({"name": string(), "def": string()}));
    let combined = object(
        &["name", "type"],
        json!({"name": string(), "type": string(), "subject": string()}),
    );
    let spec = object(
        &["limit"],
        json!({
            "filter": string(), "groupBy": list_of(&named), "combinedFields": list_of(&combined),
            "select": list_of(&named), "limit": int64(),
        }),
    );
    let status = object(
        &["observedGeneration"],
        json!({"observedGeneration": int64(), "errors": list_of(&string())}),
    );
    let kind = Kind::kubestellar(
        "StatusCollector",
        "statuscollectors",
        json!({"spec": spec, "status": status}),
    );
    Kind {
        short_names: &["sc"],
        ..kind
    }
}

fn combined_status() -> Kind {
    let cell = object(
        &["type"],
        json!({
            "type": string(), "string": string(), "float": string(), "bool": {"type": "boolean"},
            "object": {"x-kubernetes-preserve-unknown-fields": true},
            "array": {"x-kubernetes-preserve-unknown-fields": true},
        }),
    );
    let row = object(&["columns"], json!({"columns": list_of(&cell)}));
    let wec = object(&["clusterId"], json!({"clusterId": string()}));
    let row_error = object(
        &["wec", "columnName", "error"],
        json!({"wec": wec, "columnName": string(), "error": string()}),
    );
    let aggregation_error = object(
        &["columnName", "error"],
        json!({"columnName": string(), "error": string()}),
    );
    let result = object(
        &["name", "columnNames"],
        json!({
            "name": string(), "columnNames": list_of(&string()), "rows": list_of(&row),
            "rowErrors": list_of(&row_error), "aggregationErrors": list_of(&aggregation_error),
        }),
    );
    let column = |name: &str, label: &str| json!({"name": name, "type": "string", "jsonPath": format!(".metadata.labels['status\\.kubestellar\\.io/{label}']")});
    Kind {
        short_names: &["cs"],
        namespaced: true,
        has_status: false,
        columns: json!([
            column("SUBJECT_GROUP", "api-group"),
            column("SUBJECT_RSC", "resource"),
            column("SUBJECT_NS", "namespace"),
            column("SUBJECT_NAME", "name"),
            column("BINDINGPOLICY", "binding-policy"),
        ]),
        ..Kind::kubestellar(
            "CombinedStatus",
            "combinedstatuses",
            json!({"results": list_of(&result)}),
        )
    }
}

fn work_status() -> Kind {
    let names = json!({
        "group": string(), "version": string(), "resource": string(), "kind": string(), "namespace": string(),
        "name": string(),
    });
    let spec = json!({"type": "object", "properties": {"sourceRef": object(&["group", "namespace"], names)}});
    let status = json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-map-type": "atomic",
    });
    let properties = json!({"spec": spec, "status": status});
    let kind = Kind::kubestellar("WorkStatus", "workstatuses", properties);
    Kind {
        short_names: &["ws", "wss"],
        namespaced: true,
        ..kind
    }
}

fn managed_cluster() -> Kind {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let properties = json!({"spec": open, "status": open});
    let kind = Kind::kubestellar("ManagedCluster", "managedclusters", properties);
    Kind {
        group: INVENTORY_GROUP,
        version: "v1",
        required: &["spec"],
        ..kind
    }
}

/// How an object travels; the members that clauses and bound objects share.
fn modulation() -> Value {
    json!({
        "createOnly": {"type": "boolean"},
        "statusCollectors": list_of(&string()),
        "wantSingletonReportedState": {"type": "boolean"},
        "wantMultiWECReportedState": {"type": "boolean"},
    })
}

/// The status that BindingPolicy and Binding share.
fn reconciled() -> Value {
    let condition = object(
        &["type", "status", "lastTransitionTime", "reason", "message"],
        json!({
            "type": string(), "status": string(), "lastTransitionTime": {"type": "string", "format": "date-time"},
            "reason": string(), "message": string(),
        }),
    );
    let properties = json!({
        "conditions": list_of(&condition), "observedGeneration": int64(), "errors": list_of(&string()),
    });
    object(&["observedGeneration"], properties)
}

fn selector(value: &Value, key: &Value, operator: &Value) -> Value {
    let expression = object(
        &["key", "operator"],
        json!({"key": key, "operator": operator, "values": list_of(value)}),
    );
    json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
        "matchLabels": {"type": "object", "additionalProperties": value},
        "matchExpressions": list_of(&expression),
    }})
}

fn object(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

fn list_of(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

fn list_map(keys: &[&str], items: &Value) -> Value {
    json!({"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys})
}

fn string() -> Value {
    json!({"type": "string"})
}

fn int64() -> Value {
    json!({"type": "integer", "format": "int64"})
}
