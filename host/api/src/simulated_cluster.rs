//! SimulatedCluster: a cluster of the playground, as an object, so that its health can be edited while a rollout runs.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

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
    /// First match wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub rules: Vec<SimulatedClusterRule>,
    /// True: nothing is applied or reported any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreachable: bool,
}

/// How some objects behave; an absent criterion matches all.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedClusterRule {
    /// Kind of the object, as in its manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub kind: Option<String>,
    /// Namespace of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// Name of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// In place of `readyAfter`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20), regex(pattern = r"^([0-9]{1,7}(\.[0-9]{1,3})?(h|m|s|ms))+$"))]
    pub after: Option<String>,
    /// Merged over the status the object would report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub status: Option<serde_json::Map<String, serde_json::Value>>,
}

fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
