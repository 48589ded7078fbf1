//! Reads policies from a cluster into a view until its caller has seen enough.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use kube::api::Api;
use kube::core::DeserializeGuard;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt as _};
use stagegate_api::StagedBindingPolicy;

use super::{Policies, View};

/// How often the times on a screen move.
const TICK: Duration = Duration::from_millis(100);

/// One that does not decode must not stop the watch of the others.
type Guarded = DeserializeGuard<StagedBindingPolicy>;

/// Where the policies come from.
pub struct Source<'a> {
    pub client: Client,
    /// Only the policy of this name.
    pub name: Option<&'a str>,
    /// What an error of the API server means.
    pub explain: &'a dyn Fn(anyhow::Error) -> anyhow::Error,
}

/// Shows the policies until `enough` breaks; it is asked after every change and every tick.
///
/// # Errors
/// Those of the output. An error of the cluster goes to standard error, and the watch is tried again.
pub async fn follow<W: Write, B>(
    source: Source<'_>,
    view: &mut View<W>,
    mut enough: impl FnMut(&Policies) -> ControlFlow<B>,
) -> io::Result<B> {
    let Source { client, name, explain } = source;
    let config = match name {
        Some(name) => watcher::Config::default().fields(&format!("metadata.name={name}")),
        None => watcher::Config::default(),
    };
    let mut events = pin!(watcher::watcher(Api::<Guarded>::all(client), config).default_backoff());
    let mut ticks = tokio::time::interval(TICK);
    let mut listed = BTreeSet::new();
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => take(event, &mut listed, view)?,
                Some(Err(error)) => complain(&explain(error.into()).context("watching StagedBindingPolicies")),
                None => complain(&anyhow::anyhow!("the watch of StagedBindingPolicies ended")),
            },
            _ = ticks.tick() => view.tick()?,
        }
        if let ControlFlow::Break(end) = enough(view.policies()) {
            return Ok(end);
        }
    }
}

fn take<W: Write>(event: Event<Guarded>, listed: &mut BTreeSet<String>, view: &mut View<W>) -> io::Result<()> {
    match event {
        Event::Init => {
            listed.clear();
            Ok(())
        }
        Event::InitApply(object) => {
            listed.insert(object.name_any());
            show(object, view)
        }
        Event::InitDone => {
            let gone: Vec<String> = view
                .policies()
                .keys()
                .filter(|name| !listed.contains(*name))
                .cloned()
                .collect();
            gone.iter().try_for_each(|name| view.remove(name))
        }
        Event::Apply(object) => show(object, view),
        Event::Delete(object) => view.remove(&object.name_any()),
    }
}

fn show<W: Write>(object: Guarded, view: &mut View<W>) -> io::Result<()> {
    match object.0 {
        Ok(policy) => view.show(policy),
        Err(invalid) => {
            let name = invalid.metadata.name.unwrap_or_default();
            complain(&anyhow::anyhow!(
                "StagedBindingPolicy {name} cannot be shown: {}",
                invalid.error
            ));
            Ok(())
        }
    }
}

fn complain(error: &anyhow::Error) {
    // Nobody is left to tell when standard error is gone too.
    drop(writeln!(io::stderr(), "{error:#}"));
}
