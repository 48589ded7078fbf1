//! Where the log of a command goes and how much of it there is.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;

/// `RUST_LOG` says how much; without it `default` does.
pub fn to_stderr(default: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_unset| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Colour codes in a file or a log collector are noise.
        .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_writer(io::stderr)
        .init();
}
