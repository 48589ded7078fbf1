//! A way to the API server that goes wrong as it is told to: answers that hang, break off, say nothing, come from an
//! older state or cannot be read. Must not change what the server stores.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use futures::StreamExt as _;
use http::{Request, Response};
use kube::Client;
use serde_json::{Value, json};
use tower::ServiceExt as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Get,
    List,
    Watch,
}

/// What goes wrong, until it is mended.
#[derive(Clone)]
pub enum Fault {
    /// The request is never answered.
    Hang,
    /// The request reaches the server so much later.
    Late(Duration),
    /// This status is the answer.
    Status(u16),
    /// This body is the answer.
    Replay(Bytes),
    /// The second and later pages of a list are refused: their token is too old.
    Expire,
    /// A watch tells nothing, not even bookmarks; its connection stays open.
    Silence,
    /// A watch tells bookmarks and no events.
    Swallow,
    /// After each event of a watch all earlier ones of it come again.
    Echo,
    /// A watch is cut after so long.
    Cut(Duration),
    /// In place of each event of a watch comes this line.
    Instead(Value),
    /// Objects of this name are not what they should be, in whatever is read.
    Garble(&'static str),
}

/// Clones are the same wire.
#[derive(Clone)]
pub struct Wire {
    router: Router,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    faults: BTreeMap<(Verb, String), Fault>,
    counts: BTreeMap<(Verb, String), u64>,
}

/// What a request is about, as far as faults tell.
struct About {
    verb: Verb,
    plural: String,
    path: String,
    is_later_page: bool,
}

impl About {
    /// `None`: not a read of objects, nor of all groups.
    fn of(request: &Request<kube::client::Body>) -> Option<About> {
        let path = request.uri().path().to_owned();
        let query = request.uri().query().unwrap_or_default();
        if *request.method() != http::Method::GET {
            return None;
        }
        let mut steps: VecDeque<&str> = path.split('/').skip(1).collect();
        let prefix = if *steps.front()? == "api" { 2 } else { 3 };
        steps.drain(..prefix.min(steps.len()));
        if steps.len() > 2 && steps[0] == "namespaces" {
            steps.drain(..2);
        }
        let verb = match steps.len() {
            1 if query.contains("watch=true") => Verb::Watch,
            1 => Verb::List,
            // Of discovery, that has no plural.
            0 | 2 => Verb::Get,
            _ => return None,
        };
        Some(About {
            verb,
            plural: steps.front().copied().unwrap_or_default().to_owned(),
            is_later_page: query.contains("continue="),
            path: path.clone(),
        })
    }
}

impl Wire {
    pub fn new(router: Router) -> Wire {
        Wire {
            router,
            state: Arc::default(),
        }
    }

    pub fn client(&self) -> Client {
        let wire = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let wire = wire.clone();
            async move { Ok::<_, std::convert::Infallible>(wire.answer(request).await) }
        });
        Client::new(service, "default")
    }

    /// For reads of a kind, by its plural, or of one path.
    pub fn fault(&self, verb: Verb, of: &str, fault: Fault) {
        self.state.lock().unwrap().faults.insert((verb, of.to_owned()), fault);
    }

    pub fn mend(&self, verb: Verb, of: &str) {
        self.state.lock().unwrap().faults.remove(&(verb, of.to_owned()));
    }

    /// Requests of the kind so far.
    pub fn count(&self, verb: Verb, plural: &str) -> u64 {
        let state = self.state.lock().unwrap();
        state
            .counts
            .get(&(verb, plural.to_owned()))
            .copied()
            .unwrap_or_default()
    }

    async fn answer(&self, request: Request<kube::client::Body>) -> Response<Body> {
        let Some(about) = About::of(&request) else {
            return self.pass(request).await;
        };
        let key = (about.verb, about.plural.clone());
        let fault = {
            let mut state = self.state.lock().unwrap();
            *state.counts.entry(key.clone()).or_default() += 1;
            let of_path = state.faults.get(&(about.verb, about.path.clone()));
            of_path.or_else(|| state.faults.get(&key)).cloned()
        };
        match &fault {
            Some(Fault::Late(by)) => tokio::time::sleep(*by).await,
            Some(Fault::Hang) => std::future::pending::<()>().await,
            Some(Fault::Status(code)) => return refused(*code),
            Some(Fault::Expire) if about.is_later_page => return refused(410),
            Some(Fault::Replay(bytes)) => return Response::new(Body::from(bytes.clone())),
            _ => {}
        }
        let response = self.pass(request).await;
        if about.verb == Verb::Watch {
            let (parts, body) = response.into_parts();
            return Response::from_parts(parts, self.watch(body, fault));
        }
        let (parts, body) = response.into_parts();
        let mut bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        if let Some(Fault::Garble(name)) = fault {
            let mut answer: Value = serde_json::from_slice(&bytes).unwrap();
            garble(&mut answer, name);
            bytes = Bytes::from(answer.to_string());
        }
        Response::from_parts(parts, Body::from(bytes))
    }

    async fn pass(&self, request: Request<kube::client::Body>) -> Response<Body> {
        let Ok(response) = self.router.clone().oneshot(request).await;
        response
    }

    fn watch(&self, body: Body, fault: Option<Fault>) -> Body {
        let Some(fault) = fault else { return body };
        if matches!(fault, Fault::Silence) {
            return Body::from_stream(futures::stream::pending::<Result<Bytes, std::convert::Infallible>>());
        }
        let mut told: Vec<Value> = Vec::new();
        let cut = if let Fault::Cut(after) = fault {
            Some(after)
        } else {
            None
        };
        let lines = body.into_data_stream().map(move |chunk| {
            let chunk = chunk.unwrap();
            let events = chunk.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            let mut out = Vec::new();
            for line in events {
                let mut event: Value = serde_json::from_slice(line).unwrap();
                let is_bookmark = event["type"] == "BOOKMARK";
                match &fault {
                    _ if is_bookmark => {}
                    Fault::Swallow => continue,
                    Fault::Instead(line) => event = line.clone(),
                    Fault::Garble(name) => garble(&mut event["object"], name),
                    _ => {}
                }
                let again = if matches!(fault, Fault::Echo) && !is_bookmark {
                    told.clone()
                } else {
                    Vec::new()
                };
                for line in std::iter::once(&event).chain(&again) {
                    out.extend(line.to_string().into_bytes());
                    out.push(b'\n');
                }
                if !is_bookmark {
                    told.push(event);
                }
            }
            Ok::<_, std::convert::Infallible>(Bytes::from(out))
        });
        match cut {
            Some(after) => Body::from_stream(lines.take_until(Box::pin(tokio::time::sleep(after)))),
            None => Body::from_stream(lines),
        }
    }
}

fn refused(code: u16) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": "Injected", "message": "refused on the way"});
    let mut response = Response::new(Body::from(status.to_string()));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
    response
}

/// An object, or the objects of a list.
fn garble(answer: &mut Value, name: &str) {
    let objects: Vec<&mut Value> = match answer.get("items") {
        Some(_) => answer["items"].as_array_mut().unwrap().iter_mut().collect(),
        None => vec![answer],
    };
    for object in objects {
        if object["metadata"]["name"] == json!(name) {
            for part in ["spec", "status", "results"] {
                object[part] = json!(5);
            }
        }
    }
}
