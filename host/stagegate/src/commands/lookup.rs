//! The policies that a command names, looked up before anything is shown. Must not show them.

use anyhow::anyhow;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use kube::core::DeserializeGuard;
use stagegate_api::StagedBindingPolicy;

use super::connection::Cluster;
use super::{Failure, Result};

/// The policy of this name.
///
/// # Errors
/// [`Failure::Input`] when there is none, with the name that was probably meant; [`Failure::Environment`] when the cluster does
/// not answer, does not know the kind, or has a policy that cannot be read.
pub async fn policy(cluster: &Cluster, name: &str) -> Result<StagedBindingPolicy> {
    let policies = Api::<DeserializeGuard<StagedBindingPolicy>>::all(cluster.client.clone());
    let Some(found) = cluster.answer(policies.get_opt(name)).await? else {
        return Err(absent(cluster, name).await?);
    };
    let unreadable = |error| Failure::Environment(anyhow!("StagedBindingPolicy {name} cannot be read: {error}"));
    found.0.map_err(|invalid| unreadable(invalid.error))
}

/// # Errors
/// As of [`policy`], but the policy need not be readable.
pub async fn require(cluster: &Cluster, name: &str) -> Result<()> {
    let policies = Api::<StagedBindingPolicy>::all(cluster.client.clone());
    match cluster.answer(policies.get_metadata_opt(name)).await? {
        Some(_found) => Ok(()),
        None => Err(absent(cluster, name).await?),
    }
}

/// The names of all policies.
///
/// # Errors
/// [`Failure::Environment`] when the cluster does not answer, or does not know the kind.
pub async fn names(cluster: &Cluster) -> Result<Vec<String>> {
    let policies = Api::<StagedBindingPolicy>::all(cluster.client.clone());
    let listed = cluster.answer(policies.list_metadata(&ListParams::default())).await?;
    Ok(listed.items.iter().map(ResourceExt::name_any).collect())
}

/// That the server knows no policy of this name: where it does not know the kind either, asking for the other names fails.
async fn absent(cluster: &Cluster, name: &str) -> Result<Failure> {
    let known = names(cluster).await?;
    let meant = stagegate_evaluate::meant(name, known.iter().map(String::as_str));
    Ok(Failure::Input(match meant {
        Some(meant) => anyhow!("there is no StagedBindingPolicy {name:?}; did you mean {meant}?"),
        None if known.is_empty() => anyhow!("there is no StagedBindingPolicy {name:?}: the cluster has none at all"),
        None => anyhow!("there is no StagedBindingPolicy {name:?}; `kubectl get sbp` lists those that there are"),
    }))
}
