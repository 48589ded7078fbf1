//! A host's way to the API server on which every request waits until it is let through, also one that its sender has
//! given up: a request that was sent cannot be called back. Must not change a request or an answer; only watches may be late.
//!
//! Events pass at once: nobody decides on them. The log of commits names the host.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use futures::{StreamExt as _, stream};
use http::{HeaderValue, Method, Request, Response};
use kube::Client;
use serde_json::Value;
use stagegate_embedded::USER_HEADER;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tower::ServiceExt as _;

/// Which host, counted from 0.
pub type HostId = usize;

#[derive(Clone)]
pub struct Interceptor {
    pub router: Router,
    pub host: HostId,
    pub gate: mpsc::UnboundedSender<Waiting>,
    /// How much later than it happens the host's watches tell of a change.
    pub watches_late: Duration,
}

/// A request that waits.
pub struct Waiting {
    pub host: HostId,
    request: Request<Body>,
    /// The name of the object that it makes.
    makes: Option<String>,
    answer: oneshot::Sender<Response<Body>>,
}

impl Interceptor {
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
        let is_watch = parts.uri.query().is_some_and(|query| query.contains("watch=true"));
        let passes = is_watch || parts.uri.path().contains("/events");
        let makes = (parts.method == Method::POST).then(|| {
            let object: Value = serde_json::from_slice(&body).unwrap();
            object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
        });
        let mut request = Request::from_parts(parts, Body::from(body));
        let user = HeaderValue::try_from(format!("host-{}", self.host)).unwrap();
        request.headers_mut().insert(USER_HEADER, user);
        if passes {
            let answer = answered(&self.router, request).await;
            return if is_watch {
                late(answer, self.watches_late)
            } else {
                answer
            };
        }
        let (answer, heard) = oneshot::channel();
        let waiting = Waiting {
            host: self.host,
            request,
            makes,
            answer,
        };
        // After the end of a run nobody lets anything through.
        let sent = self.gate.send(waiting);
        match heard.await {
            Ok(answer) if sent.is_ok() => answer,
            _ => std::future::pending().await,
        }
    }
}

impl Waiting {
    /// Not what is only tried.
    pub fn is_write(&self) -> bool {
        let is_tried = self
            .request
            .uri()
            .query()
            .is_some_and(|query| query.contains("dryRun="));
        self.request.method() != Method::GET && !is_tried
    }

    /// `PATCH bindingpolicies/web.stage.dev`.
    pub fn what(&self) -> String {
        // /apis/<group>/<version>/<plural>/..., for all that is written here.
        let path = self.request.uri().path().split('/').skip(4);
        let object: Vec<&str> = path.chain(self.makes.as_deref()).collect();
        format!("{} {}", self.request.method(), object.join("/"))
    }

    /// Has it done, and gives the code of the answer.
    pub async fn let_through(self, router: &Router) -> u16 {
        let answer = answered(router, self.request).await;
        let code = answer.status().as_u16();
        // A sender that has given up hears nothing.
        drop(self.answer.send(answer));
        code
    }
}

async fn answered(router: &Router, request: Request<Body>) -> Response<Body> {
    let Ok(answer) = router.clone().oneshot(request).await;
    answer
}

/// The same lines in the same order, each `by` later.
fn late(answer: Response<Body>, by: Duration) -> Response<Body> {
    if by.is_zero() {
        return answer;
    }
    let (parts, body) = answer.into_parts();
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut lines = body.into_data_stream();
        while let Some(line) = lines.next().await {
            if sender.send((Instant::now() + by, line)).is_err() {
                return;
            }
        }
    });
    let lines = stream::unfold(receiver, |mut receiver| async move {
        let (at, line) = receiver.recv().await?;
        tokio::time::sleep_until(at).await;
        Some((line, receiver))
    });
    Response::from_parts(parts, Body::from_stream(lines))
}
