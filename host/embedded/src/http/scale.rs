//! The scale subresource: an object seen as `autoscaling/v1 Scale`, and a write of its number as a patch of the object.

use axum::response::Response;
use serde_json::{Value, json};

use super::answers::{json_response, warned};
use super::request::Request;
use crate::cause::Cause;
use crate::kinds::{Scale, seen_as_scale};
use crate::refusal::Refusal;
use crate::store::{Key, ObjectPlace};
use crate::write::Patch;

pub(super) fn answer(request: &Request<'_>) -> Result<Response, Refusal> {
    let Request {
        server,
        kind,
        resource,
        call,
    } = *request;
    let paths = kind.scale.as_ref().ok_or_else(Refusal::no_such_path)?;
    match call.verb(resource) {
        "get" => {
            let key = Key {
                namespace: resource.namespace.clone(),
                name: resource.name.clone(),
            };
            let place = ObjectPlace {
                resource: kind.stored_as.clone(),
                key,
            };
            let found = server.state().get(&place).cloned();
            let revision = found.ok_or_else(|| Refusal::not_found(kind, &resource.name))?;
            Ok(json_response(200, seen_as_scale(&revision.value(), paths).to_string()))
        }
        "update" => write(request, paths, &call.json()?),
        "patch" => match Patch::decode(call.media_type(), &call.body)? {
            Patch::Merge(scale) | Patch::Strategic(scale) => write(request, paths, &scale),
            Patch::Json(_) | Patch::Apply(_) => Err(Refusal::unsupported_media_type(
                "scale takes merge patches and whole objects",
            )),
        },
        _ => Err(Refusal::method_not_allowed()),
    }
}

fn write(request: &Request<'_>, paths: &Scale, scale: &Value) -> Result<Response, Refusal> {
    let given = &scale["spec"]["replicas"];
    let Some(wanted) = given.as_i64() else {
        return Err(Refusal::bad_request("spec.replicas of a Scale must be a number"));
    };
    if wanted < 0 {
        let (kind, name) = (request.kind, &request.resource.name);
        return Err(if kind.is_custom() {
            let cause = Cause::invalid(format!(".{}", paths.wanted), given, "should be a non-negative integer");
            Refusal::invalid(kind, name, &[cause])
        } else {
            let cause = Cause::invalid("spec.replicas", given, "must be greater than or equal to 0");
            Refusal::invalid_as(("autoscaling", "Scale"), name, &[cause])
        });
    }
    let nested = paths
        .wanted
        .rsplit('.')
        .fold(json!(wanted), |inner, step| json!({step: inner}));
    let mut patch = nested;
    for field in ["resourceVersion", "uid"] {
        if let Some(given) = scale["metadata"][field].as_str().filter(|given| !given.is_empty()) {
            patch["metadata"][field] = Value::from(given);
        }
    }
    let name = &request.resource.name;
    let written = request.locked(|writer| writer.patch(name, Patch::Merge(patch)))?;
    let scale = seen_as_scale(&written.revision.value(), paths);
    Ok(warned(json_response(200, scale.to_string()), &written.warnings))
}
