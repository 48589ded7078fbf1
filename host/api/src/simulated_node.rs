//! SimulatedNode: a node of a cluster without machines, as an object, so that its health can be edited while a rollout runs.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::SimulationRule;

/// How the node behaves. The object's name and labels are those of the Node.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "playground.community.kubestellar.io",
    version = "v1alpha1",
    kind = "SimulatedNode",
    plural = "simulatednodes",
    shortname = "simn",
    derive = "PartialEq",
    derive = "Default",
    doc = "A node of the playground; its rules say how the Pods on it behave.",
    printcolumn(name = "Unreachable", type_ = "boolean", json_path = ".spec.unreachable"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct SimulatedNodeSpec {
    /// Taints of the Node, beside those that `unreachable` adds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub taints: Vec<SimulatedTaint>,
    /// Pods are ready after this, for example `1s`; absent is at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20), regex(pattern = r"^([0-9]{1,7}(\.[0-9]{1,3})?(h|m|s|ms))+$"))]
    pub ready_after: Option<String>,
    /// How Pods behave; of several rules that match a Pod, the first counts. In the playground the rules apply to the Deployments and
    /// StatefulSets themselves, for the replicas that `nodeSelector` and tolerations allow on this node; there `status` of a rule has no
    /// effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub rules: Vec<SimulationRule>,
    /// Whether the node is unreachable: while true, the Node's condition `Ready` is Unknown, it also has the taints
    /// `node.kubernetes.io/unreachable`, Pods on it are not ready, and replicas that would run on it are not available.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreachable: bool,
}

/// A taint of a Node.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedTaint {
    /// Its key.
    #[schemars(length(max = 316))]
    pub key: String,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub value: Option<String>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[schemars(length(max = 16), regex(pattern = "^(NoSchedule|PreferNoSchedule|NoExecute)$"))]
    pub effect: String,
}
