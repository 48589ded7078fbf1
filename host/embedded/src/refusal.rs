//! How the server says no: a `metav1.Status` with the code, reason and causes clients branch on. It never holds a
//! whole object: messages name fields, and a value only when it is a scalar that the caller sent.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::kinds::Kind;

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

    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self {
            reason: "FieldValueDuplicate",
            field: field.into(),
            message: format!("Duplicate value: {}", shown(value)),
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

/// A refused request.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
    details: Value,
}

impl Refusal {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
        }
    }

    fn about(mut self, kind: &Kind, name: &str) -> Self {
        self.details = json!({"name": name, "group": kind.group, "kind": kind.plural});
        self
    }

    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", kind.resource())).about(kind, name)
    }

    /// A path that is served by nobody.
    pub(crate) fn no_such_path() -> Self {
        let mut refusal = Self::new(404, "NotFound", "the server could not find the requested resource");
        refusal.details = json!({});
        refusal
    }

    pub(crate) fn already_exists(kind: &Kind, name: &str) -> Self {
        Self::new(
            409,
            "AlreadyExists",
            format!("{} \"{name}\" already exists", kind.resource()),
        )
        .about(kind, name)
    }

    pub(crate) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.resource());
        Self::new(409, "Conflict", message).about(kind, name)
    }

    /// The answer to a write that carried an old resourceVersion.
    pub(crate) fn modified(kind: &Kind, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, why)
    }

    /// Server-side apply met fields of other managers: (manager, field) pairs.
    pub(crate) fn apply_conflict(conflicts: &[(String, String)]) -> Self {
        let causes: Vec<Value> = conflicts
            .iter()
            .map(|(manager, field)| {
                json!({"reason": "FieldManagerConflict", "field": field, "message": format!("conflict with {manager}")})
            })
            .collect();
        let listed: Vec<String> = conflicts
            .iter()
            .map(|(manager, field)| format!("{manager}: {field}"))
            .collect();
        let noun = if conflicts.len() == 1 { "conflict" } else { "conflicts" };
        let message = format!(
            "Apply failed with {} {noun}: {noun} with {}",
            conflicts.len(),
            listed.join(&format!("\n{noun} with "))
        );
        let mut refusal = Self::new(409, "Conflict", message);
        refusal.details = json!({"causes": causes});
        refusal
    }

    pub(crate) fn invalid(kind: &Kind, name: &str, causes: &[Cause]) -> Self {
        let listed: Vec<String> = causes
            .iter()
            .map(|c| {
                if c.field.is_empty() {
                    c.message.clone()
                } else {
                    format!("{}: {}", c.field, c.message)
                }
            })
            .collect();
        let text = if listed.len() == 1 {
            listed[0].clone()
        } else {
            format!("[{}]", listed.join(", "))
        };
        let qualified = if kind.group.is_empty() {
            kind.kind.clone()
        } else {
            format!("{}.{}", kind.kind, kind.group)
        };
        let mut refusal = Self::new(422, "Invalid", format!("{qualified} \"{name}\" is invalid: {text}"));
        let causes: Vec<Value> = causes
            .iter()
            .map(|c| json!({"reason": c.reason, "field": c.field, "message": c.message}))
            .collect();
        refusal.details = json!({"name": name, "group": kind.group, "kind": kind.kind, "causes": causes});
        refusal
    }

    pub(crate) fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        Self::new(
            403,
            "Forbidden",
            format!("{} \"{name}\" is forbidden: {why}", kind.resource()),
        )
        .about(kind, name)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// A patch of a type that the kind does not take.
    pub(crate) fn unknown_patch() -> Self {
        Self::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        )
    }

    /// A JSON patch that does not fit the object. Kubernetes keeps to itself which operation it was.
    pub(crate) fn unfit_patch() -> Self {
        let mut refusal = Self::new(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        );
        refusal.details = json!({});
        refusal
    }

    pub(crate) fn too_large(limit_bytes: usize) -> Self {
        Self::new(
            413,
            "RequestEntityTooLarge",
            format!("request body is larger than {limit_bytes} bytes"),
        )
    }

    /// The asked-for revision is no longer (or not) kept.
    pub(crate) fn expired(asked: u64, oldest: u64) -> Self {
        Self::new(410, "Expired", format!("too old resource version: {asked} ({oldest})"))
    }

    pub(crate) fn version_too_large(asked: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {current}");
        let mut refusal = Self::new(504, "Timeout", message);
        refusal.details = json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        });
        refusal
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "InternalError", message)
    }

    /// What an injected fault answers; the reason is the one Kubernetes pairs with the code.
    pub(crate) fn injected(code: u16) -> Self {
        let reason = match code {
            400 => "BadRequest",
            403 => "Forbidden",
            404 => "NotFound",
            409 => "Conflict",
            410 => "Expired",
            422 => "Invalid",
            429 => "TooManyRequests",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "InternalError",
        };
        Self::new(code, reason, format!("injected fault {code}"))
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        (code, json, self.to_json().to_string()).into_response()
    }
}
