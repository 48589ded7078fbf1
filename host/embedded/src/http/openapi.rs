//! OpenAPI v3, as much as kubectl needs: it leaves validation to the server when a kind's `patch` takes
//! `fieldValidation`, and explains kinds by their schema.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::kinds::{Document, Kind, SharedKind};

/// `/openapi/v2`: kubectl validates a `List` by it on its own, and skips what it does not find there; the server still
/// checks each item. The bytes are the protobuf message with nothing in it but the version, "2.0".
pub(super) fn empty_old_document() -> Response {
    let media_type = HeaderValue::from_static("application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
    ([(header::CONTENT_TYPE, media_type)], &b"\x0a\x032.0"[..]).into_response()
}

/// `/openapi/v3`: where each group version's document is. Clients keep a document for as long as its hash stays.
pub(super) fn index<'a>(group_versions: impl Iterator<Item = &'a Vec<SharedKind>>) -> Value {
    let paths: Map<String, Value> = group_versions
        .filter_map(|kinds| {
            let first = kinds.first()?;
            let path = root(&first.group, &first.version);
            let url = format!("/openapi/v3/{path}?hash={}", hash(kinds));
            Some((path, json!({"serverRelativeURL": url})))
        })
        .collect();
    json!({"paths": paths})
}

/// Of what a document is made from: making it takes longer.
fn hash(kinds: &[SharedKind]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(env!("CARGO_PKG_VERSION"));
    for kind in kinds {
        hasher.update(&kind.kind);
        if let Document::Given(given) = &kind.document {
            hasher.update(given.to_string());
        }
    }
    let digest: [u8; 32] = hasher.finalize().into();
    digest.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The document of one group version.
pub(super) fn document(kinds: &[SharedKind]) -> Value {
    let mut paths = Map::new();
    let mut generator = SchemaSettings::openapi3().into_generator();
    let metadata = generator.subschema_for::<ObjectMeta>().to_value();
    let names: Vec<String> = kinds.iter().map(|kind| name(kind, &mut generator)).collect();
    let mut schemas = generator.take_definitions(true);
    for (kind, name) in kinds.iter().zip(&names) {
        let base = format!("/{}", root(&kind.group, &kind.version));
        let collection = if kind.namespaced {
            format!("{base}/namespaces/{{namespace}}/{}", kind.plural)
        } else {
            format!("{base}/{}", kind.plural)
        };
        let served = Served { kind, name };
        paths.insert(format!("{collection}/{{name}}"), served.item_path());
        paths.insert(collection, served.collection_path());
        if let Document::Given(given) = &kind.document {
            schemas.insert(name.clone(), custom(given, &metadata));
        }
        if let Some(schema) = schemas.get_mut(name) {
            mark(schema, kind);
        }
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

/// What the kind's schema is called; a built-in one is published with all that it refers to.
fn name(kind: &Kind, generator: &mut SchemaGenerator) -> String {
    if let Document::Published(publish) = kind.document {
        return publish(generator);
    }
    // As Kubernetes names components of custom resources: the group reversed, version, kind.
    let mut steps: Vec<&str> = kind.group.split('.').rev().filter(|step| !step.is_empty()).collect();
    steps.extend([kind.version.as_str(), kind.kind.as_str()]);
    steps.join(".")
}

fn group_version_kind(kind: &Kind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];

/// A kind with the name of its schema.
struct Served<'a> {
    kind: &'a Kind,
    name: &'a str,
}

impl Served<'_> {
    fn operation(&self, action: &str, parameters: &[&str]) -> Value {
        let parameters: Vec<Value> = parameters
            .iter()
            .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}))
            .collect();
        let schema = json!({"$ref": format!("#/components/schemas/{}", self.name)});
        json!({
            "parameters": parameters, "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": group_version_kind(self.kind),
            "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}},
        })
    }

    fn item_path(&self) -> Value {
        json!({
            "get": self.operation("get", &[]),
            "put": self.operation("put", WRITE),
            "patch": self.operation("patch", &["dryRun", "fieldManager", "fieldValidation", "force"]),
            "delete": self.operation("delete", &["dryRun", "propagationPolicy"]),
        })
    }

    fn collection_path(&self) -> Value {
        json!({
            "get": self.operation("list", &["labelSelector", "fieldSelector", "limit", "continue", "watch"]),
            "post": self.operation("post", WRITE),
        })
    }
}

/// A definition's own schema with the fields that every object has.
fn custom(given: &Value, metadata: &Value) -> Value {
    let mut schema = given.clone();
    if schema["properties"].is_null() {
        schema["properties"] = json!({});
    }
    let text = |description: &str| json!({"type": "string", "description": description});
    schema["properties"]["apiVersion"] =
        text("APIVersion defines the versioned schema of this representation of an object.");
    schema["properties"]["kind"] =
        text("Kind is a string value representing the REST resource this object represents.");
    schema["properties"]["metadata"] = json!({"description": "Standard object's metadata.", "allOf": [metadata]});
    schema
}

/// What is a client's way from a kind to its schema. The types of a client library call `metadata` required; an object
/// that is sent may do without.
fn mark(schema: &mut Value, kind: &Kind) {
    schema["x-kubernetes-group-version-kind"] = json!([group_version_kind(kind)]);
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name != "metadata");
    }
}
