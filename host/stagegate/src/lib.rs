//! The program: its controllers watch, decide through `stagegate-decide` and write; its commands show what happens. The binary
//! only calls [`commands`]; tests drive the same code in process.

pub mod admin;
pub mod args;
pub mod commands;
pub mod controllers;
#[cfg(feature = "playground")]
pub mod held_bindings;
pub mod manifests;
pub mod metrics;
pub mod options;
pub mod policy_series;
mod scrape;
pub mod start;
pub mod target;
pub mod view;
