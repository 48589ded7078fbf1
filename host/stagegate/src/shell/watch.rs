//! Keeps a [`Store`] in step with the API server, whatever the server answers. One watch per kind, each with its own
//! back-off, so that a kind which is missing or refused hurts nobody who does not need it.
//!
//! kube 5.0's watcher retries a watch *request* that was answered 410 or 504 for ever with the same resourceVersion.
//! So the watcher is thrown away, which means a fresh list, at once after a 410 and after a few errors in a row.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _, pin_mut};
use kube::core::Status;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use super::counters::Live;
use super::store::Store;

/// First pause after an error; doubled by each further one in a row.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// Longest pause: four of them pass before an error that a new list cures is cured, so within 30 s.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// So many errors in a row end a watcher.
const ERRORS_MAX: u32 = 3;
/// Longer apart, two errors do not belong together.
const ROW_GAP_MAX: Duration = Duration::from_secs(60);

/// What is kept of the metadata of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagedFields {
    /// They are two thirds of a small object, and nobody asks for them.
    Dropped,
    /// For kinds whose field times are read.
    Kept,
}

/// Fills `store` until it is dropped; never returns.
pub async fn keep<T>(api: Api<T>, store: Arc<Store<T>>, managed: ManagedFields, counters: Arc<Live>)
where
    T: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    T::DynamicType: Default,
{
    let kind = T::plural(&T::DynamicType::default()).into_owned();
    keep_named(&kind, api, store, (managed, counters)).await;
}

/// The same for kinds that are known at run time only; `kind` is for the log.
pub async fn keep_named<T>(
    kind: &str,
    api: Api<T>,
    store: Arc<Store<T>>,
    (managed, counters): (ManagedFields, Arc<Live>),
) where
    T: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut errors = Errors::default();
    loop {
        counters.list();
        let events = watcher::watcher(api.clone(), watcher::Config::default());
        follow(kind, events, &store, (managed, &mut errors)).await;
    }
}

/// Errors in a row: a quiet watch says nothing, so a time without an error ends the row too.
#[derive(Debug, Default)]
struct Errors {
    count: u32,
    last: Option<Instant>,
}

impl Errors {
    fn add(&mut self) -> u32 {
        let now = Instant::now();
        if self.last.is_some_and(|last| now.duration_since(last) > ROW_GAP_MAX) {
            self.count = 0;
        }
        self.last = Some(now);
        self.count = self.count.saturating_add(1);
        self.count
    }
}

/// Takes events in until a new list is due.
async fn follow<T>(
    kind: &str,
    events: impl Stream<Item = watcher::Result<Event<T>>>,
    store: &Store<T>,
    (managed, errors): (ManagedFields, &mut Errors),
) where
    T: Resource,
{
    pin_mut!(events);
    let mut listed = Vec::new();
    let trimmed = |mut object: T| {
        if managed == ManagedFields::Dropped {
            object.meta_mut().managed_fields = None;
        }
        object
    };
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed = Vec::new(),
            Ok(Event::InitApply(object)) => listed.push(trimmed(object)),
            Ok(Event::InitDone) => {
                debug!(kind, objects = listed.len(), "listed");
                store.replace(std::mem::take(&mut listed));
            }
            Ok(Event::Apply(object)) => {
                errors.count = 0;
                store.put(trimmed(object));
            }
            Ok(Event::Delete(object)) => {
                errors.count = 0;
                store.remove(&object);
            }
            Err(error) => {
                let count = errors.add();
                report(kind, &error, count);
                store.trouble(cause(&error));
                // The position may be what the server refuses: the next watcher begins with a list.
                let again = is_code(&error, 410) || count % ERRORS_MAX == 0;
                sleep(pause(count)).await;
                if again {
                    return;
                }
            }
        }
    }
}

fn report(kind: &str, error: &watcher::Error, errors: u32) {
    if is_code(error, 404) {
        if errors == 1 {
            info!(
                kind,
                "the API server does not know this kind yet: waiting for its CustomResourceDefinition"
            );
        }
    } else if is_code(error, 410) {
        debug!(kind, "the watch is too old: listing anew");
    } else {
        warn!(kind, errors, error = %error, "watch failed");
    }
}

/// The server's own words where it has answered.
fn cause(error: &watcher::Error) -> String {
    match refusal(error) {
        Some(status) => format!("{} {}: {}", status.code, status.reason, status.message),
        None => error.to_string(),
    }
}

fn is_code(error: &watcher::Error, code: u16) -> bool {
    refusal(error).is_some_and(|status| status.code == code)
}

fn refusal(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => Some(status),
        watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}

fn pause(errors: u32) -> Duration {
    let doublings = errors.saturating_sub(1).min(10);
    (PAUSE_FIRST * 2u32.pow(doublings)).min(PAUSE_MAX)
}
