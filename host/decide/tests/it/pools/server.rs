//! Carries a plan out on a world, as an API server would that nobody else writes to. A write whose precondition does not hold fails the test.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::ObjectMeta;
use serde_json::Value;
use stagegate_api::workloads::WorkloadView;
use stagegate_decide::pools::{CREATE_VERSION, Child, ChildRef, Plan, Revision, Write};
use stagegate_decide::precondition::Precondition;

use super::world::{DAEMON_UID, World};

impl World {
    /// All writes, in their order.
    pub fn carry_out(&mut self, plan: &Plan) {
        for write in &plan.writes {
            self.version += 1;
            self.write(write);
        }
    }

    fn write(&mut self, write: &Write) {
        match write {
            Write::CreateRevision { name, number, data } => {
                assert!(self.facts.revisions.iter().all(|revision| revision.name != *name));
                let revision = Revision {
                    name: name.clone(),
                    uid: format!("uid-{}", self.version).into(),
                    resource_version: self.version.to_string().into(),
                    owner: Some(DAEMON_UID.to_owned().into()),
                    number: *number,
                    data: data.clone(),
                };
                self.facts.revisions.push(revision);
            }
            Write::RaiseRevision {
                name,
                precondition,
                number,
            } => {
                let version = self.version.to_string();
                let at = self.revision(name, precondition);
                self.facts.revisions[at].number = *number;
                self.facts.revisions[at].resource_version = version.into();
            }
            Write::DeleteRevision { name, precondition } => {
                let at = self.revision(name, precondition);
                self.facts.revisions.remove(at);
            }
            Write::ApplyChild { object, .. } => self.apply(object),
            Write::AdoptChild { child, owners } => {
                self.require(child);
                self.change(&child.name, |view| {
                    view.metadata.owner_references = Some(owners.clone())
                });
            }
            Write::DeleteChild(child) => {
                self.require(child);
                self.children().remove(&child.name);
            }
            Write::Status { precondition, status } => {
                require(&self.facts.daemon.metadata, precondition);
                let version = self.version.to_string();
                let daemon = self.daemon();
                daemon.status = Some((**status).clone());
                daemon.metadata.resource_version = Some(version);
            }
        }
    }

    fn revision(&self, name: &str, precondition: &Precondition) -> usize {
        let mut all = self.facts.revisions.iter();
        let at = all.position(|revision| revision.name == name).unwrap();
        let found = &self.facts.revisions[at];
        assert_eq!(
            (&found.uid, &found.resource_version),
            (&precondition.uid, &precondition.resource_version)
        );
        at
    }

    fn require(&self, child: &ChildRef) {
        let found = self.facts.children.get(&child.name);
        require(found.unwrap().metadata(), &child.precondition);
    }

    /// A server-side apply of all that there is in the object.
    fn apply(&mut self, object: &Value) {
        let mut applied: WorkloadView = serde_json::from_value(object.clone()).unwrap();
        let name = applied.metadata.name.clone().unwrap();
        let metadata = &mut applied.metadata;
        match self.facts.children.get(&name) {
            None => {
                assert_eq!(
                    metadata.resource_version.as_deref(),
                    Some(CREATE_VERSION),
                    "{name} is not there"
                );
                metadata.uid = Some(format!("uid-{}", self.version));
                metadata.generation = Some(1);
                metadata.creation_timestamp = Some(Time(self.facts.now));
            }
            Some(found) => {
                let of_found = found.metadata();
                assert_eq!(metadata.uid, of_found.uid, "{name}");
                assert_eq!(metadata.resource_version, of_found.resource_version, "{name}");
                let Child::Known(found) = found else {
                    panic!("{name} cannot be read and is written");
                };
                merge(&mut applied, found);
            }
        }
        applied.metadata.resource_version = Some(self.version.to_string());
        self.children().insert(name, Child::Known(Arc::new(applied)));
    }
}

/// What the apply leaves as it is.
fn merge(applied: &mut WorkloadView, found: &WorkloadView) {
    assert_eq!(
        applied.spec.selector, found.spec.selector,
        "a selector cannot be changed"
    );
    let metadata = &mut applied.metadata;
    metadata
        .creation_timestamp
        .clone_from(&found.metadata.creation_timestamp);
    metadata
        .deletion_timestamp
        .clone_from(&found.metadata.deletion_timestamp);
    for (into, from) in [
        (&mut metadata.labels, &found.metadata.labels),
        (&mut metadata.annotations, &found.metadata.annotations),
    ] {
        let into = into.get_or_insert_default();
        for (key, value) in from.iter().flatten() {
            into.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    applied.spec.replicas = applied.spec.replicas.or(found.spec.replicas);
    let is_changed = applied.spec != found.spec;
    let generation = found.metadata.generation.unwrap_or_default();
    metadata.generation = Some(generation + i64::from(is_changed));
    applied.status = found.status.clone();
}

fn require(found: &ObjectMeta, precondition: &Precondition) {
    assert_eq!(
        found.uid.as_deref(),
        Some(precondition.uid.as_str()),
        "{:?}",
        found.name
    );
    let version = precondition.resource_version.as_str();
    assert_eq!(found.resource_version.as_deref(), Some(version), "{:?}", found.name);
}
