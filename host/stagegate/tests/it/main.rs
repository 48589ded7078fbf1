//! The integration tests of the host, in one binary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails by the panic")]

mod admin;
mod cli;
mod deploy;
mod guests;
mod harness;
mod health;
mod held_bindings;
mod invariants;
mod lease;
mod matrices;
mod pools;
mod reference;
mod releases;
mod repository;
mod sandbox;
mod scenarios;
mod shell;

/// Tells how many cases there were, past the test harness, which keeps to itself what a test that passes prints.
fn tell(line: &str) {
    use std::io::Write as _;
    let _told = writeln!(std::io::stderr(), "{line}");
}
