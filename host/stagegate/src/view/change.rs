//! What is new in a policy's status, as a list of changes. Must not format them.

use kube::ResourceExt as _;
use serde::Serialize;
use stagegate_api::{CheckStatus, EvidencePiece, Outcome, Phase, StageState, StageStatus, StagedBindingPolicy};

/// One thing that is new.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    pub policy: String,
    /// `None`: about the policy as a whole, before any stage is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    #[serde(flatten)]
    pub what: What,
}

/// The stable form of a change in `-o json`: its `type`, and the members of the variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum What {
    /// Phase or reason of the whole policy; the message is that of the check or condition with this reason.
    Phase {
        phase: Phase,
        reason: String,
        message: String,
    },
    /// A stage's state or its clusters.
    State { state: StageState, clusters: Vec<String> },
    /// A check's answer.
    Check {
        check: String,
        outcome: Outcome,
        reason: String,
        message: String,
        /// What a gate's answer rests on.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        evidence: Vec<EvidencePiece>,
        /// The component that a gate ran, as `sha256:…`.
        #[serde(skip_serializing_if = "Option::is_none", rename = "moduleDigest")]
        module_digest: Option<String>,
    },
    /// What a reader should know about a stage beyond its checks.
    Note { message: String },
    /// The policy was deleted.
    Deleted,
}

impl Change {
    pub(super) fn gone(policy: &str) -> Self {
        Self {
            policy: policy.to_owned(),
            stage: None,
            what: What::Deleted,
        }
    }
}

/// The changes from `previous` (`None`: first seen) to `current`: stages in their order, the phase last.
pub fn between(previous: Option<&StagedBindingPolicy>, current: &StagedBindingPolicy) -> Vec<Change> {
    let policy = current.name_any();
    let change = |stage: Option<&str>, what| Change {
        policy: policy.clone(),
        stage: stage.map(str::to_owned),
        what,
    };
    let Some(status) = &current.status else {
        return Vec::new();
    };
    let before = previous.and_then(|previous| previous.status.as_ref());

    let mut changes = Vec::new();
    for stage in &status.stages {
        let old = before.and_then(|before| before.stages.iter().find(|old| old.name == stage.name));
        changes.extend(
            of_stage(old, stage)
                .into_iter()
                .map(|what| change(Some(&stage.name), what)),
        );
    }
    let Some(phase) = status.phase else { return changes };
    let reason = status.reason.clone().unwrap_or_default();
    let same = before.is_some_and(|before| before.phase == Some(phase) && before.reason == status.reason);
    if !same {
        let message = explanation(current, &reason);
        changes.push(change(
            status.active_stage.as_deref(),
            What::Phase { phase, reason, message },
        ));
    }
    changes
}

fn of_stage(old: Option<&StageStatus>, new: &StageStatus) -> Vec<What> {
    let mut changes = Vec::new();
    let (old_state, old_clusters) =
        old.map_or((StageState::Pending, &[][..]), |old| (old.state, &old.destinations[..]));
    if old_state != new.state || old_clusters != new.destinations {
        changes.push(What::State {
            state: new.state,
            clusters: new.destinations.clone(),
        });
    }
    for check in &new.checks {
        let said = old.and_then(|old| old.checks.iter().find(|old| old.name == check.name));
        if !said.is_some_and(|said| same_answer(said, check)) {
            changes.push(What::Check {
                check: check.name.clone(),
                outcome: check.outcome,
                reason: check.reason.clone(),
                message: check.message.clone(),
                evidence: check.evidence.clone(),
                module_digest: check.module_digest.clone(),
            });
        }
    }
    if let Some(message) = &new.message
        && old.and_then(|old| old.message.as_ref()) != Some(message)
    {
        changes.push(What::Note {
            message: message.clone(),
        });
    }
    let is_new = |name: &&String| !old.is_some_and(|old| old.unproven.contains(name));
    let unproven: Vec<&str> = new.unproven.iter().filter(is_new).map(String::as_str).collect();
    // Of a placement that is gone it stays on record.
    if !unproven.is_empty() && new.binding_policy.is_some() {
        let message = format!("may be newer than admitted: {}", unproven.join(", "));
        changes.push(What::Note { message });
    }
    changes
}

/// Times and digests of evidence move without anything new to tell.
fn same_answer(old: &CheckStatus, new: &CheckStatus) -> bool {
    (old.outcome, &old.reason, &old.message) == (new.outcome, &new.reason, &new.message)
        && (&old.evidence, &old.module_digest) == (&new.evidence, &new.module_digest)
}

/// The text that goes with a policy's reason word.
pub(super) fn explanation(policy: &StagedBindingPolicy, reason: &str) -> String {
    let Some(status) = &policy.status else {
        return String::new();
    };
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
