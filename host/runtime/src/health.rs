//! Whether the process can do its work, as a list of named checks. Must not touch what it looks at.
//!
//! *RuntimeMetrics* asks what a restart would mend, so an API server that is away is none of it. *Ready* asks whether decisions rest
//! on what is true now.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::leader::{LeaderState, LeaderUnknown};
use super::metrics::RuntimeMetrics;
use super::watch::{Need, WatchHealth};

/// A key that is due while places are free is handed out at once, by a loop that does nothing else.
const UNTAKEN_MAX: Duration = Duration::from_secs(30);
/// Every wait of a reconcile has a bound of its own: 10 s for a request, 30 s for a component to be compiled, a few for a gate,
/// behind at most seven others. Longer without a step, and it waits for nothing.
const STEP_MAX: Duration = Duration::from_secs(10 * 60);
/// Troubles of a watch that are shorter are none of a user's business: it begins anew within seconds.
const TROUBLE_MAX: Duration = Duration::from_secs(60);

/// One question and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: String,
    /// Why it failed; none: it did not.
    pub failure: Option<String>,
}

impl Check {
    pub fn new(name: impl Into<String>, failure: Option<String>) -> Self {
        Self {
            name: name.into(),
            failure,
        }
    }
}

/// The health of one process.
#[derive(Clone, Debug)]
pub struct Health {
    metrics: Arc<RuntimeMetrics>,
    leader_state: Arc<LeaderState>,
    stop: CancellationToken,
}

impl Health {
    /// Of the process with these numbers, which ends when `stop` says so.
    pub const fn new(metrics: Arc<RuntimeMetrics>, leader_state: Arc<LeaderState>, stop: CancellationToken) -> Self {
        Self {
            metrics,
            leader_state,
            stop,
        }
    }

    pub fn begin_stop(&self) {
        self.stop.cancel();
    }

    /// What a restart would mend.
    pub fn live(&self) -> Vec<Check> {
        let queues = self.metrics.queues().into_iter();
        let checks = queues.map(|(controller, queue)| {
            let load = queue.load();
            let failure = if load.untaken > UNTAKEN_MAX {
                let since = load.untaken.as_secs();
                let keys = if load.due == 1 { "key" } else { "keys" };
                Some(format!("{} {keys} due and none taken for {since} s", load.due))
            } else if load.longest_step > STEP_MAX {
                let since = load.longest_step.as_secs();
                Some(format!("a key is being worked on without a step for {since} s"))
            } else {
                None
            };
            Check::new(format!("queue/{controller}"), failure)
        });
        checks.collect()
    }

    /// Whether decisions are made, on what is true now.
    pub fn ready(&self) -> Vec<Check> {
        let mut watches = self.metrics.watches();
        watches.retain(|watch| watch.need() == Need::Always);
        watches.sort_by(|one, other| one.name().cmp(other.name()));
        let mut checks: Vec<Check> = watches
            .iter()
            .map(|watch| Check::new(format!("watch/{}", watch.name()), watch.ailment().and_then(failure)))
            .collect();
        // A rolling update must not take a leader away for one that can never lead.
        let unknown = match self.leader_state.trouble() {
            LeaderUnknown::Undecided(cause) => Some(cause),
            LeaderUnknown::Since(since, cause) if since.elapsed() > TROUBLE_MAX => {
                Some(format!("for {} s: {cause}", since.elapsed().as_secs()))
            }
            LeaderUnknown::Since(..) | LeaderUnknown::None => None,
        };
        checks.push(Check::new("lease", unknown));
        let stopping = self.stop.is_cancelled().then(|| "stopping".to_owned());
        checks.push(Check::new("shutdown", stopping));
        checks
    }
}

fn failure(ailment: WatchHealth) -> Option<String> {
    match ailment {
        WatchHealth::NeverListed { cause: Some(cause) } => Some(format!("not listed yet: {cause}")),
        WatchHealth::NeverListed { cause: None } => Some("not listed yet".to_owned()),
        WatchHealth::Behind { since, cause } if since > TROUBLE_MAX => {
            Some(format!("for {} s: {cause}", since.as_secs()))
        }
        WatchHealth::Behind { .. } => None,
    }
}
