//! Clusters that exist only in memory: they take what Bindings bring and report how it fares, in the place of the OCM
//! transport, the status add-on and the clusters themselves. Must not know stages, nor decide anything about them.
//!
//! A cluster is a SimulatedCluster object, so that `kubectl edit` changes its health while a rollout runs. What was
//! really in which cluster, and when, is told by [`RunningClusters::truth`]: a test that asks for a gap asks there, not the
//! reports. The memory starts empty with the process; the time is that of the shared clock.

mod course;
mod fleet;
mod health;
mod inventory;
mod mirror;
mod patient;
mod report;
mod soundness;
mod statuses;
mod transport;
mod truth;
mod world;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use fleet::Fleet;
use stagegate_clock::SharedClock;

pub use truth::{Change, Fared, ObjectRef, Presence, Present, Truth};

/// Starts simulated clusters on any API server that serves their kinds.
pub struct Clusters;

/// The delays of the parts that are simulated.
#[derive(Clone, Debug)]
pub struct Settings {
    /// From a Binding's event until its workload is handed to the clusters. The first change sets the time and later
    /// ones do not move it; the hand-over takes what the Binding says by then.
    pub transport_delay_ms: u64,
    /// From a change of an object's health until its WorkStatus says so.
    pub status_delay_ms: u64,
}

impl Default for Settings {
    /// As fast as a playground wants it, and still in order: never at once.
    fn default() -> Self {
        Self {
            transport_delay_ms: 50,
            status_delay_ms: 50,
        }
    }
}

/// Why something asked of the clusters could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot make {object} anew in cluster {cluster}: it is not there")]
    NotThere { cluster: String, object: ObjectRef },
}

impl Clusters {
    /// Watches SimulatedClusters and Bindings from now on; kinds that are not served yet are waited for.
    pub fn start(client: kube::Client, clock: SharedClock, settings: Settings) -> RunningClusters {
        let shared = Arc::new(Shared {
            clock,
            settings,
            late: Mutex::default(),
            fleet: Mutex::default(),
            wake: Notify::new(),
        });
        let stop = CancellationToken::new();
        let task = tokio::spawn(world::run(client, Arc::clone(&shared), stop.clone()));
        RunningClusters {
            shared,
            task,
            stop: stop.drop_guard(),
        }
    }
}

/// The clusters at work; dropped, they stop where they are.
pub struct RunningClusters {
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
    stop: DropGuard,
}

impl RunningClusters {
    /// Ends the work and waits for it. What was reported stays reported.
    pub async fn stop(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "simulated clusters ended early");
        }
    }

    /// What is where at this instant, and what came and went.
    pub fn truth(&self) -> Truth {
        self.shared.fleet().truth()
    }

    /// Deletes and creates an object inside a cluster: its generation starts at 1 again.
    ///
    /// # Errors
    /// When the object is not there.
    pub fn remake(&self, cluster: &str, object: &ObjectRef) -> Result<(), Error> {
        let made = self.shared.fleet().remake(cluster, object, self.shared.now());
        self.shared.wake.notify_one();
        made.then_some(()).ok_or_else(|| Error::NotThere {
            cluster: cluster.to_owned(),
            object: object.clone(),
        })
    }

    /// From now on, changes of the Binding of this name take `delay_ms` to reach the clusters.
    pub fn delay_hand_over(&self, binding: &str, delay_ms: u64) {
        lock(&self.shared.late).insert(binding.to_owned(), delay_ms);
    }
}

/// What the task and its owner both hold.
struct Shared {
    clock: SharedClock,
    settings: Settings,
    late: Mutex<BTreeMap<String, u64>>,
    fleet: Mutex<Fleet>,
    wake: Notify,
}

impl Shared {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn fleet(&self) -> MutexGuard<'_, Fleet> {
        lock(&self.fleet)
    }

    /// When a change of this Binding that was seen now reaches the clusters.
    fn hand_over_at(&self, binding: &str) -> Timestamp {
        let delay_ms = lock(&self.late)
            .get(binding)
            .copied()
            .unwrap_or(self.settings.transport_delay_ms);
        later(self.now(), delay_ms)
    }
}

/// No code panics while it holds one of these locks; if it ever did, the data would still be whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn later(time: Timestamp, delay_ms: u64) -> Timestamp {
    let delay = SignedDuration::from_millis(i64::try_from(delay_ms).unwrap_or(i64::MAX));
    time.checked_add(delay).unwrap_or(Timestamp::MAX)
}
