//! The host's way to the API server, with a tap in it: it counts the host's writes and can fall dry after one, so that
//! the host can be killed with a write done and its answer unheard. Must not change a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use axum::Router;
use kube::Client;
use tokio::sync::Notify;
use tower::ServiceExt as _;

#[derive(Clone)]
pub struct Tap {
    router: Router,
    state: Arc<State>,
}

struct State {
    requests: AtomicU64,
    writes: AtomicU64,
    /// The write whose answer never comes, counted from 1; 0: none.
    last: AtomicU64,
    dry: Notify,
}

impl Tap {
    pub fn new(router: Router) -> Tap {
        let state = State {
            requests: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            last: AtomicU64::new(0),
            dry: Notify::new(),
        };
        Tap {
            router,
            state: Arc::new(state),
        }
    }

    pub fn client(&self) -> Client {
        let tap = self.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let tap = tap.clone();
            async move {
                let writes = !matches!(*request.method(), http::Method::GET);
                if !request.uri().query().is_some_and(|query| query.contains("watch=true")) {
                    tap.state.requests.fetch_add(1, SeqCst);
                }
                let answer = tap.router.clone().oneshot(request).await;
                if writes {
                    let nth = tap.state.writes.fetch_add(1, SeqCst) + 1;
                    let last = tap.state.last.load(SeqCst);
                    if last != 0 && nth >= last {
                        tap.state.dry.notify_one();
                        std::future::pending::<()>().await;
                    }
                }
                answer
            }
        });
        Client::new(service, "default")
    }

    /// All of the host's requests so far, but watches: those are asked for anew every few minutes.
    pub fn requests(&self) -> u64 {
        self.state.requests.load(SeqCst)
    }

    /// The host's writes so far, refused ones included.
    pub fn writes(&self) -> u64 {
        self.state.writes.load(SeqCst)
    }

    /// From the `nth` write on (counted from now) no answer to a write comes back.
    pub fn run_dry_after(&self, nth: u64) {
        self.state.last.store(self.writes() + nth, SeqCst);
    }

    pub fn flow_again(&self) {
        self.state.last.store(0, SeqCst);
    }

    /// Returns when an answer has been kept back.
    pub async fn dry(&self) {
        self.state.dry.notified().await;
    }
}
