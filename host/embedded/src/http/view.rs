//! In which form objects are answered: whole, metadata only, or as a table. Chosen by the `Accept` header.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::call::Call;
use super::table::{Include, table};
use crate::kinds::SharedKind;
use crate::refusal::Refusal;
use crate::store::Revision;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Whole,
    Metadata,
    Table(Include),
}

fn form(range: &str, call: &Call) -> Option<Form> {
    let mut parameters = range.split(';').map(str::trim);
    // A client that would have YAML reads JSON, too: it is YAML.
    if !matches!(
        parameters.next(),
        Some("application/json" | "application/yaml" | "application/*" | "*/*")
    ) {
        return None;
    }
    match parameters.find_map(|parameter| parameter.strip_prefix("as=")) {
        Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Some(Form::Metadata),
        Some("Table") => Some(Form::Table(match call.query("includeObject") {
            "None" => Include::None,
            "Object" => Include::Object,
            _ => Include::Metadata,
        })),
        Some(_) => None,
        None => Some(Form::Whole),
    }
}

/// How one caller wants to see objects of one kind.
#[derive(Clone)]
pub(super) struct View {
    pub kind: SharedKind,
    form: Form,
    pub now: Timestamp,
}

impl View {
    /// The first form that the client accepts and this server has.
    pub fn of(kind: &SharedKind, call: &Call, now: Timestamp) -> Result<View, Refusal> {
        let accept = match call.header(http::header::ACCEPT) {
            "" => "*/*",
            accept => accept,
        };
        let form = accept
            .split(',')
            .find_map(|range| form(range, call))
            .ok_or_else(Refusal::not_acceptable)?;
        Ok(View {
            kind: kind.clone(),
            form,
            now,
        })
    }

    /// Appends one object.
    pub fn write_object(&self, revision: &Arc<Revision>, out: &mut Vec<u8>) {
        match self.form {
            Form::Whole => revision.write_as(&self.kind, out),
            Form::Metadata => revision.write_metadata(out),
            Form::Table(include) => {
                let objects = std::slice::from_ref(revision);
                let table = table(&self.kind, objects, include, self.now);
                out.extend_from_slice(table.to_string().as_bytes());
            }
        }
    }

    /// Appends a list with its metadata.
    pub fn write_list(&self, revisions: &[Arc<Revision>], metadata: &Value, out: &mut Vec<u8>) {
        let (api_version, kind) = match self.form {
            Form::Whole => (self.kind.api_version(), self.kind.list_kind.clone()),
            Form::Metadata => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadataList".to_owned()),
            Form::Table(include) => {
                let mut table = table(&self.kind, revisions, include, self.now);
                table["metadata"] = metadata.clone();
                return out.extend_from_slice(table.to_string().as_bytes());
            }
        };
        let head = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata}).to_string();
        out.extend_from_slice(&head.as_bytes()[..head.len() - 1]);
        out.extend_from_slice(b",\"items\":[");
        for (index, revision) in revisions.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            match self.form {
                // Built-in kinds are not repeated in their lists.
                Form::Whole if !self.kind.is_custom() => revision.write_untyped(&self.kind, out),
                _ => self.write_object(revision, out),
            }
        }
        out.extend_from_slice(b"]}");
    }

    /// The object of a bookmark event.
    pub fn bookmark(&self, version: u64, ends_initial_events: bool) -> Value {
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if ends_initial_events {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        match self.form {
            Form::Whole => {
                json!({"apiVersion": self.kind.api_version(), "kind": self.kind.kind, "metadata": metadata})
            }
            Form::Metadata => {
                json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata})
            }
            Form::Table(_) => {
                let mut table = table(&self.kind, &[], Include::None, self.now);
                table["metadata"] = metadata;
                table
            }
        }
    }
}
