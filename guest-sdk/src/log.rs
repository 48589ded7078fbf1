//! Lines for those who debug a gate. The host keeps 64 of each call, 8 KiB together; natively they go to standard
//! error.

use std::fmt::Display;

use crate::bindings::stagegate::gate::log::Level;

/// What only the author of the gate wants to know.
pub fn debug(message: impl Display) {
    write(Level::Debug, &message.to_string());
}

/// What somebody may want to know.
pub fn info(message: impl Display) {
    write(Level::Info, &message.to_string());
}

/// What somebody should look at.
pub fn warn(message: impl Display) {
    write(Level::Warn, &message.to_string());
}

/// What went wrong.
pub fn error(message: impl Display) {
    write(Level::Error, &message.to_string());
}

#[cfg(target_family = "wasm")]
use crate::bindings::stagegate::gate::log::write;

#[cfg(not(target_family = "wasm"))]
fn write(level: Level, message: &str) {
    eprintln!("{level:?}: {message}");
}
