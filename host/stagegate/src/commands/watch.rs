//! `stagegate watch`: the live view on any cluster, until a signal.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::time::Duration;

use anyhow::Context as _;
use kube::Client;
use kube::api::{Api, ListParams};
use stagegate_api::StagedBindingPolicy;

use super::signals::Signals;
use super::{Failure, Outcome, Result, connection};
use crate::args::WatchArgs;
use crate::view::View;
use crate::view::follow::follow;

/// Longest wait for the first answer; later trouble is told and waited out.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// # Errors
/// A kubeconfig that cannot be used; a cluster that does not answer, or does not know the kind.
pub async fn policies(args: &WatchArgs) -> Result {
    let mut signals = Signals::catch()?;
    let client = connection::client(&args.cluster).await?;
    tokio::select! {
        reached = reach(&client) => reached.map_err(Failure::Environment)?,
        () = signals.next() => return Ok(Outcome::Success),
    }
    let mut view = View::on_stdout(args.output);
    tokio::select! {
        end = follow(client, args.name.as_deref(), &mut view, |_| ControlFlow::<Infallible>::Continue(())) => match end? {},
        () = signals.next() => {}
    }
    view.finish("Interrupted")?;
    Ok(Outcome::Success)
}

/// Whether the cluster answers and knows the kind: a watch alone would try for ever.
async fn reach(client: &Client) -> anyhow::Result<()> {
    let policies = Api::<StagedBindingPolicy>::all(client.clone());
    let params = ListParams::default().limit(1);
    let answered = tokio::time::timeout(CONNECT_MAX, policies.list_metadata(&params)).await;
    answered
        .context("listing StagedBindingPolicies")?
        .context("listing StagedBindingPolicies")?;
    Ok(())
}
