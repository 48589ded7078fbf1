//! The HTTP side: from a path, a query and headers to a call of the store or a writer, and back to bytes. It decides
//! nothing about objects.

mod answers;
mod call;
mod discovery;
mod openapi;
mod options;
mod protobuf;
mod read;
mod request;
mod scale;
mod table;
mod target;
mod view;
mod watch;
mod write;

use axum::extract::{Request as HttpRequest, State as Shared};
use axum::response::{IntoResponse, Response};
use http::Method;

use crate::refusal::Refusal;
use crate::requests::{self, FaultAnswer};
use crate::server::Server;
use answers::{broken, no_such_page};
use call::Call;
use request::Request;
use target::{Resource, Target};

pub use call::USER_HEADER;

/// The largest request body, in bytes.
pub const BODY_LIMIT: usize = 8 * 1024 * 1024;

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
