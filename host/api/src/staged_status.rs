//! The status of a StagedBindingPolicy: what the controller knows about each stage, and what it compares evidence with later.
//!
//! Times, generations and destinations recorded here survive a restart, so every field is part of a decision or shown
//! to a user. Nothing of a workload object's content may be copied here.

use std::borrow::Cow;
use std::mem;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::bounds;
use crate::object_status::ObjectStatus;

/// Most characters of a message in status; writers cut what is longer.
pub const MAX_MESSAGE_CHARS: usize = 1024;
/// Most destinations, and most objects, recorded for a stage.
pub const MAX_RECORDED: usize = 1024;
/// Most entries of `notEvaluated`; the last may say how many more there are.
pub const MAX_NOT_EVALUATED: usize = 64;

/// Most entries of `unproven`.
pub const MAX_UNPROVEN: usize = 64;

/// Most reasons of Events recorded for a stage. A reason that does not fit is reported at each change to it.
pub const MAX_EVENT_REASONS: usize = 64;

/// Most pieces of evidence recorded of a gate, and most characters of a piece's name and value; writers cut the rest.
pub const MAX_PIECES: usize = 16;
/// Most characters of the name of a piece of evidence.
pub const MAX_PIECE_NAME_CHARS: usize = 64;
/// Most characters of its value.
pub const MAX_PIECE_VALUE_CHARS: usize = 128;

/// What the controller last saw and decided. Stored with what it only compares evidence with behind the rest, as `tracking`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(from = "StoredStatus", into = "StoredStatus")]
pub struct StagedBindingPolicyStatus {
    /// As in [`StoredStatus`].
    pub observed_generation: Option<i64>,
    /// As in [`StoredStatus`].
    pub active_stage: Option<String>,
    /// As in [`StoredStatus`].
    pub clusters: Option<String>,
    /// As in [`StoredStatus`].
    pub phase: Option<Phase>,
    /// As in [`StoredStatus`].
    pub reason: Option<String>,
    /// As in [`StoredStatus`].
    pub conditions: Vec<Condition>,
    /// One record for each stage, with what `tracking` has of it.
    pub stages: Vec<StageStatus>,
}

/// What the controller last saw and decided, as the API server has it.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredStatus {
    /// The generation of the policy that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The stage that is being evaluated, or the last one when all are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub active_stage: Option<String>,
    /// In how many clusters of the active stage nothing is missing, of all its clusters, such as `3/4`. A cluster counts when it has
    /// reported on every object that is checked, with every update acknowledged, and every one is healthy, unless the stage has
    /// `health: Ignored`. Absent before the set of clusters is accepted and, after completion, when evidence is missing or health is not
    /// checked. A change of this count alone is written every ten seconds at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub clusters: Option<String>,
    /// Where the rollout stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The first missing proof, or why the phase is what it is, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub reason: Option<String>,
    /// Ready, Reconciling and Stalled as kstatus reads them; Accepted, Progressing and Completed; and, only while something other than the
    /// controller writes this status as well, Contested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "bounds::conditions")]
    pub conditions: Vec<Condition>,
    /// One record for each stage that has been reached or is in the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub stages: Vec<StageStatus>,
    /// What the controller compares later evidence with, for each stage of which there is something. It is not meant for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub tracking: Vec<StageTracking>,
}

/// What the controller compares later evidence of one stage with.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StageTracking {
    /// The name of a stage in `stages`.
    #[schemars(length(max = 63))]
    pub stage: String,
    /// When an object without `metadata.generation` was last edited: settling and soaking start from there again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    pub unsettled_since: Option<Time>,
    /// The clusters that the Binding has named since the placement was opened. Kept only until a first set is accepted: a cluster that is
    /// named later may have missed an update.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), inner(length(max = 253)))]
    pub named_clusters: Vec<String>,
    /// The bound objects, with what later evidence is compared with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    pub objects: Vec<ObjectStatus>,
    /// Reasons that an Event was written for while this stage was active, in this attempt and generation of the policy: none
    /// of them is reported again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 64)))]
    pub event_reasons: Vec<String>,
    /// With `updates: Staged`: what is known of the versions of the stage.
    #[serde(default, skip_serializing_if = "HoldTracking::is_empty")]
    pub hold: HoldTracking,
}

/// What is known of the versions that a held stage has.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HoldTracking {
    /// The generation that the stage's Binding had at `heldSince`. Another one may have brought newer versions to clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// No transport had taken any Binding of the policy by then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_untaken: bool,
    /// A digest of the versions that the Binding named last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub named: Option<String>,
    /// A digest of the list of versions that was admitted last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub admitted: Option<String>,
    /// When that list was admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    pub admitted_at: Option<Time>,
    /// Since when a CombinedStatus is missing, although the stage has what is admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    pub unreported_since: Option<Time>,
    /// When KubeStellar was last made to write missing CombinedStatuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    pub repaired_at: Option<Time>,
}

impl HoldTracking {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl JsonSchema for StagedBindingPolicyStatus {
    fn inline_schema() -> bool {
        StoredStatus::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        StoredStatus::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        StoredStatus::json_schema(generator)
    }
}

impl From<StoredStatus> for StagedBindingPolicyStatus {
    fn from(stored: StoredStatus) -> Self {
        let mut stages = stored.stages;
        for tracking in stored.tracking {
            // One without a stage was not written by the controller: it is about nothing.
            if let Some(stage) = stages.iter_mut().find(|stage| stage.name == tracking.stage) {
                stage.unsettled_since = tracking.unsettled_since;
                stage.named_clusters = tracking.named_clusters;
                stage.objects = tracking.objects;
                stage.event_reasons = tracking.event_reasons;
                stage.hold = tracking.hold;
            }
        }
        Self {
            observed_generation: stored.observed_generation,
            active_stage: stored.active_stage,
            clusters: stored.clusters,
            phase: stored.phase,
            reason: stored.reason,
            conditions: stored.conditions,
            stages,
        }
    }
}

impl From<StagedBindingPolicyStatus> for StoredStatus {
    fn from(status: StagedBindingPolicyStatus) -> Self {
        let mut stages = status.stages;
        let tracking = stages.iter_mut().map(StageTracking::take_from);
        Self {
            observed_generation: status.observed_generation,
            active_stage: status.active_stage,
            clusters: status.clusters,
            phase: status.phase,
            reason: status.reason,
            conditions: status.conditions,
            tracking: tracking.filter(|tracking| !tracking.is_empty()).collect(),
            stages,
        }
    }
}

impl StageTracking {
    fn take_from(stage: &mut StageStatus) -> Self {
        Self {
            stage: stage.name.clone(),
            unsettled_since: stage.unsettled_since.take(),
            named_clusters: mem::take(&mut stage.named_clusters),
            objects: mem::take(&mut stage.objects),
            event_reasons: mem::take(&mut stage.event_reasons),
            hold: mem::take(&mut stage.hold),
        }
    }

    fn is_empty(&self) -> bool {
        self.unsettled_since.is_none()
            && self.named_clusters.is_empty()
            && self.objects.is_empty()
            && self.event_reasons.is_empty()
            && self.hold.is_empty()
    }
}

/// Where the rollout stands.
///
/// - Progressing: evidence is missing, or the next step is under way.
/// - Holding: the evidence is complete and a check says no.
/// - Paused: `spec.paused` is true.
/// - Completed: the last stage has passed and serves its clusters.
/// - Failed: a gate has said that this attempt will never pass; a person decides what to do.
/// - Stalled: a person must correct something first; the `Stalled` condition says what.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Phase {
    /// A proof is missing.
    Progressing,
    /// The evidence is complete and a check says no.
    Holding,
    /// The user has paused it.
    Paused,
    /// The last stage is served and its checks have passed.
    Completed,
    /// A stage has failed; nothing moves without a human.
    Failed,
    /// A human must correct something before the rollout goes on; the `Stalled` condition says what.
    Stalled,
}

impl Phase {
    /// As status has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Progressing => "Progressing",
            Self::Holding => "Holding",
            Self::Paused => "Paused",
            Self::Completed => "Completed",
            Self::Failed => "Failed",
            Self::Stalled => "Stalled",
        }
    }
}

/// What is known about one stage.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StageStatus {
    /// The stage's name.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Where the stage stands.
    ///
    /// - Pending: its turn has not come.
    /// - Active: it is placed and being evaluated.
    /// - Passed: every check has passed on complete evidence.
    /// - Outdated: it is still placed at an older revision; its clusters get the current one when its turn comes.
    /// - Failed: a gate has said that this attempt will never pass; it stays placed.
    pub state: StageState,
    /// The revision that this record is about: a digest of the policy's `downsync` and, with `updates: Staged`, of the versions of the
    /// objects. For a stage that is no longer placed and has not passed, it is the revision at which it was last placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub revision: Option<String>,
    /// How often the placement of this revision was opened or its selectors changed; old verdicts do not count for a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// When this attempt was first seen placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    pub placed_at: Option<Time>,
    /// When the placement was first seen open. A change of its clauses or clusters in place leaves it as it is, unlike placedAt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    pub opened_at: Option<Time>,
    /// When the Binding's set of objects and destinations was last accepted as complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    pub settled_at: Option<Time>,
    /// As in [`StageTracking`].
    #[serde(skip)]
    #[schemars(skip)]
    pub unsettled_since: Option<Time>,
    /// Since when everything passes without a break.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    pub passing_since: Option<Time>,
    /// When the stage passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    pub passed_at: Option<Time>,
    /// When the rollout of this revision was completed with this stage as the last one: stages that are appended or moved behind it
    /// leave it placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    pub completed_at: Option<Time>,
    /// The stage's BindingPolicy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding_policy: Option<BindingPolicyRef>,
    /// The clusters, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), inner(length(max = 253)))]
    pub destinations: Vec<String>,
    /// As in [`StageTracking`].
    #[serde(skip)]
    #[schemars(skip)]
    pub named_clusters: Vec<String>,
    /// As in [`StageTracking`].
    #[serde(skip)]
    #[schemars(skip)]
    pub objects: Vec<ObjectStatus>,
    /// Bound objects of kinds that never return a status, as `configmaps default/settings`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 600)))]
    pub not_evaluated: Vec<String>,
    /// The last answer of each check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub checks: Vec<CheckStatus>,
    /// What a reader should know beyond the checks, for example that a hand-over is unproven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// As in [`StageTracking`].
    #[serde(skip)]
    #[schemars(skip)]
    pub event_reasons: Vec<String>,
    /// With `updates: Staged`: since when the stage's Binding has named exactly the versions that are admitted to the stage, and
    /// KubeStellar's transport, where one runs, has taken it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    pub held_since: Option<Time>,
    /// With `updates: Staged`: objects of which clusters of the stage may have got a newer version than the admitted one, as
    /// `deployments.apps shop/web`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 600)))]
    pub unproven: Vec<String>,
    /// As in [`StageTracking`].
    #[serde(skip)]
    #[schemars(skip)]
    pub hold: HoldTracking,
}

/// Where a stage stands.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum StageState {
    /// Not reached.
    #[default]
    Pending,
    /// Placed, and being evaluated.
    Active,
    /// Proven.
    Passed,
    /// Still placed as an older revision has it.
    Outdated,
    /// A gate has said that it will never pass; it stays placed.
    Failed,
}

/// A BindingPolicy, told apart from a later one of the same name.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
pub struct BindingPolicyRef {
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its uid.
    #[schemars(length(max = 64))]
    pub uid: String,
}

/// The last answer of one check.
#[derive(Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckStatus {
    /// `filter`, `evidence`, `health`, `condition`, `gate/<name>` or `soak`.
    #[schemars(length(max = 80))]
    pub name: String,
    /// What the check says. Only Pass lets a stage pass.
    ///
    /// - Pass: it holds.
    /// - Hold: the evidence is complete and it does not hold.
    /// - Unknown: evidence is missing, or the check could not be evaluated.
    /// - Fail: a gate says that this attempt will never pass.
    pub outcome: Outcome,
    /// Why, in one word.
    #[schemars(length(max = 256))]
    pub reason: String,
    /// Why, for a human.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// Digest of the check that ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub check_digest: Option<String>,
    /// Digest of the evidence it ran over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub evidence_digest: Option<String>,
    /// Digest of the gate's component that ran, as `sha256:…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub module_digest: Option<String>,
    /// What a gate's answer rests on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub evidence: Vec<EvidencePiece>,
    /// Until when a gate's pass counts; recorded while the stage soaks: a soak starts again if the pass ended before it was renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    pub valid_until: Option<Time>,
    /// When it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    pub evaluated_at: Option<Time>,
}

/// One piece of what a gate's answer rests on.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
pub struct EvidencePiece {
    /// What it is.
    #[schemars(length(max = 64))]
    pub name: String,
    /// What was found.
    #[schemars(length(max = 128))]
    pub value: String,
}

/// The answer of a check. Unknown is not pass.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Outcome {
    /// It holds.
    Pass,
    /// The evidence is complete and it does not hold.
    Hold,
    /// It could not be judged.
    Unknown,
    /// A gate says that this attempt will never pass.
    Fail,
}

/// Stands in for `Time` in schemas: a string in date-time format.
pub(crate) struct DateTime;

impl JsonSchema for DateTime {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DateTime".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "format": "date-time"})
    }
}
