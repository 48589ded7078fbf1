//! The admission policy of staged updates, for API servers that run in this process: read from the file that is installed on clusters. Must
//! not change it, so that what is tried here is what holds there.

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::Value;

const SHIPPED: &str = include_str!("../../../deploy/kustomize/staged-updates/policy.yaml");

/// What holds Bindings, and what puts it into force.
///
/// # Panics
/// Never: the file is part of the program, and a test reads it.
pub fn shipped() -> (ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding) {
    let objects: Vec<Value> = serde_saphyr::from_multiple(SHIPPED).expect("the shipped file is YAML");
    let [policy, binding] = <[Value; 2]>::try_from(objects).expect("the shipped file has two objects");
    (
        serde_json::from_value(policy).expect("the first object is a ValidatingAdmissionPolicy"),
        serde_json::from_value(binding).expect("the second object is a ValidatingAdmissionPolicyBinding"),
    )
}

/// Creates both, so that the server holds every Binding that has the annotation.
///
/// # Errors
/// What the server refuses.
pub async fn install(client: &Client) -> kube::Result<()> {
    let (policy, binding) = shipped();
    let parameters = PostParams::default();
    Api::all(client.clone()).create(&parameters, &policy).await?;
    Api::all(client.clone()).create(&parameters, &binding).await?;
    Ok(())
}
