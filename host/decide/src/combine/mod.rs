//! The `combine` controller: the statuses that clusters returned, combined as StatusCollectors say, where no
//! KubeStellar does it.
//!
//! KubeStellar's rules for rows, values and aggregation, without its defects: errors count as changes, rows are compared in both
//! directions, a null filter is false, and grouping by a list or map is an error instead of a crash. Expressions are evaluated by
//! the caller: [`questions`] says which, and the facts carry the outcomes.

mod aggregate;
mod collector;
mod condition;
mod equality;
mod plan;
mod rows;
mod value;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::Deserialize;
use stagegate_api::{
    Binding, BoundObject, CollectorResult, CombinedStatus, REPORT_NAMESPACE, StatusCollectorSpec, label,
};

pub use collector::{CompileProblem, Expression, ExpressionPlace, collector_errors, collector_status, expressions};
pub use condition::binding_status;
pub use plan::{Plan, Write};
pub use rows::keeps_row;
pub use value::{Computed, Outcome, cell, go_float};

use crate::precondition::Precondition;
use crate::selector::is_label_value;

/// What a decision about one workload object and one BindingPolicy is made of.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The object that clusters report on.
    pub object: &'a WorkloadObject,
    /// The Binding of the BindingPolicy; `None` when there is none any more.
    pub binding: Option<&'a Binding>,
    /// The StatusCollectors that exist and are valid, by name; others than the bound object names are fine.
    pub collectors: &'a BTreeMap<String, Collector>,
    /// Every CombinedStatus whose name begins with the object's uid and whose label names the BindingPolicy.
    pub existing: &'a [CombinedStatus],
    /// Whether the namespace for cluster-scoped objects is there.
    pub report_namespace_exists: bool,
}

/// The object whose status is combined.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadObject {
    /// `metadata.uid`.
    pub uid: String,
    /// Empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Of its API.
    pub version: String,
    /// For instance `Deployment`.
    pub kind: String,
    /// Lower-case plural.
    pub resource: String,
    /// `None` for a cluster-scoped object.
    #[serde(default)]
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
}

/// A valid StatusCollector and what its expressions gave for this object.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct Collector {
    /// As stored.
    pub spec: StatusCollectorSpec,
    /// By cluster. One that is missing for a destination counts as an error, never as an empty row.
    #[serde(default)]
    pub evaluations: BTreeMap<String, Evaluation>,
}

/// What a collector's expressions gave for one cluster.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct Evaluation {
    /// `None` when the collector has no filter.
    #[serde(default)]
    pub filter: Option<Outcome>,
    /// In the order of [`expressions`] without the filter; may be empty when [`keeps_row`] says no.
    #[serde(default)]
    pub columns: Vec<Outcome>,
}

/// One collector to evaluate for one cluster.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Question<'a> {
    /// Name of the StatusCollector.
    pub collector: &'a str,
    /// Name of the cluster.
    pub cluster: &'a str,
    /// `None`: every cluster has a row.
    pub filter: Option<&'a str>,
    /// Names and expressions of the columns, in the order of [`Evaluation::columns`].
    pub columns: Vec<(&'a str, &'a str)>,
}

/// What has to be evaluated before [`decide`] can answer. The filter comes first: see [`keeps_row`].
pub fn questions<'a>(facts: &Facts<'a>) -> Vec<Question<'a>> {
    let Some((binding, bound)) = bound(facts) else {
        return Vec::new();
    };
    let mut questions = Vec::new();
    for (name, collector) in named(facts, bound) {
        let columns: Vec<_> = collector::column_expressions(&collector.spec).collect();
        let clusters = binding
            .spec
            .destinations
            .iter()
            .map(|destination| destination.cluster_id.as_str());
        questions.extend(
            clusters
                .filter(|cluster| !collector.evaluations.contains_key(*cluster))
                .map(|cluster| Question {
                    collector: name,
                    cluster,
                    filter: collector.spec.filter.as_deref(),
                    columns: columns.clone(),
                }),
        );
    }
    questions
}

/// What to do about the CombinedStatus of one object and one BindingPolicy.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use stagegate_decide::combine::{Facts, Plan, WorkloadObject, decide};
///
/// // No Binding names the object, and there is no CombinedStatus of it: nothing is to be done.
/// let plan = decide(&Facts {
///     object: &WorkloadObject::default(),
///     binding: None,
///     collectors: &BTreeMap::new(),
///     existing: &[],
///     report_namespace_exists: false,
/// });
/// assert_eq!(plan, Plan::default());
/// ```
pub fn decide(facts: &Facts) -> Plan {
    let wanted = bound(facts).filter(|(_, bound)| !bound.status_collectors.is_empty());
    let wanted = wanted.and_then(|(binding, bound)| combined(facts, binding, bound));
    let name = wanted.as_ref().and_then(|combined| combined.metadata.name.as_deref());
    let (current, stale): (Vec<_>, Vec<_>) = facts
        .existing
        .iter()
        .partition(|existing| name.is_some() && existing.metadata.name.as_deref() == name);
    let mut plan = Plan::default();
    plan.writes.extend(stale.into_iter().filter_map(delete));
    let Some(wanted) = wanted else { return plan };
    if let Some(problem) = unwritable(facts.object) {
        return Plan {
            problem: Some(problem),
            ..plan
        };
    }
    match current.first() {
        Some(current) if equality::same(current, &wanted) => {}
        Some(current) => plan.writes.extend(update(current, wanted)),
        None => {
            if facts.object.namespace.is_none() && !facts.report_namespace_exists {
                plan.writes.push(Write::CreateNamespace {
                    name: REPORT_NAMESPACE.to_owned(),
                });
            }
            plan.writes.push(Write::Create(wanted));
        }
    }
    plan
}

/// The live Binding and the object in it.
fn bound<'a>(facts: &Facts<'a>) -> Option<(&'a Binding, &'a BoundObject)> {
    let binding = facts
        .binding
        .filter(|binding| binding.metadata.deletion_timestamp.is_none())?;
    let object = facts.object;
    let is_it = |bound: &&BoundObject| {
        (&bound.group, &bound.resource, &bound.namespace, &bound.name)
            == (&object.group, &object.resource, &object.namespace, &object.name)
    };
    Some((binding, binding.spec.workload.objects().find(is_it)?))
}

/// The collectors that the bound object names and that exist and are valid, by name.
fn named<'a>(facts: &Facts<'a>, bound: &'a BoundObject) -> impl Iterator<Item = (&'a str, &'a Collector)> {
    let mut names: Vec<&str> = bound.status_collectors.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let collectors = facts.collectors;
    names
        .into_iter()
        .filter_map(move |name| Some((name, collectors.get(name)?)))
}

/// The object from scratch, as KubeStellar puts it. `None` when the Binding has no owner to name it after.
fn combined(facts: &Facts, binding: &Binding, bound: &BoundObject) -> Option<CombinedStatus> {
    let object = facts.object;
    let owners = binding.metadata.owner_references.as_deref().unwrap_or_default();
    let policy_uid = &owners.iter().find(|owner| owner.controller == Some(true))?.uid;
    let policy_name = binding.metadata.name.clone().unwrap_or_default();
    let mut clusters: Vec<&str> = binding
        .spec
        .destinations
        .iter()
        .map(|one| one.cluster_id.as_str())
        .collect();
    clusters.sort_unstable();
    let results: Vec<CollectorResult> = named(facts, bound)
        .map(|(name, collector)| result(name, collector, &clusters))
        .collect();
    let labels = [
        (label::API_GROUP, object.group.clone()),
        (label::RESOURCE, object.resource.clone()),
        (label::NAMESPACE, object.namespace.clone().unwrap_or_default()),
        (label::NAME, object.name.clone()),
        (label::BINDING_POLICY, policy_name),
    ];
    let group = if object.group.is_empty() {
        String::new()
    } else {
        format!("{}/", object.group)
    };
    let owner = OwnerReference {
        api_version: format!("{group}{}", object.version),
        kind: object.kind.clone(),
        name: object.name.clone(),
        uid: object.uid.clone(),
        ..OwnerReference::default()
    };
    let metadata = ObjectMeta {
        name: Some(CombinedStatus::name_of(&object.uid, policy_uid)),
        namespace: Some(CombinedStatus::namespace_of(object.namespace.as_deref()).to_owned()),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value)).into()),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    Some(CombinedStatus { metadata, results })
}

/// What the collector says over the clusters, which are sorted: a row for each, or the clusters combined.
fn result(name: &str, collector: &Collector, clusters: &[&str]) -> CollectorResult {
    if collector.spec.select.is_empty() {
        aggregate::result(name, collector, clusters)
    } else {
        rows::result(name, collector, clusters)
    }
}

fn update(current: &CombinedStatus, mut wanted: CombinedStatus) -> Option<Write> {
    let precondition = Precondition::of(&current.metadata)?;
    wanted.metadata.uid = Some(precondition.uid.to_string());
    wanted.metadata.resource_version = Some(precondition.resource_version.to_string());
    Some(Write::Update {
        precondition,
        combined_status: wanted,
    })
}

fn delete(existing: &CombinedStatus) -> Option<Write> {
    if existing.metadata.deletion_timestamp.is_some() {
        return None;
    }
    Some(Write::Delete {
        namespace: existing.metadata.namespace.clone()?,
        name: existing.metadata.name.clone()?,
        precondition: Precondition::of(&existing.metadata)?,
    })
}

/// Names that are no label values, as many RBAC names, cannot be labelled; KubeStellar fails on them for ever.
fn unwritable(object: &WorkloadObject) -> Option<String> {
    let name = &object.name;
    (!is_label_value(name)).then(|| {
        format!(
            "no CombinedStatus can be written for {} {name:?}: the name is not a label value",
            object.resource
        )
    })
}
