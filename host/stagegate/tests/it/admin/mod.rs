//! What the process tells of itself: its health, its numbers, its Events, its log, its traces.

mod binary;
mod checks;
mod events;
mod log;
mod metrics;
mod server;
#[cfg(feature = "otel")]
mod traces;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use stagegate::admin::{self, About};
use stagegate::start::RunningControllers;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

/// A running admin port; dropping it closes it.
struct Port {
    address: SocketAddr,
    serving: AbortHandle,
}

impl Drop for Port {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(running: &RunningControllers) -> Port {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let about = About {
        health: running.health(),
        metrics: running.metrics(),
        suppressed: Counter::default(),
    };
    let serving = tokio::spawn(admin::serve(listener, about)).abort_handle();
    Port { address, serving }
}

/// Status code and body of a GET, from a thread that may wait.
fn get(address: SocketAddr, path: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: admin\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok((code.unwrap_or_default(), body.to_owned()))
}

async fn asked(address: SocketAddr, path: &str) -> (u16, String) {
    let path = path.to_owned();
    let answer = tokio::task::spawn_blocking(move || get(address, &path)).await.unwrap();
    answer.unwrap()
}
