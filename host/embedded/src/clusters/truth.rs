//! What was really in which cluster, and when: the yardstick of tests. Must not be read by anything that decides.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// An object by its names, the version left out: one object has several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Empty for the core group.
    pub group: String,
    /// Lower-case plural.
    pub resource: String,
    /// `None` for cluster-scoped objects.
    pub namespace: Option<String>,
    pub name: String,
}

impl ObjectRef {
    pub fn namespaced(group: &str, resource: &str, namespace: &str, name: &str) -> Self {
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: Some(namespace.to_owned()),
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for ObjectRef {
    /// `deployments.apps default/nginx`, `namespaces shop`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " {namespace}/{}", self.name),
            None => write!(f, " {}", self.name),
        }
    }
}

/// All clusters at one instant, and how they came to be so.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    pub clusters: BTreeMap<String, BTreeMap<ObjectRef, Present>>,
    /// In the order of time, from the start of the process.
    pub history: Vec<Change>,
    /// How each object fared, in the order of time.
    pub fared: Vec<Fared>,
}

/// An object as it is in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    /// That of the cluster, which counts for itself; `None` for kinds that count none.
    pub generation: Option<i64>,
    /// SHA-256 of what was handed over, lower-case hex.
    pub digest: String,
    /// When it was created there.
    pub since: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub at: Timestamp,
    pub cluster: String,
    pub object: ObjectRef,
    pub presence: Presence,
}

/// How an object was in a cluster from a time on, whether it was reported or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Fared {
    pub at: Timestamp,
    pub cluster: String,
    pub object: ObjectRef,
    /// As in [`Present::generation`].
    pub generation: Option<i64>,
    /// The `spec` that it runs; null for kinds without one.
    pub spec: Value,
    /// `None`: it carries no status.
    pub status: Option<Value>,
    /// Whether this version is rolled out and runs well: no replica is missing, and none of another version is left.
    pub is_healthy: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Present,
    Absent,
}

impl Truth {
    pub fn present(&self, cluster: &str, object: &ObjectRef) -> Option<&Present> {
        self.clusters.get(cluster)?.get(object)
    }

    /// How the object was in the cluster at any time between `from` and `to`, both included: the first as it was at
    /// `from`. Empty while it was not there.
    pub fn fared_between(&self, (cluster, object): (&str, &ObjectRef), from: Timestamp, to: Timestamp) -> Vec<&Fared> {
        let of_object = |fared: &&Fared| fared.cluster == cluster && fared.object == *object;
        let until: Vec<&Fared> = self
            .fared
            .iter()
            .filter(of_object)
            .filter(|fared| fared.at <= to)
            .collect();
        let first = until.iter().rposition(|fared| fared.at <= from).unwrap_or_default();
        until.into_iter().skip(first).collect()
    }

    /// How long the object was away each time it came back.
    pub fn gaps(&self, cluster: &str, object: &ObjectRef) -> Vec<SignedDuration> {
        let mut gone_at = None;
        let mut gaps = Vec::new();
        for change in self
            .history
            .iter()
            .filter(|change| change.cluster == cluster && change.object == *object)
        {
            match change.presence {
                Presence::Absent => gone_at = Some(change.at),
                Presence::Present => gaps.extend(gone_at.take().map(|gone| change.at.duration_since(gone))),
            }
        }
        gaps
    }

    /// When the object was taken away from the cluster, each time.
    pub fn removals(&self, cluster: &str, object: &ObjectRef) -> Vec<Timestamp> {
        let of_object = |change: &&Change| change.cluster == cluster && change.object == *object;
        let absent = |change: &&Change| change.presence == Presence::Absent;
        self.history
            .iter()
            .filter(of_object)
            .filter(absent)
            .map(|change| change.at)
            .collect()
    }
}
