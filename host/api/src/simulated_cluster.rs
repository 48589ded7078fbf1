//! SimulatedCluster: a cluster of the playground, as an object, so that its health can be edited while a rollout runs.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::SimulationRule;

/// How the cluster behaves. The object's name and labels are those of the inventory entry.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "playground.community.kubestellar.io",
    version = "v1alpha1",
    kind = "SimulatedCluster",
    plural = "simulatedclusters",
    shortname = "simc",
    derive = "PartialEq",
    derive = "Default",
    doc = "A cluster of the playground; its rules say how the workload in it behaves.",
    printcolumn(name = "Unreachable", type_ = "boolean", json_path = ".spec.unreachable"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct SimulatedClusterSpec {
    /// Workloads become available after this, for example `1s`; absent is at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20), regex(pattern = r"^([0-9]{1,7}(\.[0-9]{1,3})?(h|m|s|ms))+$"))]
    pub ready_after: Option<String>,
    /// How objects behave; of several rules that match an object, the first counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub rules: Vec<SimulationRule>,
    /// Whether the cluster is unreachable: while true, nothing is applied in it and it reports nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreachable: bool,
}
