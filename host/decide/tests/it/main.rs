//! One binary for all rows of data: facts in, questions or a plan out.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails by the panic")]

mod binding;
mod combine;
mod combine_condition;
mod defects;
mod gate_properties;
mod observe;
mod staging;
mod staging_properties;
mod world;
