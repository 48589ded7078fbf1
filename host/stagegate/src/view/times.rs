//! When a rollout and its phase began, by the times that status records. Must not know where they are shown.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use stagegate_api::{Phase, StageState, StagedBindingPolicy, StagedBindingPolicyStatus};

/// When the rollout of the current revision began: when its first stage was placed. Before that, when the rollout before it ceased to be
/// completed; without any record, when the policy was created.
pub(super) fn began(policy: &StagedBindingPolicy) -> Option<Timestamp> {
    let recorded = policy.status.as_ref().and_then(|status| {
        let uncompleted = condition(status, "Completed").filter(|condition| condition.status == "False");
        first_placement(status).or(uncompleted.map(|condition| &condition.last_transition_time))
    });
    let created = policy.metadata.creation_timestamp.as_ref();
    recorded.or(created).map(|time| time.0)
}

/// The first placement of a stage up to the active one. Those before it have passed at the current revision; the active one may still be
/// placed as an older revision had it.
fn first_placement(status: &StagedBindingPolicyStatus) -> Option<&Time> {
    let active = status.active_stage.as_ref();
    let position = status.stages.iter().position(|stage| Some(&stage.name) == active)?;
    let is_current = |state| matches!(state, StageState::Active | StageState::Passed | StageState::Failed);
    let placed = status
        .stages
        .iter()
        .take(position + 1)
        .filter(|stage| is_current(stage.state))
        .filter_map(|stage| stage.placed_at.as_ref());
    placed.min_by_key(|time| time.0)
}

/// How long ago the rollout began; zero where that is not known.
pub(super) fn since_beginning(policy: &StagedBindingPolicy, now: Timestamp) -> Duration {
    began(policy).map_or(Duration::ZERO, |began| between(began, now))
}

/// How long the rollout has taken so far, or until it was completed.
pub(super) fn duration(policy: &StagedBindingPolicy, now: Timestamp) -> Duration {
    let status = policy.status.as_ref();
    let completed = status
        .filter(|status| status.phase == Some(Phase::Completed))
        .and_then(|status| condition(status, "Completed"));
    let end = completed.map_or(now, |condition| condition.last_transition_time.0);
    since_beginning(policy, end)
}

/// Since when the policy is in its phase, as far as its conditions tell.
pub(super) fn phase_since(status: &StagedBindingPolicyStatus) -> Option<&Time> {
    let type_ = match status.phase? {
        Phase::Progressing | Phase::Holding | Phase::Paused => "Progressing",
        Phase::Completed => "Completed",
        Phase::Failed | Phase::Stalled => "Stalled",
    };
    condition(status, type_).map(|condition| &condition.last_transition_time)
}

/// Whether the workload is placed and passes now, by the condition `Ready`.
pub fn is_ready(status: &StagedBindingPolicyStatus) -> bool {
    condition(status, "Ready").is_some_and(|ready| ready.status == "True")
}

pub(super) fn condition<'s>(status: &'s StagedBindingPolicyStatus, type_: &str) -> Option<&'s Condition> {
    status.conditions.iter().find(|condition| condition.type_ == type_)
}

/// Zero where clocks differ.
pub(super) fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}
