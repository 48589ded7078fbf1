//! Rules about clusters: what really runs there when the next stage is placed, and who got the workload. Must not look at
//! what the host says of it.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;
use stagegate_api::{DownsyncClause, StageState, UnseenUpdates};
use stagegate_embedded::clusters::{Fared, ObjectRef, Presence};

use super::replay::{PLACEMENTS, Placed, Policy, Replay, Seen, selects};
use super::{Found, Run};
use crate::harness::WELL;

/// At each placing: the clusters of the stage that was being proven must fare well.
pub fn check(run: &Run<'_>, replay: &Replay, seen: &Seen<'_>, found: &mut Found) {
    let Some((before, Some(after))) = seen.placing() else {
        return;
    };
    let Some(policy) = replay.owner_of(&after).filter(|_| after.is_open()) else {
        return;
    };
    let is_adoption = before
        .as_ref()
        .is_some_and(|before| before.is_open() && before.plan.is_none());
    let is_new = before
        .as_ref()
        .is_none_or(|before| before.selectors != after.selectors || before.plan != after.plan);
    if is_adoption || !is_new {
        return;
    }
    let Some(spec) = policy.specs.get(&after.generation.unwrap_or_default()) else {
        return;
    };
    let Some(index) = after
        .stage_of(&policy.name)
        .and_then(|name| spec.stages.iter().position(|stage| stage.name == name))
    else {
        return;
    };
    let Some(proven) = spec.stages[..index]
        .iter()
        .rev()
        .find(|stage| !has_passed(policy, &stage.name, &after))
    else {
        return;
    };
    // Other conditions say for themselves what well means, and may mean anything.
    if proven.condition.as_deref() != Some(WELL) {
        return;
    }
    for (cluster, labels) in &replay.clusters {
        if selects(&proven.cluster_selectors, labels) {
            for clause in &spec.downsync {
                let is_exact = !clause.create_only && proven.unseen_updates != UnseenUpdates::Accept;
                check_cluster(run, replay, (seen, cluster, clause, is_exact), found);
            }
        }
    }
}

fn has_passed(policy: &Policy, stage: &str, after: &Placed) -> bool {
    let records = policy.status.iter().flat_map(|status| &status.stages);
    let mut of_stage = records.filter(|record| record.name == stage && record.plan == after.plan);
    of_stage.any(|record| record.state == StageState::Passed)
}

fn check_cluster(
    run: &Run<'_>,
    replay: &Replay,
    (seen, cluster, clause, is_exact): (&Seen<'_>, &str, &DownsyncClause, bool),
    found: &mut Found,
) {
    let to = seen.commit.at;
    let from = to - run.news_take;
    for ((resource, namespace, name), versions) in &replay.workloads {
        let Some((_, newest)) = versions.last().filter(|(_, newest)| !newest.spec.is_null()) else {
            continue;
        };
        let selectors: &[LabelSelector] = clause.object_selectors.as_deref().unwrap_or_default();
        if !selects(selectors, &newest.labels) {
            continue;
        }
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let object = ObjectRef::namespaced(group, plural, namespace, name);
        let as_of: Vec<&Value> = {
            let until = versions.iter().rposition(|(at, _)| *at <= from).unwrap_or_default();
            versions[until..].iter().map(|(_, workload)| &workload.spec).collect()
        };
        let fared = run.truth.fared_between((cluster, &object), from, to);
        let is_well = is_there(run, (cluster, &object), from, to)
            && fared
                .iter()
                .any(|fared| is_well(fared) && (!is_exact || as_of.contains(&&fared.spec)));
        found.at(seen.place()).holds("promotion", is_well, || {
            format!(
                "{} is placed while {object} in {cluster} is so: {fared:?}",
                seen.commit.name
            )
        });
    }
}

/// Whether the object was in the cluster at any time of the window.
fn is_there(run: &Run<'_>, (cluster, object): (&str, &ObjectRef), from: Timestamp, to: Timestamp) -> bool {
    let history = run.truth.history.iter();
    let mut of_object =
        history.filter(|change| change.cluster == cluster && change.object == *object && change.at <= to);
    let mut is_there = false;
    let mut was_there = false;
    for change in of_object.by_ref() {
        if change.at > from {
            was_there |= is_there;
        }
        is_there = change.presence == Presence::Present;
    }
    is_there || was_there
}

/// All replicas of what it was given are available, by its own newest report.
fn is_well(fared: &Fared) -> bool {
    let wanted = fared.spec["replicas"].as_i64().unwrap_or(1);
    let status = fared.status.as_ref();
    let number = |name: &str| status.and_then(|status| status[name].as_i64());
    number("availableReplicas").unwrap_or_default() >= wanted && number("observedGeneration") == fared.generation
}

/// Which clusters open placements selected, and since when.
#[derive(Default)]
pub struct Reach(Vec<(Timestamp, Vec<String>)>);

impl Reach {
    /// To be called after the commit was taken in.
    pub fn take(&mut self, replay: &Replay, seen: &Seen<'_>) {
        if seen.commit.resource != PLACEMENTS && !seen.commit.resource.starts_with("managedclusters.") {
            return;
        }
        let open: Vec<&Placed> = replay.placements.values().filter(|placed| placed.is_open()).collect();
        let is_selected = |labels| open.iter().any(|placed| selects(&placed.selectors, labels));
        let reached = replay.clusters.iter().filter(|(_, labels)| is_selected(labels));
        self.0
            .push((seen.commit.at, reached.map(|(name, _)| name.clone()).collect()));
    }

    /// Over the whole run: nobody got the workload but while an open placement selected the cluster.
    pub fn check(&self, run: &Run<'_>, found: &mut Found) {
        let history = run.truth.history.iter();
        for arrival in history.filter(|change| change.presence == Presence::Present) {
            check_arrival(run, &self.0, (arrival.at, &arrival.cluster), found);
        }
    }
}

fn check_arrival(
    run: &Run<'_>,
    selected: &[(Timestamp, Vec<String>)],
    (at, cluster): (Timestamp, &str),
    found: &mut Found,
) {
    // What was selected a moment ago may still be on its way.
    let from = at - run.news_take - SignedDuration::from_secs(1);
    let first = selected
        .iter()
        .rposition(|(since, _)| *since <= from)
        .unwrap_or_default();
    let until = selected.partition_point(|(since, _)| *since <= at);
    let window = &selected[first.min(until)..until];
    let is_selected = window
        .iter()
        .any(|(_, clusters)| clusters.iter().any(|known| known == cluster));
    found.at((0, at)).holds("reach", is_selected, || {
        format!("{cluster} was given the workload, and no open placement selects it")
    });
}
