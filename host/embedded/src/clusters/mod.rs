//! Clusters that exist only in memory: they take what Bindings bring and report how it fares, in the place of the OCM
//! transport, the status add-on and the clusters themselves. Must not know stages, nor decide anything about them.
//!
//! A cluster is a SimulatedCluster object, so that `kubectl edit` changes its health while a rollout runs. What was
//! really in which cluster, and when, is told by [`RunningClusters::truth`]: a test that asks for a gap asks there, not the
//! reports. The memory starts empty with the process; the time is that of the shared clock.

mod agent;
mod fleet;
mod inventory;
mod report;
mod settings;
mod shared;
mod transport;
mod truth;
mod world;

use std::sync::Arc;

use stagegate_clock::SharedClock;
use tokio_util::sync::{CancellationToken, DropGuard};

use shared::Shared;

pub use settings::{Settings, Source};
pub use truth::{Change, Fared, ObjectRef, Presence, Present, Truth};

/// Starts simulated clusters on any API server that serves their kinds.
pub struct Clusters;

/// Why something asked of the clusters could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot make {object} anew in cluster {cluster}: it is not there")]
    NotThere { cluster: String, object: ObjectRef },
    #[error("cannot delete the carrier of {object} to cluster {cluster}: the Binding has none")]
    NoCarrier { cluster: String, object: ObjectRef },
}

impl Clusters {
    /// Watches SimulatedClusters and Bindings, or ManifestWorks, from now on; kinds that are not served yet are waited for.
    pub fn start(client: kube::Client, clock: SharedClock, settings: Settings) -> RunningClusters {
        let shared = Arc::new(Shared::new(clock, settings));
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

    /// Deletes what carries a Binding's object to a cluster, as if somebody deleted its ManifestWork. The object leaves the cluster with
    /// it, unless another Binding brings it or the cluster cannot be reached, and comes back as it is in the API server then.
    ///
    /// # Errors
    /// When the Binding brings no such object there.
    pub fn delete_carrier(&self, binding: &str, cluster: &str, object: &ObjectRef) -> Result<(), Error> {
        let place = (cluster.to_owned(), object.clone());
        let is_lost = self.shared.lose_carrier(binding, &place);
        is_lost.then_some(()).ok_or_else(|| Error::NoCarrier {
            cluster: cluster.to_owned(),
            object: object.clone(),
        })
    }

    /// From now on, a look at the Binding of this name happens `delay_ms` after the first event that asks for it.
    pub fn delay_hand_over(&self, binding: &str, delay_ms: u64) {
        self.shared.delay_hand_over(binding, delay_ms);
    }
}
