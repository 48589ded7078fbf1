//! Kubernetes Events (events.k8s.io/v1): best effort. Must never hold up a decision: a full queue or a refused write is
//! logged and forgotten.
//!
//! The shared clock stamps them, and a repeated Event becomes a series, as kubectl shows it.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use stagegate_embedded::SharedClock;
use tokio::sync::mpsc;
use tracing::debug;

use super::request::{cut, request};

/// Events that may wait to be written.
const WAITING_MAX: usize = 256;
/// A repetition after this time is a new Event.
const SERIES_GAP_MAX: SignedDuration = SignedDuration::from_mins(6);
/// Series that are remembered.
const SERIES_MAX: usize = 1024;
/// events.k8s.io/v1: longest note.
const NOTE_CHARS_MAX: usize = 1024;
/// Events about cluster-scoped objects live here.
const NAMESPACE: &str = "default";
/// Who reports: the field manager's name too.
pub const REPORTER: &str = "stagegate";

/// What is to be said about an object.
#[derive(Clone, Debug)]
pub struct Notice {
    pub about: ObjectReference,
    pub warning: bool,
    /// One word; also the Event's action.
    pub reason: String,
    /// Cut to 1,024 characters.
    pub note: String,
}

/// Hands notices to the writer.
#[derive(Clone, Debug)]
pub struct Events {
    sender: mpsc::Sender<Notice>,
}

impl Events {
    /// The sender, and the writer to be run as a task.
    pub fn new(client: Client, clock: SharedClock) -> (Self, Writer) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        (
            Self { sender },
            Writer {
                client,
                clock,
                receiver,
                series: HashMap::new(),
                written: 0,
            },
        )
    }

    pub fn send(&self, notice: Notice) {
        if let Err(error) = self.sender.try_send(notice) {
            debug!(error = %error, "an Event is dropped");
        }
    }
}

/// Writes what [`Events`] is given.
pub struct Writer {
    client: Client,
    clock: SharedClock,
    receiver: mpsc::Receiver<Notice>,
    series: HashMap<(String, String, String), Series>,
    /// Tells two Events of one instant apart.
    written: u64,
}

struct Series {
    event_name: String,
    count: i32,
    last: Timestamp,
}

impl Writer {
    /// Until the last sender is gone.
    pub async fn run(mut self) {
        let api: Api<Event> = Api::namespaced(self.client.clone(), NAMESPACE);
        while let Some(notice) = self.receiver.recv().await {
            self.write(&api, notice).await;
        }
    }

    async fn write(&mut self, api: &Api<Event>, notice: Notice) {
        let now = self.clock.now();
        self.series
            .retain(|_, series| now.duration_since(series.last) < SERIES_GAP_MAX);
        let about = notice.about.clone();
        let key = (
            about.uid.clone().unwrap_or_default(),
            notice.reason.clone(),
            notice.note.clone(),
        );
        if let Some(series) = self.series.get_mut(&key) {
            series.count = series.count.saturating_add(1);
            series.last = now;
            let body = json!({"series": EventSeries { count: series.count, last_observed_time: MicroTime(now) }});
            let (params, body) = (PatchParams::default(), Patch::Merge(body));
            let patched = api.patch(&series.event_name, &params, &body);
            if let Err(error) = request(format!("patch event {}", series.event_name), patched).await {
                debug!(
                    object = about.name,
                    error = error.chain(),
                    "an Event's series could not be written"
                );
                self.series.remove(&key);
            }
            return;
        }
        self.written = self.written.wrapping_add(1);
        let stamp = format!("{:x}{:02x}", now.as_nanosecond(), self.written % 256);
        let event_name = format!("{}.{stamp}", about.name.as_deref().unwrap_or("unnamed"));
        let event = event(event_name.clone(), notice, now);
        match request(
            format!("create event {event_name}"),
            api.create(&PostParams::default(), &event),
        )
        .await
        {
            Ok(_) if self.series.len() < SERIES_MAX => {
                self.series.insert(
                    key,
                    Series {
                        event_name,
                        count: 1,
                        last: now,
                    },
                );
            }
            Ok(_) => {}
            Err(error) => debug!(
                object = about.name,
                error = error.chain(),
                "an Event could not be written"
            ),
        }
    }
}

fn event(name: String, notice: Notice, now: Timestamp) -> Event {
    Event {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        action: Some(notice.reason.clone()),
        event_time: Some(MicroTime(now)),
        note: Some(cut(&notice.note, NOTE_CHARS_MAX)),
        reason: Some(notice.reason),
        regarding: Some(notice.about),
        reporting_controller: Some(format!("community.kubestellar.io/{REPORTER}")),
        reporting_instance: Some(REPORTER.to_owned()),
        type_: Some(if notice.warning { "Warning" } else { "Normal" }.to_owned()),
        ..Event::default()
    }
}
