//! ManagedCluster (Open Cluster Management's): one entry of the inventory. Only its name and labels are ever looked at.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// The part of the spec that its CRD requires; nothing here counts for a selection.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1",
    kind = "ManagedCluster",
    plural = "managedclusters",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
pub struct ManagedClusterSpec {
    /// Whether the hub lets the cluster's agent in.
    #[serde(default)]
    pub hub_accepts_client: bool,
}
