//! The controllers: what each watches, which keys an event touches, how facts are gathered and answers carried out.
//!
//! [`staging`] moves StagedBindingPolicies; [`binding`] and [`combine`] do KubeStellar's work where none runs.

pub mod binding;
pub mod combine;
pub mod staging;

mod kinds;
mod objects;
mod write;

use crate::shell::ControllerName;
use crate::shell::start::{Context, Tasks};

/// Starts those that the options name, on one watch per kind.
pub fn spawn(context: &Context, tasks: &mut Tasks) {
    let kinds = kinds::Kinds::default();
    let named = &context.options.controllers;
    if named.contains(&ControllerName::Staging) {
        staging::spawn(context, &kinds, tasks);
    }
    if named.contains(&ControllerName::Binding) {
        binding::spawn(context, &kinds, tasks);
    }
    if named.contains(&ControllerName::Combine) {
        combine::spawn(context, &kinds, tasks);
    }
    kinds.spawn(context, tasks);
}
