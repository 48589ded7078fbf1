//! A Deployment or StatefulSet as far as the workload controllers look at one. Must not judge.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use kube::Resource;
use kube::core::{DynamicResourceScope, ObjectMeta};
use serde::{Deserialize, Serialize};

use super::TemplateType;
use crate::evidence::ReportedConditions;
use crate::{EvidenceRow, Reported};

/// What is read of a workload. Its API is `apps/v1`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(from = "Stored")]
pub struct WorkloadView {
    /// As the API server has it.
    pub metadata: ObjectMeta,
    /// Of its spec what is put back when it was changed.
    pub spec: WorkloadSpecView,
    /// Of its status what tells whether it is rolled out.
    pub status: WorkloadStatusView,
    /// When its status was last written, in seconds since 1970-01-01T00:00:00Z, by what the API server noted of its fields. `None`: it
    /// noted nothing.
    #[serde(skip)]
    pub reported_at: Option<i64>,
}

/// The same as it is stored.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Stored {
    metadata: ObjectMeta,
    spec: WorkloadSpecView,
    status: WorkloadStatusView,
}

impl From<Stored> for WorkloadView {
    fn from(stored: Stored) -> Self {
        let fields = stored.metadata.managed_fields.iter().flatten();
        let of_status = fields.filter(|entry| entry.subresource.as_deref() == Some("status"));
        let times = of_status.filter_map(|entry| entry.time.as_ref());
        Self {
            reported_at: times.map(|time| time.0.as_second()).max(),
            metadata: stored.metadata,
            spec: stored.spec,
            status: stored.status,
        }
    }
}

/// Part of a workload's spec.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadSpecView {
    /// `None`: the API server's default, 1.
    pub replicas: Option<i64>,
    /// Of its Pods; it cannot be changed.
    pub selector: SelectorView,
    /// Of its Pods.
    pub template: PodTemplateView,
}

/// Part of a workload's selector.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SelectorView {
    /// By key.
    pub match_labels: BTreeMap<String, String>,
}

/// Part of a Pod template.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodTemplateView {
    /// Only its labels are read.
    pub metadata: LabelsView,
    /// What decides where Pods run, and what.
    pub spec: PodSpecView,
}

/// Part of an object's metadata.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelsView {
    /// By key.
    pub labels: BTreeMap<String, String>,
}

/// Part of a Pod's spec.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpecView {
    /// Labels that a node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Taints that the Pod bears.
    pub tolerations: Vec<Toleration>,
    /// The containers.
    pub containers: Vec<ContainerView>,
    /// Those that run before the containers.
    pub init_containers: Vec<ContainerView>,
}

/// Part of a container.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerView {
    /// Unique in its Pod.
    pub name: String,
    /// What it runs.
    pub image: Option<String>,
}

/// Part of a workload's status.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadStatusView {
    /// The generation that its controller has seen.
    pub observed_generation: Option<i64>,
    /// Replicas there are.
    pub replicas: Option<i64>,
    /// Replicas of the present Pod template.
    pub updated_replicas: Option<i64>,
    /// Replicas that are ready.
    pub ready_replicas: Option<i64>,
    /// Replicas that have been ready for long enough.
    pub available_replicas: Option<i64>,
    /// As its controller wrote them.
    pub conditions: Vec<ConditionView>,
}

/// Part of a condition.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConditionView {
    /// For example `Available`.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word.
    pub reason: Option<String>,
}

impl WorkloadView {
    /// Its status as a row of evidence in the pool of this name. A workload has a status as soon as its controller has seen it.
    pub fn row(&self, pool: &str) -> EvidenceRow {
        let status = &self.status;
        let conditions = status.conditions.iter();
        EvidenceRow {
            cluster: pool.into(),
            at: self
                .reported_at
                .map_or(Reported::WithoutStatus, |seconds| Reported::At { seconds }),
            r#gen: status
                .observed_generation
                .map_or_else(String::new, |generation| generation.to_string()),
            ready: status.ready_replicas,
            available: status.available_replicas,
            desired: self.spec.replicas,
            total: status.replicas,
            updated: status.updated_replicas,
            phase: None,
            conditions: ReportedConditions::of(
                conditions.map(|it| (it.r#type.as_str(), it.status.as_str(), it.reason.as_deref())),
            ),
        }
    }

    /// The uid of the object that controls it.
    pub fn controller_uid(&self) -> Option<&str> {
        let owners = self.metadata.owner_references.iter().flatten();
        let mut controllers = owners.filter(|owner| owner.controller == Some(true));
        controllers.next().map(|owner| owner.uid.as_str())
    }

    /// Whether two states of it are alike in all that is looked at.
    pub fn is_like(&self, other: &Self) -> bool {
        let seen = |it: &Self| {
            let of = &it.metadata;
            let owners = of.owner_references.clone();
            (of.uid.clone(), of.generation, of.deletion_timestamp.clone(), owners)
        };
        self.metadata.labels == other.metadata.labels
            && self.metadata.annotations == other.metadata.annotations
            && seen(self) == seen(other)
            && self.spec == other.spec
            && self.status == other.status
    }
}

impl Resource for WorkloadView {
    type DynamicType = TemplateType;
    type Scope = DynamicResourceScope;

    fn kind(of: &TemplateType) -> Cow<'_, str> {
        of.kind().into()
    }

    fn group(_: &TemplateType) -> Cow<'_, str> {
        "apps".into()
    }

    fn version(_: &TemplateType) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural(of: &TemplateType) -> Cow<'_, str> {
        of.plural().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
