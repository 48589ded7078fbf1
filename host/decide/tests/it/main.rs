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
mod health;
mod large;
mod observe;
mod phases;
mod pieces;
mod pools;
mod readings;
mod rules;
mod seeded;
mod staging;
mod staging_properties;
mod states;
mod words;
mod world;

/// Tells how many cases there were, past the test harness, which keeps to itself what a test that passes prints.
fn tell(line: &str) {
    use std::io::Write as _;
    let _told = writeln!(std::io::stderr(), "{line}");
}
