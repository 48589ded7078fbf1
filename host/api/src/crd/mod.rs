//! CustomResourceDefinitions: ours as they are installed, and stand-ins of the foreign ones for the playground.
//!
//! On a real cluster only [`ours`] is ever applied; KubeStellar and its inventory bring their own.

mod kubestellar;
mod openyurt;

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::workloads::YurtAppDaemon;
use crate::{SimulatedCluster, SimulatedNode, StagedBindingPolicy};

/// The definitions this project installs on a cluster.
pub fn ours() -> Vec<CustomResourceDefinition> {
    vec![labelled(refusing_nulls(StagedBindingPolicy::crd()))]
}

/// The definitions of the workload controllers, which are installed in clusters that run workloads.
pub fn workloads() -> Vec<CustomResourceDefinition> {
    vec![labelled(naming_stages_of_pools(refusing_nulls(YurtAppDaemon::crd())))]
}

/// OpenYurt's definition of NodePool as if it were served in this one version, faithful in what this project reads.
pub fn node_pools(version: &'static str) -> CustomResourceDefinition {
    openyurt::node_pool(version)
}

/// The definitions that only the playground serves.
pub fn playground() -> Vec<CustomResourceDefinition> {
    vec![
        refusing_nulls(SimulatedCluster::crd()),
        refusing_nulls(SimulatedNode::crd()),
    ]
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

/// The labels that Kubernetes recommends, without `instance` and `managed-by`: whoever installs a definition knows these, and they are not
/// the same for kubectl and Helm.
fn labelled(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let labels = [
        ("name", "stagegate"),
        ("version", env!("CARGO_PKG_VERSION")),
        ("component", "definition"),
        ("part-of", "stagegate"),
    ];
    let labels = labels.map(|(name, value)| (format!("app.kubernetes.io/{name}"), value.to_owned()));
    crd.metadata.labels = Some(BTreeMap::from(labels));
    crd
}

/// Removes `nullable`, which the schema derive puts on every optional field: a stored null would be neither absent
/// (`has()` in a rule is true) nor a value.
fn refusing_nulls(crd: CustomResourceDefinition) -> CustomResourceDefinition {
    with_each_schema(crd, &mut |schema| {
        schema.nullable = None;
        if let Some(values) = &mut schema.enum_ {
            values.retain(|value| !value.0.is_null());
        }
    })
}

/// Lets the rules of types that stand in stages of both kinds name their fields where a YurtAppDaemon has them.
fn naming_stages_of_pools(crd: CustomResourceDefinition) -> CustomResourceDefinition {
    with_each_schema(crd, &mut |schema| {
        let rules = schema.x_kubernetes_validations.iter_mut().flatten();
        for message in rules.filter_map(|rule| rule.message.as_mut()) {
            if let Some(field) = message.strip_prefix("spec.stages.") {
                *message = format!("spec.updateStrategy.stages.{field}");
            }
        }
    })
}

fn with_each_schema(
    mut crd: CustomResourceDefinition,
    change: &mut dyn FnMut(&mut JSONSchemaProps),
) -> CustomResourceDefinition {
    let schemas = crd
        .spec
        .versions
        .iter_mut()
        .filter_map(|version| version.schema.as_mut());
    for schema in schemas.filter_map(|schema| schema.open_api_v3_schema.as_mut()) {
        walk(schema, change);
    }
    crd
}

fn walk(schema: &mut JSONSchemaProps, change: &mut dyn FnMut(&mut JSONSchemaProps)) {
    change(schema);
    for property in schema.properties.iter_mut().flat_map(BTreeMap::values_mut) {
        walk(property, change);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        walk(items, change);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        walk(values, change);
    }
}
