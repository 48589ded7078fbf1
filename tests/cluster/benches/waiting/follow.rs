//! When a watch told of what: placements that were opened, evidence that has changed. Must not write anything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt as _};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use stagegate_api::annotation;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::kinds::Kinds;

type Metadata = PartialObjectMeta<DynamicObject>;

/// Both watches of one controller's kinds; ends when it is dropped.
pub struct Followed {
    seen: Arc<Shared>,
    _tasks: JoinSet<()>,
}

struct Shared {
    seen: Mutex<Seen>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct Seen {
    placements: HashMap<String, Placement>,
    /// How many of them have been opened.
    opened: usize,
    /// Name of the CombinedStatus → version and time of the last change.
    evidence: HashMap<String, (String, Instant)>,
}

/// A BindingPolicy that is there.
#[derive(Clone, Debug)]
pub struct Placement {
    pub uid: String,
    pub generation: i64,
    pub opened_at: Option<Instant>,
}

impl Followed {
    pub fn start(client: &Client, kinds: &Kinds) -> Followed {
        let seen = Arc::new(Shared {
            seen: Mutex::default(),
            changed: watch::Sender::new(()),
        });
        let mut tasks = JoinSet::new();
        let placements: Api<Metadata> = Api::all_with(client.clone(), &kinds.placements);
        let events = watcher(placements, watcher::Config::default()).default_backoff();
        tasks.spawn(follow(events, seen.clone(), |seen, metadata, now| {
            let known = seen.placements.get(&metadata.name_any());
            let is_opened = metadata.annotations().contains_key(annotation::OPENED_AT_VERSION);
            let opened_at = known.and_then(|known| known.opened_at).or(is_opened.then_some(now));
            seen.opened += usize::from(is_opened && known.is_none_or(|known| known.opened_at.is_none()));
            let placement = Placement {
                uid: metadata.uid().unwrap_or_default(),
                generation: metadata.metadata.generation.unwrap_or_default(),
                opened_at,
            };
            seen.placements.insert(metadata.name_any(), placement);
        }));
        let combined: Api<Metadata> = Api::all_with(client.clone(), &kinds.combined);
        let events = watcher(combined, watcher::Config::default()).default_backoff();
        tasks.spawn(follow(events, seen.clone(), |seen, metadata, now| {
            let version = metadata.resource_version().unwrap_or_default();
            seen.evidence.insert(metadata.name_any(), (version, now));
        }));
        Followed { seen, _tasks: tasks }
    }

    pub fn placement(&self, name: &str) -> Option<Placement> {
        self.seen.lock().placements.get(name).cloned()
    }

    pub fn opened_at(&self, name: &str) -> Option<Instant> {
        self.placement(name)?.opened_at
    }

    /// When this version of the evidence was told.
    pub fn evidence_at(&self, name: &str, version: &str) -> Option<Instant> {
        let seen = self.seen.lock();
        seen.evidence
            .get(name)
            .filter(|(known, _)| known == version)
            .map(|(_, at)| *at)
    }

    /// Waits until `what` is there; `None` after `limit`.
    pub async fn wait<T>(&self, limit: Duration, what: impl Fn(&Followed) -> Option<T>) -> Option<T> {
        let mut changed = self.seen.changed.subscribe();
        let found = async {
            loop {
                if let Some(found) = what(self) {
                    return found;
                }
                // The sender lives as long as `self`.
                let _told = changed.changed().await;
            }
        };
        tokio::time::timeout(limit, found).await.ok()
    }

    /// Whether so many placements are there, and of them so many open.
    pub fn has(&self, placements: usize, opened: usize) -> bool {
        let seen = self.seen.lock();
        seen.placements.len() >= placements && seen.opened >= opened
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn follow(
    events: impl Stream<Item = Result<Event<Metadata>, watcher::Error>>,
    shared: Arc<Shared>,
    note: impl Fn(&mut Seen, &Metadata, Instant),
) {
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(metadata) | Event::InitApply(metadata)) => {
                note(&mut shared.lock(), &metadata, Instant::now())
            }
            Ok(Event::Delete(_) | Event::Init | Event::InitDone) => {}
            Err(error) => eprintln!("a watch of the benchmark: {error}"),
        }
        shared.changed.send_replace(());
    }
}
