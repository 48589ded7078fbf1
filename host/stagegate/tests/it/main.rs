//! The integration tests of the host, in one binary.

mod cli;
mod shell;
mod harness;
mod scenarios;
