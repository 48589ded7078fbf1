//! The controllers: what each watches, which keys an event touches, how facts are gathered and answers carried out.
//!
//! [`staging`] moves StagedBindingPolicies; [`binding`] and [`combine`] do KubeStellar's work where none runs.

pub mod binding;
pub mod combine;
pub mod staging;

mod foreign_writers;
mod guarded;
mod kinds;
mod objects;
mod write;

use std::sync::Arc;

use self::foreign_writers::Detections;
pub use self::foreign_writers::ForeignWriterGuard;
use crate::shell::ControllerName;
use crate::shell::lease::{WriteGuard, gated};
use crate::shell::start::{Context, Tasks};

/// Starts those that the options name, on one watch per kind; tells when KubeStellar is found to do the same work.
pub fn spawn(context: &Context, tasks: &mut Tasks) -> Arc<ForeignWriterGuard> {
    let (kinds, foreign_writers) = (kinds::Kinds::default(), Arc::<ForeignWriterGuard>::default());
    let named = &context.options.controllers;
    if named.contains(&ControllerName::Staging) {
        staging::spawn(context, &kinds, tasks);
    }
    let replaces = [ControllerName::Binding, ControllerName::Combine]
        .into_iter()
        .any(|name| named.contains(&name));
    if !replaces {
        kinds.spawn(context, None, tasks);
        return foreign_writers;
    }
    let traces = Detections::of(&kinds);
    let context = &Context {
        client: gated(&context.client, WriteGuard::Unless(foreign_writers.token())),
        ..context.clone()
    };
    if named.contains(&ControllerName::Binding) {
        binding::spawn(context, (&kinds, &traces), tasks);
    }
    if named.contains(&ControllerName::Combine) {
        combine::spawn(context, (&kinds, &traces), tasks);
    }
    kinds.spawn(context, Some(&foreign_writers), tasks);
    foreign_writers
}
