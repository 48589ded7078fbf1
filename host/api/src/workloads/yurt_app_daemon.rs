//! YurtAppDaemon: one workload in every node pool that a selector matches, as OpenYurt proposed it.
//!
//! This file holds what a user writes, the rules that refuse what could never work, and the status that the controller writes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::bounds;
use crate::staged_status::Phase;

/// Which pools there are to be a workload in, and what it is made from.
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
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Message",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"Ready\")].message"
    ),
    validation = Rule::new("has(self.spec.selector.matchLabels) && size(self.spec.selector.matchLabels) > 0 || \
        has(self.spec.selector.matchExpressions) && size(self.spec.selector.matchExpressions) > 0")
        .message("spec.selector: must not be empty; give it the labels of the template"),
    validation = Rule::new("self.spec.selector == oldSelf.spec.selector")
        .message("spec.selector: cannot be changed; create another YurtAppDaemon"),
    validation = Rule::new(
        "has(self.spec.workloadTemplate.deploymentTemplate) == has(oldSelf.spec.workloadTemplate.deploymentTemplate)"
    )
    .message("spec.workloadTemplate: the kind cannot be changed; create another YurtAppDaemon"),
    validation = Rule::new(
        "!has(self.spec.selector.matchLabels) || self.spec.selector.matchLabels.all(k, \
         [self.spec.workloadTemplate].filter(w, has(w.deploymentTemplate)).all(w, has(w.deploymentTemplate.metadata) && \
         has(w.deploymentTemplate.metadata.labels) && k in w.deploymentTemplate.metadata.labels && \
         w.deploymentTemplate.metadata.labels[k] == self.spec.selector.matchLabels[k]))"
    )
    .message("spec.workloadTemplate.deploymentTemplate.metadata.labels: spec.selector must match them"),
    validation = Rule::new(
        "!has(self.spec.selector.matchLabels) || self.spec.selector.matchLabels.all(k, \
         [self.spec.workloadTemplate].filter(w, has(w.statefulSetTemplate)).all(w, has(w.statefulSetTemplate.metadata) && \
         has(w.statefulSetTemplate.metadata.labels) && k in w.statefulSetTemplate.metadata.labels && \
         w.statefulSetTemplate.metadata.labels[k] == self.spec.selector.matchLabels[k]))"
    )
    .message("spec.workloadTemplate.statefulSetTemplate.metadata.labels: spec.selector must match them"),
    validation = Rule::new(
        "!has(self.spec.selector.matchLabels) || self.spec.selector.matchLabels.all(k, \
         [self.spec.workloadTemplate].filter(w, has(w.deploymentTemplate)).all(w, has(w.deploymentTemplate.spec.template.metadata) && \
         has(w.deploymentTemplate.spec.template.metadata.labels) && k in w.deploymentTemplate.spec.template.metadata.labels && \
         w.deploymentTemplate.spec.template.metadata.labels[k] == self.spec.selector.matchLabels[k]))"
    )
    .message("spec.workloadTemplate.deploymentTemplate.spec.template.metadata.labels: spec.selector must match them"),
    validation = Rule::new(
        "!has(self.spec.selector.matchLabels) || self.spec.selector.matchLabels.all(k, \
         [self.spec.workloadTemplate].filter(w, has(w.statefulSetTemplate)).all(w, has(w.statefulSetTemplate.spec.template.metadata) && \
         has(w.statefulSetTemplate.spec.template.metadata.labels) && k in w.statefulSetTemplate.spec.template.metadata.labels && \
         w.statefulSetTemplate.spec.template.metadata.labels[k] == self.spec.selector.matchLabels[k]))"
    )
    .message("spec.workloadTemplate.statefulSetTemplate.spec.template.metadata.labels: spec.selector must match them"),
    validation = Rule::new("self.spec.workloadTemplate.?statefulSetTemplate.?spec.?updateStrategy.?rollingUpdate.?partition.orValue(0) == 0")
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
    /// Where the update stands: Progressing, Completed, or Stalled.
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

/// The kind of a workload.
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
    let labels = json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": {"type": "string", "maxLength": 63},
    });
    let annotations = json_schema!({"type": "object", "additionalProperties": {"type": "string"}});
    json_schema!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "metadata": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"labels": labels, "annotations": annotations},
            },
            "spec": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "required": ["template"],
                "properties": {
                    "replicas": {"type": "integer", "format": "int32", "minimum": 0},
                    "updateStrategy": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": true,
                        "properties": {
                            "rollingUpdate": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": true,
                                "properties": {"partition": {"type": "integer", "format": "int32"}},
                            },
                        },
                    },
                    "template": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": true,
                        "properties": {
                            "metadata": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": true,
                                "properties": {"labels": labels},
                            },
                        },
                    },
                },
            },
        },
    })
}
