//! The controllers: what each watches, which keys an event touches, how facts are gathered and answers carried out.
//!
//! [`staging`] moves StagedBindingPolicies; [`binding`] and [`combine`] do KubeStellar's work where none runs.

pub mod binding;
pub mod combine;
pub mod staging;

mod guarded;
mod kinds;
mod objects;
mod rivals;
mod write;

use std::sync::Arc;

pub use self::rivals::Rivals;
use self::rivals::Traces;
use crate::shell::ControllerName;
use crate::shell::lease::{Permit, gated};
use crate::shell::start::{Context, Tasks};

/// Starts those that the options name, on one watch per kind; tells when KubeStellar is found to do the same work.
pub fn spawn(context: &Context, tasks: &mut Tasks) -> Arc<Rivals> {
    let (kinds, rivals) = (kinds::Kinds::default(), Arc::<Rivals>::default());
    let named = &context.options.controllers;
    if named.contains(&ControllerName::Staging) {
        staging::spawn(context, &kinds, tasks);
    }
    let replaces = [ControllerName::Binding, ControllerName::Combine]
        .into_iter()
        .any(|name| named.contains(&name));
    if !replaces {
        kinds.spawn(context, None, tasks);
        return rivals;
    }
    let traces = Traces::of(&kinds);
    let context = &Context {
        client: gated(&context.client, Permit::Unless(rivals.token())),
        ..context.clone()
    };
    if named.contains(&ControllerName::Binding) {
        binding::spawn(context, (&kinds, &traces), tasks);
    }
    if named.contains(&ControllerName::Combine) {
        combine::spawn(context, (&kinds, &traces), tasks);
    }
    kinds.spawn(context, Some(&rivals), tasks);
    rivals
}
