//! Events without storms: equal ones are counted, one object has a share, a refused one is forgotten.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use kube::{Api, Client};
use serde_json::json;
use stagegate::metrics::KINDS;
use stagegate_clock::TokioClock;
use stagegate_embedded::Server;
use stagegate_runtime::events::{Events, Notice};
use stagegate_runtime::metrics::RuntimeMetrics;

/// A writer at work on a server of its own.
struct Told {
    server: Server,
    events: Events,
}

impl Told {
    fn start() -> Self {
        let server = Server::new(TokioClock::shared());
        let client = server.client();
        Self::through(server, client)
    }

    fn through(server: Server, client: Client) -> Self {
        let (events, writer) = Events::new(client, TokioClock::shared(), Arc::new(RuntimeMetrics::new(KINDS)));
        tokio::spawn(writer.run());
        Self { server, events }
    }

    fn say(&self, about: &str, note: &str) {
        self.send(about, note, false);
    }

    fn send(&self, about: &str, note: &str, is_milestone: bool) {
        self.events.send(Notice {
            about: ObjectReference {
                name: Some(about.to_owned()),
                uid: Some(format!("uid-of-{about}")),
                ..ObjectReference::default()
            },
            warning: !is_milestone,
            is_milestone,
            reason: "WriteFailed".to_owned(),
            note: note.to_owned(),
        });
    }

    async fn written(&self) -> Vec<Event> {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let api: Api<Event> = Api::all(self.server.client());
        api.list(&Default::default()).await.unwrap().items
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_said_again_is_one_object_that_counts() {
    let told = Told::start();
    for _ in 0..10 {
        told.say("web", "refused");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let written = told.written().await;
    assert_eq!(written.len(), 1, "{written:?}");
    assert_eq!(written[0].series.as_ref().map(|series| series.count), Some(10));
    tokio::time::sleep(Duration::from_secs(7 * 60)).await;
    told.say("web", "refused");
    assert_eq!(told.written().await.len(), 2, "after six minutes it is news");
}

#[tokio::test(start_paused = true)]
async fn what_a_server_answered_reaches_no_terminal_as_it_was() {
    let told = Told::start();
    told.say("web", "refused: \u{1b}[2J\u{202e}by a webhook\n");
    let written = told.written().await;
    assert_eq!(written[0].note.as_deref(), Some("refused:  [2J by a webhook "));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_flaps_has_its_share_and_leaves_the_others_theirs() {
    let told = Told::start();
    let before = told.server.requests().writes();
    for number in 0..600 {
        told.say("flapping", &format!("state {number}"));
        told.say("repeating", "the same");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    told.say("quiet", "once");
    let written = told.written().await;
    let about = |name: &str| {
        let is_about = |event: &&Event| event.regarding.as_ref().and_then(|it| it.name.as_deref()) == Some(name);
        written.iter().filter(is_about).count()
    };
    // 25 at first, and one each five minutes: at 300 s; the one of 600 s comes later.
    assert_eq!((about("flapping"), about("repeating"), about("quiet")), (26, 1, 1));
    assert_eq!(told.server.requests().writes() - before, 26 + 26 + 1);
    tokio::time::sleep(Duration::from_secs(300)).await;
    told.say("repeating", "the same");
    let written = told.written().await;
    let counts = written.iter().filter_map(|event| event.series.as_ref());
    assert_eq!(
        counts.map(|series| series.count).max(),
        Some(601),
        "what was not written is counted"
    );
    let names: BTreeSet<_> = written.iter().map(|event| event.metadata.name.clone()).collect();
    assert_eq!(names.len(), written.len());
}

#[tokio::test(start_paused = true)]
async fn a_refused_event_is_asked_once_and_a_series_of_an_event_that_is_gone_begins_anew() {
    let asked = Arc::new(AtomicU64::new(0));
    let counting = asked.clone();
    let refusing = tower::service_fn(move |_request: http::Request<kube::client::Body>| {
        counting.fetch_add(1, SeqCst);
        let refusal =
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden"});
        let mut response = http::Response::new(axum::body::Body::from(refusal.to_string()));
        *response.status_mut() = http::StatusCode::FORBIDDEN;
        async move { Ok::<_, std::convert::Infallible>(response) }
    });
    let told = Told::through(Server::new(TokioClock::shared()), Client::new(refusing, "default"));
    told.say("web", "refused");
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(asked.load(SeqCst), 1);

    let told = Told::start();
    told.say("web", "refused");
    let [first] = &told.written().await[..] else {
        panic!("one Event")
    };
    let api: Api<Event> = Api::namespaced(told.server.client(), "default");
    let name = first.metadata.name.clone().unwrap();
    api.delete(&name, &Default::default()).await.unwrap();
    told.say("web", "refused");
    let written = told.written().await;
    assert_eq!(written.len(), 1);
    assert_ne!(written[0].metadata.name, Some(name));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_the_queue_is_dropped_and_nobody_waits() {
    let server = Server::new(TokioClock::shared());
    let (events, writer) = Events::new(
        server.client(),
        TokioClock::shared(),
        Arc::new(RuntimeMetrics::new(KINDS)),
    );
    let told = Told { server, events };
    for number in 0..10_000 {
        told.say(&format!("policy-{number}"), "all at once");
    }
    tokio::spawn(writer.run());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(told.written().await.len(), 256);
}

#[tokio::test(start_paused = true)]
async fn a_milestone_is_written_whatever_else_is_said_and_however_much() {
    let server = Server::new(TokioClock::shared());
    let (events, writer) = Events::new(
        server.client(),
        TokioClock::shared(),
        Arc::new(RuntimeMetrics::new(KINDS)),
    );
    let told = Told { server, events };
    for number in 0..1_000 {
        told.say("web", &format!("state {number}"));
        told.send("web", &format!("stage {number} has passed"), true);
    }
    tokio::spawn(writer.run());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let written = told.written().await;
    let milestones = written.iter().filter(|event| event.type_.as_deref() == Some("Normal"));
    assert_eq!(milestones.count(), 1_000);
    assert_eq!(
        written.len(),
        1_000 + 25,
        "the object's share of all else is what it was"
    );
}

#[tokio::test(start_paused = true)]
async fn a_milestone_is_tried_again_until_the_api_server_takes_it() {
    let server = Server::new(TokioClock::shared());
    let asked = Arc::new(AtomicU64::new(0));
    let (counting, client) = (asked.clone(), server.client());
    let failing = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let is_refused = counting.fetch_add(1, SeqCst) < 5;
        let client = client.clone();
        async move {
            if !is_refused {
                return client.send(request).await;
            }
            let busy = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503, "reason": "ServiceUnavailable"});
            let mut response = http::Response::new(kube::client::Body::from(busy.to_string().into_bytes()));
            *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
            Ok(response)
        }
    });
    let told = Told::through(server, Client::new(failing, "default"));
    told.send("web", "stage dev has passed", true);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(told.written().await.len(), 1);
    assert_eq!(asked.load(SeqCst), 6);
}
