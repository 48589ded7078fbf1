//! What follows from a change without anybody asking: garbage collection by owner, finished deletions, the contents of
//! deleted namespaces and definitions. It runs to the end after every write, where a cluster's controllers take
//! seconds.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::commits::CommitAuthor;
use super::place::{Key, ObjectPlace};
use super::propagation::{FOREGROUND, ORPHAN, Propagation};
use super::revision::{Owner, Revision};
use super::state::{State, Task};
use crate::kinds::{DEFINITIONS_GROUP, ResourceId, crd};

/// How an owner keeps its dependent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OwnerState {
    Solid,
    /// It is being deleted in the foreground: its dependents go first.
    Waiting,
    Absent,
}

impl State {
    /// Draws every conclusion from what changed. It ends: each task removes an object, a finalizer or an owner.
    pub fn settle(&mut self, now: Timestamp) {
        self.caused_by(CommitAuthor::Server, now);
        while let Some(task) = self.tasks.pop_front() {
            match task {
                Task::Check(place) => self.check(&place, now),
                Task::Removed { revision, place } => self.follow_removal(&revision, &place),
            }
        }
    }

    fn check(&mut self, place: &ObjectPlace, now: Timestamp) {
        let Some(revision) = self.get(place).cloned() else {
            return;
        };
        if revision.deleting {
            self.check_deleting(place, &revision, now);
        } else {
            self.check_owned(place, &revision, now);
        }
    }

    /// One solid owner keeps an object, and the references to the others go; without one it follows its owners.
    fn check_owned(&mut self, place: &ObjectPlace, revision: &Revision, now: Timestamp) {
        let states: Vec<(&Owner, OwnerState)> = revision
            .owners
            .iter()
            .map(|owner| (owner, self.owner_state(owner, revision)))
            .collect();
        let some = |wanted: OwnerState| states.iter().any(|(_, owner_state)| *owner_state == wanted);
        if some(OwnerState::Solid) {
            let gone: Vec<&str> = states
                .iter()
                .filter(|(_, owner_state)| *owner_state != OwnerState::Solid)
                .map(|(owner, _)| owner.uid.as_str())
                .collect();
            if !gone.is_empty() {
                self.release(place, &gone);
            }
        } else if some(OwnerState::Waiting) && self.dependents.contains_key(&revision.uid) {
            self.delete(place, Propagation::Foreground, now);
        } else if !states.is_empty() {
            self.delete(place, Propagation::Background, now);
        }
    }

    fn check_deleting(&mut self, place: &ObjectPlace, revision: &Arc<Revision>, now: Timestamp) {
        let kind = self
            .collections
            .get(&place.resource)
            .map(|collection| collection.kind.clone());
        let has = |name: &str| revision.finalizers.iter().any(|finalizer| finalizer == name);
        if has(ORPHAN) {
            self.release_dependents(&revision.uid);
            return self.drop_finalizer(place, ORPHAN);
        }
        if has(FOREGROUND) {
            let dependents = self.dependents_of(&revision.uid);
            for dependent in &dependents {
                self.tasks.push_back(Task::Check(dependent.clone()));
            }
            if !dependents.iter().any(|dependent| self.blocks(dependent, &revision.uid)) {
                return self.drop_finalizer(place, FOREGROUND);
            }
        }
        if has(crd::CLEANUP_FINALIZER) {
            let resource = crd::defined_by(&revision.value());
            return self.empty_out(place, now, |candidate| candidate.resource == resource);
        }
        if kind.is_some_and(|kind| kind.is_namespace()) {
            let namespace = revision.key.name.clone();
            return self.empty_out(place, now, |candidate| candidate.key.namespace == namespace);
        }
        if revision.finalizers.is_empty() {
            self.remove(place);
        }
    }

    /// Deletes everything that belongs to a namespace or definition, and that itself once nothing is left.
    fn empty_out(&mut self, place: &ObjectPlace, now: Timestamp, belongs: impl Fn(&ObjectPlace) -> bool) {
        let contents: Vec<ObjectPlace> = self
            .collections
            .iter()
            .flat_map(|(resource, collection)| {
                collection.objects.keys().map(|key| ObjectPlace {
                    resource: resource.clone(),
                    key: key.clone(),
                })
            })
            .filter(|candidate| belongs(candidate))
            .collect();
        let left = contents
            .iter()
            .filter(|content| {
                self.delete(content, Propagation::Background, now)
                    .is_some_and(|deleted| !deleted.gone)
            })
            .count();
        if left > 0 {
            return;
        }
        let Some(revision) = self.get(place).cloned() else {
            return;
        };
        if revision.finalizers.iter().any(|name| name == crd::CLEANUP_FINALIZER) {
            self.drop_finalizer(place, crd::CLEANUP_FINALIZER);
        } else if revision.finalizers.is_empty() {
            self.remove(place);
        }
    }

    fn follow_removal(&mut self, revision: &Revision, place: &ObjectPlace) {
        for dependent in self.dependents_of(&revision.uid) {
            self.tasks.push_back(Task::Check(dependent));
        }
        for owner in &revision.owners {
            if let Some(owner) = self.alive.get(&owner.uid) {
                self.tasks.push_back(Task::Check(owner.clone()));
            }
        }
        let containers = [
            ("", "namespaces", revision.key.namespace.clone()),
            (
                DEFINITIONS_GROUP,
                "customresourcedefinitions",
                format!("{}.{}", place.resource.plural, place.resource.group),
            ),
        ];
        for (group, plural, name) in containers {
            let container = ObjectPlace {
                resource: ResourceId {
                    group: group.to_owned(),
                    plural: plural.to_owned(),
                },
                key: Key {
                    namespace: String::new(),
                    name,
                },
            };
            if self.get(&container).is_some_and(|container| container.deleting) {
                self.tasks.push_back(Task::Check(container));
            }
        }
    }

    fn dependents_of(&self, uid: &str) -> Vec<ObjectPlace> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Whether a dependent keeps its owner from going.
    fn blocks(&self, dependent: &ObjectPlace, owner_uid: &str) -> bool {
        self.get(dependent).is_some_and(|revision| {
            revision
                .owners
                .iter()
                .any(|owner| owner.uid == owner_uid && owner.blocks)
        })
    }

    /// An owner of a kind that is not served cannot be looked up and counts as there; so does a namespaced owner of a
    /// cluster-scoped object, which no reference can name.
    fn owner_state(&self, owner: &Owner, dependent: &Revision) -> OwnerState {
        let namespace = &dependent.key.namespace;
        let Some(place) = self.alive.get(&owner.uid) else {
            let served = self.kind_named(&owner.api_version, &owner.kind).is_some();
            return if served { OwnerState::Absent } else { OwnerState::Solid };
        };
        let elsewhere = !namespace.is_empty() && !place.key.namespace.is_empty() && place.key.namespace != *namespace;
        if elsewhere || place.key.name != owner.name {
            return OwnerState::Absent;
        }
        match self.get(place) {
            Some(found) if found.deleting && found.finalizers.iter().any(|name| name == FOREGROUND) => {
                OwnerState::Waiting
            }
            _ => OwnerState::Solid,
        }
    }

    fn release_dependents(&mut self, uid: &str) {
        for dependent in self.dependents_of(uid) {
            self.release(&dependent, &[uid]);
        }
    }

    /// Takes references to owners away.
    fn release(&mut self, place: &ObjectPlace, uids: &[&str]) {
        self.edit(place, |object| {
            if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
                owners.retain(|owner| !owner["uid"].as_str().is_some_and(|uid| uids.contains(&uid)));
            }
        });
    }

    fn drop_finalizer(&mut self, place: &ObjectPlace, finalizer: &str) {
        self.edit(place, |object| {
            if let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() {
                finalizers.retain(|name| name != finalizer);
            }
        });
    }

    fn edit(&mut self, place: &ObjectPlace, change: impl FnOnce(&mut Value)) {
        let Some(mut object) = self.get(place).map(|revision| revision.value()) else {
            return;
        };
        let Some(kind) = self
            .collections
            .get(&place.resource)
            .map(|collection| collection.kind.clone())
        else {
            return;
        };
        change(&mut object);
        for list in ["finalizers", "ownerReferences"] {
            if object["metadata"][list].as_array().is_none_or(Vec::is_empty)
                && let Some(metadata) = object["metadata"].as_object_mut()
            {
                metadata.remove(list);
            }
        }
        self.put(&kind, object);
    }
}
