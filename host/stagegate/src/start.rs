//! Starting and stopping the controllers of one process. Must not know what any of them does.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Error, anyhow};
use kube::Client;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use stagegate_clock::SharedClock;
use stagegate_runtime::events::Events;
use stagegate_runtime::health::Health;
use stagegate_runtime::leader::{LeaderState, Leadership, RunningElection, WriteGuard, guard_writes};
use stagegate_runtime::metrics::RuntimeMetrics;
use stagegate_runtime::request::request;
use stagegate_runtime::{Runtime, Tasks, instrumented};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::controllers::{self, ForeignWriterGuard};
use crate::metrics::{KINDS, RolloutMetrics};
use crate::options::Options;
use crate::policy_series::PolicySeries;
use crate::scrape::Scrape;

/// Longest wait for reconciles that have begun when the process is told to stop.
const STOP_MAX: Duration = Duration::from_secs(12);

/// The controllers at work. Dropping it breaks them off, as a kill would.
pub struct RunningControllers {
    tasks: Tasks,
    health: Health,
    scrape: Arc<Scrape>,
    leader_state: Arc<LeaderState>,
    election: Option<RunningElection>,
    foreign_writers: Arc<ForeignWriterGuard>,
}

/// Starts the controllers. Kinds that the API server does not know yet are waited for, with a line in the log.
///
/// # Errors
/// When the API server does not answer at all, or refuses this client.
pub async fn start(client: Client, clock: SharedClock, options: Options) -> anyhow::Result<RunningControllers> {
    let version = request("get the API server's version", client.apiserver_version()).await?;
    info!(server = version.git_version, controllers = ?options.controllers, settle_ms = options.settle_ms, "starting");
    let metrics = Arc::new(RuntimeMetrics::new(KINDS));
    let client = instrumented(client, metrics.clone());
    let stop = CancellationToken::new();
    let (election, leader_state) = match options.election.clone() {
        Some(election) => {
            let (running, leader_state) = RunningElection::start(&client, clock.clone(), election);
            (Some(running), leader_state)
        }
        None => (None, LeaderState::unelected()),
    };
    let client = if election.is_some() {
        guard_writes(&client, WriteGuard::Lease(leader_state.clone()))
    } else {
        client
    };
    let (events, writer) = Events::new(client.clone(), clock.clone(), metrics.clone());
    let mut tasks = Tasks::new();
    tasks.spawn(async move {
        writer.run().await;
        "writing Events"
    });
    let mut rollouts = RolloutMetrics::default();
    if options.has_series_of_each_policy {
        rollouts = rollouts.with_each_policy(PolicySeries::new(clock.clone()));
    }
    let scrape = Arc::new(Scrape {
        metrics: metrics.clone(),
        rollouts: Arc::new(rollouts),
        sandbox: options.sandbox.clone(),
        leadership: leader_state.leadership(),
    });
    let runtime = Runtime {
        client,
        clock,
        leader_state: leader_state.clone(),
        events,
        metrics: metrics.clone(),
        stop: stop.clone(),
    };
    let foreign_writers = controllers::spawn(&runtime, &options, &scrape.rollouts, &mut tasks);
    Ok(RunningControllers {
        tasks,
        health: Health::new(metrics, leader_state.clone(), stop),
        scrape,
        leader_state,
        election,
        foreign_writers,
    })
}

impl RunningControllers {
    /// Lets the reconciles that have begun end, for at most 12 s, stops everything, and lets another process lead.
    pub async fn stop(mut self) {
        self.health.begin_stop();
        let all_ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_MAX, all_ended).await.is_err() {
            warn!("something did not stop in time and is broken off");
        }
        self.tasks.shutdown().await;
        if let Some(election) = self.election {
            election.release().await;
        }
    }

    /// Whether this process leads, now and whenever that changes.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leader_state.leadership()
    }

    pub fn counters(&self) -> Counters {
        let totals = self.scrape.metrics.totals();
        Counters {
            evaluations: self.scrape.rollouts.evaluations(),
            compilations: self.scrape.rollouts.compilations(),
            reconciles: totals.reconciles,
            failures: totals.failures,
            writes: totals.writes,
            conflicts: totals.conflicts,
            lists: totals.lists,
        }
    }

    /// Stays of use after [`Self::stop`].
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// What [`Self::health`] is about, in numbers.
    pub fn metrics(&self) -> Metrics {
        Metrics(self.scrape.clone())
    }

    /// Returns when this process cannot do its work any more: a task has ended that must not, or KubeStellar does the same
    /// work.
    pub async fn failed(&mut self) -> Error {
        let election_failed = async {
            match &mut self.election {
                Some(election) => election.failed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            trace = self.foreign_writers.found() => anyhow!(trace),
            () = election_failed => anyhow!("the election of a leader broke off"),
            joined = self.tasks.join_next() => match joined {
                Some(Ok(what)) => anyhow!("{what} has ended"),
                Some(Err(error)) => anyhow!(error).context("a task broke off"),
                None => anyhow!("no task is left"),
            },
        }
    }
}

/// What was counted, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Expressions evaluated; answers from the cache do not count.
    pub evaluations: u64,
    /// Expressions compiled.
    pub compilations: u64,
    /// Reconciles ended, of all controllers.
    pub reconciles: u64,
    /// Reconciles that ended in an error and were put off.
    pub failures: u64,
    /// Writes that the API server accepted.
    pub writes: u64,
    /// Writes refused because the object had changed meanwhile.
    pub conflicts: u64,
    /// Watches that were begun anew with a list, the first time included.
    pub lists: u64,
}

/// The numbers of a process, for whoever serves them.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Scrape>);

impl Metrics {
    /// Appends them as OpenMetrics text, without its end mark.
    ///
    /// # Errors
    /// Never, as long as text can be written.
    pub fn encode(&self, text: &mut String) -> std::fmt::Result {
        self.0.metrics.encode(text)?;
        self.0.rollouts.encode(text)?;
        let mut registry = Registry::with_prefix("stagegate");
        registry.register_collector(Box::new(self.0.clone()));
        text::encode_registry(text, &registry)
    }
}
