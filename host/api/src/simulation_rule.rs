//! How objects behave in a SimulatedCluster or on a SimulatedNode.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How some objects behave; an absent criterion matches all.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulationRule {
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
    /// Image of a container or init container of the Pod, or of the object's Pod template: the exact text, for example `web:2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub image: Option<String>,
    /// How the rollout of the object's present version goes. `Complete` (default): it is ready when `after` has passed. `Slow`: one replica
    /// after the other gets ready, each `after` later (10s where neither `after` nor `readyAfter` says more than zero). `Stuck`: the new version
    /// crash-loops and never gets ready; what ran before stays available, and a Deployment's condition `Progressing` turns False with the reason
    /// `ProgressDeadlineExceeded` after its `progressDeadlineSeconds`. `Failed`: it fails at once, without a wait for a deadline. `Flapping`: as
    /// `Complete`, then healthy and unhealthy in turns of `period`. What is played begins with the last change of the object's spec where it
    /// runs, also when the rule is edited later. A kind without a status of its own gets the conditions `Ready`, `Reconciling`
    /// and `Stalled`, except under `Complete`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub progressing: Progressing,
    /// How long each turn of `Flapping` lasts, for example `30s`; absent is 10s, less than 100ms is 100ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20), regex(pattern = r"^([0-9]{1,7}(\.[0-9]{1,3})?(h|m|s|ms))+$"))]
    pub period: Option<String>,
    /// Used instead of `readyAfter` for the objects that the rule matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20), regex(pattern = r"^([0-9]{1,7}(\.[0-9]{1,3})?(h|m|s|ms))+$"))]
    pub after: Option<String>,
    /// Merged over the status the object would report once `after` has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub status: Option<serde_json::Map<String, serde_json::Value>>,
}

/// The course of a rollout where it is simulated.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Progressing {
    /// It gets ready.
    #[default]
    Complete,
    /// One replica after the other gets ready.
    Slow,
    /// It never gets ready; what ran before stays.
    Stuck,
    /// It fails at once; what ran before stays.
    Failed,
    /// It gets ready, loses that and gets it back, again and again.
    Flapping,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
