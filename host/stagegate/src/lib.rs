//! The host: watches, decides through `stagegate-decide`, applies, and shows what happens. The binary is a thin shell
//! around [`commands`]; tests drive the same code in process.

pub mod admin;
pub mod args;
pub mod commands;
pub mod controllers;
pub mod manifests;
pub mod sandbox;
pub mod shell;
pub mod view;
