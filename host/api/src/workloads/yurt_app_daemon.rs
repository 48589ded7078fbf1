//! YurtAppDaemon: one workload in every node pool that a selector matches, as OpenYurt proposed it.
//!
//! This file holds what a user writes, the rules that refuse what could never work, and the status that the controller writes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::bounds;
use crate::gate::Gate;
use crate::staged_status::{CheckStatus, DateTime, Phase, StageState};

/// Which pools there are to be a workload in, and what it is made from.
#[allow(clippy::duplicated_attributes, reason = "several columns have one type")]
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "apps.openyurt.io",
    version = "v1alpha1",
    kind = "YurtAppDaemon",
    plural = "yurtappdaemons",
    shortname = "yad",
    shortname = "udd",
    category = "all",
    namespaced,
    status = "YurtAppDaemonStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Keeps one Deployment or StatefulSet in every NodePool that its selector matches.",
    printcolumn(name = "WorkloadTemplate", type_ = "string", json_path = ".status.templateType"),
    printcolumn(name = "Pools", type_ = "integer", json_path = ".status.totalWorkloads"),
    printcolumn(name = "Updated", type_ = "integer", json_path = ".status.updatedWorkloads"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyWorkloads"),
    printcolumn(name = "Stage", type_ = "string", json_path = ".status.activeStage"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Message",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"Ready\")].message"
    )
)]
#[x_kube(
    validation = Rule::new("has(self.selector.matchLabels) && size(self.selector.matchLabels) > 0 || \
        has(self.selector.matchExpressions) && size(self.selector.matchExpressions) > 0")
        .message("spec.selector: must not be empty; give it the labels of the template"),
    validation = Rule::new("self.selector == oldSelf.selector")
        .message("spec.selector: cannot be changed; create another YurtAppDaemon"),
    validation = Rule::new(
        "has(self.workloadTemplate.deploymentTemplate) == has(oldSelf.workloadTemplate.deploymentTemplate)"
    )
    .message("spec.workloadTemplate: the kind cannot be changed; create another YurtAppDaemon"),
    validation = Rule::new(
        "!has(self.selector.matchLabels) || self.selector.matchLabels.all(k, \
         [self.workloadTemplate].filter(w, has(w.deploymentTemplate)).all(w, has(w.deploymentTemplate.metadata) && \
         has(w.deploymentTemplate.metadata.labels) && k in w.deploymentTemplate.metadata.labels && \
         w.deploymentTemplate.metadata.labels[k] == self.selector.matchLabels[k]))"
    )
    .message("spec.workloadTemplate.deploymentTemplate.metadata.labels: spec.selector must match them"),
    validation = Rule::new(
        "!has(self.selector.matchLabels) || self.selector.matchLabels.all(k, \
         [self.workloadTemplate].filter(w, has(w.statefulSetTemplate)).all(w, has(w.statefulSetTemplate.metadata) && \
         has(w.statefulSetTemplate.metadata.labels) && k in w.statefulSetTemplate.metadata.labels && \
         w.statefulSetTemplate.metadata.labels[k] == self.selector.matchLabels[k]))"
    )
    .message("spec.workloadTemplate.statefulSetTemplate.metadata.labels: spec.selector must match them"),
    validation = Rule::new(
        "!has(self.selector.matchLabels) || self.selector.matchLabels.all(k, \
         [self.workloadTemplate].filter(w, has(w.deploymentTemplate)).all(w, has(w.deploymentTemplate.spec.template.metadata) && \
         has(w.deploymentTemplate.spec.template.metadata.labels) && k in w.deploymentTemplate.spec.template.metadata.labels && \
         w.deploymentTemplate.spec.template.metadata.labels[k] == self.selector.matchLabels[k]))"
    )
    .message("spec.workloadTemplate.deploymentTemplate.spec.template.metadata.labels: spec.selector must match them"),
    validation = Rule::new(
        "!has(self.selector.matchLabels) || self.selector.matchLabels.all(k, \
         [self.workloadTemplate].filter(w, has(w.statefulSetTemplate)).all(w, has(w.statefulSetTemplate.spec.template.metadata) && \
         has(w.statefulSetTemplate.spec.template.metadata.labels) && k in w.statefulSetTemplate.spec.template.metadata.labels && \
         w.statefulSetTemplate.spec.template.metadata.labels[k] == self.selector.matchLabels[k]))"
    )
    .message("spec.workloadTemplate.statefulSetTemplate.spec.template.metadata.labels: spec.selector must match them"),
    validation = Rule::new("self.workloadTemplate.?statefulSetTemplate.?spec.?updateStrategy.?rollingUpdate.?partition.orValue(0) == 0")
        .message("spec.workloadTemplate.statefulSetTemplate.spec.updateStrategy.rollingUpdate.partition: is not supported; remove it")
)]
pub struct YurtAppDaemonSpec {
    /// Labels of the workloads, which the template has, too. Cannot be changed.
    #[schemars(schema_with = "bounds::label_selector")]
    pub selector: LabelSelector,
    /// What the workload of each pool is made from: exactly one member. Its kind cannot be changed.
    pub workload_template: WorkloadTemplate,
    /// The NodePools by their labels. An empty one matches all pools.
    #[serde(rename = "nodepoolSelector")]
    #[schemars(schema_with = "bounds::label_selector")]
    pub nodepool_selector: LabelSelector,
    /// How many ControllerRevisions are kept that no workload was made from. Absent: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub revision_history_limit: Option<i32>,
    /// How a new template reaches the pools. Absent: all at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
}

/// How a new template reaches the pools.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// If true, no pool changes its revision; all else goes on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Groups of pools in the order in which they are updated, at most 32. A pool belongs to the first stage that selects it; those that no
    /// stage selects come last, all at once. A stage begins when every pool of the one before runs the new revision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = Rule::new("self.all(s, self.exists_one(t, t.name == s.name))")
        .message("spec.updateStrategy.stages: stage names must be unique; rename one of the stages"))]
    pub stages: Vec<PoolStage>,
}

/// One group of pools.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolStage {
    /// A DNS label, unique in the YurtAppDaemon.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// The pools by their labels. An empty one selects all.
    #[serde(rename = "nodepoolSelector")]
    #[schemars(schema_with = "bounds::label_selector")]
    pub nodepool_selector: LabelSelector,
    /// In how many pools of the stage the workload may be updated and not rolled out yet: a number from 1, or a percentage of the stage's
    /// pools, rounded down to at least one. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "concurrency")]
    #[x_kube(validation = Rule::new("type(self) == int ? int(self) >= 1 : string(self).matches('^([1-9][0-9]?|100)%$')")
        .message("spec.updateStrategy.stages.maxConcurrent: must be a number from 1 or a percentage from 1% to 100%"))]
    pub max_concurrent: Option<IntOrString>,
    /// CEL over the pools of the stage whose workload is of the new revision: must be true for the stage to pass. Before another pool of
    /// the stage is updated, it must be true for those that were. For example `pools.all(p, p.available == p.replicas)`.
    ///
    /// - `pools`: for each such pool `name`, `labels` (a map), the integers `replicas`, `updated`, `ready`, `available` and
    ///   `generation` of the workload's status, `healthy` (whether it is rolled out), and `message`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub condition: Option<String>,
    /// Components that evaluate the stage in addition to its condition, in this order. All must pass; before another pool of the stage is
    /// updated, all must pass for those that were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(validation = Rule::new("self.all(g, self.exists_one(h, h.name == g.name))")
        .message("spec.updateStrategy.stages.gates: gate names must be unique in a stage; rename one of the gates"))]
    pub gates: Vec<Gate>,
    /// How long, once every pool of the stage is updated, everything must hold without a break, for example `10m`: 1s to 720h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20), regex(pattern = r"^([0-9]{1,7}(\.[0-9]{1,3})?(h|m|s|ms))+$"))]
    #[x_kube(validation = Rule::new("duration(self) >= duration('1s') && duration(self) <= duration('720h')")
        .message("spec.updateStrategy.stages.soak: must be a time from 1s to 720h, for example 10m or 1h30m"))]
    pub soak: Option<String>,
}

fn concurrency(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-int-or-string": true, "maxLength": 8})
}

/// A workload with everything but its name, its pool and what follows from them.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.deploymentTemplate) != has(self.statefulSetTemplate)")
    .message("spec.workloadTemplate: needs exactly one of deploymentTemplate and statefulSetTemplate"))]
pub struct WorkloadTemplate {
    /// `metadata` and `spec` of a Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "template")]
    pub deployment_template: Option<Map<String, Value>>,
    /// `metadata` and `spec` of a StatefulSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "template")]
    pub stateful_set_template: Option<Map<String, Value>>,
}

impl WorkloadTemplate {
    /// The kind, and what is to be in each pool. `None`: no template, or two; the definition refuses both.
    pub fn chosen(&self) -> Option<(TemplateType, &Map<String, Value>)> {
        match (&self.deployment_template, &self.stateful_set_template) {
            (Some(template), None) => Some((TemplateType::Deployment, template)),
            (None, Some(template)) => Some((TemplateType::StatefulSet, template)),
            _ => None,
        }
    }
}

/// What the controller last saw and did.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct YurtAppDaemonStatus {
    /// The generation of the YurtAppDaemon that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How often the name of a new ControllerRevision was taken by other data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// The ControllerRevision that all pools had when they had last settled.
    #[serde(default)]
    #[schemars(length(max = 253))]
    pub current_revision: String,
    /// The ControllerRevision of the template as it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub update_revision: Option<String>,
    /// The kind of the workloads.
    #[serde(default)]
    pub template_type: Option<TemplateType>,
    /// The stage whose pools are being updated. Absent when all have been, and where there are no stages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub active_stage: Option<String>,
    /// What is known of each stage, for the update revision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub stages: Vec<PoolStageStatus>,
    /// Where the update stands: Progressing, Holding, Paused, Completed, Failed, or Stalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Why, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub reason: Option<String>,
    /// How many pools match.
    #[serde(default)]
    pub total_workloads: i32,
    /// In how many of them the workload is of the update revision and rolled out.
    #[serde(default)]
    pub updated_workloads: i32,
    /// In how many of them every replica is ready.
    #[serde(default)]
    pub ready_workloads: i32,
    /// The names of the matching pools, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5000), inner(length(max = 253)))]
    pub nodepools: Vec<String>,
    /// The workloads, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5000))]
    pub workload_summary: Vec<WorkloadSummary>,
    /// WorkLoadProvisioned, WorkLoadUpdated and WorkLoadFailure as the proposal has them; Ready, Reconciling and Stalled as kstatus reads
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "bounds::conditions")]
    pub conditions: Vec<Condition>,
}

/// What is known of one stage.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolStageStatus {
    /// The stage's name.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Where the stage stands.
    ///
    /// - Pending: its turn has not come.
    /// - Active: its pools are being updated and evaluated.
    /// - Passed: every pool is updated, and every check has passed.
    /// - Outdated: never the state of a stage of pools.
    /// - Failed: a gate has said that this revision will never pass.
    pub state: StageState,
    /// How many pools it has.
    pub pools: i32,
    /// In how many of them the workload is of the update revision and rolled out.
    pub updated: i32,
    /// Since when every pool is updated and everything passes without a break.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    pub passing_since: Option<Time>,
    /// The last answer of each check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub checks: Vec<CheckStatus>,
}

/// The kind of the workloads.
///
/// - Deployment: `spec.workloadTemplate.deploymentTemplate` is given.
/// - StatefulSet: `spec.workloadTemplate.statefulSetTemplate` is given.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum TemplateType {
    /// `apps/v1` Deployment.
    Deployment,
    /// `apps/v1` StatefulSet.
    StatefulSet,
}

impl TemplateType {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Deployment, Self::StatefulSet];

    /// As manifests have it.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
        }
    }

    /// Lower-case plural.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Deployment => "deployments",
            Self::StatefulSet => "statefulsets",
        }
    }
}

/// How one workload does.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadSummary {
    /// Its condition `Available`, or `Unknown`; for a StatefulSet whether every replica is available.
    #[schemars(length(max = 16))]
    pub available_condition: String,
    /// Ready replicas.
    pub ready_replicas: i32,
    /// Replicas there are.
    pub replicas: i32,
    /// Its name.
    #[schemars(length(max = 253))]
    pub workload_name: String,
}

/// A template with the few fields that rules look at; all others are kept as they are.
fn template(_: &mut SchemaGenerator) -> Schema {
    let labels = |of: &str| {
        json_schema!({
            "description": format!("Labels of {of}; `spec.selector` must match them."),
            "type": "object",
            "maxProperties": 64,
            "additionalProperties": {"type": "string", "maxLength": 63},
        })
    };
    let metadata = json_schema!({
        "description": "Labels and annotations of each workload.",
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "labels": labels("each workload"),
            "annotations": {
                "description": "Annotations of each workload.",
                "type": "object",
                "additionalProperties": {"type": "string"},
            },
        },
    });
    let update_strategy = json_schema!({
        "description": "Of a StatefulSet: how it replaces its Pods when the template changes.",
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "rollingUpdate": {
                "description": "How Pods are replaced one after the other.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "partition": {
                        "description": "Pods with a lower number keep the earlier template.",
                        "type": "integer",
                        "format": "int32",
                    },
                },
            },
        },
    });
    let pods = json_schema!({
        "description": "The template of the Pods, without what follows from the pool.",
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "metadata": {
                "description": "Labels and annotations of each Pod.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"labels": labels("each Pod")},
            },
        },
    });
    json_schema!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "metadata": metadata,
            "spec": {
                "description": "The spec of each workload, without its selector.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "required": ["template"],
                "properties": {
                    "replicas": {
                        "description": "How many Pods the workload has in each pool. Absent: 1.",
                        "type": "integer",
                        "format": "int32",
                        "minimum": 0,
                    },
                    "updateStrategy": update_strategy,
                    "template": pods,
                },
            },
        },
    })
}
