//! What watches have told, for whoever waits for it. Must not write anything.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt as _};
use kube::runtime::watcher::{self, Event};
use tokio::sync::watch;

/// Kept by one or more watches.
pub struct Noted<T> {
    seen: Mutex<T>,
    changed: watch::Sender<()>,
}

impl<T: Default> Noted<T> {
    pub fn new() -> Arc<Noted<T>> {
        Arc::new(Noted {
            seen: Mutex::default(),
            changed: watch::Sender::new(()),
        })
    }
}

impl<T> Noted<T> {
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `what` is there; `None` after `limit`.
    pub async fn wait<R>(&self, limit: Duration, what: impl Fn() -> Option<R>) -> Option<R> {
        let mut changed = self.changed.subscribe();
        let found = async {
            loop {
                if let Some(found) = what() {
                    return found;
                }
                // The sender lives as long as `self`.
                let _told = changed.changed().await;
            }
        };
        tokio::time::timeout(limit, found).await.ok()
    }

    /// Notes each object that the watch tells of, for as long as it does.
    pub async fn follow<K>(
        &self,
        events: impl Stream<Item = Result<Event<K>, watcher::Error>>,
        note: impl Fn(&mut T, &K, Instant),
    ) {
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) => note(&mut self.lock(), &object, Instant::now()),
                Ok(Event::Delete(_) | Event::Init | Event::InitDone) => {}
                Err(error) => eprintln!("a watch of the benchmark: {error}"),
            }
            self.changed.send_replace(());
        }
    }
}
