//! Kubernetes Events (events.k8s.io/v1): best effort. Must never hold up a decision, nor become a storm: a full queue or a
//! refused write is logged, counted and forgotten, and what is said of one object costs it a token of its own.
//!
//! Milestones are exempt. There are only as many as stages that pass, so they have an unbounded queue, which is served first, need
//! no token, and are tried again when the API server does not accept them.
//!
//! The shared clock stamps them, and a repeated Event becomes a series, as kubectl shows it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use stagegate_api::printable::printable_cut;
use stagegate_clock::SharedClock;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::debug;

use super::bounded::BoundedMap;
use super::machine::machine;
use super::metrics::RuntimeMetrics;
use super::request::{RequestError, request};

/// Events, other than milestones, that may wait to be written.
const WAITING_MAX: usize = 256;
/// A repetition after this time is a new Event.
const SERIES_GAP_MAX: SignedDuration = SignedDuration::from_mins(6);
/// Series that are remembered; of more, those that were said longest ago are told anew.
const SERIES_MAX: usize = 1024;
/// Writes about one object at once, and how long it takes to earn another: client-go's numbers (`tools/record`).
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(5 * 60);
/// Objects whose tokens are counted.
const OBJECTS_MAX: usize = 16 * 1024;
/// How often a milestone is tried, and the pause after the first try. The pause doubles: about two minutes in all.
const MILESTONE_TRIES: u32 = 8;
const MILESTONE_PAUSE: Duration = Duration::from_secs(1);
/// events.k8s.io/v1: longest note.
const NOTE_CHARS_MAX: usize = 1024;
/// And the longest name of an instance.
const INSTANCE_CHARS_MAX: usize = 128;
/// Events about cluster-scoped objects live here.
const NAMESPACE: &str = "default";
/// Who reports: the field manager's name too.
pub const REPORTER: &str = "stagegate";

/// What is to be said about an object.
#[derive(Clone, Debug)]
pub struct Notice {
    pub about: ObjectReference,
    pub warning: bool,
    /// A stage has passed or a rollout is completed: neither a full queue nor a lack of tokens drops it.
    pub is_milestone: bool,
    /// One word; also the Event's action.
    pub reason: String,
    /// Cut to 1,024 characters.
    pub note: String,
}

/// Hands notices to the writer.
#[derive(Clone, Debug)]
pub struct Events {
    sender: mpsc::Sender<Notice>,
    milestones: mpsc::UnboundedSender<Notice>,
    metrics: Arc<RuntimeMetrics>,
}

impl Events {
    /// The sender, and the writer to be run as a task.
    pub fn new(client: Client, clock: SharedClock, metrics: Arc<RuntimeMetrics>) -> (Self, Writer) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let (milestones, passed) = mpsc::unbounded_channel();
        let writer = Writer {
            client,
            clock,
            receiver,
            passed,
            metrics: metrics.clone(),
            instance: machine().chars().take(INSTANCE_CHARS_MAX).collect(),
            series: HashMap::new(),
            tokens: BoundedMap::new(OBJECTS_MAX),
            written: 0,
        };
        let events = Self {
            sender,
            milestones,
            metrics,
        };
        (events, writer)
    }

    pub fn send(&self, notice: Notice) {
        let sent = if notice.is_milestone {
            self.milestones.send(notice).map_err(|error| error.to_string())
        } else {
            self.sender.try_send(notice).map_err(|error| error.to_string())
        };
        if let Err(error) = sent {
            self.metrics.event_dropped();
            debug!(error, "an Event is dropped");
        }
    }
}

/// Writes what [`Events`] is given.
pub struct Writer {
    client: Client,
    clock: SharedClock,
    receiver: mpsc::Receiver<Notice>,
    /// The milestones.
    passed: mpsc::UnboundedReceiver<Notice>,
    metrics: Arc<RuntimeMetrics>,
    /// Which of several processes reports.
    instance: String,
    series: HashMap<SeriesKey, Series>,
    /// By the object's uid.
    tokens: BoundedMap<String, Tokens>,
    /// Tells two Events of one instant apart.
    written: u64,
}

/// What is equal to what: the object's uid, the reason, the note.
type SeriesKey = (String, String, String);

struct Series {
    event_name: String,
    /// How often it was said, written or not.
    count: i32,
    last: Timestamp,
}

impl Writer {
    /// Until the last sender is gone.
    pub async fn run(mut self) {
        loop {
            let notice = tokio::select! {
                biased;
                Some(notice) = self.passed.recv() => notice,
                Some(notice) = self.receiver.recv() => notice,
                else => return,
            };
            self.take(notice).await;
        }
    }

    async fn take(&mut self, notice: Notice) {
        let now = self.clock.now();
        self.series
            .retain(|_, series| now.duration_since(series.last) < SERIES_GAP_MAX);
        let uid = notice.about.uid.clone().unwrap_or_default();
        let key = (uid.clone(), notice.reason.clone(), notice.note.clone());
        let repeated = self.series.get_mut(&key).map(|series| {
            series.count = series.count.saturating_add(1);
            series.last = now;
            (series.event_name.clone(), series.count)
        });
        if !notice.is_milestone && !self.has_token(uid) {
            // What a series counts is not lost: its next write tells of it.
            self.metrics.event_dropped();
            return;
        }
        let tries = if notice.is_milestone { MILESTONE_TRIES } else { 1 };
        for number in 1..=tries {
            let Err(error) = self.write(&notice, &key, (repeated.as_ref(), now)).await else {
                return;
            };
            let object = notice.about.name.as_deref();
            debug!(object, error = error.chain(), "an Event could not be written");
            // Trying again does not change a refusal.
            if number == tries || error.is_forbidden() {
                self.metrics.event_dropped();
                return;
            }
            tokio::time::sleep(MILESTONE_PAUSE * 2u32.pow(number - 1)).await;
        }
    }

    async fn write(
        &mut self,
        notice: &Notice,
        key: &SeriesKey,
        (repeated, now): (Option<&(String, i32)>, Timestamp),
    ) -> Result<(), RequestError> {
        match repeated {
            Some(series) => match self.count(namespace(&notice.about), series, now).await {
                // The API server forgets Events after an hour; a series may go on for longer.
                Err(error) if error.is_not_found() => self.create(notice.clone(), key.clone(), now).await,
                written => written,
            },
            None => self.create(notice.clone(), key.clone(), now).await,
        }
    }

    async fn count(
        &self,
        namespace: &str,
        (event_name, count): &(String, i32),
        now: Timestamp,
    ) -> Result<(), RequestError> {
        let series = EventSeries {
            count: *count,
            last_observed_time: MicroTime(now),
        };
        let (params, body) = (PatchParams::default(), Patch::Merge(json!({"series": series})));
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let patched = api.patch(event_name, &params, &body);
        request(format!("patch event {event_name}"), patched).await.map(drop)
    }

    async fn create(&mut self, notice: Notice, key: SeriesKey, now: Timestamp) -> Result<(), RequestError> {
        self.written = self.written.wrapping_add(1);
        let stamp = format!("{:x}{:04x}", now.as_nanosecond(), self.written % 65_536);
        let event_name = format!("{}.{stamp}", notice.about.name.as_deref().unwrap_or("unnamed"));
        let event = self.event(event_name.clone(), notice, now);
        let params = PostParams::default();
        let namespace = event.metadata.namespace.as_deref().unwrap_or(NAMESPACE);
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let created = api.create(&params, &event);
        request(format!("create event {event_name}"), created).await?;
        self.forget_oldest_series();
        let series = Series {
            event_name,
            count: 1,
            last: now,
        };
        self.series.insert(key, series);
        Ok(())
    }

    fn event(&self, name: String, notice: Notice, now: Timestamp) -> Event {
        Event {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(namespace(&notice.about).to_owned()),
                ..ObjectMeta::default()
            },
            action: Some(notice.reason.clone()),
            event_time: Some(MicroTime(now)),
            // What an API server or a webhook answered may be in it.
            note: Some(printable_cut(&notice.note, NOTE_CHARS_MAX)),
            reason: Some(notice.reason),
            regarding: Some(notice.about),
            reporting_controller: Some(format!("community.kubestellar.io/{REPORTER}")),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(if notice.warning { "Warning" } else { "Normal" }.to_owned()),
            ..Event::default()
        }
    }

    fn forget_oldest_series(&mut self) {
        if self.series.len() < SERIES_MAX {
            return;
        }
        let oldest = self.series.iter().min_by_key(|(_, series)| series.last);
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.series.remove(&key);
        }
    }

    /// Takes a token of the object, if it has one left.
    fn has_token(&mut self, uid: String) -> bool {
        let now = Instant::now();
        let mut tokens = self.tokens.get(&uid).copied().unwrap_or_else(|| Tokens::full(now));
        let is_taken = tokens.take(now);
        self.tokens.insert(uid, tokens);
        is_taken
    }
}

/// [`BURST`] at first, then one more each [`REFILL`].
#[derive(Clone, Copy, Debug)]
struct Tokens {
    left: u32,
    /// When the last one was earned.
    earned_at: Instant,
}

impl Tokens {
    const fn full(now: Instant) -> Self {
        Self {
            left: BURST,
            earned_at: now,
        }
    }

    fn take(&mut self, now: Instant) -> bool {
        let earned = now.duration_since(self.earned_at).as_secs() / REFILL.as_secs();
        let earned = u32::try_from(earned).unwrap_or(u32::MAX).min(BURST);
        self.earned_at = if self.left.saturating_add(earned) >= BURST {
            now
        } else {
            self.earned_at + REFILL * earned
        };
        self.left = self.left.saturating_add(earned).min(BURST);
        let is_taken = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_taken
    }
}

/// Where Events about the object live.
fn namespace(about: &ObjectReference) -> &str {
    about.namespace.as_deref().unwrap_or(NAMESPACE)
}
