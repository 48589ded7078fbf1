//! All objects under one global counter, the kinds that are served, and the indexes that collection by owner needs. It stores what it is
//! given; whether that is allowed was decided in `write`.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::collection::Collection;
use super::commits::{Commit, CommitAuthor};
use super::history::Change;
use super::place::{Key, ObjectPlace};
use super::propagation::{PROPAGATION_FINALIZERS, Propagation};
use super::revision::Revision;
use crate::admission::{self, Policies};
use crate::kinds::{Kind, ResourceId, SharedKind, crd};
use crate::time::seconds;

/// The whole server state.
#[derive(Default)]
pub struct State {
    version: u64,
    pub(super) collections: BTreeMap<ResourceId, Collection>,
    /// By group, version and plural.
    served: BTreeMap<(String, String, String), SharedKind>,
    /// The admission policies in force.
    policies: Policies,
    /// Owner uid → its dependents.
    pub(super) dependents: HashMap<String, BTreeSet<ObjectPlace>>,
    /// Uid → where the object is.
    pub(super) alive: HashMap<String, ObjectPlace>,
    pub(super) tasks: VecDeque<Task>,
    /// All changes since the log was begun, if it was.
    commits: Option<Vec<Commit>>,
    /// Whose doing the changes under way are, and when.
    cause: Option<(CommitAuthor, Timestamp)>,
}

/// Something to look at after a change.
pub(super) enum Task {
    /// An object that is being deleted or has owners.
    Check(ObjectPlace),
    Removed {
        revision: Arc<Revision>,
        place: ObjectPlace,
    },
}

/// What became of a deleted object.
pub struct Deleted {
    pub revision: Arc<Revision>,
    pub gone: bool,
}

impl State {
    /// The version of the last change anywhere.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Serves kinds from now on; other versions of the same resource that were served before are dropped.
    pub fn serve(&mut self, kinds: Vec<SharedKind>) {
        for kind in &kinds {
            self.served.retain(|_, known| known.id() != kind.id());
        }
        for kind in kinds {
            if !kind.is_event_alias() {
                match self.collections.get_mut(&kind.stored_as) {
                    Some(collection) => collection.kind = kind.clone(),
                    None => {
                        self.collections
                            .insert(kind.id(), Collection::new(kind.clone(), self.version));
                    }
                }
            }
            self.served
                .insert((kind.group.clone(), kind.version.clone(), kind.plural.clone()), kind);
        }
    }

    /// Stops serving a resource and ends its watches.
    fn withdraw(&mut self, resource: &ResourceId) {
        self.served.retain(|_, kind| kind.id() != *resource);
        self.collections.remove(resource);
    }

    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    pub fn policies_mut(&mut self) -> &mut Policies {
        &mut self.policies
    }

    pub fn kind(&self, group: &str, version: &str, plural: &str) -> Option<&SharedKind> {
        self.served
            .get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// Every served kind, by group, version and plural.
    pub fn kinds(&self) -> impl Iterator<Item = &SharedKind> {
        self.served.values()
    }

    pub(super) fn kind_named(&self, api_version: &str, kind: &str) -> Option<&SharedKind> {
        self.served
            .values()
            .find(|known| known.kind == kind && known.api_version() == api_version)
    }

    pub fn collection(&self, kind: &Kind) -> Option<&Collection> {
        self.collections.get(&kind.stored_as)
    }

    pub fn get(&self, place: &ObjectPlace) -> Option<&Arc<Revision>> {
        self.collections.get(&place.resource)?.get(&place.key)
    }

    /// Logs every change from now on; what was logged before is kept.
    pub fn log_commits(&mut self) {
        self.commits.get_or_insert_default();
    }

    pub fn logs_commits(&self) -> bool {
        self.commits.is_some()
    }

    /// What was logged after the first `skip` commits.
    pub fn commits(&self, skip: usize) -> Vec<Commit> {
        self.commits.iter().flatten().skip(skip).cloned().collect()
    }

    /// Who is to be named for the changes that follow, and when they happen.
    pub fn caused_by(&mut self, author: CommitAuthor, now: Timestamp) {
        self.cause = Some((author, now));
    }

    /// Forgets all history, so that every watch that is behind gets 410.
    pub fn compact(&mut self) {
        let version = self.version;
        for collection in self.collections.values_mut() {
            collection.history.forget(version);
        }
    }

    /// Stores a new state of an object, whose metadata is complete but for the resourceVersion.
    pub fn put(&mut self, kind: &Kind, mut object: Value) -> Arc<Revision> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = Value::from(self.version.to_string());
        let revision = Arc::new(Revision::render(kind, &object, self.version));
        let place = ObjectPlace {
            resource: kind.stored_as.clone(),
            key: revision.key.clone(),
        };
        let before = self.replace(&place, Some(revision.clone()));
        if let Some(before) = &before {
            self.forget_owners(before, &place);
        }
        self.alive.insert(revision.uid.clone(), place.clone());
        for owner in &revision.owners {
            self.dependents
                .entry(owner.uid.clone())
                .or_default()
                .insert(place.clone());
        }
        if revision.deleting || !revision.owners.is_empty() {
            self.tasks.push_back(Task::Check(place.clone()));
        }
        self.record(
            &place,
            Change {
                version: self.version,
                before,
                after: revision.clone(),
                removed: false,
            },
        );
        revision
    }

    /// Stores a new state, or removes the object where that state is the end of its deletion: nothing holds it any
    /// more.
    pub fn put_or_remove(&mut self, kind: &Kind, object: Value) -> Arc<Revision> {
        let metadata = &object["metadata"];
        let free = metadata["finalizers"].as_array().is_none_or(Vec::is_empty);
        if metadata["deletionTimestamp"].is_string() && free && !kind.is_namespace() {
            let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
            let key = Key {
                namespace: text("namespace"),
                name: text("name"),
            };
            let place = ObjectPlace {
                resource: kind.stored_as.clone(),
                key,
            };
            if let Some(last) = self.remove_as(&place, Some(&object)) {
                return last;
            }
        }
        self.put(kind, object)
    }

    /// Removes an object for good; the answer is its last state, at the version of the removal.
    pub(super) fn remove(&mut self, place: &ObjectPlace) -> Option<Arc<Revision>> {
        self.remove_as(place, None)
    }

    /// The same, where the write that ends the object gives it a last state.
    fn remove_as(&mut self, place: &ObjectPlace, last: Option<&Value>) -> Option<Arc<Revision>> {
        let before = self.replace(place, None)?;
        self.version += 1;
        let kind = self.collections.get(&place.resource)?.kind.clone();
        let mut object = last.cloned().unwrap_or_else(|| before.value());
        object["metadata"]["resourceVersion"] = Value::from(self.version.to_string());
        let after = Arc::new(Revision::render(&kind, &object, self.version));
        self.forget_owners(&before, place);
        self.alive.remove(&before.uid);
        self.record(
            place,
            Change {
                version: self.version,
                before: Some(before),
                after: after.clone(),
                removed: true,
            },
        );
        self.tasks.push_back(Task::Removed {
            revision: after.clone(),
            place: place.clone(),
        });
        if kind.is_definition() {
            self.withdraw(&crd::defined_by(&object));
        }
        if kind.group == admission::GROUP {
            self.policies.forget(&kind.plural, &place.key.name);
        }
        Some(after)
    }

    fn replace(&mut self, place: &ObjectPlace, revision: Option<Arc<Revision>>) -> Option<Arc<Revision>> {
        let objects = &mut self.collections.get_mut(&place.resource)?.objects;
        match revision {
            Some(revision) => objects.insert(place.key.clone(), revision),
            None => objects.remove(&place.key),
        }
    }

    fn record(&mut self, place: &ObjectPlace, change: Change) {
        if let (Some(commits), Some((author, now))) = (&mut self.commits, &self.cause) {
            let ResourceId { group, plural } = &place.resource;
            let resource = if group.is_empty() {
                plural.clone()
            } else {
                format!("{plural}.{group}")
            };
            commits.push(Commit::new(*now, author.clone(), resource, &change));
        }
        if let Some(collection) = self.collections.get_mut(&place.resource) {
            let version = change.version;
            collection.history.push(change);
            collection.tip.send_replace(version);
        }
    }

    fn forget_owners(&mut self, revision: &Revision, place: &ObjectPlace) {
        for owner in &revision.owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(place);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }

    /// Deletes an object, or marks it when somebody has to agree first. `None` when there is none.
    pub fn delete(&mut self, place: &ObjectPlace, propagation: Propagation, now: Timestamp) -> Option<Deleted> {
        let current = self.get(place)?.clone();
        let kind = self.collections.get(&place.resource)?.kind.clone();
        let mut finalizers: Vec<String> = current
            .finalizers
            .iter()
            .filter(|name| !PROPAGATION_FINALIZERS.contains(&name.as_str()))
            .cloned()
            .collect();
        finalizers.extend(propagation.finalizer().map(str::to_owned));
        if kind.is_definition() {
            finalizers.push(crd::CLEANUP_FINALIZER.to_owned());
            finalizers.dedup();
        }
        if finalizers.is_empty() && !kind.is_namespace() {
            return self.remove(place).map(|revision| Deleted { revision, gone: true });
        }
        if current.deleting && finalizers == current.finalizers {
            return Some(Deleted {
                revision: current,
                gone: false,
            });
        }
        let mut object = current.value();
        let metadata = &mut object["metadata"];
        metadata["finalizers"] = Value::from(finalizers);
        if !current.deleting {
            metadata["deletionTimestamp"] = Value::from(seconds(now));
            metadata["deletionGracePeriodSeconds"] = Value::from(0);
            if let Some(generation) = metadata["generation"].as_i64() {
                metadata["generation"] = Value::from(generation + 1);
            }
        }
        if kind.is_namespace() {
            object["status"]["phase"] = Value::from("Terminating");
        }
        Some(Deleted {
            revision: self.put(&kind, object),
            gone: false,
        })
    }
}
