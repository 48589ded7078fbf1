//! CustomResourceDefinitions: ours as they are installed, and stand-ins of the foreign ones for the playground.
//!
//! On a real cluster only [`ours`] is ever applied; KubeStellar and its inventory bring their own.

mod kubestellar;
mod openyurt;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};
use kube::CustomResourceExt;

use crate::workloads::YurtAppDaemon;
use crate::{SimulatedCluster, StagedBindingPolicy};

/// The definitions this project installs on a cluster.
pub fn ours() -> Vec<CustomResourceDefinition> {
    vec![refusing_nulls(StagedBindingPolicy::crd())]
}

/// The definitions of the workload controllers, which are installed in clusters that run workloads.
pub fn workloads() -> Vec<CustomResourceDefinition> {
    vec![refusing_nulls(YurtAppDaemon::crd())]
}

/// OpenYurt's definition of NodePool as if it were served in this one version, faithful in what this project reads.
pub fn node_pools(version: &'static str) -> CustomResourceDefinition {
    openyurt::node_pool(version)
}

/// The definitions that only the playground serves.
pub fn playground() -> Vec<CustomResourceDefinition> {
    vec![refusing_nulls(SimulatedCluster::crd())]
}

/// KubeStellar's and the inventory's definitions, faithful in what a client can notice.
pub fn foreign() -> Vec<CustomResourceDefinition> {
    kubestellar::all()
}

/// All that the playground's API server serves beside built-in kinds.
pub fn all_for_playground() -> Vec<CustomResourceDefinition> {
    [
        ours(),
        workloads(),
        playground(),
        foreign(),
        vec![node_pools("v1beta2")],
    ]
    .concat()
}

/// Removes `nullable`, which the schema derive puts on every optional field: a stored null would be neither absent
/// (`has()` in a rule is true) nor a value.
fn refusing_nulls(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        if let Some(schema) = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut())
        {
            remove_nullable(schema);
        }
    }
    crd
}

fn remove_nullable(schema: &mut JSONSchemaProps) {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
    };
    schema.nullable = None;
    if let Some(values) = &mut schema.enum_ {
        values.retain(|value| !value.0.is_null());
    }
    for property in schema
        .properties
        .iter_mut()
        .flat_map(|properties| properties.values_mut())
    {
        remove_nullable(property);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        remove_nullable(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        remove_nullable(values);
    }
}
