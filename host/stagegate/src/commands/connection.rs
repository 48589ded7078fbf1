//! The client of a real cluster, as flags and kubeconfig describe it.

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::{Failure, Result};
use crate::args::ClusterArgs;

/// Must run inside a tokio runtime.
///
/// # Errors
/// [`Failure::Input`] for a kubeconfig that cannot be used. That the server answers is not tried.
pub async fn client(args: &ClusterArgs) -> Result<Client> {
    let mut config = config(args).await.map_err(Failure::Input)?;
    // Repeating a write behind the caller's back would hide a conflict from it.
    config.default_retry = false;
    Client::try_from(config)
        .context("building the client")
        .map_err(Failure::Input)
}

async fn config(args: &ClusterArgs) -> anyhow::Result<Config> {
    let options = KubeConfigOptions {
        context: args.context.clone(),
        ..KubeConfigOptions::default()
    };
    match (&args.kubeconfig, &args.context) {
        (Some(path), _) => {
            let kubeconfig = Kubeconfig::read_from(path).with_context(|| format!("reading {}", path.display()))?;
            let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
            config.with_context(|| format!("using {}", path.display()))
        }
        (None, Some(context)) => Config::from_kubeconfig(&options)
            .await
            .with_context(|| format!("using context {context:?}")),
        (None, None) => Config::infer()
            .await
            .context("finding a kubeconfig or the pod's service account"),
    }
}
