//! CombinedStatuses: what StatusCollectors make of the clusters' reports. The few expressions of this world are computed here as
//! their CEL text gives them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::Value;
use stagegate_api::{
    Binding, BindingSpec, BoundObject, CollectorResult, CombinedStatus, Destination, StatusCollectorSpec,
    Workload as BoundObjects, evidence,
};
use stagegate_decide::combine::{Collector, Computed, Evaluation, Facts, Outcome, Write, decide};

use super::status::{Combination, Noted};
use super::{KubeStellar, Planned, RETRY_MS, Task};
use crate::clusters::running::Status;
use crate::clusters::{Fleet, Report};
use crate::queue::{Millis, timestamp};
use crate::server::{Resource, Server, Workload, key_of, version_of};

/// The expression of the users' StatusCollector.
pub const AVAILABLE: &str = "returned.status.availableReplicas";

/// The expression of a StatusCollector that asks for what is wanted, not for what runs.
pub const DESIRED: &str = "obj.spec.replicas";

/// What a cluster returns may stand in an error's text. This one clears a terminal.
const HOSTILE: &str = "type conversion error: \u{1b}[2J";

impl KubeStellar {
    /// Writes the CombinedStatus of this key as it is wanted, or removes it.
    pub(super) fn combine(&mut self, server: &mut Server, key: &str, now: Millis) -> Vec<Planned> {
        let Some((binding, one)) = self.combination(key) else {
            let _gone = server.combined.delete(&mut server.counter, (key, None));
            return Vec::new();
        };
        let existing: Vec<_> = server
            .combined
            .get(key)
            .map(|live| CombinedStatus::clone(live))
            .into_iter()
            .collect();
        let (binding, collectors) = (one.binding(binding), one.noted());
        let facts = Facts {
            object: &one.object,
            binding: Some(&binding),
            collectors: &collectors,
            existing: &existing,
            report_namespace_exists: true,
        };
        let (writes, truths) = (decide(&facts).writes, one.truths.clone());
        for write in writes {
            let written = match write {
                Write::Create(combined) => server.combined.create(&mut server.counter, combined),
                Write::Update { combined_status, .. }
                    if existing.iter().any(|live| holds_old_rows(live, &combined_status)) =>
                {
                    continue;
                }
                Write::Update {
                    precondition,
                    combined_status,
                } => {
                    let own = key_of(&combined_status.metadata);
                    let update = |object: &mut CombinedStatus| {
                        object.results = combined_status.results;
                        object.metadata.labels = combined_status.metadata.labels;
                    };
                    let at = (own.as_str(), Some(&precondition));
                    server.combined.update(&mut server.counter, at, update)
                }
                _ => continue,
            };
            let Ok(written) = written else {
                let again = self.to_combine.insert(key.to_owned());
                return again
                    .then(|| (now + RETRY_MS, Task::Combine(key.to_owned())))
                    .into_iter()
                    .collect();
            };
            self.basis
                .insert(version_of(&written.metadata).to_owned(), truths.clone());
        }
        Vec::new()
    }
}

/// KubeStellar 0.30 sees no change if only errors differ, or if as many rows include each old one.
fn holds_old_rows(live: &CombinedStatus, wanted: &CombinedStatus) -> bool {
    let metadata = |combined: &CombinedStatus| {
        let labels = combined.metadata.labels.clone().unwrap_or_default();
        let owners = combined.metadata.owner_references.clone().unwrap_or_default();
        (labels, owners)
    };
    let holds = |old: &CollectorResult, new: &CollectorResult| {
        (&old.name, &old.column_names) == (&new.name, &new.column_names)
            && old.rows.len() == new.rows.len()
            && old.rows.iter().all(|row| new.rows.contains(row))
    };
    metadata(live) == metadata(wanted)
        && live.results.len() == wanted.results.len()
        && live
            .results
            .iter()
            .zip(&wanted.results)
            .all(|(old, new)| holds(old, new))
}

impl Combination {
    /// A Binding of this object alone, as it was last noted.
    fn binding(&self, name: &str) -> Binding {
        let object = &self.object;
        let owner = OwnerReference {
            controller: Some(true),
            uid: self.policy_uid.clone(),
            ..OwnerReference::default()
        };
        let bound = BoundObject {
            group: object.group.clone(),
            resource: object.resource.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            status_collectors: self.collectors.keys().cloned().collect(),
            ..BoundObject::default()
        };
        let destination = |cluster: &String| Destination {
            cluster_id: cluster.clone(),
        };
        Binding {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            spec: BindingSpec {
                workload: BoundObjects {
                    namespace_scope: vec![bound],
                    ..BoundObjects::default()
                },
                destinations: self.destinations.iter().map(destination).collect(),
            },
            status: None,
        }
    }

    fn noted(&self) -> BTreeMap<String, Collector> {
        let noted = self
            .collectors
            .iter()
            .filter_map(|(name, noted)| Some((name, noted.as_ref()?)));
        let collector = |(name, noted): (&String, &Noted)| {
            let collector = Collector {
                spec: noted.spec.clone(),
                evaluations: noted.evaluations.clone(),
            };
            (name.clone(), collector)
        };
        noted.map(collector).collect()
    }

    /// Computes all columns for a cluster from what it has reported. Whether any value is another one.
    pub(super) fn evaluate(&mut self, server: &Server, fleet: &Fleet, cluster: &str) -> bool {
        let key = format!(
            "{}/{}",
            self.object.namespace.as_deref().unwrap_or_default(),
            self.object.name
        );
        let object = server.workloads.get(&key);
        let member = fleet.members.get(cluster).filter(|member| !member.is_unlisted);
        let report = member.and_then(|member| member.reports.get(&key));
        match report {
            Some(report) => drop(self.truths.insert(cluster.to_owned(), report.truth)),
            None => drop(self.truths.remove(cluster)),
        }
        let mut has_changed = false;
        for noted in self.collectors.values_mut().flatten() {
            let computed = evaluate(&noted.spec, object.map(AsRef::as_ref), (cluster, report));
            has_changed |= noted.evaluations.get(cluster) != Some(&computed);
            noted.evaluations.insert(cluster.to_owned(), computed);
        }
        has_changed
    }
}

fn evaluate(
    spec: &StatusCollectorSpec,
    object: Option<&Workload>,
    (cluster, report): (&str, Option<&Report>),
) -> Evaluation {
    let columns = spec.select.iter().map(|column| {
        if column.def == "inventory.name" {
            return Outcome::Value(Computed::String(cluster.to_owned()));
        }
        if column.def == AVAILABLE {
            let status = report.and_then(|report| report.status.as_ref());
            let resource = object
                .map(|object| object.resource)
                .filter(|kind| kind.counts_replicas());
            // A Deployment's status leaves the member out where it would be 0.
            let is_shown = |available: i64| available > 0 || resource == Some(Resource::StatefulSet);
            return match status.filter(|status| resource.is_some() && is_shown(status.available)) {
                Some(status) => Outcome::Value(Computed::Int(status.available)),
                None if object.is_some_and(|object| object.content.crashes) => Outcome::Error(HOSTILE.to_owned()),
                None => Outcome::Error("no such key: availableReplicas".to_owned()),
            };
        }
        if column.def == DESIRED {
            return match object.filter(|object| object.resource.counts_replicas()) {
                Some(object) => Outcome::Value(Computed::Int(object.content.replicas)),
                None => Outcome::Error("no such key: replicas".to_owned()),
            };
        }
        // The expression counts, under whichever name.
        if let Some(ours) = evidence::collector_spec()
            .select
            .iter()
            .find(|ours| ours.def == column.def)
        {
            return Outcome::Value(of_evidence(&ours.name, object, report));
        }
        Outcome::Error("undeclared reference".to_owned())
    });
    Evaluation {
        filter: None,
        columns: columns.collect(),
    }
}

/// A column of the evidence collector.
fn of_evidence(name: &str, object: Option<&Workload>, report: Option<&Report>) -> Computed {
    let value = match name {
        "at" => match report.map(|report| report.at) {
            None => "1970-01-01T00:00:00Z".to_owned(),
            Some(None) => "0001-01-01T00:00:00Z".to_owned(),
            Some(Some(seconds)) => jiff::Timestamp::from_second(seconds)
                .unwrap_or_else(|_| timestamp(0))
                .to_string(),
        },
        "desired" => match object.filter(|object| object.resource.counts_replicas()) {
            Some(object) => object.content.replicas.to_string(),
            None => String::new(),
        },
        name => match Status::column(report.and_then(|report| report.status.as_ref()), name) {
            Value::String(text) => text,
            list => return Computed::Json(list),
        },
    };
    Computed::String(value)
}
