//! Where the log of a command goes, how it looks and how much of it there is. Must not say anything itself.

use std::io::{self, IsTerminal as _};

use prometheus_client::metrics::counter::Counter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

use self::repeats::Repeats;
use crate::args::LogFormat;

mod repeats;
#[cfg(feature = "otel")]
mod traces;

/// A log that is being written.
#[derive(Debug)]
pub struct Log {
    /// Warnings that were not written because they say what was just said.
    pub suppressed: Counter,
    #[cfg(feature = "otel")]
    traces: Option<traces::Detections>,
}

/// `RUST_LOG` says how much; without it `default` does. To be called within a runtime.
pub fn to_stderr(default: &str, format: LogFormat) -> Log {
    let suppressed = Counter::default();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_unset| EnvFilter::new(default));
    let lines = fmt::layer()
        // Colour codes in a file or a log collector are noise.
        .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_writer(io::stderr);
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    };
    let lines = Repeats::of(lines, suppressed.clone()).with_filter(filter);
    let subscriber = tracing_subscriber::registry().with(lines);
    #[cfg(not(feature = "otel"))]
    {
        subscriber.init();
        Log { suppressed }
    }
    #[cfg(feature = "otel")]
    {
        let (layer, traces) = traces::exported();
        subscriber.with(layer).init();
        Log { suppressed, traces }
    }
}

impl Log {
    /// Sends what is not sent yet, for two seconds at most.
    #[cfg_attr(not(feature = "otel"), allow(clippy::unused_async, reason = "only traces wait"))]
    pub async fn end(self) {
        #[cfg(feature = "otel")]
        if let Some(traces) = self.traces {
            traces.end().await;
        }
    }
}
