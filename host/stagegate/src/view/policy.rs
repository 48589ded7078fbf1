//! The rollout that a StagedBindingPolicy's spec and status tell of. Must not know where it is shown.

use stagegate_api::{
    ObjectStatus, PendingUpdate, StageState, StageStatus, StagedBindingPolicy, StagedBindingPolicyStatus, Updates,
};
use stagegate_decide::staging::CONTESTED;

use super::rollout::{Place, Rolled, Rollout, RolloutStage, Versions};
use super::text::clusters;
use super::times;
use crate::target::Kind;

impl Rolled for StagedBindingPolicy {
    const KIND: Kind = Kind::StagedBindingPolicy;

    fn rollout(&self) -> Rollout {
        let nothing = StagedBindingPolicyStatus::default();
        let status = self.status.as_ref().unwrap_or(&nothing);
        let (in_spec, removed) = stages(self, status).into_iter().partition(|(name, _)| {
            let mut of_spec = self.spec.stages.iter();
            of_spec.any(|stage| stage.name == *name)
        });
        let shown = |stages: Vec<(&str, Option<&StageStatus>)>| -> Vec<RolloutStage> {
            let shown = stages.into_iter().map(|(name, record)| of_stage(self, name, record));
            shown.collect()
        };
        Rollout {
            kind: Self::KIND,
            name: self.metadata.name.clone().unwrap_or_default(),
            namespace: None,
            phase: status.phase,
            message: explanation(status),
            reason: status.reason.clone(),
            since: times::phase_since(status).cloned(),
            active_stage: status.active_stage.clone(),
            progress: None,
            stages: shown(in_spec),
            removed: shown(removed),
            versions: Versions {
                generation: self.metadata.generation,
                observed: status.observed_generation,
                has_status: self.status.is_some(),
            },
            is_ready: times::is_true(&status.conditions, "Ready"),
            is_contested: times::is_true(&status.conditions, CONTESTED),
            began: times::began(self),
            ended: times::completed(status),
        }
    }
}

/// The spec's stages in order, each with its record; then records of stages that are no longer in the spec.
pub(super) fn stages<'a>(
    policy: &'a StagedBindingPolicy,
    status: &'a StagedBindingPolicyStatus,
) -> Vec<(&'a str, Option<&'a StageStatus>)> {
    let record = |name: &str| status.stages.iter().find(|record| record.name == name);
    let in_spec = policy
        .spec
        .stages
        .iter()
        .map(|stage| (stage.name.as_str(), record(&stage.name)));
    let left = status
        .stages
        .iter()
        .filter(|record| !policy.spec.stages.iter().any(|stage| stage.name == record.name));
    in_spec
        .chain(left.map(|record| (record.name.as_str(), Some(record))))
        .collect()
}

/// Whether what status says of holding the stage is about now: of a placement that is gone it stays on record, and after a change to
/// immediate updates, too.
pub(super) fn is_held(policy: &StagedBindingPolicy, record: &StageStatus) -> bool {
    policy.spec.updates == Updates::Staged && record.binding_policy.is_some()
}

fn of_stage(policy: &StagedBindingPolicy, name: &str, record: Option<&StageStatus>) -> RolloutStage {
    let place = |clusters: &[String]| Place::Clusters {
        clusters: clusters.to_vec(),
    };
    let Some(record) = record else {
        return RolloutStage::pending(name, place(&[]));
    };
    let is_held = is_held(policy, record);
    let is_judged = matches!(record.state, StageState::Active | StageState::Failed);
    let objects = record.objects.iter().filter(|_| is_judged);
    RolloutStage {
        name: name.to_owned(),
        state: record.state,
        place: place(&record.destinations),
        placed_at: record.placed_at.clone(),
        passed_at: record.passed_at.clone(),
        passing_since: None,
        held_since: record.held_since.clone().filter(|_| is_held),
        unproven: if is_held { record.unproven.clone() } else { Vec::new() },
        checks: record.checks.clone(),
        not_evaluated: record.not_evaluated.clone(),
        message: record.message.clone(),
        pending: objects
            .flat_map(|object| pending(object, &record.destinations))
            .collect(),
        is_completed: record.completed_at.is_some(),
    }
}

/// The text that goes with the policy's reason.
fn explanation(status: &StagedBindingPolicyStatus) -> String {
    let reason = status.reason.as_deref().unwrap_or_default();
    let active = status
        .stages
        .iter()
        .find(|stage| Some(&stage.name) == status.active_stage.as_ref());
    let check = active.and_then(|stage| stage.checks.iter().find(|check| check.reason == reason));
    let condition = status.conditions.iter().find(|condition| condition.reason == reason);
    check
        .map(|check| check.message.clone())
        .or_else(|| condition.map(|condition| condition.message.clone()))
        .unwrap_or_default()
}

/// The clusters of the stage that have not acknowledged an update, and what each last reported. One that has left the stage does not
/// hold it up.
fn pending(object: &ObjectStatus, destinations: &[String]) -> Vec<String> {
    let namespace = object
        .namespace
        .as_ref()
        .map(|namespace| format!("{namespace}/"))
        .unwrap_or_default();
    let about =
        |clusters: &str, rest: String| format!("{clusters}: {} {namespace}{} {rest}", object.resource, object.name);
    let last = |update: &PendingUpdate| match update.observed_generation.as_str() {
        _ if update.reported_at.is_empty() => "edited, no report yet".to_owned(),
        "" => format!("edited, last report {}", update.reported_at),
        generation => format!("edited, last report {} of generation {generation}", update.reported_at),
    };
    let is_left = |cluster: &String| !destinations.is_empty() && !destinations.contains(cluster);
    let owing = |update: &PendingUpdate| -> Vec<String> {
        let names = update.clusters.iter().filter(|cluster| !is_left(cluster));
        names.cloned().collect()
    };
    (object.pending_updates.iter())
        .map(|update| (owing(update), update))
        .filter_map(|(owing, update)| match (owing.as_slice(), update.clusters.as_slice()) {
            // An entry without cluster names stands for many clusters.
            ([], []) => Some(about("some clusters", last(update))),
            ([], _) => None,
            (owing, _) => Some(about(&clusters(owing), last(update))),
        })
        .collect()
}
