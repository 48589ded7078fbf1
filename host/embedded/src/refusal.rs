//! How the server says no: a `metav1.Status` with the code, reason and causes clients branch on. It never holds a
//! whole object: messages name fields, and a value only when it is a scalar that the caller sent.

use std::collections::BTreeMap;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::admission::{Denial, Reason};
use crate::cause::Cause;
use crate::kinds::Kind;
use crate::store::Revision;

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
        self.details = subject(name, &kind.group, &kind.plural);
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

    pub(crate) fn already_exists(kind: &Kind, present: &Revision) -> Self {
        let name = &present.key.name;
        let why = if present.deleting {
            "object is being deleted: "
        } else {
            ""
        };
        let message = format!("{why}{} \"{name}\" already exists", kind.resource());
        Self::new(409, "AlreadyExists", message).about(kind, name)
    }

    pub(crate) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        Self::conflict_as((&kind.group, &kind.plural), name, why)
    }

    /// The same where Kubernetes calls the object by its kind.
    pub(crate) fn conflict_as((group, called): (&str, &str), name: &str, why: &str) -> Self {
        let qualified = match group {
            "" => called.to_owned(),
            group => format!("{called}.{group}"),
        };
        let message = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {why}");
        let mut refusal = Self::new(409, "Conflict", message);
        refusal.details = subject(name, group, called);
        refusal
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
        let message = match conflicts {
            [(manager, field)] => format!("Apply failed with 1 conflict: conflict with {manager}: {field}"),
            several => {
                let mut of_managers: BTreeMap<&str, Vec<String>> = BTreeMap::new();
                for (manager, field) in several {
                    of_managers.entry(manager).or_default().push(format!("- {field}"));
                }
                let listed: Vec<String> = of_managers
                    .iter()
                    .map(|(manager, fields)| format!("conflicts with {manager}:\n{}", fields.join("\n")))
                    .collect();
                format!("Apply failed with {} conflicts: {}", several.len(), listed.join("\n"))
            }
        };
        let mut refusal = Self::new(409, "Conflict", message);
        refusal.details = json!({"causes": causes});
        refusal
    }

    pub(crate) fn invalid(kind: &Kind, name: &str, causes: &[Cause]) -> Self {
        Self::invalid_as((&kind.group, &kind.kind), name, causes)
    }

    /// An update that names no version: Kubernetes calls the object by its resource here.
    pub(crate) fn without_version(kind: &Kind, name: &str) -> Self {
        let why = "must be specified for an update";
        let cause = Cause::invalid("metadata.resourceVersion", &Value::from(0), why);
        Self::invalid_as((&kind.group, &kind.plural), name, &[cause])
    }

    /// Something that is no object of a kind, by group and kind: options of a request, a scale.
    pub(crate) fn invalid_as((group, kind): (&str, &str), name: &str, causes: &[Cause]) -> Self {
        let listed: Vec<String> = causes.iter().map(|c| format!("{}: {}", c.place(), c.message)).collect();
        let text = match listed.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let qualified = match group {
            "" => kind.to_owned(),
            group => format!("{kind}.{group}"),
        };
        let mut refusal = Self::new(422, "Invalid", format!("{qualified} \"{name}\" is invalid: {text}"));
        let causes: Vec<Value> = causes
            .iter()
            .map(|c| json!({"reason": c.reason, "field": c.place(), "message": c.message}))
            .collect();
        refusal.details = subject(name, group, kind);
        refusal.details["causes"] = causes.into();
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

    /// What an admission policy denies; one request may be about several objects, and then names none.
    pub(crate) fn denied(kind: &Kind, name: &str, denial: &Denial) -> Self {
        let name = if name.is_empty() { "Unknown" } else { name };
        let (code, reason) = match denial.reason {
            Reason::Forbidden => (403, "Forbidden"),
            Reason::Invalid => (422, "Invalid"),
            Reason::RequestEntityTooLarge => (413, "RequestEntityTooLarge"),
        };
        let mut refusal = Self {
            code,
            reason,
            ..Self::forbidden(kind, name, &denial.text)
        };
        refusal.details["causes"] = json!([{"message": denial.text}]);
        refusal
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        let mut refusal = Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
        refusal.details = json!({});
        refusal
    }

    /// A method that a resource has elsewhere, but not at this subresource.
    pub(crate) fn unsupported_verb(kind: &Kind, verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind \"{}\"", kind.resource());
        let mut refusal = Self::new(405, "MethodNotAllowed", message);
        refusal.details = subject("", &kind.group, &kind.plural);
        refusal
    }

    /// No form of an answer that the client would take.
    pub(crate) fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json, application/yaml";
        Self::new(406, "NotAcceptable", message)
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
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let mut refusal = Self::new(504, "Timeout", message);
        refusal.details = json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        });
        refusal
    }

    /// An error of a real server's own, for which it names no reason.
    pub(crate) fn unexplained(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
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
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
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
        let mut response = (code, json, self.to_json().to_string()).into_response();
        if let Some(seconds) = self.details["retryAfterSeconds"].as_u64() {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Whom a refusal is about; what is empty is left out.
fn subject(name: &str, group: &str, kind: &str) -> Value {
    let given = [("name", name), ("group", group), ("kind", kind)]
        .into_iter()
        .filter(|(_, value)| !value.is_empty());
    given
        .map(|(member, value)| (member.to_owned(), Value::from(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
