//! Nodes that exist only as objects: each SimulatedNode becomes a Node, and what runs on it behaves as its rules say, in the place of a
//! kubelet. Must not schedule: a Pod runs where it is bound.
//!
//! Where no controllers of workloads run, as in the playground, [`Workloads::Played`] gives Deployments and StatefulSets the status that they
//! would have if their Pods ran on the nodes that they select. The memory starts empty with the process; the time is that of the shared clock.

mod node;
mod pods;
mod selection;
mod workloads;
mod world;

use stagegate_clock::SharedClock;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Starts simulated nodes on any API server that serves their kind.
pub struct Nodes;

/// What is simulated, and how late it reports.
#[derive(Clone, Debug)]
pub struct Settings {
    /// From a change of an object's health until its status says so.
    pub status_delay_ms: u64,
    /// Who runs Deployments and StatefulSets.
    pub workloads: Workloads,
}

impl Default for Settings {
    /// For the playground.
    fn default() -> Self {
        Self {
            status_delay_ms: 50,
            workloads: Workloads::Played,
        }
    }
}

/// Who runs Deployments and StatefulSets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workloads {
    /// Nobody: as soon as there is a SimulatedNode, their status is what Pods on the nodes that they select would make of it. No Pods
    /// are created.
    Played,
    /// Controllers, which create Pods that a scheduler binds to the nodes.
    OfControllers,
}

impl Nodes {
    /// Watches SimulatedNodes and Pods, and workloads where they are played, from now on; kinds that are not served yet are waited for.
    pub fn start(client: kube::Client, clock: SharedClock, settings: Settings) -> RunningNodes {
        let stop = CancellationToken::new();
        let task = tokio::spawn(world::run(client, (clock, settings), stop.clone()));
        RunningNodes {
            task,
            stop: stop.drop_guard(),
        }
    }
}

/// The nodes at work; dropped, they stop where they are.
pub struct RunningNodes {
    task: tokio::task::JoinHandle<()>,
    stop: DropGuard,
}

impl RunningNodes {
    /// Ends the work and waits for it. What was reported stays reported.
    pub async fn stop(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "simulated nodes ended early");
        }
    }
}
