//! The HTTP side: from a path, a query and headers to a call of the store or a writer, and back to bytes. It decides
//! nothing about objects.

mod discovery;
mod openapi;
mod options;
mod protobuf;
mod read;
mod scale;
mod table;
mod target;
mod view;
mod watch;
mod write;

use std::collections::HashMap;

use axum::body::{Body, Bytes};
use axum::extract::{Request as HttpRequest, State as Shared};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::{Value, json};

use crate::kinds::SharedKind;
use crate::refusal::Refusal;
use crate::requests::{self, FaultAnswer};
use crate::server::Server;
use crate::store::USER_HEADER;
use target::{Resource, Target};

/// The largest request body, in bytes.
pub const BODY_LIMIT: usize = 8 * 1024 * 1024;

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

    fn verb(&self, resource: &Resource) -> &'static str {
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

/// A request for a resource, with everything the verbs need.
pub(crate) struct Request<'a> {
    pub server: &'a Server,
    /// As it was asked for.
    pub kind: &'a SharedKind,
    pub resource: &'a Resource,
    pub call: &'a Call,
}

/// Answers any request.
pub(crate) async fn handle(Shared(server): Shared<Server>, request: HttpRequest) -> Response {
    let (parts, body) = request.into_parts();
    let body = match axum::body::to_bytes(body, BODY_LIMIT).await {
        Ok(body) => body,
        Err(_) => return Refusal::too_large(BODY_LIMIT).into_response(),
    };
    let query = parts.uri.query().unwrap_or_default();
    let call = Call {
        method: parts.method,
        query: target::parse_query(query),
        headers: parts.headers,
        body,
    };
    match Target::parse(parts.uri.path()) {
        Some(Target::Resource(resource)) => answer_resource(&server, &resource, &call).await,
        Some(_) if call.method != Method::GET => Refusal::method_not_allowed().into_response(),
        Some(other) => discovery::answer(&server, &other, &call).unwrap_or_else(IntoResponse::into_response),
        None => no_such_page(),
    }
}

/// What nobody has registered a path for: no Status, for it need not be a Kubernetes API that was meant. So is a group whose definitions
/// are not there.
fn no_such_page() -> Response {
    (http::StatusCode::NOT_FOUND, "404 page not found\n").into_response()
}

async fn answer_resource(server: &Server, resource: &Resource, call: &Call) -> Response {
    let Some(kind) = server
        .state()
        .kind(&resource.group, &resource.version, &resource.plural)
        .cloned()
    else {
        let known = server.state().kinds().any(|kind| kind.group == resource.group);
        return match known {
            true => Refusal::no_such_path().into_response(),
            false => no_such_page(),
        };
    };
    let suffix = resource
        .subresource
        .as_ref()
        .map(|name| format!("/{name}"))
        .unwrap_or_default();
    let logged = requests::Request {
        verb: call.verb(resource),
        resource: format!("{}{suffix}", kind.resource()),
        namespace: resource.namespace.clone(),
        name: resource.name.clone(),
        manager: call.manager(),
        dry_run: !call.query("dryRun").is_empty(),
    };
    let fault = server.note(logged);
    match &fault {
        Some(FaultAnswer::Status(code)) => return Refusal::injected(*code).into_response(),
        Some(FaultAnswer::LoseRequest) => return broken(),
        Some(FaultAnswer::Delay(delay)) => tokio::time::sleep(*delay).await,
        Some(FaultAnswer::LoseAnswer) | None => {}
    }
    let request = Request {
        server,
        kind: &kind,
        resource,
        call,
    };
    let response = route(&request).unwrap_or_else(IntoResponse::into_response);
    if fault == Some(FaultAnswer::LoseAnswer) {
        broken()
    } else {
        response
    }
}

fn route(request: &Request<'_>) -> Result<Response, Refusal> {
    let Request {
        kind, resource, call, ..
    } = *request;
    if kind.namespaced && !resource.name.is_empty() && resource.namespace.is_empty()
        || !kind.namespaced && !resource.namespace.is_empty()
    {
        return Err(Refusal::no_such_path());
    }
    let verb = call.verb(resource);
    let named = !resource.name.is_empty();
    match resource.subresource.as_deref() {
        None => {}
        Some("status") if kind.status && verb == "delete" && kind.is_custom() => {
            return Err(Refusal::unsupported_verb(kind, verb));
        }
        Some("status") if kind.status => {}
        Some("scale") if kind.scale.is_some() => {
            options::check(verb, call)?;
            return scale::answer(request);
        }
        // One handler serves all paths of custom resources.
        Some(_) if kind.is_custom() => return Err(Refusal::not_found(kind, &resource.name)),
        Some(_) => return Err(Refusal::no_such_path()),
    }
    if verb == "create" && named || verb == "update" && !named {
        return Err(Refusal::method_not_allowed());
    }
    options::check(verb, call)?;
    match verb {
        "get" => read::get(request),
        "list" => read::list(request),
        "watch" => watch::watch(request),
        "create" if resource.name.is_empty() => write::create(request),
        "update" if !resource.name.is_empty() => write::update(request),
        "patch" | "apply" if !resource.name.is_empty() => write::patch(request),
        "delete" if resource.subresource.is_none() => write::delete(request),
        "deletecollection" => write::delete_all(request),
        _ => Err(Refusal::method_not_allowed()),
    }
}

/// An answer whose body breaks off, in process as over a connection.
fn broken() -> Response {
    let error = std::io::Error::new(
        std::io::ErrorKind::ConnectionReset,
        "injected fault: the connection broke",
    );
    let body = Body::from_stream(futures::stream::once(std::future::ready(Err::<Bytes, _>(error))));
    (
        [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))],
        body,
    )
        .into_response()
}

fn json_response(code: u16, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The answer to a deletion that is done.
fn deleted_status(kind: &SharedKind, name: &str, uid: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": name, "group": kind.group, "kind": kind.plural, "uid": uid},
    })
}
