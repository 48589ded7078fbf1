//! One clause of `downsync`, shared by BindingPolicy and StagedBindingPolicy: which objects, and how they travel.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::bounds;

/// Which workload objects to take along (all criteria must match) and how.
///
/// KubeStellar >= 0.26, all fields. A criterion that is absent or empty matches everything; the difference is kept
/// because KubeStellar refuses a clause in which no criterion is *present*.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "has(self.apiGroup) || has(self.resources) || has(self.namespaces) || has(self.namespaceSelectors) \
     || has(self.objectSelectors) || has(self.objectNames)"
).message(
    "spec.downsync: a clause needs at least one of apiGroup, resources, namespaces, namespaceSelectors, \
    objectSelectors, \
     objectNames; add the one that names your objects"
))]
pub struct DownsyncClause {
    /// API group of the objects; `""` is the core group, absent is every group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub api_group: Option<String>,
    /// Lower-case plurals, or `*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(length(max = 63)))]
    pub resources: Option<Vec<String>>,
    /// Namespaces, or `*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(max = 63)))]
    pub namespaces: Option<Vec<String>>,
    /// Any must match the labels of the object's Namespace; an empty selector also lets cluster-scoped objects through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "bounds::label_selectors")]
    pub namespace_selectors: Option<Vec<LabelSelector>>,
    /// Any must match the object's labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "bounds::label_selectors")]
    pub object_selectors: Option<Vec<LabelSelector>>,
    /// Object names, or `*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(max = 253)))]
    pub object_names: Option<Vec<String>>,
    /// Create the object in a cluster and never change it there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub create_only: bool,
    /// Names of StatusCollectors that read the returned status.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 253)))]
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
