//! A rollout as it is shown, whichever kind's status it comes from. Must not know a kind's status, nor format anything.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use stagegate_api::{CheckStatus, EvidencePiece, Outcome, Phase, StageState};

use super::text::says;
use super::times;
use crate::target::Kind;

/// Rollouts of one kind by name.
pub type Rollouts = BTreeMap<String, Rollout>;

/// A kind of object whose rollouts can be shown.
pub trait Rolled: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static {
    const KIND: Kind;

    /// What its spec and status say.
    fn rollout(&self) -> Rollout;
}

/// What is known of one rollout; in `-o json` as it stands here.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    #[serde(skip)]
    pub kind: Kind,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub phase: Option<Phase>,
    pub reason: Option<String>,
    /// The text that belongs to the reason.
    pub message: String,
    /// Since when it is in its phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    pub active_stage: Option<String>,
    /// `None`: the kind does not count what is updated.
    #[serde(flatten)]
    pub progress: Option<Progress>,
    /// Those of the spec, in its order.
    pub stages: Vec<RolloutStage>,
    /// Stages that status knows and the spec no longer has.
    #[serde(skip)]
    pub removed: Vec<RolloutStage>,
    #[serde(skip)]
    pub versions: Versions,
    /// Whether condition `Ready` is True.
    #[serde(skip)]
    pub is_ready: bool,
    /// Whether something other than the controller writes the status as well.
    #[serde(skip)]
    pub is_contested: bool,
    /// `None`: not known.
    #[serde(skip)]
    pub began: Option<Timestamp>,
    /// `None`: it goes on.
    #[serde(skip)]
    pub ended: Option<Timestamp>,
}

/// How many pools are updated, of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Progress {
    pub updated: i32,
    pub total: i32,
}

/// Which generation of the object status is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    pub generation: Option<i64>,
    pub observed: Option<i64>,
    pub has_status: bool,
}

/// What is known of one stage.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStage {
    pub name: String,
    pub state: StageState,
    #[serde(flatten)]
    pub place: Place,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placed_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed_at: Option<Time>,
    /// Since when everything passes without a break.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passing_since: Option<Time>,
    /// Since when it has been held at the versions that are admitted to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_since: Option<Time>,
    /// Objects of which clusters may have got a newer version than the admitted one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unproven: Vec<String>,
    #[serde(serialize_with = "summaries")]
    pub checks: Vec<CheckStatus>,
    pub not_evaluated: Vec<String>,
    pub message: Option<String>,
    /// Updates that clusters have not acknowledged, a sentence each.
    #[serde(skip)]
    pub pending: Vec<String>,
    /// Whether it was the last stage when the rollout was completed.
    #[serde(skip)]
    pub is_completed: bool,
}

/// Where a stage takes place.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Place {
    Clusters { clusters: Vec<String> },
    Pools { pools: i32, updated: i32 },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckSummary<'a> {
    check: &'a str,
    outcome: Outcome,
    reason: &'a str,
    message: &'a str,
    /// Since when it has given this very answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<&'a Time>,
    /// What a gate's answer rests on.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    evidence: &'a [EvidencePiece],
    /// The component that a gate ran, as `sha256:…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    module_digest: Option<&'a str>,
}

impl Rollout {
    /// The stages of the spec, then those that it no longer has.
    pub fn all_stages(&self) -> impl Iterator<Item = &RolloutStage> {
        self.stages.iter().chain(&self.removed)
    }

    pub fn active(&self) -> Option<&RolloutStage> {
        let active = self.active_stage.as_ref()?;
        self.all_stages().find(|stage| stage.name == *active)
    }

    /// Whether status is not about the spec as it is now.
    pub fn is_outdated(&self) -> bool {
        self.versions.observed != self.versions.generation
    }

    /// Whether the message tells what the check says.
    pub fn tells(&self, check: &CheckStatus) -> bool {
        self.reason.as_deref() == Some(&check.reason) && says(&self.message, &check.message)
    }

    /// How long ago it began; zero where that is not known.
    pub fn since_beginning(&self, now: Timestamp) -> Duration {
        self.began.map_or(Duration::ZERO, |began| times::between(began, now))
    }

    /// How long it has taken so far, or until it was completed.
    pub fn duration(&self, now: Timestamp) -> Duration {
        self.since_beginning(self.ended.unwrap_or(now))
    }
}

impl RolloutStage {
    /// One that status does not know yet.
    pub fn pending(name: &str, place: Place) -> Self {
        Self {
            name: name.to_owned(),
            state: StageState::Pending,
            place,
            placed_at: None,
            passed_at: None,
            passing_since: None,
            held_since: None,
            unproven: Vec::new(),
            checks: Vec::new(),
            not_evaluated: Vec::new(),
            message: None,
            pending: Vec::new(),
            is_completed: false,
        }
    }

    /// Whether its checks are about now.
    pub const fn is_judged(&self) -> bool {
        matches!(self.state, StageState::Active | StageState::Failed)
    }
}

impl Place {
    /// Whether nothing of the rollout is there.
    pub const fn is_untouched(&self) -> bool {
        match self {
            Self::Clusters { clusters } => clusters.is_empty(),
            Self::Pools { updated, .. } => *updated == 0,
        }
    }
}

/// The checks as `-o json` has them.
fn summaries<S: Serializer>(checks: &[CheckStatus], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(checks.iter().map(|check| CheckSummary {
        check: &check.name,
        outcome: check.outcome,
        reason: &check.reason,
        message: &check.message,
        since: check.evaluated_at.as_ref(),
        evidence: &check.evidence,
        module_digest: check.module_digest.as_deref(),
    }))
}
