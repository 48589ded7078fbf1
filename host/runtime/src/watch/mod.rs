//! Keeps a [`Store`] in step with the API server, whatever the server answers. One watch per kind, each with its own
//! back-off, so that a kind which is missing or refused hurts nobody who does not need it.
//!
//! Not kube's watcher: that one retries a refused watch request for ever at the same version, waits without limit for
//! an answer that never comes, goes on past an event that it could not read, and shows neither the version of a list
//! nor bookmarks, without which nobody can tell that a server answers from an older state than another did before.
//!
//! Invariants: the store never goes back to an older state; an event is applied once; a list is applied whole or not at
//! all; whatever a server keeps back is found within ten minutes.

mod audit;
mod bounds;
mod counts;
mod error;
mod list;
mod position;
mod watched;

use std::fmt::Debug;
use std::sync::Arc;

use futures::StreamExt as _;
use kube::api::WatchParams;
use kube::core::{ObjectMeta, WatchEvent};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, warn};

use self::audit::Audit;
use self::bounds::{ANSWER_MAX, HELD, OLDER_MAX, SILENCE_MAX, WATCH_S};
use self::error::{FailureStreak, WatchError};
use self::position::Position;
use super::store::{Kept, ObjectId, Store};

pub(super) use self::counts::WatchCounts;
pub use self::watched::{Need, WatchHealth, Watched};
pub use super::order::{order, order_of};

/// What is kept of the metadata of a kind.
#[derive(Clone)]
pub enum ManagedFields {
    /// They are two thirds of a small object, and nobody asks for them.
    Dropped,
    /// For kinds whose field times are read.
    Kept,
    /// Shown to somebody before the object is stored, and then dropped.
    Shown(Arc<dyn Fn(&ObjectMeta) + Send + Sync>),
}

/// The objects that a watch is about.
pub struct Selected<T> {
    pub api: Api<T>,
    /// A label selector; `None`: all objects.
    pub labels: Option<String>,
}

impl<T> From<Api<T>> for Selected<T> {
    fn from(api: Api<T>) -> Self {
        Self { api, labels: None }
    }
}

/// Fills `store` until it is dropped; never returns. How it is doing is told to `watched`.
pub async fn keep<T>(of: impl Into<Selected<T>>, store: Arc<Store<T>>, managed: ManagedFields, watched: Arc<Watched>)
where
    T: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut keeper = Keeper {
        kind: watched.name(),
        of: of.into(),
        store,
        managed,
        row: FailureStreak::default(),
        audit: Audit::of(watched.name()),
        watched: &watched,
        older_since: None,
    };
    loop {
        watched.listing();
        let kept = |object| keeper.kept(object);
        match list::whole(&keeper.of, keeper.store.seen(), kept).await {
            Ok(listed) => {
                let position = keeper.take_list(listed);
                keeper.follow(position).await;
            }
            Err(trouble) => {
                keeper.meet_older(&trouble);
                keeper.pause(&trouble).await;
            }
        }
    }
}

/// How a watch ended.
enum Over {
    /// It can go on from its position.
    Resume,
    /// Something is lost.
    List,
}

struct Keeper<'k, T> {
    kind: &'k str,
    of: Selected<T>,
    store: Arc<Store<T>>,
    managed: ManagedFields,
    row: FailureStreak,
    audit: Audit,
    watched: &'k Watched,
    /// Since when all lists have been older than what was seen.
    older_since: Option<Instant>,
}

impl<T> Keeper<'_, T>
where
    T: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    fn kept(&self, object: T) -> (ObjectId, Kept<T>) {
        let object = Arc::new(self.trimmed(object));
        (ObjectId::of(object.meta()), self.store.kept(object))
    }

    fn take_list(&mut self, listed: list::Listed<(ObjectId, Kept<T>)>) -> Position {
        debug!(kind = self.kind, objects = listed.objects.len(), "listed");
        self.older_since = None;
        self.store.see(order(&listed.position.version));
        self.store.replace(listed.objects);
        self.audit.begin_anew();
        self.watched.listed();
        listed.position
    }

    /// An older state is not applied, unless it is all there is: then versions begin anew, and so does everything here. While
    /// there is no answer nobody knows what there is.
    fn meet_older(&mut self, trouble: &WatchError) {
        let WatchError::Older { listed, seen } = trouble else {
            self.older_since = None;
            return;
        };
        let since = *self.older_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= OLDER_MAX {
            warn!(
                kind = self.kind,
                listed, seen, "the API server has gone back to an older state for good; beginning anew from it"
            );
            self.store.forget_seen();
        }
    }

    /// Watches until a new list is due.
    async fn follow(&mut self, mut position: Position) {
        loop {
            let begun = Instant::now();
            let ended = self.watch(&mut position).await;
            self.watched.over();
            let held = begun.elapsed();
            if held >= HELD {
                self.row.end();
            }
            let trouble = match ended {
                Ok(Over::List) => return,
                Ok(Over::Resume) if held >= HELD => continue,
                Ok(Over::Resume) => WatchError::Short { after: held },
                Err(trouble) => trouble,
            };
            self.pause(&trouble).await;
            if trouble.loses_events() || self.row.gives_up_position() {
                return;
            }
        }
    }

    /// One watch, to its end.
    async fn watch(&mut self, position: &mut Position) -> Result<Over, WatchError> {
        let mut params = WatchParams::default().timeout(WATCH_S);
        params.label_selector.clone_from(&self.of.labels);
        let begun = timeout(ANSWER_MAX, self.of.api.watch(&params, &position.version)).await;
        let events = begun
            .map_err(|_elapsed| WatchError::NoAnswer)?
            .map_err(WatchError::Begin)?;
        self.watched.watching();
        let mut events = std::pin::pin!(events);
        let mut silent_at = Instant::now() + SILENCE_MAX;
        loop {
            tokio::select! {
                // What always ends at once must not keep the comparison from coming.
                biased;
                () = sleep_until(self.audit.due()) => {
                    if let Over::List = self.look_over().await {
                        return Ok(Over::List);
                    }
                }
                event = events.next() => match event {
                    None => return Ok(Over::Resume),
                    Some(event) => {
                        silent_at = Instant::now() + SILENCE_MAX;
                        if let Over::List = self.take(event.map_err(broken)?, position)? {
                            return Ok(Over::List);
                        }
                    }
                },
                () = sleep_until(silent_at) => {
                    debug!(kind = self.kind, "the watch has fallen silent: beginning another one");
                    return Ok(Over::Resume);
                }
            }
        }
    }

    fn take(&mut self, event: WatchEvent<T>, position: &mut Position) -> Result<Over, WatchError> {
        let version = match &event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                object.meta().resource_version.clone().unwrap_or_default()
            }
            WatchEvent::Bookmark(bookmark) => bookmark.metadata.resource_version.clone(),
            WatchEvent::Error(status) => return Err(WatchError::EndedByServer(status.clone().boxed())),
        };
        let is_bookmark = matches!(event, WatchEvent::Bookmark(_));
        let (before, after) = (order(&position.version), order(&version));
        // What comes a second time, or late, tells of a state that is over.
        if before
            .zip(after)
            .is_some_and(|(before, after)| after < before || after == before && !is_bookmark)
        {
            debug!(kind = self.kind, version, "an old event came again");
            return Ok(Over::Resume);
        }
        // A bookmark says that everything up to its version was told; an event, everything before it.
        let untold = after.map(|after| after + u64::from(is_bookmark));
        if self.audit.is_ripe(untold) && !self.audit.agrees(&self.store) {
            return Ok(self.differs());
        }
        self.watched.note_event();
        self.store.see(after);
        position.version = version;
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => self.store.put(self.trimmed(object)),
            WatchEvent::Deleted(object) => self.store.remove(&object),
            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
        }
        Ok(Over::Resume)
    }

    /// The audit is due: a list for it, or, when the watch has not come to the last one's version, the comparison.
    async fn look_over(&mut self) -> Over {
        if !self.audit.wants_list() {
            return if self.audit.agrees(&self.store) {
                Over::Resume
            } else {
                self.differs()
            };
        }
        let asked_at = Instant::now();
        match list::versions(&self.of, self.store.seen()).await {
            Ok(listed) => self.audit.listed(listed, asked_at),
            Err(trouble) => {
                debug!(kind = self.kind, error = trouble.cause(), "comparing later");
                self.audit.put_off();
            }
        }
        Over::Resume
    }

    fn differs(&self) -> Over {
        warn!(kind = self.kind, "the watch has missed events: listing again");
        Over::List
    }

    async fn pause(&mut self, trouble: &WatchError) {
        let following = self.row.add(trouble);
        trouble.report(self.kind, following);
        self.watched.troubled(trouble.cause());
        self.store.trouble(trouble.cause());
        sleep(self.row.pause()).await;
    }

    fn trimmed(&self, mut object: T) -> T {
        match &self.managed {
            ManagedFields::Kept => return object,
            ManagedFields::Shown(look) => look(object.meta()),
            ManagedFields::Dropped => {}
        }
        object.meta_mut().managed_fields = None;
        object
    }
}

/// An error in mid-watch: bytes that did not come, or an event that cannot be read. The latter kube takes for a status
/// where it can, and almost anything can be one.
fn broken(error: kube::Error) -> WatchError {
    match error {
        kube::Error::ReadEvents(_) => WatchError::Broken(error),
        _ => WatchError::Unreadable(error),
    }
}
