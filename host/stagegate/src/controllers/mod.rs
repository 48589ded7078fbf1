//! The controllers: what each watches, which keys an event touches, how facts are gathered and answers carried out. What several of them
//! ask is answered in `checks` and [`gates`].
//!
//! [`staging`] moves StagedBindingPolicies; [`binding`] and [`combine`] do KubeStellar's work where none runs; [`yurtappdaemon`] keeps
//! workloads in node pools.

pub mod binding;
mod checks;
pub mod combine;
pub mod gates;
pub mod staging;
pub mod yurtappdaemon;

mod detections;
pub mod evaluator;
mod foreign_writers;
mod guarded;
mod kinds;
mod lateness;
mod objects;
mod session;
pub mod variables;
mod write;

use std::sync::Arc;
use std::time::Duration;

use stagegate_runtime::leader::{WriteGuard, guard_writes};
use stagegate_runtime::{Runtime, Tasks};

use self::detections::Detections;
use self::evaluator::Evaluator;
pub use self::foreign_writers::ForeignWriterGuard;
use self::gates::Gates;
use crate::metrics::RolloutMetrics;
use crate::options::{ControllerName, Options};

/// Starts those that the options name, on one watch per kind; tells when KubeStellar is found to do the same work.
pub fn spawn(
    runtime: &Runtime,
    options: &Options,
    metrics: &Arc<RolloutMetrics>,
    tasks: &mut Tasks,
) -> Arc<ForeignWriterGuard> {
    let evaluator = Evaluator::new(metrics.clone());
    let (kinds, foreign_writers) = (kinds::Kinds::default(), Arc::<ForeignWriterGuard>::default());
    let named = &options.controllers;
    let gates = Arc::new(Gates::new(runtime, options.sandbox.clone(), metrics.clone()));
    if named.contains(&ControllerName::Staging) {
        let of_staging = staging::StagingOptions {
            settle_ms: options.settle_ms,
            gate_namespaces: options.gate_namespaces.clone(),
            evaluator: evaluator.clone(),
            metrics: metrics.clone(),
        };
        staging::spawn(runtime, of_staging, (&kinds, gates.clone()), tasks);
    }
    if named.contains(&ControllerName::YurtAppDaemon) {
        let of_pools = yurtappdaemon::PoolOptions {
            gate_namespaces: options.gate_namespaces.clone(),
            evaluator: evaluator.clone(),
            gates,
        };
        yurtappdaemon::spawn(runtime, of_pools, tasks);
    }
    let replaces = [ControllerName::Binding, ControllerName::Combine]
        .into_iter()
        .any(|name| named.contains(&name));
    if !replaces {
        kinds.spawn(runtime, None, tasks);
        return foreign_writers;
    }
    let detections = Detections::of(&kinds);
    let runtime = &Runtime {
        client: guard_writes(&runtime.client, WriteGuard::Unless(foreign_writers.token())),
        ..runtime.clone()
    };
    if named.contains(&ControllerName::Binding) {
        let of_binding = binding::BindingOptions {
            delay: Duration::from_millis(options.delays.binding_ms),
            adds_finalizer: options.adds_finalizer,
        };
        binding::spawn(runtime, of_binding, (&kinds, &detections), tasks);
    }
    if named.contains(&ControllerName::Combine) {
        let of_combine = combine::CombineOptions {
            delay: Duration::from_millis(options.delays.combine_ms),
            evaluator,
        };
        combine::spawn(runtime, of_combine, (&kinds, &detections), tasks);
    }
    kinds.spawn(runtime, Some(&foreign_writers), tasks);
    foreign_writers
}
