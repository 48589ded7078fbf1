//! The shell on the embedded control plane: what watches, queue, reconcile and writes promise.

mod rollout;
mod world;
