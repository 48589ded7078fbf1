//! Every field of what is installed is one that Kubernetes knows: a server drops others, and with them what they were for.

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::chart::differences;
use super::{BASE, Rendered, identity};

/// There and back through the type: what it does not know is lost on the way.
fn known<T: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<T>(object.clone())?)
}

fn known_fields(object: &Value) -> Result<Value, serde_json::Error> {
    match object["kind"].as_str().unwrap_or_default() {
        "ClusterRole" => known::<ClusterRole>(object),
        "ClusterRoleBinding" => known::<ClusterRoleBinding>(object),
        "CustomResourceDefinition" => known::<CustomResourceDefinition>(object),
        "Deployment" => known::<Deployment>(object),
        "Namespace" => known::<Namespace>(object),
        "NetworkPolicy" => known::<NetworkPolicy>(object),
        "PodDisruptionBudget" => known::<PodDisruptionBudget>(object),
        "Role" => known::<Role>(object),
        "RoleBinding" => known::<RoleBinding>(object),
        "Service" => known::<Service>(object),
        "ServiceAccount" => known::<ServiceAccount>(object),
        "ValidatingAdmissionPolicy" => known::<ValidatingAdmissionPolicy>(object),
        "ValidatingAdmissionPolicyBinding" => known::<ValidatingAdmissionPolicyBinding>(object),
        other => panic!("{other} is no kind that is installed"),
    }
}

fn unknown(object: &Value) -> Vec<String> {
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
}
