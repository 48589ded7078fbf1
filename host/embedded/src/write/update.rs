//! Replacing an object or its status: concurrency checks, the split between spec and status, generation, and writes
//! that change nothing.

use serde_json::{Map, Value};

use super::review::Change;
use super::writer::{Ownership, Part, WriteResult, Writer};
use crate::admission;
use crate::cause::Cause;
use crate::fields::{Changes, ManagedFields, Operation};
use crate::refusal::Refusal;
use crate::store::{Key, Revision};

/// Metadata that only the server writes.
const SERVER_FIELDS: &[&str] = &[
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
];

impl Writer<'_> {
    /// Replaces the object by what a PUT carries; some kinds are made by it.
    pub fn update(&mut self, name: &str, mut body: Value) -> Result<WriteResult, Refusal> {
        if body
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .is_none_or(str::is_empty)
            && body.is_object()
        {
            let message = "the name of the object (one based on URL) was undeterminable: name must be provided";
            return Err(Refusal::bad_request(message));
        }
        self.admit(&mut body, Some(name))?;
        let current = match self.current(name) {
            Ok(current) => current,
            Err(_) if self.kind.put_creates && self.part == Part::Main => {
                return self.insert(body, Ownership::Edit);
            }
            Err(absent) => return Err(absent),
        };
        let version = body["metadata"]["resourceVersion"]
            .as_str()
            .filter(|text| !text.is_empty());
        if self.kind.conditional_put && version.is_none() {
            return Err(Refusal::without_version(&self.kind, name));
        }
        if let Some(wrong) = version.filter(|text| text.parse::<u64>().is_err()) {
            return Err(Refusal::unexplained(format!(
                "strconv.ParseUint: parsing {wrong:?}: invalid syntax"
            )));
        }
        self.replace(&current, body, Ownership::Edit)
    }

    pub(super) fn replace(
        &mut self,
        current: &Revision,
        mut object: Value,
        ownership: Ownership,
    ) -> Result<WriteResult, Refusal> {
        let name = current.key.name.clone();
        self.check_preconditions(current, &object["metadata"])?;
        let old = current.value();
        let owners = match ownership {
            Ownership::Applied => Some(ManagedFields::of(&object)),
            Ownership::Edit => None,
        };
        let reset = owners.is_none() && asks_for_reset(&object);
        // Whoever writes the object may also say who owns what, as client-go does when it begins to apply.
        let given = Some(ManagedFields::of(&object)).filter(|given| self.part == Part::Main && !given.is_empty());
        self.keep_foreign_part(&mut object, &old);
        if current.deleting {
            self.check_finalizers(current, &object)?;
        }
        self.check(&mut object, Some(&old))?;
        if self.part != Part::Status
            && self.kind.generation
            && desired(&self.kind, &old) != desired(&self.kind, &object)
        {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
            object["metadata"]["generation"] = Value::from(generation + 1);
        }
        let before = ManagedFields::of(&old);
        let owners = owners.unwrap_or_else(|| {
            let base = if reset {
                ManagedFields::default()
            } else {
                given.unwrap_or_else(|| before.clone())
            };
            let kind = self.kind.clone();
            let changes = Changes::between(&old, &object, Self::typing(&kind));
            base.updated(
                &changes,
                &self.manager(Operation::Update),
                self.time_of_ownership().as_deref(),
            )
        });
        object["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
        owners.write_into(&mut object);
        self.review(
            admission::Operation::Update,
            &Change {
                new: Some(&object),
                old: Some(&old),
            },
        )?;
        if self.is_unchanged(&old, &mut object) && owners.same_owners(&before) {
            let revision = self.current(&name)?;
            return Ok(WriteResult {
                revision,
                created: false,
                warnings: std::mem::take(&mut self.warnings),
            });
        }
        owners.write_into(&mut object);
        self.commit(object, false)
    }

    /// A resourceVersion or uid in the body must be the current one.
    fn check_preconditions(&self, current: &Revision, metadata: &Value) -> Result<(), Refusal> {
        let given = |field: &str| metadata[field].as_str().filter(|text| !text.is_empty());
        if given("uid").is_some_and(|uid| uid != current.uid) {
            // The key under which etcd has it is a part of Kubernetes' message.
            let resource = self.kind.resource_path();
            let Key { namespace, name } = &current.key;
            let path: Vec<&str> = [resource.as_str(), namespace, name]
                .into_iter()
                .filter(|step| !step.is_empty())
                .collect();
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/{}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: UID in precondition: {}, UID in object meta: {}",
                path.join("/"),
                given("uid").unwrap_or_default(),
                current.uid
            );
            return Err(Refusal::conflict(&self.kind, &current.key.name, &why));
        }
        if given("resourceVersion").is_some_and(|version| version != current.version.to_string()) {
            return Err(Refusal::modified(&self.kind, &current.key.name));
        }
        Ok(())
    }

    /// A patch may not change the uid; a version that does not fit is said first. Kubernetes answers a PUT with a
    /// conflict and a patch as invalid.
    pub(super) fn check_uid_of_patch(&self, current: &Revision, metadata: &Value) -> Result<(), Refusal> {
        let given = |field: &str| metadata[field].as_str().filter(|text| !text.is_empty());
        let fits = |field: &str, wanted: &str| given(field).is_none_or(|given| given == wanted);
        if fits("uid", &current.uid) || !fits("resourceVersion", &current.version.to_string()) {
            return Ok(());
        }
        let cause = Cause::invalid("metadata.uid", &metadata["uid"], "field is immutable");
        Err(Refusal::invalid(&self.kind, &current.key.name, &[cause]))
    }

    /// Puts back what this write may not touch: server metadata, and status or everything but status.
    fn keep_foreign_part(&self, object: &mut Value, old: &Value) {
        if self.part == Part::Status {
            let status = object.get("status").cloned();
            let mut kept = old.clone();
            set_or_remove(&mut kept, "status", status);
            *object = kept;
            return;
        }
        if self.kind.status {
            set_or_remove(object, "status", old.get("status").cloned());
        }
        for field in SERVER_FIELDS {
            set_or_remove(&mut object["metadata"], field, old["metadata"].get(field).cloned());
        }
    }

    fn check_finalizers(&self, current: &Revision, object: &Value) -> Result<(), Refusal> {
        let finalizers = object["metadata"]["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let added: Vec<&str> = finalizers
            .filter(|name| !current.finalizers.iter().any(|known| known == name))
            .collect();
        if added.is_empty() {
            return Ok(());
        }
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added
                .iter()
                .map(|name| format!("{name:?}"))
                .collect::<Vec<_>>()
                .join(", ")
        );
        Err(Refusal::invalid(
            &self.kind,
            &current.key.name,
            &[Cause::forbidden("metadata.finalizers", why)],
        ))
    }

    /// Same object but for who owns what.
    fn is_unchanged(&self, old: &Value, object: &mut Value) -> bool {
        let managed = old["metadata"].get("managedFields").cloned();
        set_or_remove(&mut object["metadata"], "managedFields", managed);
        *old == *object
    }
}

/// `managedFields: []` or `[{}]` forgets all owners.
fn asks_for_reset(object: &Value) -> bool {
    object["metadata"]["managedFields"]
        .as_array()
        .is_some_and(|entries| entries.iter().all(|entry| entry.as_object().is_some_and(Map::is_empty)))
}

/// What somebody wants of the object, as opposed to what is: everything but metadata and a separate status.
fn desired<'a>(kind: &crate::kinds::Kind, object: &'a Value) -> Vec<(&'a String, &'a Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields
        .filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"))
        .filter(|(name, _)| !(kind.status && *name == "status"))
        .collect()
}

fn set_or_remove(object: &mut Value, field: &str, value: Option<Value>) {
    let Some(map) = object.as_object_mut() else { return };
    match value {
        Some(value) => map.insert(field.to_owned(), value),
        None => map.remove(field),
    };
}
