//! Binding (KubeStellar's): a BindingPolicy resolved to objects and clusters by name. Read here; written only by the
//! `binding` controller. Note that core `v1` has a kind of the same name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Objects and destinations, by name.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "control.kubestellar.io",
    version = "v1alpha1",
    kind = "Binding",
    plural = "bindings",
    shortname = "bdg",
    status = "BindingStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
pub struct BindingSpec {
    /// Always written, also when empty.
    #[serde(default)]
    pub workload: Workload,
    /// Sorted by cluster; left out when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<Destination>,
}

/// The bound objects. A list-map on the server: group, resource, (namespace,) name are the key, `version` is not.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// Cluster-scoped objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_scope: Vec<BoundObject>,
    /// Objects in namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespace_scope: Vec<BoundObject>,
}

impl Workload {
    /// All bound objects, cluster-scoped ones first.
    pub fn objects(&self) -> impl Iterator<Item = &BoundObject> {
        self.cluster_scope.iter().chain(&self.namespace_scope)
    }
}

/// One bound object and how it travels; what a stage's `filter` sees as `downsyncClause`.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BoundObject {
    /// API group; empty for the core group.
    pub group: String,
    /// API version the object was seen in.
    pub version: String,
    /// Lower-case plural.
    pub resource: String,
    /// Absent for a cluster-scoped object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The object's version when last seen: a change trigger only, moved also by status and label writes.
    pub resource_version: String,
    /// Create the object in a cluster and never change it there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub create_only: bool,
    /// Sorted names of StatusCollectors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status_collectors: Vec<String>,
    /// Copy the status of the one cluster back into the object.
    #[serde(
        default,
        skip_serializing_if = "std::ops::Not::not",
        rename = "wantSingletonReportedState"
    )]
    pub want_singleton_reported_state: bool,
    /// Merge the status of several clusters back into the object.
    #[serde(
        default,
        skip_serializing_if = "std::ops::Not::not",
        rename = "wantMultiWECReportedState"
    )]
    pub want_multi_wec_reported_state: bool,
}

/// A cluster by its inventory name.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Destination {
    /// The name of the inventory object, also of the cluster's mailbox namespace.
    pub cluster_id: String,
}

/// Written by the transport (which drops the conditions) and by the status controller (which puts them back).
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BindingStatus {
    /// Only `StatusCollectorsAvailable` is ever written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation the transport has taken; 0 where none runs. It is set before anything is delivered.
    #[serde(default)]
    pub observed_generation: i64,
    /// Complaints of the transport, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}
