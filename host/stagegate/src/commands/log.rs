//! Where the log of a command goes and how much of it there is.

use std::io;

use tracing_subscriber::EnvFilter;

/// `RUST_LOG` says how much; without it `default` does.
pub fn to_stderr(default: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_unset| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .init();
}
