//! Rules about what status says, and how often it is said. Must not judge placements.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use stagegate_api::{Outcome, Phase, StageState, StagedBindingPolicyStatus, Updates};

use super::replay::{POLICIES, Policy, Replay, Seen, bare};
use super::{Found, Run};

/// A status that says nothing may stand for so long.
const SILENCE_MAX: SignedDuration = SignedDuration::from_secs(60);

pub fn check(run: &Run<'_>, replay: &Replay, seen: &Seen<'_>, found: &mut Found) {
    if !seen.is_hosts() {
        return;
    }
    quiet(run, replay, seen, found);
    if seen.commit.resource != POLICIES {
        return;
    }
    let Some(policy) = replay.policies.get(&seen.commit.uid) else {
        return;
    };
    let Some(after) = &seen.after else { return };
    let Ok(status) = serde_json::from_value::<StagedBindingPolicyStatus>(after["status"].clone()) else {
        return;
    };
    let generation = after["metadata"]["generation"].as_i64();
    let is_dated = status.observed_generation <= generation
        && status
            .conditions
            .iter()
            .all(|condition| condition.observed_generation == status.observed_generation);
    found.at(seen.place()).holds("intent", is_dated, || {
        format!(
            "status of generation {:?}, conditions {:?}",
            status.observed_generation, status.conditions
        )
    });
    steps(policy, seen, &status, found);
    components(run, policy, (seen, &status), found);
}

/// Two states of one object in turn, and nobody else did anything.
fn quiet(run: &Run<'_>, replay: &Replay, seen: &Seen<'_>, found: &mut Found) {
    let commit = seen.commit;
    let key = (commit.resource.clone(), commit.namespace.clone(), commit.name.clone());
    let Some(after) = seen.after.as_ref().filter(|_| commit.resource != "events") else {
        return;
    };
    let Some([(at, earlier), _]) = replay.written.get(&key).map(Vec::as_slice) else {
        return;
    };
    // A new process has to wait for what the one before it knew.
    if run.host_ran.iter().any(|(start, _)| at <= start) {
        return;
    }
    found.at(seen.place()).holds("quiet", *earlier != bare(after), || {
        format!(
            "{} {} is written as it was two writes ago",
            commit.resource, commit.name
        )
    });
}

/// The active stage moves on by one within a revision, and was open once.
fn steps(policy: &Policy, seen: &Seen<'_>, status: &StagedBindingPolicyStatus, found: &mut Found) {
    let (Some(active), Some(spec)) = (
        &status.active_stage,
        status.observed_generation.and_then(|at| policy.specs.get(&at)),
    ) else {
        return;
    };
    let position = |name: &str| spec.stages.iter().position(|stage| stage.name == name);
    // The one that is being proven is not called passed before the next one is open.
    let has_passed = |stage: &str| {
        let mut of_stage = status.stages.iter().filter(|record| record.name == stage);
        of_stage.any(|record| record.state == StageState::Passed)
    };
    let mut before_it = spec.stages[..position(active).unwrap_or_default()].iter();
    let is_next = before_it.all(|stage| has_passed(&stage.name));
    found
        .at(seen.place())
        .holds("intent", is_next || policy.ever_open.contains(active), || {
            format!("stage {active} is called active and was never open")
        });
    let before = policy.status.as_ref();
    let is_same_spec = before.is_some_and(|before| before.observed_generation == status.observed_generation);
    let earlier = before.and_then(|before| position(before.active_stage.as_deref()?));
    if let (true, Some(earlier), Some(now)) = (is_same_spec, earlier, position(active)) {
        // With staged updates an edit of an object is a revision, too: what is placed then has another one.
        let is_outdated = status.stages.iter().any(|record| record.state == StageState::Outdated);
        let is_edited = spec.updates == Updates::Staged && now < earlier && is_outdated;
        let are_passed = (earlier + 1..now).all(|between| has_passed(&spec.stages[between].name));
        found
            .at(seen.place())
            .holds("no-skip", (now >= earlier && are_passed) || is_edited, || {
                format!("the active stage went from number {earlier} to {now}")
            });
    }
}

/// A gate's pass names a component that its ConfigMap held at that time, or a moment before.
fn components(
    run: &Run<'_>,
    policy: &Policy,
    (seen, status): (&Seen<'_>, &StagedBindingPolicyStatus),
    found: &mut Found,
) {
    let Some(spec) = status.observed_generation.and_then(|at| policy.specs.get(&at)) else {
        return;
    };
    for stage in &spec.stages {
        let Some(record) = status.stages.iter().find(|record| record.name == stage.name) else {
            continue;
        };
        for gate in &stage.gates {
            let name = format!("gate/{}", gate.name);
            let passed = record
                .checks
                .iter()
                .find(|check| check.name == name && check.outcome == Outcome::Pass);
            let Some(check) = passed.filter(|check| {
                check
                    .evaluated_at
                    .as_ref()
                    .is_some_and(|at| at.0 + SignedDuration::from_secs(2) > seen.commit.at)
            }) else {
                continue;
            };
            let entry = &gate.module.config_map;
            let held = held(run, (&entry.namespace, &entry.name, &entry.key), seen.commit.version);
            let digest = check.module_digest.clone().unwrap_or_default();
            let is_packed = held.iter().any(|(_, packed)| *packed);
            let is_known = is_packed || held.iter().any(|(known, _)| *known == digest);
            let is_pinned = gate.module.digest.as_ref().is_none_or(|pinned| *pinned == digest);
            found.at(seen.place()).holds("gate", is_known && is_pinned, || {
                format!(
                    "{name} of stage {} passed with {digest}; its ConfigMap held {held:?}",
                    stage.name
                )
            });
        }
    }
}

/// The digests of what the entry held before the commit, and whether it is compressed: the newest, and those that were
/// replaced within the last second.
fn held(run: &Run<'_>, (namespace, name, key): (&str, &str, &str), before: u64) -> Vec<(String, bool)> {
    let is_it = |commit: &&stagegate_embedded::Commit| {
        commit.resource == "configmaps"
            && commit.namespace == namespace
            && commit.name == name
            && commit.version < before
    };
    let mut commits: Vec<_> = run.commits.iter().filter(is_it).collect();
    commits.reverse();
    let digests = commits.into_iter().take(2).filter_map(|commit| {
        let config_map: ConfigMap = serde_json::from_value(commit.after()?).ok()?;
        let bytes = config_map.binary_data?.remove(key)?.0;
        let digest: String = Sha256::digest(&bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Some((format!("sha256:{digest}"), bytes.starts_with(&[0x1f, 0x8b])))
    });
    digests.collect()
}

/// Over the whole run: what stands for longer than a minute says why, and about the spec as it is.
pub fn check_waiting(run: &Run<'_>, found: &mut Found) {
    let mut standing: BTreeMap<String, (Timestamp, u64, Value)> = BTreeMap::new();
    for commit in run.commits.iter().filter(|commit| commit.resource == POLICIES) {
        let after = commit.after();
        let before = match &after {
            Some(after) => standing.insert(commit.uid.clone(), (commit.at, commit.version, after.clone())),
            None => standing.remove(&commit.uid),
        };
        if let Some((since, version, object)) = before {
            check_standing(run, ((since, version), commit.at), &object, found);
        }
    }
    for (since, version, object) in standing.into_values() {
        check_standing(run, ((since, version), run.ended_at), &object, found);
    }
}

fn check_standing(
    run: &Run<'_>,
    ((since, version), until): ((Timestamp, u64), Timestamp),
    object: &Value,
    found: &mut Found,
) {
    let is_served = run.host_ran.iter().any(|(from, to)| {
        let from = since.max(*from);
        let to = to.unwrap_or(run.ended_at).min(until);
        to.duration_since(from) > SILENCE_MAX
    });
    if !is_served || object["metadata"]["deletionTimestamp"].is_string() {
        return;
    }
    let status: StagedBindingPolicyStatus = serde_json::from_value(object["status"].clone()).unwrap_or_default();
    let is_current =
        status.observed_generation.is_some() && status.observed_generation == object["metadata"]["generation"].as_i64();
    let progressing = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Progressing");
    let is_done = matches!(status.phase, Some(Phase::Completed));
    let says = progressing.is_some_and(|condition| condition.message.len() > 10 && !condition.reason.is_empty());
    // Words for what takes milliseconds: standing for a minute, they explain nothing.
    let is_passing_word = matches!(status.reason.as_deref(), Some("Opening" | "Accepted"));
    found
        .at((version, until))
        .holds("explains", is_current && (is_done || says && !is_passing_word), || {
            format!(
                "from {since} to {until} nothing was said but {:?} {:?}",
                status.reason,
                progressing.map(|condition| &condition.message)
            )
        });
}
