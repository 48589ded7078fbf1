//! `stagegate run`: the controllers against a real cluster, until a signal.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use stagegate_decide::staging::GateNamespaces;
use stagegate_embedded::TokioClock;

use super::signals::Signals;
use super::{Failure, Outcome, Result, connection, log};
use crate::args::{Controller, RunArgs};
use crate::sandbox::{Cache, Sandbox, SandboxOptions};
use crate::shell::{self, ControllerName, Options};

/// # Errors
/// A kubeconfig that cannot be used; a server that does not answer at the start; a controller that broke off.
pub async fn controllers(args: &RunArgs) -> Result {
    log::to_stderr("info");
    let mut signals = Signals::catch()?;
    let client = connection::client(&args.cluster).await?;
    let options = Options {
        controllers: args.controllers.iter().map(|name| controller(*name)).collect(),
        settle_ms: super::milliseconds(args.settle),
        gate_namespaces: GateNamespaces::Only(args.gate_namespaces.iter().cloned().collect()),
        sandbox: sandbox(args.gate_cache.as_deref())?,
        ..Options::default()
    };
    let started = tokio::select! {
        started = shell::start(client, TokioClock::shared(), options) => started,
        () = signals.next() => return Ok(Outcome::AsWished),
    };
    let mut running = started.context("starting the controllers").map_err(Failure::Outside)?;
    tokio::select! {
        error = running.failed() => return Err(Failure::Outside(error)),
        () = signals.next() => tracing::info!("stopping"),
    }
    running.stop().await;
    Ok(Outcome::AsWished)
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
    }
}
