//! One binary for all rows of data: facts in, questions or a plan out.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails by the panic")]

mod binding;
mod carry_out;
mod combine;
mod combine_condition;
mod defects;
mod edits;
mod evidence_properties;
mod gate_properties;
mod observe;
mod pieces;
mod rules;
mod seeded;
mod staging;
mod staging_properties;
mod states;
mod world;
