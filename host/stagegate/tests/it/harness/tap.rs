//! The host's way to the API server, with a tap in it: it counts the host's calls and writes, and can disturb any one
//! of them as a bad network, a bad server or a kill would. What it does not disturb it must not change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use futures::StreamExt as _;
use http::{HeaderValue, Method, Request, Response};
use kube::Client;
use stagegate_embedded::USER_HEADER;
use tokio::sync::Notify;
use tower::ServiceExt as _;

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// The host dies before the request has left.
    KilledBefore,
    /// It is done, and the host dies before the answer.
    KilledAt,
    /// The host has the answer, and dies before its next request.
    KilledAfter,
    /// It is done, and the connection breaks before the answer.
    AnswerLost,
    /// Nothing is done; this HTTP status is the answer.
    Refused(u16),
    /// The connection breaks in the middle of the answer; of a watch, at its first event.
    Cut,
    /// No answer ever comes; a watch begins, and says nothing.
    Silent,
    /// The answer is what the same question was answered before, or, the first time, that there is nothing yet.
    Stale,
    /// It leaves when calls flow again, and only the test knows what has happened by then.
    Waits,
}

/// One call as the tap saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub method: Method,
    /// Path and query.
    pub target: String,
}

impl Call {
    pub fn is_watch(&self) -> bool {
        self.target.contains("watch=true")
    }

    /// Only watches list in pages.
    pub fn is_watchs_list(&self) -> bool {
        self.target.contains("limit=")
    }

    pub fn is_write(&self) -> bool {
        self.method != Method::GET
    }
}

#[derive(Clone)]
pub struct Tap {
    router: Router,
    user: HeaderValue,
    state: Arc<Mutex<State>>,
    /// The host is to be killed now, or a call waits.
    dry: Arc<Notify>,
    flowing: Arc<Notify>,
}

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    writes: u64,
    /// The write whose answer never comes, counted from 1.
    last_write: Option<u64>,
    /// The call that is disturbed, counted from 1.
    disturbed: Option<(usize, Disturbance)>,
    /// No request leaves any more.
    is_dry: bool,
    answered: HashMap<String, Bytes>,
}

impl Tap {
    /// `user` is how the log of commits names the host.
    pub fn new(router: Router, user: &'static str) -> Tap {
        Tap {
            router,
            user: HeaderValue::from_static(user),
            state: Arc::default(),
            dry: Arc::default(),
            flowing: Arc::default(),
        }
    }

    pub fn client(&self) -> Client {
        let tap = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let tap = tap.clone();
            async move { tap.pass_on(request).await }
        });
        Client::new(service, "default")
    }

    /// All of the host's requests so far, but watches and the lists beside them: those are asked for every few minutes.
    pub fn requests(&self) -> u64 {
        let state = self.state();
        let asked = state
            .calls
            .iter()
            .filter(|call| !call.is_watch() && !call.is_watchs_list());
        asked.map(|_| 1).sum()
    }

    /// All calls so far, watches included.
    pub fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    /// The host's writes so far, refused ones included.
    pub fn writes(&self) -> u64 {
        self.state().writes
    }

    /// From the `nth` write on (counted from now) no answer to a write comes back.
    pub fn cut_after(&self, nth: u64) {
        let mut state = self.state();
        state.last_write = Some(state.writes + nth);
    }

    /// Disturbs the `nth` call, counted from the very first.
    pub fn disturb(&self, nth: usize, disturbance: Disturbance) {
        self.state().disturbed = Some((nth, disturbance));
    }

    /// Counts from here on.
    pub fn forget(&self) {
        *self.state() = State::default();
    }

    pub fn flow_again(&self) {
        let mut state = self.state();
        (state.last_write, state.disturbed, state.is_dry) = (None, None, false);
        drop(state);
        self.flowing.notify_waiters();
    }

    /// Returns when the host is to be killed, or a call waits.
    pub async fn dry(&self) {
        self.dry.notified().await;
    }

    async fn pass_on(&self, mut request: Request<kube::client::Body>) -> Result<Response<Body>, Broken> {
        request.headers_mut().insert(USER_HEADER, self.user.clone());
        let call = Call {
            method: request.method().clone(),
            target: request.uri().to_string(),
        };
        let disturbance = self.take_down(&call);
        match disturbance {
            Some(Disturbance::KilledBefore) => return self.never().await,
            Some(Disturbance::Refused(code)) => return Ok(refusal(code)),
            Some(Disturbance::Silent) if call.is_watch() => {
                return Ok(Response::new(Body::from_stream(futures::stream::pending::<
                    Result<Bytes, Broken>,
                >())));
            }
            Some(Disturbance::Silent) => return std::future::pending().await,
            Some(Disturbance::Waits) => self.wait().await,
            Some(Disturbance::Stale) => {
                if let Some(earlier) = self.earlier(&call) {
                    return Ok(json_answer(earlier));
                }
            }
            _ => {}
        }
        let answer = match self.router.clone().oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        if call.is_write() && self.is_last_write() {
            return self.never().await;
        }
        match disturbance {
            Some(Disturbance::KilledAt) => self.never().await,
            Some(Disturbance::KilledAfter) => {
                self.state().is_dry = true;
                self.dry.notify_one();
                Ok(answer)
            }
            Some(Disturbance::AnswerLost) => Err(Broken),
            Some(Disturbance::Cut) => Ok(cut(answer).await),
            _ => Ok(self.remember(&call, answer).await),
        }
    }

    /// Counts the call, and says what is to happen to it.
    fn take_down(&self, call: &Call) -> Option<Disturbance> {
        let mut state = self.state();
        state.calls.push(call.clone());
        state.writes += u64::from(call.is_write());
        if state.is_dry {
            return Some(Disturbance::KilledBefore);
        }
        let nth = state.calls.len();
        let disturbed = state.disturbed.filter(|(disturbed, _)| *disturbed == nth);
        disturbed.map(|(_, disturbance)| disturbance)
    }

    fn is_last_write(&self) -> bool {
        let state = self.state();
        state.last_write.is_some_and(|last| state.writes >= last)
    }

    async fn never(&self) -> Result<Response<Body>, Broken> {
        self.dry.notify_one();
        std::future::pending().await
    }

    async fn wait(&self) {
        let flowing = self.flowing.notified();
        self.dry.notify_one();
        flowing.await;
    }

    /// What the server would have said a while ago. A write and a watch have no such answer.
    fn earlier(&self, call: &Call) -> Option<Bytes> {
        if call.is_write() || call.is_watch() {
            return None;
        }
        if let Some(earlier) = self.state().answered.get(&call.target) {
            return Some(earlier.clone());
        }
        let nothing_yet =
            serde_json::json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": []});
        let is_list = call.target.contains("limit=") || call.target.contains("labelSelector=");
        is_list.then(|| Bytes::from(nothing_yet.to_string()))
    }

    async fn remember(&self, call: &Call, answer: Response<Body>) -> Response<Body> {
        if call.is_write() || call.is_watch() || !answer.status().is_success() {
            return answer;
        }
        let (parts, body) = answer.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
        self.state().answered.insert(call.target.clone(), bytes.clone());
        Response::from_parts(parts, Body::from(bytes))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that ended before the answer did.
#[derive(Debug, thiserror::Error)]
#[error("connection closed before message completed")]
pub struct Broken;

fn json_answer(body: Bytes) -> Response<Body> {
    let mut answer = Response::new(Body::from(body));
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(http::header::CONTENT_TYPE, json);
    answer
}

fn refusal(code: u16) -> Response<Body> {
    let reason = match code {
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "refused by the test", "reason": reason, "code": code,
    });
    let mut answer = json_answer(Bytes::from(status.to_string()));
    *answer.status_mut() = http::StatusCode::from_u16(code).unwrap();
    answer
}

/// The first half of what comes first, then the end of the connection.
async fn cut(answer: Response<Body>) -> Response<Body> {
    let (parts, body) = answer.into_parts();
    let first = body
        .into_data_stream()
        .next()
        .await
        .and_then(Result::ok)
        .unwrap_or_default();
    let half = first.slice(..first.len() / 2);
    let torn = futures::stream::iter([Ok(half), Err(Broken)]);
    Response::from_parts(parts, Body::from_stream(torn))
}
