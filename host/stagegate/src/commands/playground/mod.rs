//! `stagegate playground`: API server, simulated clusters and nodes, and all controllers in this process; the files applied, the
//! rollout shown until its end. Nothing outside of the process is touched but one kubeconfig file.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use kube::Api;
use stagegate_api::StagedBindingPolicy;
use stagegate_api::workloads::YurtAppDaemon;
use stagegate_clock::TokioClock;
use stagegate_decide::staging::GateNamespaces;
use stagegate_embedded::Server;
use stagegate_embedded::clusters::{self, Clusters};
use stagegate_embedded::nodes::{self, Nodes};
use tokio::net::TcpListener;

use self::kubeconfig::KubeconfigFile;
use super::goal::{Ended, Until};
use super::signals::Signals;
use super::{Failure, Outcome, Result, log};
use crate::args::{Format, LogFormat, PlaygroundArgs};
use crate::held_bindings;
use crate::manifests::{self, Manifest};
use crate::options::{ControllerName, Delays, Options};
use crate::start;
use crate::target::Kind;
use crate::view::follow::{Guarded, Source, follow};
use crate::view::{Counting, Rolled, Rollouts, View};

mod apply;
mod kubeconfig;

/// The delay of each part that stands in KubeStellar's place; KubeStellar's own are seconds.
const DELAY_MS: u64 = 100;
/// Longest wait for `--until` unless `--timeout` says otherwise.
const TIMEOUT: Duration = Duration::from_secs(60);

/// # Errors
/// Files that cannot be read or that the API server refuses; a port, a file or a task that fails.
pub async fn play(args: &PlaygroundArgs) -> Result {
    let began = Instant::now();
    // The view says what matters; a log between its lines is for those who ask for it.
    let log = log::to_stderr("off", LogFormat::Text);
    let ended = rollout(args, began).await;
    log.end().await;
    ended
}

async fn rollout(args: &PlaygroundArgs, began: Instant) -> Result {
    let mut signals = Signals::catch()?;
    let manifests = manifests::read(&args.files).map_err(|error| Failure::Input(error.into()))?;
    let kind = kind(&manifests)?;
    let until = until(args, kind, &manifests)?;

    let clock = TokioClock::shared();
    let server = Server::new(clock.clone());
    let definitions = stagegate_api::crd::all_for_playground();
    server
        .install_crds(definitions)
        .context("installing the definitions")
        .map_err(Failure::Environment)?;
    held_bindings::install(&server.client())
        .await
        .context("installing the admission policy of staged updates")
        .map_err(Failure::Environment)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .context("opening a port on the loopback");
    let listener = listener.map_err(Failure::Environment)?;
    let address = listener.local_addr()?;
    let serving = tokio::spawn({
        let server = server.clone();
        async move { server.serve(listener, std::future::pending::<()>()).await }
    });
    let kubeconfig = KubeconfigFile::to(args.kubeconfig.as_deref(), &server.kubeconfig(address))?;
    announce(address, (&kubeconfig, args), began.elapsed())?;

    let clusters = Clusters::start(server.client(), clock.clone(), clusters::Settings::default());
    let nodes = Nodes::start(server.client(), clock.clone(), nodes::Settings::default());
    let running = start::start(server.client(), clock, options(args)).await;
    let mut running = running
        .context("starting the controllers")
        .map_err(Failure::Environment)?;
    apply::all(&server.client(), &manifests).await?;

    let mut view = View::on_stdout(args.output, kind, Counting::FromStart);
    let ended = tokio::select! {
        ended = show(&server, kind, (&mut view, &until)) => ended?,
        () = signals.next() => Ended::Interrupted,
        () = timeout(args, &until) => Ended::TimedOut,
        error = running.failed() => return Err(Failure::Environment(error)),
        served = serving => return Err(server_ended(served)),
    };
    view.finish(ended.as_str())?;
    if !matches!(ended.outcome(&until), Outcome::Success) {
        explain(ended, view.rollouts())?;
    }
    if args.serve && ended != Ended::Interrupted {
        say(args.output, "serving until Ctrl-C")?;
        tokio::select! {
            () = signals.next() => {}
            error = running.failed() => return Err(Failure::Environment(error)),
        }
    }
    running.stop().await;
    clusters.stop().await;
    nodes.stop().await;
    Ok(ended.outcome(&until))
}

/// Shows the rollouts of the kind until they are as they are waited for.
async fn show(server: &Server, kind: Kind, (view, until): (&mut View<io::Stdout>, &Until)) -> io::Result<Ended> {
    match kind {
        Kind::StagedBindingPolicy => follow(all::<StagedBindingPolicy>(server), view, |seen| until.reached(seen)).await,
        Kind::YurtAppDaemon => follow(all::<YurtAppDaemon>(server), view, |seen| until.reached(seen)).await,
    }
}

fn all<K: Rolled>(server: &Server) -> Source<'static, K> {
    Source {
        api: Api::<Guarded<K>>::all(server.client()),
        name: None,
        explain: &|error| error,
    }
}

/// Whose rollouts are shown: a view has one kind.
fn kind(manifests: &[Manifest]) -> Result<Kind> {
    let has = |kind: Kind| manifests.iter().any(|manifest| manifest.kind() == kind.as_str());
    match (has(Kind::StagedBindingPolicy), has(Kind::YurtAppDaemon)) {
        (true, true) => {
            let advice = "the files have StagedBindingPolicies and YurtAppDaemons, but a playground shows one kind only; start one playground for each kind, with its files";
            Err(Failure::Input(anyhow!(advice)))
        }
        (_, false) => Ok(Kind::StagedBindingPolicy),
        (false, true) => Ok(Kind::YurtAppDaemon),
    }
}

fn until(args: &PlaygroundArgs, kind: Kind, manifests: &[Manifest]) -> Result<Until> {
    let mut names = BTreeSet::new();
    for manifest in manifests.iter().filter(|manifest| manifest.kind() == kind.as_str()) {
        if !names.insert(manifest.name().to_owned()) && kind == Kind::YurtAppDaemon {
            let name = manifest.name();
            let advice = format!(
                "the files have more than one YurtAppDaemon named {name}; the view does not show namespaces, so rename one, or give its file only once"
            );
            return Err(Failure::Input(anyhow!(advice)));
        }
    }
    if names.is_empty() && (args.until.is_some() || !args.serve) {
        let advice = "no StagedBindingPolicy and no YurtAppDaemon is in the files, so nothing would end; add one, or --serve without --until";
        return Err(Failure::Input(anyhow!(advice)));
    }
    Ok(match (args.until, args.serve) {
        (Some(goal), _) => Until::Goal { goal, names },
        (None, false) => Until::Completed { names },
        (None, true) => Until::Interrupted,
    })
}

fn options(args: &PlaygroundArgs) -> Options {
    Options {
        controllers: BTreeSet::from([
            ControllerName::Staging,
            ControllerName::Binding,
            ControllerName::Combine,
            ControllerName::YurtAppDaemon,
        ]),
        settle_ms: super::milliseconds(args.settle),
        delays: Delays {
            binding_ms: DELAY_MS,
            combine_ms: DELAY_MS,
        },
        adds_finalizer: true,
        gate_namespaces: GateNamespaces::All,
        ..Options::default()
    }
}

/// Never, unless something is waited for.
async fn timeout(args: &PlaygroundArgs, until: &Until) {
    match (args.timeout, until) {
        (Some(timeout), _) => tokio::time::sleep(timeout).await,
        (None, Until::Goal { .. }) => tokio::time::sleep(TIMEOUT).await,
        (None, Until::Completed { .. } | Until::Interrupted) => std::future::pending().await,
    }
}

/// A kubeconfig that nobody named and that is gone in a few seconds is not worth a line.
fn announce(
    address: SocketAddr,
    (kubeconfig, args): (&KubeconfigFile, &PlaygroundArgs),
    took: Duration,
) -> io::Result<()> {
    let mut out = io::stderr();
    writeln!(out, "API server ready on http://{address} in {} ms", took.as_millis())?;
    if args.serve || args.kubeconfig.is_some() {
        writeln!(out, "export KUBECONFIG={}", kubeconfig.path().display())?;
    }
    Ok(())
}

/// Why the exit code is not 0, rollout by rollout.
fn explain(ended: Ended, rollouts: &Rollouts) -> io::Result<()> {
    let mut out = io::stderr();
    for (name, rollout) in rollouts {
        let phase = rollout
            .phase
            .map_or_else(|| "without a phase".to_owned(), |phase| format!("{phase:?}"));
        let reason = rollout.reason.as_ref();
        let why = reason
            .map(|reason| format!(" ({reason}: {})", rollout.message))
            .unwrap_or_default();
        writeln!(out, "ended as {}: {name} is {phase}{why}", ended.as_str())?;
    }
    Ok(())
}

fn say(format: Format, text: &str) -> io::Result<()> {
    match format {
        Format::Text => writeln!(io::stderr(), "{text}"),
        Format::Json => Ok(()),
    }
}

fn server_ended(served: std::result::Result<io::Result<()>, tokio::task::JoinError>) -> Failure {
    Failure::Environment(match served {
        Ok(Ok(())) => anyhow!("the API server has ended"),
        Ok(Err(error)) => anyhow::Error::new(error).context("serving the API"),
        Err(error) => anyhow::Error::new(error).context("the API server broke off"),
    })
}
