//! The four kinds of patch. Each yields the whole new object, which then goes the way of every other write.

use serde_json::Value;

use super::admit::drop_unknown;
use super::strategic;
use super::writer::{Ownership, Part, WriteResult, Writer};
use crate::fields::{Apply, ManagedFields, Operation};
use crate::refusal::Refusal;

/// A decoded patch body.
pub enum Patch {
    Json(json_patch::Patch),
    Merge(Value),
    Strategic(Value),
    Apply(Value),
}

impl Patch {
    /// Decodes a body by its media type. Apply bodies may be YAML.
    pub fn decode(media_type: &str, body: &[u8]) -> Result<Patch, Refusal> {
        let unreadable =
            |error: &dyn std::fmt::Display| Refusal::bad_request(format!("cannot decode the patch: {error}"));
        let json = || serde_json::from_slice::<Value>(body).map_err(|error| unreadable(&error));
        match media_type {
            "application/json-patch+json" => serde_json::from_slice(body)
                .map(Patch::Json)
                .map_err(|error| unreadable(&error)),
            "application/merge-patch+json" => json().map(Patch::Merge),
            "application/strategic-merge-patch+json" => json().map(Patch::Strategic),
            "application/apply-patch+yaml" => match json() {
                Ok(config) => Ok(Patch::Apply(config)),
                Err(_) => serde_saphyr::from_slice(body)
                    .map(Patch::Apply)
                    .map_err(|error| unreadable(&error)),
            },
            _ => Err(Refusal::unknown_patch()),
        }
    }
}

impl Writer<'_> {
    pub fn patch(&mut self, name: &str, patch: Patch) -> Result<WriteResult, Refusal> {
        if let Patch::Apply(config) = patch {
            return self.apply(name, config);
        }
        let current = self.current(name)?;
        let mut object = current.value();
        match patch {
            Patch::Json(patch) => apply_json_patch(&mut object, patch)?,
            Patch::Merge(patch) => json_patch::merge(&mut object, &patch),
            Patch::Strategic(_) if self.kind.is_custom() => {
                return Err(Refusal::unknown_patch());
            }
            Patch::Strategic(patch) => {
                let kind = self.kind.clone();
                strategic::merge(&mut object, patch, Self::typing(&kind))?;
            }
            Patch::Apply(_) => {}
        }
        self.admit(&mut object, Some(name))?;
        self.check_uid_of_patch(&current, &object["metadata"])?;
        self.replace(&current, object, Ownership::Edit)
    }

    fn apply(&mut self, name: &str, mut config: Value) -> Result<WriteResult, Refusal> {
        if config
            .pointer("/metadata/managedFields")
            .is_some_and(|fields| !fields.is_null())
        {
            return Err(Refusal::bad_request("metadata.managedFields must be nil"));
        }
        let given = |field: &str| config[field].as_str().unwrap_or_default();
        if (given("apiVersion"), given("kind")) != (&self.kind.api_version(), &self.kind.kind) {
            let message = match given("apiVersion") {
                "" => format!("invalid object type: /, Kind={}", given("kind")),
                version => format!("invalid object type: {version}, Kind={}", given("kind")),
            };
            return Err(Refusal::bad_request(message));
        }
        self.identify(&mut config, Some(name))?;
        if let Some(field) = drop_unknown(&self.kind, &mut config)?.first() {
            let what = format!(".{field}: field not declared in schema");
            return Err(self.untyped(name, &what));
        }
        if let Some((list, item)) = crate::fields::repeated(&config, Self::typing(&self.kind)) {
            let what = format!("{list}: duplicate entries for key {item}");
            return Err(self.untyped(name, &what));
        }
        self.keep_own_part(&mut config);
        let current = self.state.get(&self.place(name)).cloned();
        if current.is_none() && self.part == Part::Status {
            return Err(Refusal::not_found(&self.kind, name));
        }
        let live = current
            .as_ref()
            .map_or_else(|| serde_json::json!({}), |current| current.value());
        let kind = self.kind.clone();
        let (manager, time) = (self.manager(Operation::Apply), self.time());
        let apply = Apply {
            manager: &manager,
            force: self.author.force,
            time: &time,
            typing: Self::typing(&kind),
        };
        let (mut merged, owners) = ManagedFields::of(&live)
            .applied(&live, &config, &apply)
            .map_err(|conflicts| Refusal::apply_conflict(&conflicts))?;
        owners.write_into(&mut merged);
        match current {
            Some(current) => {
                // A version in the configuration is a precondition; one from the live object would always hold.
                merged["metadata"]["resourceVersion"] = config["metadata"]["resourceVersion"].clone();
                self.check_uid_of_patch(&current, &merged["metadata"])?;
                self.replace(&current, merged, Ownership::Applied)
            }
            None if config["metadata"]["uid"].is_string() => {
                let why = format!(
                    "uid mismatch: the provided object specified uid {}, and no existing object was found",
                    config["metadata"]["uid"].as_str().unwrap_or_default()
                );
                Err(Refusal::conflict(&self.kind, name, &why))
            }
            None => self.insert(merged, Ownership::Applied),
        }
    }

    /// A configuration that does not fit the kind's schema.
    fn untyped(&self, name: &str, what: &str) -> Refusal {
        let (namespace, kind) = (self.namespace, &self.kind);
        Refusal::unexplained(format!(
            "failed to create typed patch object ({namespace}/{name}; {}, Kind={}): {what}",
            kind.api_version(),
            kind.kind
        ))
    }

    /// Takes out of a configuration what this endpoint does not write, so that the manager does not come to own it.
    fn keep_own_part(&self, config: &mut Value) {
        let Some(map) = config.as_object_mut() else { return };
        match self.part {
            Part::Main | Part::Scale if self.kind.status => {
                map.remove("status");
            }
            Part::Main | Part::Scale => {}
            Part::Status => {
                map.retain(|name, _| matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
                if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata
                        .retain(|name, _| matches!(name.as_str(), "name" | "namespace" | "resourceVersion" | "uid"));
                }
            }
        }
    }
}

fn apply_json_patch(object: &mut Value, patch: json_patch::Patch) -> Result<(), Refusal> {
    // Go's JSON patch lets a test for null pass where nothing stands, and clients rely on it.
    let absent_null = |operation: &json_patch::PatchOperation| match operation {
        json_patch::PatchOperation::Test(test) => test.value.is_null() && test.path.resolve(object).is_err(),
        _ => false,
    };
    let operations = patch
        .0
        .iter()
        .filter(|operation| !absent_null(operation))
        .cloned()
        .collect::<Vec<_>>();
    json_patch::patch(object, &operations).map_err(|_error| Refusal::unfit_patch())
}
