//! WorkStatus (KubeStellar's status add-on): the raw status of one object in one cluster, in the cluster's mailbox
//! namespace. Written by the cluster's agent, read by the `combine` controller.

use k8s_openapi::jiff::Timestamp;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Whose status it is.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "control.kubestellar.io",
    version = "v1alpha1",
    kind = "WorkStatus",
    plural = "workstatuses",
    shortname = "ws",
    shortname = "wss",
    namespaced,
    status = "ReturnedStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
pub struct WorkStatusSpec {
    /// The object in the workload space.
    #[serde(default)]
    pub source_ref: SourceRef,
}

/// An object by its names; a WorkStatus in which any but `namespace` is empty is not read.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct SourceRef {
    /// API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// API version.
    #[serde(default)]
    pub version: String,
    /// Lower-case plural.
    #[serde(default)]
    pub resource: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Empty for a cluster-scoped object.
    #[serde(default)]
    pub namespace: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
}

/// Any object: the `.status` of the object in the cluster, as it is there.
pub type ReturnedStatus = serde_json::Value;

impl WorkStatus {
    /// When the status last changed: the newest managed-fields time of an entry that owns `f:status`, whole seconds.
    ///
    /// `None` when nobody owns a status; KubeStellar shows that as the year 1.
    pub fn last_returned(&self) -> Option<Timestamp> {
        let entries = self.metadata.managed_fields.as_deref().unwrap_or_default();
        entries
            .iter()
            .filter(|entry| {
                entry
                    .fields_v1
                    .as_ref()
                    .is_some_and(|fields| fields.0.get("f:status").is_some())
            })
            .filter_map(|entry| entry.time.as_ref().map(|time| time.0))
            .max()
    }
}
