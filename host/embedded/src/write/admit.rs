//! Reading a body: the right kind, known fields, well-formed metadata. It changes the body only by dropping fields that
//! the kind does not have.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

use super::writer::{FieldValidation, Writer};
use crate::cause::Cause;
use crate::kinds::{Body, Kind, defaults, validation};
use crate::names::{LABEL_VALUE, NameRule, is_label_value, is_qualified_name, qualified_name_complaint};
use crate::refusal::Refusal;

/// All annotations of an object together, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Finalizers of objects of these groups have a domain, or are Kubernetes' own.
const WITH_KNOWN_FINALIZERS: &[&str] = &["", "apps", "autoscaling", "batch", "networking.k8s.io", "policy"];
const PLAIN_FINALIZERS: &[&str] = &["foregroundDeletion", "kubernetes", "orphan"];

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
        let Some(object) = body.as_object_mut() else {
            return Err(Refusal::bad_request("the body of a write must be an object"));
        };
        self.check_kind(object)?;
        let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if metadata.is_null() {
            *metadata = Value::Object(Map::new());
        }
        let Some(metadata) = metadata.as_object_mut() else {
            return Err(Refusal::bad_request("metadata must be an object"));
        };
        metadata.retain(|_, value| !value.is_null());
        let given = |field: &str| {
            let given = metadata.get(field).and_then(Value::as_str);
            given.filter(|given| !given.is_empty()).map(str::to_owned)
        };
        let (given_name, given_namespace) = (given("name"), given("namespace"));
        if given_namespace.is_some_and(|given| given != self.namespace) {
            let message = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Refusal::bad_request(message));
        }
        if self.namespace.is_empty() {
            metadata.remove("namespace");
        } else {
            metadata.insert("namespace".to_owned(), Value::from(self.namespace));
        }
        let Some(name) = name else { return Ok(()) };
        if let Some(given) = given_name.filter(|given| given != name) {
            let message = format!("the name of the object ({given}) does not match the name on the URL ({name})");
            return Err(Refusal::bad_request(message));
        }
        metadata.insert("name".to_owned(), Value::from(name));
        Ok(())
    }

    /// A built-in kind's body need not say what it is; a custom resource's must, for only that says how to read it.
    fn check_kind(&self, object: &mut Map<String, Value>) -> Result<(), Refusal> {
        let kind = &self.kind;
        let given = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (version, name) = (given("apiVersion"), given("kind"));
        let wanted = kind.api_version();
        if kind.is_custom() {
            if name.is_empty() {
                let message = format!(
                    "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing",
                    kind.kind
                );
                return Err(Refusal::bad_request(message));
            }
            if version != wanted {
                return Err(Refusal::bad_request(format!(
                    "the API version in the data ({version}) does not match the expected API version ({wanted})"
                )));
            }
            if name != kind.kind {
                let why = format!("must be {}", kind.kind);
                let cause = Cause::invalid("kind", &Value::from(name.as_str()), why);
                let called = object.get("metadata").and_then(|metadata| metadata["name"].as_str());
                return Err(Refusal::invalid_as(
                    (&kind.group, &name),
                    called.unwrap_or_default(),
                    &[cause],
                ));
            }
            return Ok(());
        }
        for (field, given, wanted) in [("apiVersion", version, wanted), ("kind", name, kind.kind.clone())] {
            if !given.is_empty() && given != wanted {
                let message =
                    format!("the {field} in the data ({given}) does not match the expected {field} ({wanted})");
                return Err(Refusal::bad_request(message));
            }
            object.insert(field.to_owned(), Value::from(wanted));
        }
        Ok(())
    }

    /// Defaults, then everything that may be wrong with the object as a whole.
    pub(super) fn check(&self, object: &mut Value, old: Option<&Value>) -> Result<(), Refusal> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if self.kind.is_definition() {
            crate::kinds::crd::fill_defaults(object);
        }
        if let Body::Typed(_) = &self.kind.body {
            defaults::fill(&self.kind, object);
        }
        let mut causes = metadata_causes(&self.kind, object);
        match &self.kind.body {
            Body::Structural(schema) => {
                schema.fill_defaults(object);
                schema.validate(object, old, &mut causes);
            }
            Body::Typed(_) => causes.extend(validation::causes(&self.kind, object, old)),
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
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else if !rule.accepts(name) {
        let complaints = rule.complaints(name).into_iter();
        causes.extend(complaints.map(|why| Cause {
            message: format!("Invalid value: {}: {why}", Value::from(name)),
            ..Cause::invalid("metadata.name", &Value::Null, why)
        }));
    }
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        if !is_qualified_name(key) {
            causes.push(Cause::invalid(
                "metadata.labels",
                &Value::from(key.as_str()),
                qualified_name_complaint(key),
            ));
        }
        if !value.as_str().is_some_and(is_label_value) {
            causes.push(Cause::invalid("metadata.labels", value, LABEL_VALUE));
        }
    }
    let mut annotation_bytes = 0;
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        if !is_qualified_name(&key.to_lowercase()) {
            causes.push(Cause::invalid(
                "metadata.annotations",
                &Value::from(key.as_str()),
                qualified_name_complaint(key),
            ));
        }
        annotation_bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if annotation_bytes > ANNOTATIONS_LIMIT {
        causes.push(Cause::too_long("metadata.annotations", ANNOTATIONS_LIMIT));
    }
    for (index, finalizer) in metadata["finalizers"].as_array().into_iter().flatten().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        if !is_qualified_name(name) {
            let why = qualified_name_complaint(name);
            causes.push(Cause::invalid("metadata.finalizers", finalizer, why));
        } else if WITH_KNOWN_FINALIZERS.contains(&kind.group.as_str())
            && !kind.is_custom()
            && !name.contains('/')
            && !PLAIN_FINALIZERS.contains(&name)
        {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(format!("metadata.finalizers[{index}]"), finalizer, why));
        }
    }
    owner_causes(&metadata["ownerReferences"], &mut causes);
    causes
}

fn owner_causes(owners: &Value, causes: &mut Vec<Cause>) {
    let owners = owners.as_array().map(Vec::as_slice).unwrap_or_default();
    for owner in owners {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().is_none_or(str::is_empty) {
                let path = format!("metadata.ownerReferences.{field}");
                causes.push(Cause::invalid(path, &Value::from(""), "must not be empty"));
            }
        }
    }
    let controllers: Vec<String> = owners
        .iter()
        .filter(|owner| owner["controller"] == true)
        .map(|owner| {
            let text = |field: &str| owner[field].as_str().unwrap_or_default().to_owned();
            format!("{}/{}", text("kind"), text("name"))
        })
        .collect();
    if let [first, second, ..] = controllers.as_slice() {
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        causes.push(Cause::invalid(
            "metadata.ownerReferences",
            &Value::Array(Vec::new()),
            why,
        ));
    }
}
