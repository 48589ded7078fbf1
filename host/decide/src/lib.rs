//! Facts and the time in; questions or a plan out; nothing else.
//!
//! Each controller is a pure function over what was read from the cluster:
//!
//! - [`staging`] moves a StagedBindingPolicy through its stages;
//! - [`binding`] translates a BindingPolicy into a Binding where no KubeStellar runs;
//! - [`combine`] combines the statuses that clusters returned, likewise;
//! - [`pools`] keeps a workload in every node pool, and updates them stage by stage;
//! - [`checks`] evaluates the condition, the gates and the soak of a stage;
//! - [`health`] tells whether an object runs as it should, from what a cluster reported.
//!
//! Invariant: there is no clock, client, task, environment or randomness here. The same facts give the same answer,
//! so every rule is tested by a file of facts. Whatever the program may do to the world is a variant of a `Write`.

#![deny(missing_docs)]

pub mod binding;
pub mod checks;
pub mod combine;
pub mod counted;
pub mod health;
pub mod names;
pub mod pools;
pub mod precondition;
pub mod selector;
pub mod staging;
mod time;
