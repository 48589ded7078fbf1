//! `stagegate watch`: the live view on any cluster, until a phase, a timeout or a signal.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::anyhow;
use kube::api::{Api, ListParams};
use stagegate_api::StagedBindingPolicy;

use super::connection::{self, Cluster};
use super::goal::{Ended, Until};
use super::signals::Signals;
use super::{Failure, Outcome, Result, lookup};
use crate::args::WatchArgs;
use crate::view::follow::{Source, follow};
use crate::view::{Counting, View};

/// # Errors
/// A kubeconfig that cannot be used; a cluster that does not answer, or does not know the kind; a name that no policy has.
pub async fn policies(args: &WatchArgs) -> Result {
    let mut signals = Signals::catch()?;
    let cluster = connection::cluster(&args.cluster).await?;
    let until = tokio::select! {
        until = until(args, &cluster) => until?,
        () = signals.next() => return Ok(interrupted(args)),
    };
    let mut view = View::on_stdout(args.output, Counting::FromRollout);
    let source = Source {
        client: cluster.client.clone(),
        name: args.name.as_deref(),
        explain: &|error| cluster.server.explain(error),
    };
    let ended = tokio::select! {
        ended = follow(source, &mut view, |policies| until.reached(policies)) => ended?,
        () = signals.next() => Ended::Interrupted,
        () = timeout(args.timeout) => Ended::TimedOut,
    };
    view.finish(ended.as_str())?;
    Ok(ended.outcome(&until))
}

/// What is waited for. Asks the cluster whether it answers and knows the kind and the policy: a watch alone would try for ever.
async fn until(args: &WatchArgs, cluster: &Cluster) -> Result<Until> {
    let known = match (&args.name, args.until) {
        (Some(name), _) => lookup::require(cluster, name).await.map(|()| vec![name.clone()])?,
        (None, Some(_)) => lookup::names(cluster).await?,
        (None, None) => {
            let policies = Api::<StagedBindingPolicy>::all(cluster.client.clone());
            let params = ListParams::default().limit(1);
            cluster.answer(policies.list_metadata(&params)).await?;
            Vec::new()
        }
    };
    let Some(goal) = args.until else {
        return Ok(Until::Interrupted);
    };
    let policies: BTreeSet<String> = known.into_iter().collect();
    if policies.is_empty() {
        let text = "the cluster has no StagedBindingPolicy, so --until would wait for ever: create a policy, or leave out --until";
        return Err(Failure::Input(anyhow!(text)));
    }
    Ok(Until::Goal { goal, policies })
}

/// A signal before the first answer.
const fn interrupted(args: &WatchArgs) -> Outcome {
    match args.until {
        Some(_) => Outcome::Negative,
        None => Outcome::Success,
    }
}

/// Never, unless a time is given.
async fn timeout(after: Option<Duration>) {
    match after {
        Some(after) => tokio::time::sleep(after).await,
        None => std::future::pending().await,
    }
}
