//! StatusCollector (KubeStellar's): expressions over the status that clusters return. We own exactly one of them,
//! see [`crate::evidence`]; the schema is KubeStellar's.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// A select, or an aggregation; `filter` goes with both.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "control.kubestellar.io",
    version = "v1alpha1",
    kind = "StatusCollector",
    plural = "statuscollectors",
    shortname = "sc",
    status = "StatusCollectorStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
pub struct StatusCollectorSpec {
    /// CEL; a row stays when it is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Columns that rows are grouped by before they are combined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group_by: Vec<NamedExpression>,
    /// Columns that combine the rows of a group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub combined_fields: Vec<CombinedField>,
    /// Columns of a row for each cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub select: Vec<NamedExpression>,
    /// Required by the CRD, and never used by KubeStellar.
    #[serde(default)]
    pub limit: i64,
}

/// A column: its name and the CEL expression that gives its value.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct NamedExpression {
    /// The column's name.
    pub name: String,
    /// The expression.
    pub def: String,
}

/// A column that combines many rows into one value.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct CombinedField {
    /// The column's name.
    pub name: String,
    /// COUNT, SUM, AVG, MIN or MAX. Free text in KubeStellar's CRD.
    #[serde(rename = "type")]
    pub aggregation: String,
    /// CEL, what is combined; absent for COUNT and only there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// Written by the status controller.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusCollectorStatus {
    /// Never set by KubeStellar: stays 0.
    #[serde(default)]
    pub observed_generation: i64,
    /// Why the collector counts as absent; empty when it is valid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}
