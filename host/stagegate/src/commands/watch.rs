//! `stagegate watch`: the live view on any cluster, until a phase, a timeout or a signal.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::anyhow;
use kube::api::{Api, ListParams};

use super::connection::{self, Cluster};
use super::goal::{Ended, Until};
use super::signals::Signals;
use super::{Failure, Outcome, Result, lookup};
use crate::args::WatchArgs;
use crate::target::Kind;
use crate::view::follow::{Guarded, Source, follow};
use crate::view::{Counting, Rolled, View};

/// # Errors
/// A kubeconfig that cannot be used; a cluster that does not answer, or does not know the kind; a name that no object has.
pub async fn rollouts(args: &WatchArgs) -> Result {
    let signals = Signals::catch()?;
    let kind = args.target.as_ref().map(|target| target.kind).unwrap_or_default();
    let cluster = connection::cluster(&args.cluster).await?.asked_for(kind);
    match kind {
        Kind::StagedBindingPolicy => watch(args, (&cluster, lookup::policies(&cluster)), signals).await,
        Kind::YurtAppDaemon => {
            let daemons = lookup::daemons(&cluster, args.namespace.as_deref());
            watch(args, (&cluster, daemons), signals).await
        }
    }
}

async fn watch<K: Rolled>(
    args: &WatchArgs,
    (cluster, api): (&Cluster, Api<Guarded<K>>),
    mut signals: Signals,
) -> Result {
    let until = tokio::select! {
        until = until(args, cluster, &api) => until?,
        () = signals.next() => return Ok(interrupted(args)),
    };
    let mut view = View::on_stdout(args.output, K::KIND, Counting::FromRollout);
    let source = Source {
        api,
        name: args.name(),
        explain: &|error| cluster.server.explain(error),
    };
    let ended = tokio::select! {
        ended = follow(source, &mut view, |rollouts| until.reached(rollouts)) => ended?,
        () = signals.next() => Ended::Interrupted,
        () = timeout(args.timeout) => Ended::TimedOut,
    };
    view.finish(ended.as_str())?;
    Ok(ended.outcome(&until))
}

/// What is waited for. Asks the cluster whether it answers and knows the kind and the object: a watch alone would try for ever.
async fn until<K: Rolled>(args: &WatchArgs, cluster: &Cluster, api: &Api<Guarded<K>>) -> Result<Until> {
    let known = match (args.name(), args.until) {
        (Some(name), _) => lookup::require(cluster, api, name)
            .await
            .map(|()| vec![name.to_owned()])?,
        (None, Some(_)) => lookup::names(cluster, api).await?,
        (None, None) => {
            let params = ListParams::default().limit(1);
            cluster.answer(api.list_metadata(&params)).await?;
            Vec::new()
        }
    };
    let Some(goal) = args.until else {
        return Ok(Until::Interrupted);
    };
    let names: BTreeSet<String> = known.into_iter().collect();
    if names.is_empty() {
        let text = "the cluster has no StagedBindingPolicy, so --until would wait for ever: create a policy, or leave out --until";
        return Err(Failure::Input(anyhow!(text)));
    }
    Ok(Until::Goal { goal, names })
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
