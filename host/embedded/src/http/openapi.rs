//! OpenAPI v3, as much as kubectl needs: it leaves validation to the server when a kind's `patch` takes
//! `fieldValidation`, and explains kinds by their schema.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use serde_json::{Map, Value, json};

use crate::kinds::{Kind, SharedKind};

/// `/openapi/v2`: kubectl validates a `List` by it on its own, and skips what it does not find there; the server still
/// checks each item. The bytes are the protobuf message with nothing in it but the version, "2.0".
pub(super) fn empty_old_document() -> Response {
    let media_type = HeaderValue::from_static("application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
    ([(header::CONTENT_TYPE, media_type)], &b"\x0a\x032.0"[..]).into_response()
}

/// `/openapi/v3`: where each group version's document is.
pub(super) fn index<'a>(group_versions: impl Iterator<Item = (&'a str, &'a str)>) -> Value {
    let paths: Map<String, Value> = group_versions
        .map(|(group, version)| {
            let path = root(group, version);
            let url = format!("/openapi/v3/{path}?hash={}", path.len());
            (path, json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

/// The document of one group version.
pub(super) fn document(kinds: &[SharedKind]) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for kind in kinds {
        let base = format!("/{}", root(&kind.group, &kind.version));
        let collection = if kind.namespaced {
            format!("{base}/namespaces/{{namespace}}/{}", kind.plural)
        } else {
            format!("{base}/{}", kind.plural)
        };
        paths.insert(format!("{collection}/{{name}}"), item_path(kind));
        paths.insert(collection, collection_path(kind));
        schemas.insert(schema_name(kind), schema(kind));
    }
    json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths, "components": {"schemas": schemas},
    })
}

fn root(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// As Kubernetes names components of custom resources: the group reversed, version, kind.
fn schema_name(kind: &Kind) -> String {
    let mut steps: Vec<&str> = kind.group.split('.').rev().filter(|step| !step.is_empty()).collect();
    steps.extend([kind.version.as_str(), kind.kind.as_str()]);
    steps.join(".")
}

fn group_version_kind(kind: &Kind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

fn reference(kind: &Kind) -> Value {
    json!({"$ref": format!("#/components/schemas/{}", schema_name(kind))})
}

fn operation(kind: &Kind, action: &str, parameters: &[&str]) -> Value {
    let parameters: Vec<Value> = parameters
        .iter()
        .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}))
        .collect();
    json!({
        "parameters": parameters, "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": group_version_kind(kind),
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": reference(kind)}}}},
    })
}

const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];

fn item_path(kind: &Kind) -> Value {
    json!({
        "get": operation(kind, "get", &[]),
        "put": operation(kind, "put", WRITE),
        "patch": operation(kind, "patch", &["dryRun", "fieldManager", "fieldValidation", "force"]),
        "delete": operation(kind, "delete", &["dryRun", "propagationPolicy"]),
    })
}

fn collection_path(kind: &Kind) -> Value {
    json!({
        "get": operation(kind, "list", &["labelSelector", "fieldSelector", "limit", "continue", "watch"]),
        "post": operation(kind, "post", WRITE),
    })
}

/// The kind's own schema with the fields every object has.
fn schema(kind: &Kind) -> Value {
    let mut schema = kind.document.clone();
    schema["x-kubernetes-group-version-kind"] = json!([group_version_kind(kind)]);
    if schema["properties"].is_null() {
        schema["properties"] = json!({});
    }
    schema["properties"]["apiVersion"] =
        json!({"type": "string", "description": "The version of the object's schema."});
    schema["properties"]["kind"] = json!({"type": "string", "description": "The kind of the object."});
    schema["properties"]["metadata"] = json!({"type": "object", "description": "Standard object metadata."});
    schema
}
