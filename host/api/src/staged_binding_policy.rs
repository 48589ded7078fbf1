//! StagedBindingPolicy: workload that goes to one group of clusters after another, each step on proof.
//!
//! This file holds what a user writes and the rules that refuse a policy which could never work; the status that the
//! host writes is in [`crate::staged_status`]. What a schema cannot see is said by the `Accepted` condition.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds;
use crate::clause::DownsyncClause;
use crate::gate::Gate;
use crate::staged_status::StagedBindingPolicyStatus;
use crate::units::parse_soak;

/// Workload clauses and the ordered stages they are taken through.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "community.kubestellar.io",
    version = "v1alpha1",
    kind = "StagedBindingPolicy",
    plural = "stagedbindingpolicies",
    shortname = "sbp",
    category = "kubestellar",
    status = "StagedBindingPolicyStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Rolls a workload out through ordered groups of clusters; each step waits for proof from the one before.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Stage", type_ = "string", json_path = ".status.activeStage"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Clusters", type_ = "string", priority = 1, json_path = ".status.clusters"),
    printcolumn(
        name = "Message",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"Ready\")].message"
    ),
    validation = Rule::new("self.spec.stages.all(s, size(self.metadata.name) + size(s.name) <= 56)").message(
        "spec.stages: metadata.name and a stage's name together may have at most 56 characters, because the \
         BindingPolicy's name becomes a label value; shorten one of them"
    ),
    validation = Rule::new(
        "!(has(self.spec.updates) && self.spec.updates == 'Staged') || size(self.metadata.name) <= 54"
    ).message(
        "metadata.name: with updates: Staged a policy's name may have at most 54 characters, because the name of its BindingPolicy \
         `<name>.versions` becomes a label value; choose a shorter name"
    ),
    validation = Rule::new(
        "!(has(self.spec.updates) && self.spec.updates == 'Staged') || !has(self.spec.downsync) || self.spec.downsync.all(c, \
         !(has(c.wantSingletonReportedState) && c.wantSingletonReportedState) && \
         !(has(c.wantMultiWECReportedState) && c.wantMultiWECReportedState))"
    ).message(
        "spec.downsync: with updates: Staged no clause may set wantSingletonReportedState or wantMultiWECReportedState, because each \
         returned status would be a new version of the object; remove the field, or set updates: Immediate"
    )
)]
pub struct StagedBindingPolicySpec {
    /// The objects, in BindingPolicy clauses; an object that matches any clause is placed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub downsync: Vec<DownsyncClause>,
    /// What happens to the placements of the stages that have passed.
    ///
    /// - Remove (default): the workload moves; a stage's placement is removed when the next stage serves its clusters.
    /// - Keep: the workload spreads; every stage that has passed keeps it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub previous_stages: PreviousStages,
    /// How an edit of an object reaches the stages that have it already.
    ///
    /// - Immediate (default): at once, in every stage that is placed.
    /// - Staged: stage by stage. An edit is a new revision: it reaches the first stage, is evaluated there, and moves on; the other
    ///   stages keep what they have. The control plane must hold Bindings back for that; docs/updates.md says how it is installed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub updates: Updates,
    /// If true, nothing is opened, changed or removed; status is still updated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// 1 to 32 stages, in the order of the rollout.
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(
        validation = Rule::new("self.all(s, self.exists_one(t, t.name == s.name))")
            .message("spec.stages: stage names must be unique; rename one of the stages"),
        validation = Rule::new(
            "self.filter(s, has(s.health) && s.health == 'Ignored' && !(has(s.condition) && size(s.condition) > 0) && \
            !(has(s.gates) && size(s.gates) > 0) && !has(s.soak)).all(s, s.name == self[size(self) - 1].name)"
        ).message(
            "spec.stages: only the last stage may have health Ignored and neither condition nor gates nor soak, for nothing \
             would hold the workload there; give the stage health Required, a condition, a gate or a soak"
        )
    )]
    pub stages: Vec<Stage>,
}

/// What happens to a passed stage's placement.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum PreviousStages {
    /// The workload moves: the stage before is removed when the next one is served.
    #[default]
    Remove,
    /// The workload spreads: passed stages keep it.
    Keep,
}

/// How an edit of an object reaches the stages that have it already.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Updates {
    /// At once, in every stage that is placed.
    #[default]
    Immediate,
    /// Stage by stage: every stage is held at the versions that were admitted to it.
    Staged,
}

/// One group of clusters, and what has to hold there before the next one is served.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stage {
    /// A DNS label, unique in the policy.
    #[schemars(length(min = 1, max = 55), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// The clusters: any selector must match a cluster's labels. None selects no cluster; one empty selector selects all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "bounds::cluster_selectors")]
    pub cluster_selectors: Vec<LabelSelector>,
    /// Whether each object that `filter` keeps must be healthy in each cluster of the stage before the stage passes.
    ///
    /// - Required (default): yes. Rollouts of Deployments, StatefulSets and DaemonSets must be finished, Jobs complete,
    ///   PersistentVolumeClaims bound, and so on; any other kind is evaluated by its conditions Ready, Reconciling, Stalled and
    ///   Available, and is healthy without them.
    /// - Ignored: no. Only the condition, the gates and the soak hold the stage.
    #[serde(default, skip_serializing_if = "is_default")]
    pub health: StageHealth,
    /// CEL over one bound object: whether `health`, `condition` and `gates` judge it. Absent: all objects that can report a
    /// status. For example `object.resource == "deployments"`.
    ///
    /// - `object`: `group` (empty for the core group), `version`, `resource` (a plural), `namespace` (empty for a
    ///   cluster-scoped object), `name`
    /// - `downsyncClause`: the same, but `namespace` is absent for a cluster-scoped object, and `resourceVersion`,
    ///   `createOnly`, `statusCollectors` (names), `wantSingletonReportedState`, `wantMultiWECReportedState`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub filter: Option<String>,
    /// CEL over what the clusters report: must be true for every object that `filter` keeps. For example
    /// `clusters.all(c, c.available >= 2)`.
    ///
    /// - `clusters`: for each cluster of the stage `name`, the integers `replicas`, `updated`, `ready`, `available` and
    ///   `generation`, `healthy`, `message`, and the timestamp `reportedAt`
    /// - `object`: as in `filter`, and `generation`
    /// - `collectors`: a map from StatusCollector names to rows; each row is a map from column names to values
    /// - `combinedStatus`, `obj`: the CombinedStatus
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub condition: Option<String>,
    /// Components that evaluate the stage in addition to its condition, in this order. All must pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(validation = Rule::new("self.all(g, self.exists_one(h, h.name == g.name))")
        .message("spec.stages.gates: gate names must be unique in a stage; rename one of the gates"))]
    pub gates: Vec<Gate>,
    /// How long everything must hold without a break, for example `10m`: 1s to 720h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20), regex(pattern = r"^([0-9]{1,7}(\.[0-9]{1,3})?(h|m|s|ms))+$"))]
    #[x_kube(validation = Rule::new("duration(self) >= duration('1s') && duration(self) <= duration('720h')")
        .message("spec.stages.soak: must be a time from 1s to 720h, for example 10m or 1h30m"))]
    pub soak: Option<String>,
    /// What becomes of an update that a cluster has not acknowledged within two minutes.
    ///
    /// - Wait (default): the stage waits until the cluster acknowledges it.
    /// - Ignore: the status that was reported counts as it is. Fields that KubeStellar's transport strips never lead to an
    ///   acknowledgement.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unacknowledged_updates: UnacknowledgedUpdates,
}

/// Whether a stage depends on the health of its objects.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum StageHealth {
    /// Every kept object must be healthy in every cluster, by the rules of kstatus: rollouts of Deployments, StatefulSets
    /// and DaemonSets are finished, Jobs are complete, PersistentVolumeClaims are bound, and so on; any other kind is
    /// judged by its conditions Ready, Reconciling, Stalled and Available, and is healthy without them.
    #[default]
    Required,
    /// Health is not checked: only the condition, the gates and the soak hold the stage. A last stage that has neither a
    /// condition nor gates is placed and not evaluated.
    Ignored,
}

/// What becomes of an update that a cluster has not acknowledged within two minutes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum UnacknowledgedUpdates {
    /// The stage waits until the cluster acknowledges it.
    #[default]
    Wait,
    /// The status that is there counts: a cluster never acknowledges an update of fields that transport strips.
    Ignore,
}

impl Stage {
    /// The soak time. `Ok(None)` when there is none, `Err` with the text when it is not a time the CRD accepts.
    pub fn soak_time(&self) -> Result<Option<Duration>, String> {
        let Some(text) = &self.soak else { return Ok(None) };
        parse_soak(text).map(Some).ok_or_else(|| text.clone())
    }

    /// Whether anything but the next stage's turn leads out of this one.
    pub fn has_checks(&self) -> bool {
        let is_judged = self.health == StageHealth::Required || self.condition.is_some() || !self.gates.is_empty();
        is_judged || self.soak.is_some()
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
