//! The objects that a command names, looked up before anything is shown. Must not show them.

use anyhow::anyhow;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use stagegate_api::StagedBindingPolicy;
use stagegate_api::workloads::YurtAppDaemon;

use super::connection::Cluster;
use super::{Failure, Result};
use crate::view::Rolled;
use crate::view::follow::Guarded;

/// The policies of the cluster.
pub fn policies(cluster: &Cluster) -> Api<Guarded<StagedBindingPolicy>> {
    Api::all(cluster.client.clone())
}

/// The YurtAppDaemons of a namespace; `None`: of the namespace of the kubeconfig's context, else `default`.
pub fn daemons(cluster: &Cluster, namespace: Option<&str>) -> Api<Guarded<YurtAppDaemon>> {
    let client = cluster.client.clone();
    match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::default_namespaced(client),
    }
}

/// The object of this name.
///
/// # Errors
/// [`Failure::Input`] when there is none, with the name that was probably meant; [`Failure::Environment`] when the cluster does
/// not answer, does not know the kind, or has an object that cannot be read.
pub async fn object<K: Rolled>(cluster: &Cluster, api: &Api<Guarded<K>>, name: &str) -> Result<K> {
    let Some(found) = cluster.answer(api.get_opt(name)).await? else {
        return Err(absent(cluster, api, name).await?);
    };
    let unreadable = |error| Failure::Environment(anyhow!("{} {name} cannot be read: {error}", K::KIND.as_str()));
    found.0.map_err(|invalid| unreadable(invalid.error))
}

/// # Errors
/// As of [`object`], but the object need not be readable.
pub async fn require<K: Rolled>(cluster: &Cluster, api: &Api<Guarded<K>>, name: &str) -> Result<()> {
    match cluster.answer(api.get_metadata_opt(name)).await? {
        Some(_found) => Ok(()),
        None => Err(absent(cluster, api, name).await?),
    }
}

/// The names of all of them.
///
/// # Errors
/// [`Failure::Environment`] when the cluster does not answer, or does not know the kind.
pub async fn names<K: Rolled>(cluster: &Cluster, api: &Api<Guarded<K>>) -> Result<Vec<String>> {
    let listed = cluster.answer(api.list_metadata(&ListParams::default())).await?;
    Ok(listed.items.iter().map(ResourceExt::name_any).collect())
}

/// That the server knows no object of this name: where it does not know the kind either, asking for the other names fails.
async fn absent<K: Rolled>(cluster: &Cluster, api: &Api<Guarded<K>>, name: &str) -> Result<Failure> {
    let known = names(cluster, api).await?;
    let meant = stagegate_evaluate::meant(name, known.iter().map(String::as_str));
    let (kind, short) = (K::KIND.as_str(), K::KIND.short());
    let (within, namespace, flag) = match api.namespace() {
        Some(namespace) => (
            format!(" in namespace {namespace}"),
            format!("the namespace {namespace}"),
            format!(" -n {namespace}"),
        ),
        None => (String::new(), "the cluster".to_owned(), String::new()),
    };
    let there_is_none = format!("there is no {kind} {name:?}{within}");
    Ok(Failure::Input(match meant {
        Some(meant) => anyhow!("{there_is_none}; did you mean {meant}?"),
        None if known.is_empty() => anyhow!("{there_is_none}: {namespace} has none at all"),
        None => anyhow!("{there_is_none}; `kubectl get {short}{flag}` lists those that there are"),
    }))
}
