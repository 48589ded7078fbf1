//! A request but for its path: what its query, its headers and its body say. Must not know what is stored.

use std::collections::HashMap;

use axum::body::Bytes;
use http::{HeaderMap, Method, header};
use serde_json::Value;

use super::protobuf;
use super::target::Resource;
use crate::refusal::Refusal;

/// The header that names who sends a request, as an authenticating proxy in front of a real API server sets it.
pub const USER_HEADER: &str = "x-remote-user";

/// Everything about a request but its path.
pub(crate) struct Call {
    pub method: Method,
    pub query: HashMap<String, String>,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Call {
    pub fn query(&self, name: &str) -> &str {
        self.query.get(name).map(String::as_str).unwrap_or_default()
    }

    pub fn flag(&self, name: &str) -> bool {
        matches!(self.query(name), "true" | "1" | "True")
    }

    pub fn header(&self, name: header::HeaderName) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    pub fn user(&self) -> &str {
        let header = self.headers.get(USER_HEADER);
        header.and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The media type of the body, without parameters.
    pub fn media_type(&self) -> &str {
        self.header(header::CONTENT_TYPE)
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
    }

    /// The body as JSON; an empty one is null.
    pub fn json(&self) -> Result<Value, Refusal> {
        match self.media_type() {
            _ if self.body.is_empty() => Ok(Value::Null),
            "" | "application/json" => serde_json::from_slice(&self.body)
                .map_err(|error| Refusal::bad_request(format!("cannot decode the body as JSON: {error}"))),
            "application/yaml" => serde_saphyr::from_slice(&self.body)
                .map_err(|error| Refusal::bad_request(format!("cannot decode the body as YAML: {error}"))),
            protobuf::MEDIA_TYPE => protobuf::decode(&self.body),
            other => Err(Refusal::unsupported_media_type(format!(
                "the body of the request was in an unknown format - accepted media types include: application/json, \
                 application/yaml; got {other}"
            ))),
        }
    }

    pub fn verb(&self, resource: &Resource) -> &'static str {
        let named = !resource.name.is_empty();
        match (&self.method, named) {
            (&Method::GET, true) => "get",
            (&Method::GET, false) if self.flag("watch") || resource.watch_prefix => "watch",
            (&Method::GET, false) => "list",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) if self.media_type() == "application/apply-patch+yaml" => "apply",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, true) => "delete",
            (&Method::DELETE, false) => "deletecollection",
            _ => "unknown",
        }
    }

    /// The name under which fields are owned: asked for, or the first word of the user agent.
    pub fn manager(&self) -> String {
        match self.query("fieldManager") {
            "" => {
                let agent = self.header(header::USER_AGENT);
                let name = agent.split(['/', ' ']).next().unwrap_or_default();
                if name.is_empty() {
                    "unknown".to_owned()
                } else {
                    name.to_owned()
                }
            }
            given => given.to_owned(),
        }
    }
}
