//! Tables, as kubectl prints them.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::store::Revision;

/// What the rows carry of their objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Include {
    None,
    Metadata,
    Object,
}

/// As Kubernetes documents `metadata.name`.
const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources \
    may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for \
    creation idempotence and configuration definition. Cannot be updated. More info: \
    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

/// `meta.k8s.io/v1 Table` of the given objects.
pub(super) fn table(kind: &Kind, revisions: &[Arc<Revision>], include: Include, now: Timestamp) -> Value {
    let name = json!({
        "name": "Name", "type": "string", "format": "name", "priority": 0,
        "description": NAME,
    });
    let mut definitions = if names_itself(kind) { Vec::new() } else { vec![name] };
    definitions.extend(kind.columns.iter().map(|column| {
        json!({
            "name": column.name, "type": column.type_, "format": column.format, "priority": column.priority,
            "description": column.description,
        })
    }));
    let rows: Vec<Value> = revisions
        .iter()
        .map(|revision| row(kind, revision, include, now))
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": revisions.last().map(|last| last.version.to_string()).unwrap_or_default()},
        "columnDefinitions": definitions, "rows": rows,
    })
}

/// Events do, in their last column.
fn names_itself(kind: &Kind) -> bool {
    kind.columns.iter().any(|column| column.name == "Name")
}

fn row(kind: &Kind, revision: &Revision, include: Include, now: Timestamp) -> Value {
    let object = revision.value();
    let mut cells = Vec::new();
    if !names_itself(kind) {
        cells.push(Value::from(revision.key.name.as_str()));
    }
    cells.extend(kind.columns.iter().map(|column| column.cell(&object, now)));
    let mut row = json!({"cells": cells});
    match include {
        Include::None => {}
        Include::Object => row["object"] = object,
        Include::Metadata => {
            let metadata = object["metadata"].clone();
            row["object"] = json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
            });
        }
    }
    row
}
