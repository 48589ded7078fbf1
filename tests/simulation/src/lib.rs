//! The decision rules in a simulated world: an API server, KubeStellar, clusters, users and faults in one thread and virtual time,
//! all drawn from one seed.
//!
//! The same seed gives the same run, byte for byte. What must never happen is judged by what the clusters really run
//! ([`oracle`]); a run ends with peace, in which the rollout has to complete or status to say what a person must do ([`run`]).

mod bare;
mod case;
pub mod clusters;
pub mod controller;
pub mod coverage;
mod difference;
pub mod kubestellar;
pub mod oracle;
mod peace;
pub mod queue;
pub mod run;
pub mod script;
pub mod seeded;
pub mod server;
mod shell;
pub mod shrink;
mod users;
pub mod world;
