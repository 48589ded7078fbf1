//! The integration tests of the host, in one binary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails by the panic")]

mod cli;
mod guests;
mod harness;
mod invariants;
mod matrices;
mod repository;
mod sandbox;
mod scenarios;
mod shell;
