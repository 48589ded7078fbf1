//! What any controller needs, written once: watches and stores, a queue with back-off, the loop that reconciles, requests with a
//! deadline, Events, the election of a leader, health and metrics.
//!
//! A controller declares which kinds it needs, which keys an event touches, how the facts about a key are gathered and how an
//! answer is carried out (see [`controller::Controller`]). This crate holds no rule about workloads or stages. It reads the time
//! only from the shared clock and sleeps only by tokio's timers, so that a test which pauses time owns everything here.

pub mod bounded;
pub mod controller;
pub mod events;
pub mod few;
pub mod health;
mod instrumented_client;
pub mod leader;
pub mod links;
mod machine;
pub mod metrics;
mod order;
pub mod progress;
pub mod queue;
pub mod request;
pub mod store;
pub mod watch;
mod write_blocked;

use std::sync::Arc;

use kube::Client;
use stagegate_clock::SharedClock;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::events::Events;
use self::leader::LeaderState;
use self::metrics::RuntimeMetrics;

pub use self::instrumented_client::instrumented;

/// The tasks of a process, each with what it does; none of them ends before the process is told to stop.
pub type Tasks = JoinSet<&'static str>;

/// What the controllers of one process share.
#[derive(Clone)]
pub struct Runtime {
    /// Its writes are refused while another process leads.
    pub client: Client,
    pub clock: SharedClock,
    pub leader_state: Arc<LeaderState>,
    pub events: Events,
    pub metrics: Arc<RuntimeMetrics>,
    pub stop: CancellationToken,
}
