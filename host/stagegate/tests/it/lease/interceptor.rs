//! A process's way to the API server that can be cut: what is sent meanwhile arrives when it is mended, or not at all, though
//! its sender has given up long ago. Must not change a request or an answer.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{HeaderValue, Method, Request, Response};
use kube::Client;
use stagegate_embedded::USER_HEADER;
use tokio::sync::{oneshot, watch};
use tower::ServiceExt as _;

/// What does not get through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    Nothing,
    /// It arrives when the way is mended.
    Everything,
    Leases,
    /// From this write on everything; counted from 1, without those of Leases.
    FromWrite(usize),
}

#[derive(Clone)]
pub struct Interceptor {
    router: Router,
    user: HeaderValue,
    cut: Arc<watch::Sender<Cut>>,
    writes: Arc<AtomicUsize>,
    /// How long a request and its answer are under way, by their number.
    delay: fn(u64) -> Duration,
    /// How much later each answer arrives.
    answer_delay: fn(u64) -> Duration,
    requests: Arc<AtomicUsize>,
}

impl Interceptor {
    /// `user` is how the log of commits names the process.
    pub fn new(router: Router, user: &str) -> Self {
        Self {
            router,
            user: HeaderValue::try_from(user).unwrap(),
            cut: Arc::new(watch::Sender::new(Cut::Nothing)),
            writes: Arc::default(),
            delay: |_| Duration::ZERO,
            answer_delay: |_| Duration::ZERO,
            requests: Arc::default(),
        }
    }

    pub fn delayed(self, delay: fn(u64) -> Duration) -> Self {
        Self { delay, ..self }
    }

    /// Requests arrive as before; only the answers are delayed.
    pub fn answered(self, answer_delay: fn(u64) -> Duration) -> Self {
        Self { answer_delay, ..self }
    }

    pub fn cut(&self, cut: Cut) {
        self.cut.send_replace(cut);
    }

    /// Returns when something does not get through any more.
    pub async fn is_cut(&self) {
        let mut cut = self.cut.subscribe();
        let _cut = cut.wait_for(|cut| *cut == Cut::Everything).await.unwrap();
    }

    /// Writes so far, without those of Leases and Events.
    pub fn writes(&self) -> usize {
        self.writes.load(SeqCst)
    }

    pub fn client(&self) -> Client {
        let interceptor = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let interceptor = interceptor.clone();
            async move { Ok::<_, Infallible>(interceptor.send(request).await) }
        });
        Client::new(service, "default")
    }

    async fn send(&self, request: Request<kube::client::Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = to_bytes(Body::new(body), usize::MAX).await.unwrap();
        let mut request = Request::from_parts(parts, Body::from(body));
        request.headers_mut().insert(USER_HEADER, self.user.clone());
        let path = request.uri().path().to_owned();
        let is_lease = path.contains("/leases");
        if request.method() != Method::GET && !is_lease && !path.contains("/events") {
            let nth = self.writes.fetch_add(1, SeqCst) + 1;
            if *self.cut.borrow() == Cut::FromWrite(nth) {
                self.cut(Cut::Everything);
            }
        }
        let nth = u64::try_from(self.requests.fetch_add(1, SeqCst)).unwrap();
        let (answer, heard) = oneshot::channel();
        let interceptor = self.clone();
        // What was sent cannot be called back.
        tokio::spawn(async move {
            tokio::time::sleep((interceptor.delay)(nth)).await;
            let passes = |cut: &Cut| match cut {
                Cut::Everything => false,
                Cut::Leases => !is_lease,
                Cut::Nothing | Cut::FromWrite(_) => true,
            };
            drop(interceptor.cut.subscribe().wait_for(passes).await.unwrap());
            let Ok(answered) = interceptor.router.clone().oneshot(request).await;
            tokio::time::sleep((interceptor.delay)(nth + 1) + (interceptor.answer_delay)(nth)).await;
            drop(answer.send(answered));
        });
        heard.await.unwrap()
    }
}
