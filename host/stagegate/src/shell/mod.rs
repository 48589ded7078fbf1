//! The shell: watch, index, queue, reconcile, apply, back-off and Events, written once for every controller.
//!
//! A controller (see [`crate::controllers`]) is a pure module of `stagegate_decide` plus a short declaration: which
//! kinds it needs, which keys an event touches, how a key's facts are gathered and its answer carried out. The shell
//! holds no rule about workloads or stages. It reads the time only from the shared clock and sleeps only by tokio's
//! timers, so that a test which pauses time owns everything here.

pub mod bounded;
pub mod controller;
pub mod counters;
pub mod evaluator;
pub mod events;
pub mod few;
pub mod health;
pub mod lease;
pub mod links;
mod measured;
pub mod progress;
pub mod queue;
pub mod request;
mod scrape;
pub mod start;
pub mod store;
pub mod watch;

pub use counters::Counters;
pub use start::{ControllerName, Delays, Imitation, Metrics, Options, RunningControllers, start};
