//! Rules about clusters: what really runs there when the next stage is placed, and who got the workload. Must not look at
//! what the host says of it.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;
use stagegate_api::{
    DownsyncClause, Stage, StageState, StagedBindingPolicySpec, StagedBindingPolicyStatus, UnacknowledgedUpdates,
};
use stagegate_embedded::clusters::{Fared, ObjectRef, Presence};

use super::replay::{PLACEMENTS, POLICIES, Placed, Policy, Replay, Seen, selects};
use super::{Found, Run};
use crate::harness::WELL;

/// Only Deployments are compared here, so this filter excludes none of them.
const KEEPS_DEPLOYMENTS: &str = "downsyncClause.resource == \"deployments\"";

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
        .is_some_and(|before| before.is_open() && before.revision.is_none());
    let is_new = before
        .as_ref()
        .is_none_or(|before| before.selectors != after.selectors || before.revision != after.revision);
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
    let is_well_asked = proven.condition.as_deref() == Some(WELL);
    let what = format!("{} is placed", seen.commit.name);
    check_stage((run, replay), (seen, &what), (policy, spec, proven), found);
    // Other conditions say for themselves what well means, and may mean anything.
    if !is_well_asked {
        return;
    }
    for (cluster, labels) in &replay.clusters {
        if selects(&proven.cluster_selectors, labels) {
            for clause in &spec.downsync {
                check_cluster(run, replay, (seen, cluster, clause, is_exact(clause, proven)), found);
            }
        }
    }
}

/// The same when the last stage passes, since nothing is placed after it.
pub fn check_completion(run: &Run<'_>, replay: &Replay, seen: &Seen<'_>, found: &mut Found) {
    if !seen.is_hosts() || seen.commit.resource != POLICIES {
        return;
    }
    let status = |value: &Option<Value>| {
        let value = value.as_ref()?;
        serde_json::from_value::<StagedBindingPolicyStatus>(value["status"].clone()).ok()
    };
    let (Some(policy), Some(after)) = (replay.policies.get(&seen.commit.uid), status(&seen.after)) else {
        return;
    };
    let Some(spec) = after.observed_generation.and_then(|at| policy.specs.get(&at)) else {
        return;
    };
    let Some(last) = spec.stages.last() else { return };
    let has_passed = |status: &StagedBindingPolicyStatus| {
        let mut of_stage = status.stages.iter().filter(|record| record.name == last.name);
        of_stage.any(|record| record.state == StageState::Passed)
    };
    if has_passed(&after) && !status(&seen.before).is_some_and(|before| has_passed(&before)) {
        let what = format!("{} is called passed", last.name);
        check_stage((run, replay), (seen, &what), (policy, spec, last), found);
    }
}

/// Each object must be healthy in every cluster of the stage, in its current version.
fn check_stage(
    (run, replay): (&Run<'_>, &Replay),
    (seen, what): (&Seen<'_>, &str),
    (policy, spec, stage): (&Policy, &StagedBindingPolicySpec, &Stage),
    found: &mut Found,
) {
    if !requires_health(policy, stage) {
        return;
    }
    let clusters = replay
        .clusters
        .iter()
        .filter(|(_, labels)| selects(&stage.cluster_selectors, labels));
    for (cluster, _) in clusters {
        for clause in &spec.downsync {
            for looked in look(run, replay, (seen, cluster, clause)) {
                let is_healthy = looked.is_there && looked.is_so(is_exact(clause, stage), |fared| fared.is_healthy);
                found.at(seen.place()).holds("healthy", is_healthy, || {
                    format!("{what} while {} in {cluster} is so: {:?}", looked.object, looked.fared)
                });
            }
        }
    }
}

/// Not for a stage with another filter, whose kept objects are not known here. A status without the check comes from a program that
/// does not judge health.
fn requires_health(policy: &Policy, stage: &Stage) -> bool {
    let checks = policy
        .status
        .iter()
        .flat_map(|status| &status.stages)
        .flat_map(|record| &record.checks);
    let is_known = checks.into_iter().any(|check| check.name == "health");
    let is_ignored = serde_json::to_value(stage).is_ok_and(|stage| stage["health"] == "Ignored");
    let keeps_all = stage.filter.as_deref().is_none_or(|filter| filter == KEEPS_DEPLOYMENTS);
    is_known && !is_ignored && keeps_all
}

/// Whether the current version must be the healthy one.
fn is_exact(clause: &DownsyncClause, stage: &Stage) -> bool {
    !clause.create_only && stage.unacknowledged_updates != UnacknowledgedUpdates::Ignore
}

fn has_passed(policy: &Policy, stage: &str, after: &Placed) -> bool {
    let records = policy.status.iter().flat_map(|status| &status.stages);
    let mut of_stage = records.filter(|record| record.name == stage && record.revision == after.revision);
    of_stage.any(|record| record.state == StageState::Passed)
}

fn check_cluster(
    run: &Run<'_>,
    replay: &Replay,
    (seen, cluster, clause, is_exact): (&Seen<'_>, &str, &DownsyncClause, bool),
    found: &mut Found,
) {
    for looked in look(run, replay, (seen, cluster, clause)) {
        let is_well = looked.is_there && looked.is_so(is_exact, is_well);
        found.at(seen.place()).holds("promotion", is_well, || {
            format!(
                "{} is placed while {} in {cluster} is so: {:?}",
                seen.commit.name, looked.object, looked.fared
            )
        });
    }
}

/// The states of an object in a cluster while reports about it could be on their way.
struct Looked<'a> {
    object: ObjectRef,
    is_there: bool,
    fared: Vec<&'a Fared>,
    /// Its specs in that time.
    specs: Vec<&'a Value>,
}

impl Looked<'_> {
    fn is_so(&self, is_exact: bool, is: impl Fn(&Fared) -> bool) -> bool {
        let mut fared = self.fared.iter();
        fared.any(|fared| is(fared) && (!is_exact || self.specs.contains(&&fared.spec)))
    }
}

/// Each object that the clause selects, in the state that it has in the cluster at the commit.
fn look<'a>(
    run: &'a Run<'_>,
    replay: &'a Replay,
    (seen, cluster, clause): (&Seen<'_>, &str, &DownsyncClause),
) -> Vec<Looked<'a>> {
    let to = seen.commit.at;
    let from = to - run.news_take;
    let mut looks = Vec::new();
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
        let until = versions.iter().rposition(|(at, _)| *at <= from).unwrap_or_default();
        looks.push(Looked {
            is_there: is_there(run, (cluster, &object), from, to),
            fared: run.truth.fared_between((cluster, &object), from, to),
            specs: versions[until..].iter().map(|(_, workload)| &workload.spec).collect(),
            object,
        });
    }
    looks
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
