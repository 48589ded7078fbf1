//! Whether an earlier stage's placement may be removed: only when the later one demonstrably serves every cluster that
//! both share. Must not remove anything itself.
//!
//! KubeStellar needs two seconds and its transport some more to bring a workload to a cluster; removed earlier, a
//! shared cluster would lose the workload and get it back.

use crate::staging::evidence::{Bound, Placed, Subject, collector, kinds, objects};
use std::collections::BTreeSet;

use stagegate_api::{Binding, EvidenceRow, StageStatus};

use crate::checks::finding::Finding;
use crate::checks::reason::Reason;
use crate::names::{ClusterName, PlacementName};
use crate::staging::input::{Facts, binding_view, recorded::destinations};
use crate::staging::question::Question;

/// What a removal rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandOver {
    /// The two have no cluster in common.
    Apart,
    /// These clusters are shared and the later placement's rows say that the object is there; under which placement,
    /// nobody can tell without reading the inventory.
    Unproven(Vec<ClusterName>),
}

/// The later placement and the name and record of the earlier one.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    pub later: &'a Placed<'a>,
    pub earlier: &'a PlacementName,
    pub earlier_record: Option<&'a StageStatus>,
    /// The later one was judged in this round: every cluster has reported each of its objects.
    pub is_reported: bool,
}

/// Whether the earlier placement may go, or what is missing.
pub fn hand_over(pair: Pair<'_>, questions: &mut Vec<Question>) -> Result<HandOver, Finding> {
    let settled = pair.later.complete()?;
    require_taken(pair.later, settled.binding)?;
    let shared = shared_clusters(pair, &settled);
    if shared.is_empty() {
        return Ok(HandOver::Apart);
    }
    collector::require(pair.later.facts)?;
    if pair.is_reported {
        return Ok(HandOver::Unproven(shared));
    }
    for object in &settled.objects {
        if kinds::is_never_returned(&object.group, &object.resource) {
            continue;
        }
        let key = binding_view::key(object);
        let known = pair
            .later
            .facts
            .objects
            .get(&key)
            .filter(|known| known.is_answer_to(binding_view::resource_version(object)));
        let Some(known) = known else {
            questions.push(objects::question_about(pair.later.facts, object));
            continue;
        };
        if let Some(refusal) = objects::refusal(known, object) {
            return Err(refusal);
        }
        let Some(found) = &known.found else {
            return Err(Finding::unknown(
                Reason::ObjectMissing,
                format!("{key} is bound, but not on this control plane: the previous stage stays"),
            ));
        };
        let subject = Subject {
            placed: pair.later,
            bound: object,
            found,
        };
        require_rows(&subject, &shared)?;
    }
    Ok(HandOver::Unproven(shared))
}

/// Transport says which generation of a Binding it has taken; where none runs this stays 0 for ever, on every Binding.
fn require_taken(later: &Placed<'_>, binding: &Binding) -> Result<(), Finding> {
    let taken = taken_generation(binding);
    let generation = binding.metadata.generation.unwrap_or_default();
    let bindings = later.facts.bindings.values();
    let mut readable = bindings.filter_map(|entry| entry.object.as_ref()?.object());
    if readable.any(|binding| taken_generation(binding) != 0) && taken != generation {
        return Err(Finding::unknown(
            Reason::Placing,
            format!(
                "transport has taken generation {taken} of Binding {}, not {generation} yet: the previous stage stays",
                later.stage.placement
            ),
        ));
    }
    Ok(())
}

/// Each of the clusters has exactly one row about the object, and that row tells of it. `shared` is sorted, as rows are.
fn require_rows(subject: &Subject<'_>, shared: &[ClusterName]) -> Result<(), Finding> {
    subject.combined()?;
    let mut rows = subject.rows();
    // Most often there is one row for each, and one comparison of names is enough: there may be a million.
    if rows.len() == shared.len() && rows.iter().zip(shared).all(|(row, cluster)| row.cluster == *cluster) {
        return rows.iter().try_for_each(|row| subject.require_reported(row));
    }
    for cluster in shared {
        let is_its = |row: &EvidenceRow| row.cluster == *cluster;
        if !rows.first().is_some_and(is_its) {
            rows = &rows[rows.partition_point(|row| row.cluster < *cluster)..];
        }
        let its = rows.iter().take_while(|row| is_its(row)).count();
        let (found, rest) = rows.split_at(its);
        rows = rest;
        let [row] = found else {
            return Err(Finding::unknown(
                Reason::NotReported,
                format!(
                    "no evidence yet that cluster {cluster} has {} under the new placement: the previous stage stays",
                    binding_view::key(subject.bound)
                ),
            ));
        };
        subject.require_reported(row)?;
    }
    Ok(())
}

fn taken_generation(binding: &Binding) -> i64 {
    binding
        .status
        .as_ref()
        .map(|status| status.observed_generation)
        .unwrap_or_default()
}

/// Clusters of both. Where nobody knows the earlier one's (no Binding, no record), all of the later one's.
fn shared_clusters(pair: Pair<'_>, settled: &Bound<'_>) -> Vec<ClusterName> {
    let earlier = earlier_clusters(pair.later.facts, pair);
    let shared = settled
        .destinations
        .iter()
        .filter(|cluster| earlier.as_ref().is_none_or(|earlier| earlier.contains(cluster.text())));
    let shared: BTreeSet<ClusterName> = shared.map(|cluster| cluster.owned()).collect();
    shared.into_iter().collect()
}

fn earlier_clusters(facts: &Facts, pair: Pair<'_>) -> Option<BTreeSet<ClusterName>> {
    let binding = facts
        .bindings
        .get(pair.earlier)
        .and_then(|entry| entry.object.as_ref())
        .and_then(|binding| binding.object());
    let bound = binding.map(|binding| {
        binding_view::destinations(binding)
            .into_iter()
            .map(|cluster| cluster.owned())
            .collect::<BTreeSet<_>>()
    });
    let recorded = pair.earlier_record.map(|record| {
        destinations(record)
            .map(|cluster| cluster.owned())
            .collect::<BTreeSet<_>>()
    });
    match (bound, recorded) {
        (None, None) => None,
        (bound, recorded) => {
            let all: BTreeSet<ClusterName> = bound.into_iter().chain(recorded).flatten().collect();
            // An empty set proves nothing: a restart of KubeStellar empties Bindings.
            (!all.is_empty()).then_some(all)
        }
    }
}
