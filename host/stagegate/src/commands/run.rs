//! `stagegate run`: the controllers against a real cluster, until a signal.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use prometheus_client::metrics::counter::Counter;
use stagegate_clock::TokioClock;
use stagegate_decide::staging::GateNamespaces;
use stagegate_runtime::leader::{Election, Timing};
use stagegate_sandbox::{Cache, Sandbox, SandboxOptions};
use tokio::net::TcpListener;

use super::signals::Signals;
use super::{Failure, Outcome, Result, connection, log};
use crate::admin;
use crate::args::{Controller, LeaseArgs, RunArgs};
use crate::options::{ControllerName, Options};
use crate::start;

/// Where a pod finds the name of its namespace.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// Where the shipped manifests put everything.
const NAMESPACE: &str = "stagegate-system";

/// # Errors
/// A kubeconfig that cannot be used; a server that does not answer at the start; a controller that broke off.
pub async fn controllers(args: &RunArgs) -> Result {
    let log = log::to_stderr("info", args.log_format);
    let suppressed = log.suppressed.clone();
    let ended = until_signal(args, suppressed).await;
    log.end().await;
    ended
}

async fn until_signal(args: &RunArgs, suppressed: Counter) -> Result {
    let mut signals = Signals::catch()?;
    let listener = admin_listener(args.admin_address.as_deref()).await?;
    let cluster = connection::cluster(&args.cluster).await?;
    let options = Options {
        controllers: args.controllers.iter().map(|name| controller(*name)).collect(),
        settle_ms: super::milliseconds(args.settle),
        gate_namespaces: GateNamespaces::Only(args.gate_namespaces.iter().cloned().collect()),
        sandbox: sandbox(args.gate_cache.as_deref())?,
        election: election(&args.lease),
        has_series_of_each_policy: args.metrics_per_policy,
        ..Options::default()
    };
    let started = tokio::select! {
        started = start::start(cluster.client.clone(), TokioClock::shared(), options) => started,
        () = signals.next() => return Ok(Outcome::Success),
    };
    let mut running = started
        .map_err(|error| cluster.server.explain(error))
        .context("starting the controllers")
        .map_err(Failure::Environment)?;
    let admin = listener.map(|listener| {
        let about = admin::About {
            health: running.health(),
            metrics: running.metrics(),
            suppressed,
        };
        tokio::spawn(admin::serve(listener, about))
    });
    let ended = tokio::select! {
        error = running.failed() => Err(Failure::Environment(error)),
        () = signals.next() => {
            tracing::info!("stopping");
            Ok(Outcome::Success)
        }
    };
    running.stop().await;
    // To the last, so that whoever asks is told that this one stops.
    if let Some(admin) = admin {
        admin.abort();
    }
    ended
}

fn election(args: &LeaseArgs) -> Option<Election> {
    let namespace = || {
        std::fs::read_to_string(POD_NAMESPACE)
            .ok()
            .map(|name| name.trim().to_owned())
    };
    args.leader_elect.then(|| Election {
        namespace: args
            .lease_namespace
            .clone()
            .or_else(namespace)
            .unwrap_or_else(|| NAMESPACE.to_owned()),
        name: args.lease_name.clone(),
        identity: Election::identity(),
        timing: Timing::of_lease(args.lease_duration),
    })
}

async fn admin_listener(address: Option<&str>) -> Result<Option<TcpListener>> {
    let Some(address) = address else { return Ok(None) };
    let bound = TcpListener::bind(address).await;
    let bound = bound.with_context(|| format!("serving on --admin-address {address}"));
    bound.map(Some).map_err(Failure::Environment)
}

fn sandbox(cache: Option<&Path>) -> Result<Arc<Sandbox>> {
    let opened = cache.map(|directory| {
        let opened = Cache::open(directory);
        opened.with_context(|| format!("opening the gate cache {}", directory.display()))
    });
    Ok(Sandbox::new(SandboxOptions {
        cache: opened.transpose().map_err(Failure::Input)?,
        ..SandboxOptions::default()
    }))
}

fn controller(name: Controller) -> ControllerName {
    match name {
        Controller::Staging => ControllerName::Staging,
        Controller::Binding => ControllerName::Binding,
        Controller::Combine => ControllerName::Combine,
        Controller::Yurtappdaemon => ControllerName::YurtAppDaemon,
    }
}
