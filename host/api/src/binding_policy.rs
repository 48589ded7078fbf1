//! BindingPolicy (KubeStellar's): which objects go to which clusters. We write these, one per stage; the schema is theirs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::clause::DownsyncClause;

/// Clusters and objects; both lists are alternatives, and an empty one selects nothing.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "control.kubestellar.io",
    version = "v1alpha1",
    kind = "BindingPolicy",
    plural = "bindingpolicies",
    shortname = "bp",
    status = "BindingPolicyStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
pub struct BindingPolicySpec {
    /// Any must match a cluster's labels; none selects no cluster (a *closed* placement), one `{}` selects all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_selectors: Vec<LabelSelector>,
    /// Any must match an object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub downsync: Vec<DownsyncClause>,
}

/// Written by the binding controller after each sync of the Binding; it says nothing about delivery.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BindingPolicyStatus {
    /// Only `StatusCollectorsAvailable` is ever written; it is copied from the Binding.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation of the BindingPolicy that a Binding was written for.
    #[serde(default)]
    pub observed_generation: i64,
    /// Complaints, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}
