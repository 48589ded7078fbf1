//! The shell on the embedded control plane: what watches, queue, reconcile and writes promise.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod binding;
mod foreign_writers;
mod keeper;
mod older;
mod queue;
mod retries;
mod rollout;
mod watch;
pub mod wire;
pub mod world;
