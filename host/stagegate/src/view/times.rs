//! When a rollout and its phase began, by the times that status records. Must not know where they are shown.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use stagegate_api::{Phase, StageState, StagedBindingPolicy, StagedBindingPolicyStatus};

/// When the rollout of the current revision began: when its first stage was placed. Before that, when the rollout before it ceased to be
/// completed; without any record, when the policy was created.
pub(super) fn began(policy: &StagedBindingPolicy) -> Option<Timestamp> {
    let recorded = policy.status.as_ref().and_then(|status| {
        let uncompleted = condition(&status.conditions, "Completed").filter(|condition| condition.status == "False");
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

/// When the rollout was completed.
pub(super) fn completed(status: &StagedBindingPolicyStatus) -> Option<Timestamp> {
    let completed = condition(&status.conditions, "Completed").filter(|_| status.phase == Some(Phase::Completed));
    completed.map(|condition| condition.last_transition_time.0)
}

/// Since when the policy is in its phase, as far as its conditions tell.
pub(super) fn phase_since(status: &StagedBindingPolicyStatus) -> Option<&Time> {
    let type_ = match status.phase? {
        Phase::Progressing | Phase::Holding | Phase::Paused => "Progressing",
        Phase::Completed => "Completed",
        Phase::Failed | Phase::Stalled => "Stalled",
    };
    condition(&status.conditions, type_).map(|condition| &condition.last_transition_time)
}

/// Whether the condition of this type is there and True.
pub(super) fn is_true(conditions: &[Condition], type_: &str) -> bool {
    condition(conditions, type_).is_some_and(|condition| condition.status == "True")
}

pub(super) fn condition<'s>(conditions: &'s [Condition], type_: &str) -> Option<&'s Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Zero where clocks differ.
pub(super) fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}
