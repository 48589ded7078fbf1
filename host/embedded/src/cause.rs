//! One complaint about one field, in the words of Kubernetes' own validation. It never shows a whole object: a value only when it is a
//! scalar that the caller sent.

use serde_json::Value;

/// One field that is wrong, as in `Status.details.causes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    pub reason: &'static str,
    pub field: String,
    pub message: String,
}

impl Cause {
    pub(crate) fn invalid(field: impl Into<String>, value: &Value, why: impl std::fmt::Display) -> Self {
        let message = format!("Invalid value: {}: {why}", shown(value));
        Self {
            reason: "FieldValueInvalid",
            field: field.into(),
            message,
        }
    }

    pub(crate) fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {why}")
        };
        Self {
            reason: "FieldValueRequired",
            field: field.into(),
            message,
        }
    }

    pub(crate) fn forbidden(field: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self {
            reason: "FieldValueForbidden",
            field: field.into(),
            message: format!("Forbidden: {why}"),
        }
    }

    /// The shown value is the caller's: scalars, or the keys of a list's item.
    pub(crate) fn duplicate(field: impl Into<String>, shown: &str) -> Self {
        Self {
            reason: "FieldValueDuplicate",
            field: field.into(),
            message: format!("Duplicate value: {shown}"),
        }
    }

    /// The shown value is the caller's; `supported` is sorted by the caller, for Kubernetes sorts only some.
    pub(crate) fn not_supported(field: impl Into<String>, shown: &str, supported: &[&str]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        Self {
            reason: "FieldValueNotSupported",
            field: field.into(),
            message: format!("Unsupported value: {shown}: supported values: {}", quoted.join(", ")),
        }
    }

    pub(crate) fn too_long(field: impl Into<String>, limit_bytes: impl std::fmt::Display) -> Self {
        Self {
            reason: "FieldValueTooLong",
            field: field.into(),
            message: format!("Too long: may not be more than {limit_bytes} bytes"),
        }
    }

    pub(crate) fn too_many(field: impl Into<String>, count: u64, limit: u64) -> Self {
        Self {
            reason: "FieldValueTooMany",
            field: field.into(),
            message: format!("Too many: {count}: must have at most {limit} items"),
        }
    }

    pub(crate) fn immutable(field: impl Into<String>, value: &Value) -> Self {
        Self::invalid(field, value, "field is immutable")
    }

    /// What this says of the shape of an object keeps its rules from being asked: they could not be trusted.
    pub(crate) fn blocks_rules(&self) -> bool {
        matches!(
            self.reason,
            "FieldValueNotSupported"
                | "FieldValueRequired"
                | "FieldValueTooLong"
                | "FieldValueTooMany"
                | "FieldValueTypeInvalid"
        )
    }

    /// Where the complaint belongs; the root has no name.
    pub(crate) fn place(&self) -> &str {
        match self.field.as_str() {
            "" => "<nil>",
            field => field,
        }
    }
}

/// Scalars as JSON, cut to 128 characters; everything else by its type, because it may be a Secret.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) => "\"object\"".to_owned(),
        Value::Array(_) => "\"array\"".to_owned(),
        scalar => {
            let text = scalar.to_string();
            match text.char_indices().nth(128) {
                Some((cut, _)) => format!("{}…\"", &text[..cut]),
                None => text,
            }
        }
    }
}
