//! What a cluster asks the process about itself: `/livez` and `/readyz` for the kubelet, `/metrics` for Prometheus. Must
//! not be in the way of what it tells of: connections are few, short, and answered from what is known already.
//!
//! A slow or hostile client costs a connection for `CONNECTION_MAX` at most, and the oldest one makes room for a new
//! one, so that a kubelet's probe is answered whoever else is there.

mod answer;
mod process;
mod pulse;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use prometheus_client::metrics::counter::Counter;
use stagegate_runtime::health::Health;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::{debug, info};

use self::answer::Answers;
use self::process::Process;
use self::pulse::Pulse;
use crate::start::Metrics;

/// Longest life of a connection: each has one request.
const CONNECTION_MAX: Duration = Duration::from_secs(10);
/// Within it, longest wait for the head of the request.
const HEAD_MAX: Duration = Duration::from_secs(5);
/// Largest head of a request; bodies are not read.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Connections at once.
const CONNECTIONS_MAX: usize = 64;
/// After the system refused to hand out a connection, for lack of file descriptors say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// What a process reports about itself.
#[derive(Clone, Debug)]
pub struct About {
    pub health: Health,
    pub metrics: Metrics,
    /// Lines that the log has held back.
    pub suppressed: Counter,
}

/// Serves on `listener`; never returns.
pub async fn serve(listener: TcpListener, about: About) {
    if let Ok(address) = listener.local_addr() {
        info!(%address, "serving /livez, /readyz and /metrics");
    }
    let pulse = Pulse::start();
    let router = answer::router(Arc::new(Answers {
        about,
        pulse,
        process: Process::started_now(),
    }));
    let mut connections = Connections::default();
    loop {
        match listener.accept().await {
            Ok((stream, from)) => connections.add(stream, from, router.clone()),
            Err(error) => {
                debug!(%error, "a connection could not be taken");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The connections that live, oldest first.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    handles: VecDeque<AbortHandle>,
}

impl Connections {
    fn add(&mut self, stream: TcpStream, from: SocketAddr, router: Router) {
        while self.tasks.try_join_next().is_some() {}
        self.handles.retain(|handle| !handle.is_finished());
        if self.handles.len() >= CONNECTIONS_MAX
            && let Some(oldest) = self.handles.pop_front()
        {
            oldest.abort();
        }
        let handle = self.tasks.spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_MAX)
                .max_buf_size(HEAD_BYTES_MAX)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
            match timeout(CONNECTION_MAX, connection).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => debug!(%from, %error, "a connection broke"),
                Err(_elapsed) => debug!(%from, "a connection was too slow"),
            }
        });
        self.handles.push_back(handle);
    }
}
