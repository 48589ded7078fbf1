//! What is new in a rollout, as a list of changes. Must not format them.

use serde::Serialize;
use stagegate_api::{CheckStatus, EvidencePiece, Outcome, Phase, StageState};

use super::rollout::{Place, Rollout, RolloutStage};

/// One thing that is new.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The name of the policy or YurtAppDaemon.
    pub policy: String,
    /// `None`: about the rollout as a whole, before any stage is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    #[serde(flatten)]
    pub what: What,
}

/// The stable form of a change in `-o json`: its `type`, and the members of the variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum What {
    /// Phase or reason of the whole rollout; the message belongs to the reason.
    Phase {
        phase: Phase,
        reason: String,
        message: String,
    },
    /// A stage's state, its clusters, or how many of its pools are updated.
    State {
        state: StageState,
        #[serde(flatten)]
        place: Place,
    },
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
    /// The object was deleted.
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
pub fn between(previous: Option<&Rollout>, current: &Rollout) -> Vec<Change> {
    let change = |stage: Option<&str>, what| Change {
        policy: current.name.clone(),
        stage: stage.map(str::to_owned),
        what,
    };
    if !current.versions.has_status {
        return Vec::new();
    }
    let mut changes = Vec::new();
    for stage in current.all_stages() {
        let mut before = previous.into_iter().flat_map(Rollout::all_stages);
        let old = before.find(|old| old.name == stage.name);
        changes.extend(
            of_stage(old, stage)
                .into_iter()
                .map(|what| change(Some(&stage.name), what)),
        );
    }
    let Some(phase) = current.phase else { return changes };
    let same = previous.is_some_and(|before| before.phase == Some(phase) && before.reason == current.reason);
    if !same {
        let reason = current.reason.clone().unwrap_or_default();
        let message = current.message.clone();
        changes.push(change(
            current.active_stage.as_deref(),
            What::Phase { phase, reason, message },
        ));
    }
    changes
}

fn of_stage(old: Option<&RolloutStage>, new: &RolloutStage) -> Vec<What> {
    let mut changes = Vec::new();
    let is_news = match old {
        Some(old) => (old.state, &old.place) != (new.state, &new.place),
        None => new.state != StageState::Pending || !new.place.is_untouched(),
    };
    if is_news {
        changes.push(What::State {
            state: new.state,
            place: new.place.clone(),
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
    if !unproven.is_empty() {
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
