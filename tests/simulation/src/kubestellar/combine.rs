//! CombinedStatuses: what StatusCollectors make of the clusters' reports. The few expressions of this world are computed here as
//! their CEL text gives them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;
use stagegate_api::{Binding, CombinedStatus, StatusCollectorSpec, evidence, label};
use stagegate_decide::combine::{
    Collector, Computed, Evaluation, Facts, Imitation, Outcome, WorkloadObject, Write, decide,
};

use super::KubeStellar;
use crate::clusters::running::Status;
use crate::clusters::{Fleet, Report};
use crate::queue::timestamp;
use crate::server::{Server, Workload, key_of, uid_of, version_of};

/// The expression of the users' StatusCollector.
pub const AVAILABLE: &str = "returned.status.availableReplicas";

impl KubeStellar {
    /// Whether it was written; `None`: refused.
    pub(super) fn combine(&mut self, server: &mut Server, fleet: &Fleet, (key, name): (&str, &str)) -> Option<bool> {
        let Some(object) = server.workloads.get(key).cloned() else {
            return Some(false);
        };
        let uid = uid_of(&object.metadata).to_owned();
        let is_of = |combined: &CombinedStatus| {
            let labels = combined.metadata.labels.as_ref();
            labels
                .and_then(|labels| labels.get(label::BINDING_POLICY))
                .is_some_and(|of| of == name)
                && combined
                    .metadata
                    .name
                    .as_deref()
                    .is_some_and(|own| own.starts_with(&format!("{uid}.")))
        };
        let existing: Vec<_> = server
            .combined
            .all()
            .filter(|(_, combined)| is_of(combined))
            .map(|(_, combined)| CombinedStatus::clone(combined))
            .collect();
        let binding = server.bindings.get(name).cloned();
        let rows = binding
            .as_deref()
            .map(|binding| reports(binding, fleet, key))
            .unwrap_or_default();
        let collectors = evaluated(server, &object, &rows);
        let of = object.key();
        let facts = Facts {
            object: &WorkloadObject {
                uid,
                group: of.group,
                version: "v1".to_owned(),
                kind: object.resource.kind().to_owned(),
                resource: of.resource,
                namespace: of.namespace,
                name: of.name,
            },
            binding: binding.as_deref(),
            collectors: &collectors,
            existing: &existing,
            report_namespace_exists: true,
            imitation: Imitation { compare_one_way: true },
        };
        self.store(server, decide(&facts).writes, &rows)
    }

    /// The writes as they come, and what each rests on.
    fn store(&mut self, server: &mut Server, writes: Vec<Write>, rows: &[Row<'_>]) -> Option<bool> {
        let mut is_written = false;
        for write in writes {
            let written = match write {
                Write::Create(combined) => server.combined.create(&mut server.counter, combined).map(Some),
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
                    server.combined.update(&mut server.counter, at, update).map(Some)
                }
                Write::Delete {
                    namespace,
                    name,
                    precondition,
                } => {
                    let own = format!("{namespace}/{name}");
                    let at = (own.as_str(), Some(&precondition));
                    server.combined.delete(&mut server.counter, at).map(|()| None)
                }
                Write::CreateNamespace { .. } | Write::CollectorStatus { .. } | Write::BindingStatus { .. } => continue,
            };
            is_written = true;
            if let Some(written) = written.ok()? {
                let truths = rows.iter();
                let truths = truths.filter_map(|(cluster, report)| Some((cluster.clone(), report.as_ref()?.truth)));
                self.basis
                    .insert(version_of(&written.metadata).to_owned(), truths.collect());
            }
        }
        Some(is_written)
    }
}

/// Asked for with every row.
static OURS: LazyLock<StatusCollectorSpec> = LazyLock::new(evidence::collector_spec);

/// A destination, and what it has reported.
type Row<'a> = (String, Option<&'a Report>);

fn evaluated(server: &Server, object: &Workload, rows: &[Row<'_>]) -> BTreeMap<String, Collector> {
    let collectors = server.collectors.all().map(|(name, collector)| {
        let evaluations = rows
            .iter()
            .map(|(cluster, report)| (cluster.clone(), evaluate(&collector.spec, object, (cluster, *report))));
        let collector = Collector {
            spec: collector.spec.clone(),
            evaluations: evaluations.collect(),
        };
        (name.clone(), collector)
    });
    collectors.collect()
}

fn reports<'a>(binding: &Binding, fleet: &'a Fleet, key: &str) -> Vec<Row<'a>> {
    let report = |cluster: &str| fleet.members.get(cluster).and_then(|member| member.reports.get(key));
    let destinations = binding.spec.destinations.iter();
    destinations
        .map(|one| (one.cluster_id.clone(), report(&one.cluster_id)))
        .collect()
}

fn evaluate(spec: &StatusCollectorSpec, object: &Workload, (cluster, report): (&str, Option<&Report>)) -> Evaluation {
    let columns = spec.select.iter().map(|column| {
        if column.def == "inventory.name" {
            return Outcome::Value(Computed::String(cluster.to_owned()));
        }
        if column.def == AVAILABLE {
            let status = report.and_then(|report| report.status.as_ref());
            return match status.filter(|_| object.resource.counts_replicas()) {
                Some(status) => Outcome::Value(Computed::Int(status.available)),
                None => Outcome::Error("no such key: availableReplicas".to_owned()),
            };
        }
        if OURS.select.contains(column) {
            return Outcome::Value(of_evidence(&column.name, object, report));
        }
        Outcome::Error("undeclared reference".to_owned())
    });
    Evaluation {
        filter: None,
        columns: columns.collect(),
    }
}

/// A column of the evidence collector.
fn of_evidence(name: &str, object: &Workload, report: Option<&Report>) -> Computed {
    let value = match name {
        "at" => match report.map(|report| report.at) {
            None => "1970-01-01T00:00:00Z".to_owned(),
            Some(None) => "0001-01-01T00:00:00Z".to_owned(),
            Some(Some(seconds)) => jiff::Timestamp::from_second(seconds)
                .unwrap_or_else(|_| timestamp(0))
                .to_string(),
        },
        "desired" if object.resource.counts_replicas() => object.content.replicas.to_string(),
        name => match Status::column(report.and_then(|report| report.status.as_ref()), name) {
            Value::String(text) => text,
            list => return Computed::Json(list),
        },
    };
    Computed::String(value)
}
