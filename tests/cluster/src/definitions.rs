//! Definitions that must be served before anything runs and are not part of an installation. Must not start anything.

use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, ResourceExt as _};
use stagegate_api::crd;

/// Those that are missing, also beside KubeStellar, which installs its own.
pub fn definitions(beside_kubestellar: bool) -> Vec<CustomResourceDefinition> {
    let inventory = [
        "managedclusters.cluster.open-cluster-management.io",
        "workstatuses.control.kubestellar.io",
    ];
    let is_of_inventory = |definition: &CustomResourceDefinition| inventory.contains(&definition.name_any().as_str());
    let foreign = crd::foreign()
        .into_iter()
        .filter(|definition| beside_kubestellar && is_of_inventory(definition));
    crd::playground().into_iter().chain(foreign).collect()
}

/// # Errors
/// When it is not established in time.
pub async fn install(client: &Client, definition: &CustomResourceDefinition) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    api.create(&Default::default(), definition).await?;
    let name = definition.name_any();
    let established = kube::runtime::conditions::is_crd_established();
    let wait = kube::runtime::wait::await_condition(api, &name, established);
    let waited = tokio::time::timeout(Duration::from_secs(30), wait).await;
    waited.with_context(|| format!("{name} is not established"))??;
    Ok(())
}
