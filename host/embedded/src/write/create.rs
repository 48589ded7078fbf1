//! Creating an object: its name, its first metadata, no status.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::review::Change;
use super::writer::{Ownership, Part, WriteResult, Writer};
use crate::admission::Operation;
use crate::fields::{self, Changes, ManagedFields};
use crate::kinds::Kind;
use crate::refusal::Refusal;

/// Characters of generated suffixes: no vowels and no look-alikes, as Kubernetes has it.
const SUFFIX_CHARACTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

impl Writer<'_> {
    /// Creates what a POST carries.
    pub fn create(&mut self, mut body: Value) -> Result<WriteResult, Refusal> {
        self.admit(&mut body, None)?;
        // It is the storage that refuses, which a dry run does not reach.
        let version = body["metadata"]["resourceVersion"].as_str();
        if !self.author.dry_run && version.is_some_and(|version| !version.is_empty()) {
            return Err(Refusal::bad_request(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        self.insert(body, Ownership::Edit)
    }

    pub(super) fn insert(&mut self, mut object: Value, ownership: Ownership) -> Result<WriteResult, Refusal> {
        let name = self.name_of(&mut object)?;
        self.require_namespace(&name)?;
        if self.kind.status
            && let Some(map) = object.as_object_mut()
        {
            map.remove("status");
            if !self.kind.is_custom() {
                map.insert("status".to_owned(), serde_json::json!({}));
            }
        }
        let now = self.time();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for field in [
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "selfLink",
                "generation",
            ] {
                metadata.remove(field);
            }
            metadata.insert(
                "uid".to_owned(),
                Value::from(unique_after(self.state.version()).to_string()),
            );
            metadata.insert("creationTimestamp".to_owned(), Value::from(now.as_str()));
            if self.kind.generation {
                metadata.insert("generation".to_owned(), Value::from(1));
            }
        }
        self.check(&mut object, None)?;
        if matches!(ownership, Ownership::Edit) {
            let kind = self.kind.clone();
            let changes = Changes::between(&blank(&kind), &object, Self::typing(&kind));
            let owners =
                ManagedFields::default().updated(&changes, &self.manager(fields::Operation::Update), Some(&now));
            owners.write_into(&mut object);
        }
        self.review(
            Operation::Create,
            &Change {
                new: Some(&object),
                old: None,
            },
        )?;
        // The storage says it, after everything that can be said of the object alone.
        if let Some(present) = self.state.get(&self.place(&name)) {
            return Err(Refusal::already_exists(&self.kind, present));
        }
        self.commit(object, true)
    }

    fn name_of(&self, object: &mut Value) -> Result<String, Refusal> {
        let metadata = &mut object["metadata"];
        let given = |field: &str| {
            metadata[field]
                .as_str()
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        if let Some(name) = given("name") {
            return Ok(name);
        }
        // That there is no name is said with everything else that is wrong.
        let Some(prefix) = given("generateName") else {
            return Ok(String::new());
        };
        let random = unique_after(self.state.version());
        let alphabet = SUFFIX_CHARACTERS;
        let suffix: String = random.as_bytes()[..5]
            .iter()
            .map(|byte| char::from(alphabet[usize::from(*byte) % alphabet.len()]))
            .collect();
        let name = format!("{}{suffix}", prefix.chars().take(58).collect::<String>());
        metadata["name"] = Value::from(name.as_str());
        Ok(name)
    }

    /// A namespaced object needs a namespace that exists and stays.
    fn require_namespace(&self, name: &str) -> Result<(), Refusal> {
        if !self.kind.namespaced || self.part == Part::Status {
            return Ok(());
        }
        let Some(namespace) = self.stored_namespace(self.namespace) else {
            let kind = self
                .state
                .kind("", "v1", "namespaces")
                .cloned()
                .unwrap_or_else(|| self.kind.clone());
            return Err(Refusal::not_found(&kind, self.namespace));
        };
        if namespace.deleting {
            let why = format!(
                "unable to create new content in namespace {} because it is being terminated",
                self.namespace
            );
            return Err(Refusal::forbidden(&self.kind, name, &why));
        }
        Ok(())
    }
}

/// What nobody has put into a new object: of a built-in kind the parts that Go writes though they are empty, and what the server
/// itself fills in.
fn blank(kind: &Kind) -> Value {
    if kind.is_custom() {
        return serde_json::json!({});
    }
    let mut blank = serde_json::json!({
        "metadata": {}, "status": {}, "involvedObject": {}, "source": {},
        "spec": {"strategy": {}, "updateStrategy": {}, "template": {"metadata": {}, "spec": {"containers": []}}},
    });
    if kind.is_namespace() {
        blank["spec"]["finalizers"] = serde_json::json!(["kubernetes"]);
        blank["status"]["phase"] = Value::from("Active");
    }
    blank
}

/// An identifier that no other object of this server gets. It follows from the version, so that the same requests lead
/// to the same identifiers and a seeded simulation repeats itself.
fn unique_after(version: u64) -> uuid::Uuid {
    let hash: [u8; 32] = Sha256::digest(version.to_be_bytes()).into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}
