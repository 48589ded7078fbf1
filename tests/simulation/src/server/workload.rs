//! Workload objects and the inventory, as far as any part of the world can tell two of them apart.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use stagegate_decide::binding::Candidate;
use stagegate_decide::names::ObjectKey;
use stagegate_decide::staging::ObjectMeta as FoundMeta;

use crate::queue::Millis;

use super::kind::{Stored, uid_of, version_of};

/// A kind of workload object, by what its status tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    Deployment,
    StatefulSet,
    /// It has a generation, but no status.
    NetworkPolicy,
    /// It has no generation, and no cluster ever reports on it.
    ConfigMap,
    /// A custom resource without counts. Its controller writes conditions that cannot be read while it works.
    Widget,
    /// It has no status as long as it runs, and completes or fails. What it runs never changes.
    Job,
    /// Like a ConfigMap, but its name may have any characters.
    Role,
}

impl Resource {
    const ALL: [Self; 7] = [
        Self::Deployment,
        Self::StatefulSet,
        Self::NetworkPolicy,
        Self::ConfigMap,
        Self::Widget,
        Self::Job,
        Self::Role,
    ];

    /// By its lower-case plural.
    #[must_use]
    pub fn of(plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| resource.names().1 == plural)
    }

    #[must_use]
    pub const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Deployment => ("apps", "deployments"),
            Self::StatefulSet => ("apps", "statefulsets"),
            Self::NetworkPolicy => ("networking.k8s.io", "networkpolicies"),
            Self::ConfigMap => ("", "configmaps"),
            Self::Widget => ("example.com", "widgets"),
            Self::Job => ("batch", "jobs"),
            Self::Role => ("rbac.authorization.k8s.io", "roles"),
        }
    }

    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::NetworkPolicy => "NetworkPolicy",
            Self::ConfigMap => "ConfigMap",
            Self::Widget => "Widget",
            Self::Job => "Job",
            Self::Role => "Role",
        }
    }

    /// Whether clusters ever report on it.
    #[must_use]
    pub const fn is_returned(self) -> bool {
        !matches!(self, Self::ConfigMap | Self::Role)
    }

    /// Whether its status tells how far it is.
    #[must_use]
    pub const fn is_evaluated(self) -> bool {
        self.counts_replicas() || matches!(self, Self::Widget | Self::Job)
    }

    #[must_use]
    pub const fn counts_replicas(self) -> bool {
        matches!(self, Self::Deployment | Self::StatefulSet)
    }
}

/// What an edit of the spec changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// No two edits give the same.
    pub id: u64,
    pub replicas: i64,
    /// Its processes end as soon as they have started.
    pub crashes: bool,
    /// None of its processes is ever started, as where a quota is used up. Only together with `crashes`.
    pub is_blocked: bool,
    /// How long each replica takes to become ready.
    pub step_ms: i64,
    /// After how long without progress a rollout of a Deployment has failed.
    pub deadline_ms: Millis,
    pub made_at: Millis,
    /// When the one was made that it replaces in the same object.
    pub replaced: Option<Millis>,
    /// The edit only took fields away: no time in the object's metadata tells of it.
    pub is_untimed: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    pub metadata: ObjectMeta,
    pub resource: Resource,
    pub content: Content,
    /// The newest time in managedFields of whoever has set fields. One that only takes fields away leaves none.
    pub edited_at: Option<Timestamp>,
}

impl Stored for Workload {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn has_spec_of(&self, other: &Self) -> bool {
        self.content == other.content
    }
}

impl Workload {
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        let (group, resource) = self.resource.names();
        ObjectKey {
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: self.metadata.namespace.clone(),
            name: self.metadata.name.clone().unwrap_or_default(),
        }
    }

    /// As KubeStellar's binding controller sees it.
    #[must_use]
    pub fn candidate(&self) -> Candidate {
        let key = self.key();
        Candidate {
            group: key.group,
            version: "v1".to_owned(),
            resource: key.resource,
            namespace: key.namespace,
            name: key.name,
            resource_version: version_of(&self.metadata).to_owned(),
            labels: self.metadata.labels.clone().unwrap_or_default(),
        }
    }

    /// What a metadata read answers.
    #[must_use]
    pub fn found(&self) -> FoundMeta {
        let counts = self.resource.is_returned();
        FoundMeta {
            uid: uid_of(&self.metadata).into(),
            resource_version: version_of(&self.metadata).into(),
            generation: self.metadata.generation.filter(|_| counts),
            edited_at: self.edited_at,
            made_at: self.metadata.creation_timestamp.as_ref().map(|time| time.0),
            metadata_digest: format!("{} {:?}", self.content.id, self.metadata.labels),
            content_digest: None,
        }
    }
}

/// An entry of the inventory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    pub metadata: ObjectMeta,
    /// A user has given it to another stage.
    pub is_moved: bool,
}

impl Cluster {
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.metadata.labels.clone().unwrap_or_default()
    }
}

impl Stored for Cluster {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn has_spec_of(&self, _other: &Self) -> bool {
        true
    }
}
