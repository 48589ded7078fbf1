//! The shell on the embedded control plane: what watches, queue, reconcile and writes promise.

mod queue;
mod rollout;
mod watch;
mod world;
