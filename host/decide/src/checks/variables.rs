//! The variables of filters and conditions, and what `clusters`, `object` and `pools` hold. Must not evaluate an expression.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use stagegate_api::{EvidenceRow, Reported};

use super::gate_call::CombinedRef;
use super::question::Evidence;
use crate::health::{Health, counts_replicas, health};
use crate::names::{ClusterName, Digest, ObjectKey};

/// What an expression is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Root {
    /// A filter: one object of the Binding.
    Clause,
    /// A condition: what clusters report about one object.
    CombinedStatus,
    /// A condition: what runs in the pools of a stage.
    Pools,
}

impl Root {
    /// The variables that the expression may name.
    pub const fn variables(self) -> &'static [Variable] {
        match self {
            // What is judged must not depend on what clusters report: a report that is missing would make a stage pass.
            Self::Clause => &[Variable::DownsyncClause, Variable::Object],
            Self::CombinedStatus => &[
                Variable::Clusters,
                Variable::Object,
                Variable::Collectors,
                Variable::CombinedStatus,
                Variable::Obj,
            ],
            Self::Pools => &[Variable::Pools],
        }
    }

    /// The variable of that name.
    pub fn variable(self, name: &str) -> Option<Variable> {
        self.variables()
            .iter()
            .copied()
            .find(|variable| variable.name() == name)
    }
}

/// A variable of a filter or of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Variable {
    /// The object, as the Binding names it.
    DownsyncClause,
    /// A [`ClusterReport`] for each cluster of the stage.
    Clusters,
    /// The object: a [`JudgedObject`].
    Object,
    /// By the name of a StatusCollector the rows of its result.
    Collectors,
    /// The CombinedStatus.
    CombinedStatus,
    /// The same.
    Obj,
    /// A [`PoolReport`] for each pool of the stage that has the revision.
    Pools,
}

impl Variable {
    /// As an expression names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DownsyncClause => "downsyncClause",
            Self::Clusters => "clusters",
            Self::Object => "object",
            Self::Collectors => "collectors",
            Self::CombinedStatus => "combinedStatus",
            Self::Obj => "obj",
            Self::Pools => "pools",
        }
    }

    /// Whether its value is made of the CombinedStatus.
    pub const fn is_of_combined_status(self) -> bool {
        matches!(self, Self::CombinedStatus | Self::Obj | Self::Collectors)
    }
}

/// What the variables of a condition hold: only those that it names.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionEvidence {
    /// Where the value of `combinedStatus`, `obj` and `collectors` is.
    pub combined: Option<CombinedRef>,
    /// Digest of what the members below are made of.
    pub rest: Option<Digest>,
    /// `clusters`, by name.
    pub clusters: Option<Vec<ClusterReport>>,
    /// `object`
    pub object: Option<JudgedObject>,
}

/// What one cluster reported about an object. A member is absent where there is nothing that it could tell of, so that an
/// expression which reads it fails and no default lets a stage pass.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReport {
    /// As KubeStellar calls it.
    pub name: ClusterName,
    /// Seconds since 1970-01-01T00:00:00Z; `None` for a kind that has no status.
    pub reported_at: Option<i64>,
    /// `status.observedGeneration`
    pub generation: Option<i64>,
    /// `status.replicas`, old ones among them; of a DaemonSet `status.desiredNumberScheduled`.
    pub replicas: Option<i64>,
    /// `status.updatedReplicas`, of a DaemonSet `status.updatedNumberScheduled`.
    pub updated: Option<i64>,
    /// `status.readyReplicas`, of a DaemonSet `status.numberReady`.
    pub ready: Option<i64>,
    /// `status.availableReplicas`, of a DaemonSet `status.numberAvailable`.
    pub available: Option<i64>,
    /// Whether it runs as it should.
    pub healthy: bool,
    /// Why it does not; empty where it does.
    pub message: String,
}

/// What runs in one pool of a stage. Counts are absent where the workload's controller has not counted yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolReport {
    /// Of the NodePool.
    pub name: String,
    /// Of the NodePool.
    pub labels: BTreeMap<String, String>,
    /// `status.observedGeneration`
    pub generation: Option<i64>,
    /// `status.replicas`, old ones among them.
    pub replicas: Option<i64>,
    /// `status.updatedReplicas`
    pub updated: Option<i64>,
    /// `status.readyReplicas`
    pub ready: Option<i64>,
    /// `status.availableReplicas`
    pub available: Option<i64>,
    /// Whether it is rolled out.
    pub healthy: bool,
    /// Why it is not; empty where it is.
    pub message: String,
}

impl PoolReport {
    /// What a workload of this kind, by its plural, reports in this pool. Counts are those that a [`ClusterReport`] would have.
    pub fn of(plural: &str, (pool, labels): (&str, &BTreeMap<String, String>), row: &EvidenceRow) -> Self {
        let workload = ObjectKey {
            group: "apps".to_owned(),
            resource: plural.to_owned(),
            namespace: None,
            name: String::new(),
        };
        let report = ClusterReport::of(&workload, row);
        Self {
            name: pool.to_owned(),
            labels: labels.clone(),
            generation: report.generation,
            replicas: report.replicas,
            updated: report.updated,
            ready: report.ready,
            available: report.available,
            healthy: report.healthy,
            message: report.message,
        }
    }
}

/// The object that an expression is about.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JudgedObject {
    /// Empty for the core group.
    pub group: String,
    /// Of its API; `None` if unknown.
    pub version: Option<String>,
    /// Lower-case plural.
    pub resource: String,
    /// Empty for a cluster-scoped object.
    pub namespace: String,
    /// `metadata.name`
    pub name: String,
    /// `metadata.generation`; `None` for a kind without generations.
    pub generation: Option<i64>,
}

impl ClusterReport {
    /// What the row of our own collector says. Workload controllers leave out a count that is 0, except `desiredNumberScheduled` of
    /// a DaemonSet, and a ReplicaSet does not count updated replicas. A status that no controller has written has no counts.
    pub fn of(key: &ObjectKey, row: &EvidenceRow) -> Self {
        let generation = row.r#gen.parse().ok();
        let is_counted = counts_replicas(&key.group, &key.resource) && generation.is_some();
        let counted = |count: Option<i64>| count.or(is_counted.then_some(0));
        let replicas = if key.resource == "daemonsets" {
            row.total
        } else {
            counted(row.total)
        };
        let (healthy, message) = match health(&key.group, &key.resource, row) {
            Health::Healthy => (true, String::new()),
            Health::Progressing(text) | Health::Failed(text) => (false, text.into_owned()),
        };
        Self {
            name: row.cluster.clone(),
            reported_at: match row.at {
                Reported::At { seconds } => Some(seconds),
                Reported::WithoutStatus | Reported::Never => None,
            },
            generation,
            replicas,
            updated: if key.resource == "replicasets" {
                row.updated
            } else {
                counted(row.updated)
            },
            ready: counted(row.ready),
            available: counted(row.available),
            healthy,
            message,
        }
    }
}

/// What a condition may see.
pub(crate) enum Seen<'a> {
    /// What clusters report about one object.
    Object(Box<ObjectReports<'a>>),
    /// What runs in the pools of a stage.
    Pools(&'a [PoolReport]),
}

impl Seen<'_> {
    /// The evidence for a condition that names these variables.
    pub(crate) fn named(&self, named: &BTreeSet<Variable>) -> Evidence {
        match self {
            Self::Object(seen) => Evidence::Condition(Box::new(seen.named(named))),
            Self::Pools(pools) => Evidence::Pools(pools.to_vec()),
        }
    }

    /// Of that evidence.
    pub(crate) fn digest(&self, named: &BTreeSet<Variable>) -> Digest {
        match self {
            Self::Object(seen) => seen.digest(named),
            Self::Pools(pools) => Digest::of(pools),
        }
    }
}

/// What a condition may see of one object.
pub(crate) struct ObjectReports<'a> {
    pub(crate) key: ObjectKey,
    pub(crate) combined: CombinedRef,
    /// The resourceVersion of the CombinedStatus.
    pub(crate) version: Option<&'a str>,
    /// Of our own collector, sorted by cluster.
    pub(crate) rows: &'a [EvidenceRow],
    pub(crate) object: JudgedObject,
}

impl ObjectReports<'_> {
    /// The evidence for a condition that names these variables.
    pub(crate) fn named(&self, named: &BTreeSet<Variable>) -> ConditionEvidence {
        let names_clusters = named.contains(&Variable::Clusters);
        ConditionEvidence {
            combined: self.combined(named).cloned(),
            rest: self.rest(named),
            clusters: names_clusters.then(|| self.rows.iter().map(|row| ClusterReport::of(&self.key, row)).collect()),
            object: named.contains(&Variable::Object).then(|| self.object.clone()),
        }
    }

    /// [`ConditionEvidence::digest`] of that.
    pub(crate) fn digest(&self, named: &BTreeSet<Variable>) -> Digest {
        let combined = self.combined(named).map(|combined| combined.digest.as_str());
        joined(combined, self.rest(named).as_ref())
    }

    fn combined(&self, named: &BTreeSet<Variable>) -> Option<&CombinedRef> {
        let is_named = named.iter().any(|variable| variable.is_of_combined_status());
        is_named.then_some(&self.combined)
    }

    /// There may be thousands of rows, so the version of their CombinedStatus stands for them. Objects of two kinds may have equal
    /// rows, of which health says different things.
    fn rest(&self, named: &BTreeSet<Variable>) -> Option<Digest> {
        let rows = self.version.is_none().then_some(self.rows);
        let clusters = named
            .contains(&Variable::Clusters)
            .then_some((&self.key, self.version, rows));
        let object = named.contains(&Variable::Object).then_some(&self.object);
        (clusters.is_some() || object.is_some()).then(|| Digest::of(&(clusters, object)))
    }
}

impl ConditionEvidence {
    /// Of all that the condition sees.
    pub fn digest(&self) -> Digest {
        let combined = self.combined.as_ref().map(|combined| combined.digest.as_str());
        joined(combined, self.rest.as_ref())
    }
}

fn joined(combined: Option<&str>, rest: Option<&Digest>) -> Digest {
    match (combined, rest) {
        (Some(combined), None) => Digest::from_text(combined.to_owned()),
        parts => Digest::of(&parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen<'a>(resource: &str, version: Option<&'a str>, rows: &'a [EvidenceRow]) -> ObjectReports<'a> {
        ObjectReports {
            key: ObjectKey {
                group: String::new(),
                resource: resource.to_owned(),
                namespace: None,
                name: "web".to_owned(),
            },
            combined: CombinedRef {
                namespace: "shop".to_owned(),
                name: "c1.b1".to_owned(),
                digest: "same".to_owned(),
            },
            version,
            rows,
            object: JudgedObject {
                group: String::new(),
                version: None,
                resource: String::new(),
                namespace: String::new(),
                name: String::new(),
                generation: None,
            },
        }
    }

    #[test]
    fn equal_reports_on_objects_of_two_kinds_are_two_pieces_of_evidence() {
        let clusters = BTreeSet::from([Variable::Clusters]);
        let digest = |resource: &str| seen(resource, None, &[]).digest(&clusters);
        assert_ne!(digest("jobs"), digest("services"));
        let asked = seen("jobs", None, &[]).named(&clusters);
        assert_eq!(asked.digest(), digest("jobs"), "an answer has the key of its question");
    }

    #[test]
    fn a_condition_over_the_combined_status_alone_is_asked_once_for_the_same_results() {
        let obj = BTreeSet::from([Variable::Obj]);
        let digest = |version| seen("jobs", Some(version), &[]).digest(&obj);
        assert_eq!(digest("1"), digest("2"));
        assert_eq!(digest("1").as_str(), "same");
    }

    /// Also where `collectors` is named but was not read, because a test of the object's kind decided first.
    #[test]
    fn a_condition_that_names_results_is_asked_again_when_there_are_others() {
        for variable in Root::CombinedStatus.variables() {
            let named = BTreeSet::from([*variable, Variable::Object]);
            let before = seen("services", Some("1"), &[]);
            let mut after = seen("services", Some("1"), &[]);
            after.combined.digest = "other".to_owned();
            let is_asked_again = before.digest(&named) != after.digest(&named);
            let has_results = !matches!(variable, Variable::Clusters | Variable::Object);
            assert_eq!(is_asked_again, has_results, "{variable:?}");
        }
    }
}
