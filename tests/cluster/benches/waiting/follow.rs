//! When a watch told of what: placements that were opened, evidence that has changed. Must not write anything.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::core::{DynamicObject, PartialObjectMeta};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, ResourceExt as _};
use stagegate_api::annotation;
use stagegate_cluster_tests::bench::kinds::Kinds;
use stagegate_cluster_tests::bench::noted::Noted;
use tokio::task::JoinSet;

type Metadata = PartialObjectMeta<DynamicObject>;

/// Both watches of one controller's kinds; ends when it is dropped.
pub struct Followed {
    noted: Arc<Noted<Seen>>,
    _tasks: JoinSet<()>,
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
        let noted: Arc<Noted<Seen>> = Noted::new();
        let mut tasks = JoinSet::new();
        let placements: Api<Metadata> = Api::all_with(client.clone(), &kinds.placements);
        let events = watcher(placements, watcher::Config::default()).default_backoff();
        let of_placements = noted.clone();
        tasks.spawn(async move { of_placements.follow(events, Seen::placement).await });
        let combined: Api<Metadata> = Api::all_with(client.clone(), &kinds.combined);
        let events = watcher(combined, watcher::Config::default()).default_backoff();
        let of_evidence = noted.clone();
        tasks.spawn(async move { of_evidence.follow(events, Seen::evidence).await });
        Followed { noted, _tasks: tasks }
    }

    pub fn placement(&self, name: &str) -> Option<Placement> {
        self.noted.lock().placements.get(name).cloned()
    }

    pub fn opened_at(&self, name: &str) -> Option<Instant> {
        self.placement(name)?.opened_at
    }

    /// When this version of the evidence was told.
    pub fn evidence_at(&self, name: &str, version: &str) -> Option<Instant> {
        let seen = self.noted.lock();
        seen.evidence
            .get(name)
            .filter(|(known, _)| known == version)
            .map(|(_, at)| *at)
    }

    /// Waits until `what` is there; `None` after `limit`.
    pub async fn wait<T>(&self, limit: Duration, what: impl Fn(&Followed) -> Option<T>) -> Option<T> {
        self.noted.wait(limit, || what(self)).await
    }

    /// Whether so many placements are there, and of them so many open.
    pub fn has(&self, placements: usize, opened: usize) -> bool {
        let seen = self.noted.lock();
        seen.placements.len() >= placements && seen.opened >= opened
    }
}

impl Seen {
    fn placement(&mut self, metadata: &Metadata, now: Instant) {
        let known = self.placements.get(&metadata.name_any());
        let is_opened = metadata.annotations().contains_key(annotation::OPENED_AT_VERSION);
        let opened_at = known.and_then(|known| known.opened_at).or(is_opened.then_some(now));
        self.opened += usize::from(is_opened && known.is_none_or(|known| known.opened_at.is_none()));
        let placement = Placement {
            uid: metadata.uid().unwrap_or_default(),
            generation: metadata.metadata.generation.unwrap_or_default(),
            opened_at,
        };
        self.placements.insert(metadata.name_any(), placement);
    }

    fn evidence(&mut self, metadata: &Metadata, now: Instant) {
        let version = metadata.resource_version().unwrap_or_default();
        self.evidence.insert(metadata.name_any(), (version, now));
    }
}
