//! The decision rules in a simulated world: an API server, KubeStellar, clusters, users and faults in one thread and virtual time,
//! all drawn from one seed.
//!
//! The same seed gives the same run, byte for byte. The [`oracle`] checks the rules against what the clusters really run. Each
//! run ends with a time without faults, in which the rollout must complete or status say what a person must do ([`run`]).

mod alarm;
mod bare;
mod case;
pub mod claims;
pub mod clusters;
pub mod controller;
pub mod coverage;
mod delivery;
mod difference;
mod edits;
mod extras;
mod gate_rules;
pub mod gates;
mod joins;
pub mod kubestellar;
pub mod many;
pub mod oracle;
mod peace;
mod placement_rules;
mod plots;
mod proofs;
pub mod queue;
pub mod run;
pub mod script;
pub mod seeded;
pub mod server;
mod shell;
pub mod shrink;
mod story;
mod tampering;
mod users;
mod versions;
mod waits;
pub mod world;
