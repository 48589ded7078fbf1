//! The loop that every controller runs in: take a key, reconcile it, put it back with a wake-up or a back-off.
//!
//! A key that fails, hangs or panics holds up nobody but itself: sixteen are worked on at once, and every request has
//! its own deadline.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, debug, error, info_span, warn};

use super::counters::{Live, Reconciled};
use super::queue::{Ended, Queue};
use super::request::RequestError;
use super::start::Context;

/// Keys of one controller worked on at the same time.
pub const CONCURRENCY: usize = 16;

/// When to look again if no event comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Next {
    pub wake_in: Option<Duration>,
}

/// What a controller declares; everything else is the loop's.
pub trait Controller: Send + Sync + 'static {
    type Key: Clone + std::fmt::Debug + Display + Eq + Hash + Ord + Send + Sync + 'static;

    /// For the log.
    const NAME: &'static str;

    /// Returns when every kind that a decision needs was listed as a whole: no decision is made before, because an
    /// object that was not listed yet looks like one that does not exist.
    fn complete(&self) -> impl Future<Output = ()> + Send;

    /// All keys there are now.
    fn all(&self) -> Vec<Self::Key>;

    /// Drops what was remembered of a time in which this process was at work: somebody else may have been since.
    fn forget(&self) {}

    /// Brings the world one step closer to what the facts about `key` ask for.
    fn reconcile(&self, key: &Self::Key) -> impl Future<Output = Result<Next, RequestError>> + Send;
}

/// Runs `controller` until the process is told to stop; what has begun then is finished. It works in the terms in which
/// this process leads; between them keys gather in the queue, from watches that stay warm.
pub async fn run<C: Controller>(controller: C, queue: Arc<Queue<C::Key>>, context: Context) {
    tokio::select! {
        () = context.stop.cancelled() => return,
        () = controller.complete() => debug!(controller = C::NAME, "all kinds are listed"),
    }
    queue.open(CONCURRENCY);
    counters.add_queue(C::NAME, queue.clone());
    let mut running = JoinSet::new();
    let mut keys = HashMap::new();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(joined) = running.join_next_with_id() => {
                let (id, ended) = match joined {
                    Ok((id, ended)) => (id, ended),
                    Err(error) => {
                        let id = error.id();
                        if let Some((key, begun)) = keys.get(&id) {
                            error!(controller = C::NAME, %key, %error, "a reconcile broke off");
                            let took = Instant::elapsed(begun);
                            counters.reconcile(C::NAME, Reconciled::Broken, took);
                        }
                        (id, Ended::Failed)
                    }
                };
                if let Some((key, _begun)) = keys.remove(&id) {
                    queue.end(&key, ended);
                }
            }
            key = queue.next(), if running.len() < CONCURRENCY => {
                let work = queue.work(&key);
                let one = reconcile(controller.clone(), key.clone(), counters.clone());
                let handle = running.spawn(async move {
                    match work {
                        Some(work) => work.run(one).await,
                        None => one.await,
                    }
                });
                keys.insert(handle.id(), (key, Instant::now()));
            }
        }
    }

    fn begin(&mut self, key: C::Key) {
        let work = self.queue.work(&key);
        let one = reconcile(self.controller.clone(), key.clone(), self.context.counters.clone());
        let handle = self.running.spawn(async move {
            match work {
                Some(work) => work.run(one).await,
                None => one.await,
            }
        });
        self.keys.insert(handle.id(), (key, Instant::now()));
    }

    fn end(&mut self, joined: Result<(Id, Ended), JoinError>) {
        let (id, ended) = match joined {
            Ok(ended) => ended,
            // Whoever leads next may be this process, and what is to be taken away is in no list of all keys.
            Err(error) if error.is_cancelled() => (
                error.id(),
                Ended::Done {
                    wake_in: Some(Duration::ZERO),
                },
            ),
            Err(error) => {
                let id = error.id();
                if let Some((key, begun)) = self.keys.get(&id) {
                    error!(controller = C::NAME, %key, %error, "a reconcile broke off");
                    let counters = &self.context.counters;
                    counters.reconcile(C::NAME, Reconciled::Broken, begun.elapsed());
                }
                (id, Ended::Failed)
            }
        };
        if let Some((key, _begun)) = self.keys.remove(&id) {
            self.queue.end(&key, ended);
        }
    }

    /// As a kill would: whatever is left half done is found by whoever leads next.
    async fn break_off(&mut self) {
        self.running.abort_all();
        while let Some(joined) = self.running.join_next_with_id().await {
            self.end(joined);
        }
    }
}

/// Whatever is logged on the way has the controller and the key.
async fn reconcile<C: Controller>(controller: Arc<C>, key: C::Key, counters: Arc<Live>) -> Ended {
    let span = info_span!("reconcile", controller = C::NAME, %key);
    async {
        let begun = Instant::now();
        let (reconciled, ended) = match controller.reconcile(&key).await {
            Ok(next) => (Reconciled::Done, Ended::Done { wake_in: next.wake_in }),
            Err(error) if error.is_outdated() => {
                debug!(error = error.chain(), "the world moved on; trying again");
                (Reconciled::Outdated, Ended::Failed)
            }
            Err(error) => {
                warn!(error = error.chain(), "reconcile failed; trying again later");
                (Reconciled::Failed, Ended::Failed)
            }
        };
        counters.reconcile(C::NAME, reconciled, begun.elapsed());
        ended
    }
    .instrument(span)
    .await
}
