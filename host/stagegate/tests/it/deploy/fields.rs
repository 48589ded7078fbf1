//! Every field of what is installed is one that Kubernetes knows: a server drops others, and with them what they were for.

use std::collections::BTreeMap;

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::chart::differences;
use super::{BASE, MONITORING, Rendered, identity};

/// A kind of the Prometheus operator (`monitoring.coreos.com/v1`), with those of its fields that are used here.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Monitoring<Spec> {
    api_version: String,
    kind: String,
    metadata: ObjectMeta,
    spec: Spec,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PodMonitor {
    selector: LabelSelector,
    pod_metrics_endpoints: Vec<Endpoint>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Endpoint {
    /// The name of a container's port.
    port: String,
    path: String,
    interval: String,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct PrometheusRule {
    groups: Vec<Group>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<String>,
    rules: Vec<Rule>,
}

/// An alert; the members of a map are the author's.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    alert: String,
    expr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#for: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_firing_for: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

/// There and back through the type: what it does not know is lost on the way.
fn known<T: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<T>(object.clone())?)
}

fn known_fields(object: &Value) -> Result<Value, serde_json::Error> {
    match object["kind"].as_str().unwrap_or_default() {
        "ClusterRole" => known::<ClusterRole>(object),
        "ClusterRoleBinding" => known::<ClusterRoleBinding>(object),
        "ConfigMap" => known::<ConfigMap>(object),
        "CustomResourceDefinition" => known::<CustomResourceDefinition>(object),
        "Deployment" => known::<Deployment>(object),
        "Namespace" => known::<Namespace>(object),
        "NetworkPolicy" => known::<NetworkPolicy>(object),
        "PodDisruptionBudget" => known::<PodDisruptionBudget>(object),
        "PodMonitor" => known::<Monitoring<PodMonitor>>(object),
        "PrometheusRule" => known::<Monitoring<PrometheusRule>>(object),
        "Role" => known::<Role>(object),
        "RoleBinding" => known::<RoleBinding>(object),
        "Service" => known::<Service>(object),
        "ServiceAccount" => known::<ServiceAccount>(object),
        "ValidatingAdmissionPolicy" => known::<ValidatingAdmissionPolicy>(object),
        "ValidatingAdmissionPolicyBinding" => known::<ValidatingAdmissionPolicyBinding>(object),
        other => panic!("{other} is no kind that is installed"),
    }
}

pub fn unknown(object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    match known_fields(object) {
        Ok(known) => differences(&identity(object), object, &known, &mut found),
        Err(error) => found.push(format!("{}: {error}", identity(object))),
    }
    found
}

#[test]
fn every_field_is_one_that_kubernetes_knows() {
    for rendered in Rendered::everything().into_iter().flatten() {
        let found: Vec<String> = rendered.all().flat_map(unknown).collect();
        assert!(found.is_empty(), "{}:\n{}", rendered.from, found.join("\n"));
    }
}

#[test]
fn a_field_that_kubernetes_does_not_know_is_seen() {
    let Some(rendered) = Rendered::by_kustomize(BASE) else {
        return;
    };
    let mut deployment = rendered.deployment().expect("a Deployment").clone();
    let pod = &mut deployment["spec"]["template"]["spec"];
    pod["containers"][0]["securityContext"]["readOnlyRootFileSystem"] = Value::Bool(true);
    assert_eq!(unknown(&deployment).len(), 1);
    let Some(monitoring) = Rendered::by_kustomize(MONITORING) else {
        return;
    };
    for (kind, pointer) in [
        ("PodMonitor", "/spec/podMetricsEndpoints/0"),
        ("PrometheusRule", "/spec/groups/0/rules/0"),
    ] {
        let mut object = monitoring.find(kind, "stagegate").expect(kind).clone();
        object.pointer_mut(pointer).expect(pointer)["scheme_"] = Value::Bool(true);
        assert_eq!(unknown(&object).len(), 1, "{kind}");
    }
}
