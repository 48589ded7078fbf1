//! One state of one object: its bytes as they go over the wire, and the parsed part that indexes and selectors need.
//! A parsed tree costs eight times the memory, so none is kept.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;

use super::place::Key;
use crate::kinds::{Kind, events};

/// `metadata.ownerReferences`, as collection needs them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    /// `blockOwnerDeletion`
    pub blocks: bool,
}

/// An immutable state of an object.
#[derive(Debug)]
pub struct Revision {
    body: Vec<u8>,
    /// Where `metadata` stands in the body; `apiVersion` and `kind` stand before it.
    metadata: Range<usize>,
    pub key: Key,
    pub uid: String,
    pub version: u64,
    pub labels: BTreeMap<String, String>,
    /// Values of the kind's selectable fields, in its order.
    pub fields: Vec<String>,
    pub owners: Vec<Owner>,
    pub finalizers: Vec<String>,
    pub deleting: bool,
}

impl Revision {
    /// Renders `object`, which must carry its final metadata.
    pub fn render(kind: &Kind, object: &Value, version: u64) -> Revision {
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut body = format!(
            "{{\"apiVersion\":{},\"kind\":{},\"metadata\":",
            Value::from(kind.api_version()),
            Value::from(kind.kind.as_str())
        )
        .into_bytes();
        let start = body.len();
        append(&mut body, metadata);
        let range = start..body.len();
        for (name, value) in object.as_object().into_iter().flatten() {
            if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                body.push(b',');
                append(&mut body, &Value::from(name.as_str()));
                body.push(b':');
                append(&mut body, value);
            }
        }
        body.push(b'}');
        body.shrink_to_fit();
        Revision {
            body,
            metadata: range,
            key: Key {
                namespace: text(&metadata["namespace"]),
                name: text(&metadata["name"]),
            },
            uid: text(&metadata["uid"]),
            version,
            labels: metadata["labels"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, value)| (name.clone(), text(value)))
                .collect(),
            fields: kind.selectable.iter().map(|path| field_text(object, path)).collect(),
            owners: metadata["ownerReferences"]
                .as_array()
                .into_iter()
                .flatten()
                .map(owner)
                .collect(),
            finalizers: metadata["finalizers"]
                .as_array()
                .into_iter()
                .flatten()
                .map(text)
                .collect(),
            deleting: metadata["deletionTimestamp"].is_string(),
        }
    }

    /// The same object under another version.
    pub fn at(&self, kind: &Kind, version: u64) -> Revision {
        let mut object = self.value();
        object["metadata"]["resourceVersion"] = Value::from(version.to_string());
        Revision::render(kind, &object, version)
    }

    pub fn size_bytes(&self) -> usize {
        self.body.len()
    }

    /// The object as a tree.
    pub fn value(&self) -> Value {
        // The bytes were rendered from a tree, so they parse; an empty object would be refused by every later check.
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Appends the object as `kind` spells it.
    pub fn write_as(&self, kind: &Kind, out: &mut Vec<u8>) {
        if kind.is_event_alias() {
            return append(out, &events::from_core(self.value()));
        }
        out.extend_from_slice(b"{\"apiVersion\":");
        append(out, &Value::from(kind.api_version()));
        out.extend_from_slice(b",\"kind\":");
        append(out, &Value::from(kind.kind.as_str()));
        out.extend_from_slice(b",\"metadata\":");
        out.extend_from_slice(&self.body[self.metadata.start..]);
    }

    /// Appends the object without saying what it is.
    pub fn write_untyped(&self, kind: &Kind, out: &mut Vec<u8>) {
        if kind.is_event_alias() {
            let mut event = events::from_core(self.value());
            if let Some(map) = event.as_object_mut() {
                map.remove("apiVersion");
                map.remove("kind");
            }
            return append(out, &event);
        }
        out.extend_from_slice(b"{\"metadata\":");
        out.extend_from_slice(&self.body[self.metadata.start..]);
    }

    /// Appends the object's `PartialObjectMetadata`.
    pub fn write_metadata(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":");
        out.extend_from_slice(&self.body[self.metadata.clone()]);
        out.push(b'}');
    }
}

fn append(out: &mut Vec<u8>, value: &Value) {
    // Writing a tree with string keys into memory cannot fail.
    serde_json::to_writer(out, value).unwrap_or_default();
}

fn owner(reference: &Value) -> Owner {
    let text = |name: &str| reference[name].as_str().unwrap_or_default().to_owned();
    Owner {
        api_version: text("apiVersion"),
        kind: text("kind"),
        name: text("name"),
        uid: text("uid"),
        blocks: reference["blockOwnerDeletion"] == true,
    }
}

fn field_text(object: &Value, path: &str) -> String {
    match path.split('.').try_fold(object, |at, step| at.get(step)) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
