//! Reading a body: the right kind, known fields, well-formed metadata. It changes the body only by dropping fields that
//! the kind does not have.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

use super::{FieldValidation, Writer};
use crate::kinds::{Body, Kind};
use crate::names::{NameRule, is_label_value, is_qualified_name};
use crate::refusal::{Cause, Refusal};

/// All annotations of an object together, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

impl Writer<'_> {
    /// Checks that the body is this kind's and this request's, and drops unknown fields.
    pub(super) fn admit(&mut self, body: &mut Value, name: Option<&str>) -> Result<(), Refusal> {
        self.identify(body, name)?;
        let dropped = drop_unknown(&self.kind, body)?;
        match self.author.validation {
            FieldValidation::Strict if !dropped.is_empty() => {
                let listed: Vec<String> = dropped.iter().map(|path| format!("unknown field \"{path}\"")).collect();
                let message = format!("strict decoding error: {}", listed.join(", "));
                return Err(Refusal::bad_request(format!(
                    "{} in version \"{}\" cannot be handled as a {}: {message}",
                    self.kind.kind, self.kind.version, self.kind.kind
                )));
            }
            FieldValidation::Warn => self
                .warnings
                .extend(dropped.iter().map(|path| format!("unknown field \"{path}\""))),
            FieldValidation::Strict | FieldValidation::Ignore => {}
        }
        Ok(())
    }

    /// Fills in what the path already says and refuses what contradicts it.
    pub(super) fn identify(&self, body: &mut Value, name: Option<&str>) -> Result<(), Refusal> {
        let kind = &self.kind;
        let Some(object) = body.as_object_mut() else {
            return Err(Refusal::bad_request("the body of a write must be an object"));
        };
        for (field, wanted) in [("apiVersion", kind.api_version()), ("kind", kind.kind.clone())] {
            match object.get(field).and_then(Value::as_str) {
                Some(given) if !given.is_empty() && given != wanted => {
                    let message =
                        format!("the {field} in the data ({given}) does not match the expected {field} ({wanted})");
                    return Err(Refusal::bad_request(message));
                }
                _ => object.insert(field.to_owned(), Value::from(wanted)),
            };
        }
        let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if metadata.is_null() {
            *metadata = Value::Object(Map::new());
        }
        let Some(metadata) = metadata.as_object_mut() else {
            return Err(Refusal::bad_request("metadata must be an object"));
        };
        metadata.retain(|_, value| !value.is_null());
        let mut settle = |field: &str, wanted: &str| match metadata.get(field).and_then(Value::as_str) {
            Some(given) if !given.is_empty() && given != wanted => Err(Refusal::bad_request(format!(
                "the {field} of the provided object does not match the {field} sent on the request ({given} != \
                {wanted})"
            ))),
            _ if wanted.is_empty() => {
                metadata.remove(field);
                Ok(())
            }
            _ => {
                metadata.insert(field.to_owned(), Value::from(wanted));
                Ok(())
            }
        };
        settle("namespace", self.namespace)?;
        name.map_or(Ok(()), |name| settle("name", name))
    }

    /// Defaults, then everything that may be wrong with the object as a whole.
    pub(super) fn check(&self, object: &mut Value, old: Option<&Value>) -> Result<(), Refusal> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if self.kind.is_definition() {
            crate::kinds::crd::fill_defaults(object);
        }
        let mut causes = metadata_causes(&self.kind, object);
        match &self.kind.body {
            Body::Structural(schema) => {
                schema.fill_defaults(object);
                causes.extend(schema.validate(object, old));
            }
            Body::Typed(_) => {
                crate::kinds::builtin::fill_defaults(&self.kind, object);
                causes.extend(crate::kinds::builtin::causes(&self.kind, object));
            }
        }
        if causes.is_empty() {
            Ok(())
        } else {
            Err(Refusal::invalid(&self.kind, &name, &causes))
        }
    }
}

/// Drops what the kind does not have, and says what that was.
pub(super) fn drop_unknown(kind: &Kind, body: &mut Value) -> Result<Vec<String>, Refusal> {
    let undecodable = |error: serde_json::Error| {
        let Kind { kind, version, .. } = kind;
        // The decoder quotes what it did not understand.
        let why = if kind == "Secret" {
            "a field has the wrong type".to_owned()
        } else {
            error.to_string()
        };
        Refusal::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
        ))
    };
    let mut dropped = Vec::new();
    match &kind.body {
        Body::Typed(decode) => {
            let known = decode(body).map_err(undecodable)?;
            retain_known(body, &known, "", &mut dropped);
        }
        Body::Structural(schema) => {
            dropped.extend(schema.prune(body));
            drop_unknown_metadata(body, &mut dropped).map_err(undecodable)?;
        }
    }
    Ok(dropped)
}

fn drop_unknown_metadata(body: &mut Value, dropped: &mut Vec<String>) -> Result<(), serde_json::Error> {
    let metadata: &mut Value = &mut body["metadata"];
    // Large and checked where it is used.
    let managed = metadata.as_object_mut().and_then(|map| map.remove("managedFields"));
    let decoded: ObjectMeta = serde::Deserialize::deserialize(&*metadata)?;
    retain_known(metadata, &serde_json::to_value(decoded)?, "metadata", dropped);
    if let (Some(managed), Some(map)) = (managed, metadata.as_object_mut()) {
        map.insert("managedFields".to_owned(), managed);
    }
    Ok(())
}

/// Removes from `given` what decoding and encoding it lost; nulls and empty values are lost silently.
fn retain_known(given: &mut Value, known: &Value, path: &str, dropped: &mut Vec<String>) {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => given.retain(|name, value| {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            match known.get(name) {
                Some(known) => {
                    retain_known(value, known, &path, dropped);
                    true
                }
                None => {
                    let empty = match value {
                        Value::Null => true,
                        Value::Array(items) => items.is_empty(),
                        Value::Object(map) => map.is_empty(),
                        _ => false,
                    };
                    if !empty {
                        dropped.push(path);
                    }
                    false
                }
            }
        }),
        (Value::Array(given), Value::Array(known)) => {
            for (index, (given, known)) in given.iter_mut().zip(known).enumerate() {
                retain_known(given, known, &format!("{path}[{index}]"), dropped);
            }
        }
        _ => {}
    }
}

/// What is wrong with the metadata every object has.
fn metadata_causes(kind: &Kind, object: &Value) -> Vec<Cause> {
    let metadata = &object["metadata"];
    let mut causes = Vec::new();
    let name = metadata["name"].as_str().unwrap_or_default();
    let rule = NameRule::of(&kind.group, &kind.plural);
    if !rule.accepts(name) {
        causes.push(Cause::invalid("metadata.name", &Value::from(name), rule.explanation()));
    }
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        if !is_qualified_name(key) {
            causes.push(Cause::invalid(
                "metadata.labels",
                &Value::from(key.as_str()),
                "not a valid label key",
            ));
        }
        if !value.as_str().is_some_and(is_label_value) {
            causes.push(Cause::invalid("metadata.labels", value, "not a valid label value"));
        }
    }
    let mut annotation_bytes = 0;
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        if !is_qualified_name(&key.to_lowercase()) {
            causes.push(Cause::invalid(
                "metadata.annotations",
                &Value::from(key.as_str()),
                "not a valid annotation key",
            ));
        }
        annotation_bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if annotation_bytes > ANNOTATIONS_LIMIT {
        causes.push(Cause {
            reason: "FieldValueTooLong",
            field: "metadata.annotations".to_owned(),
            message: format!("Too long: may not be more than {ANNOTATIONS_LIMIT} bytes"),
        });
    }
    for finalizer in metadata["finalizers"].as_array().into_iter().flatten() {
        if !finalizer.as_str().is_some_and(is_qualified_name) {
            causes.push(Cause::invalid(
                "metadata.finalizers",
                finalizer,
                "name part must be a qualified name",
            ));
        }
    }
    owner_causes(&metadata["ownerReferences"], &mut causes);
    causes
}

fn owner_causes(owners: &Value, causes: &mut Vec<Cause>) {
    let owners = owners.as_array().map(Vec::as_slice).unwrap_or_default();
    for (index, owner) in owners.iter().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().is_none_or(str::is_empty) {
                let path = format!("metadata.ownerReferences[{index}].{field}");
                causes.push(Cause::invalid(path, &owner[field], "must not be empty"));
            }
        }
    }
    if owners.iter().filter(|owner| owner["controller"] == true).count() > 1 {
        let why = "only one reference can have Controller set to true";
        causes.push(Cause::invalid(
            "metadata.ownerReferences",
            &Value::Array(Vec::new()),
            why,
        ));
    }
}
