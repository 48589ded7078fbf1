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

use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tracing::{Instrument as _, debug, error, info_span, warn};

use super::Runtime;
use super::leader::Leadership;
use super::metrics::{Reconciled, RuntimeMetrics};
use super::queue::{Ended, Queue};
use super::request::RequestError;

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
pub async fn run<C: Controller>(controller: C, queue: Arc<Queue<C::Key>>, runtime: Runtime) {
    tokio::select! {
        () = runtime.stop.cancelled() => return,
        () = controller.complete() => debug!(controller = C::NAME, "all kinds are listed"),
    }
    runtime.metrics.add_queue(C::NAME, queue.clone());
    let stop = runtime.stop.clone();
    let mut worker = Worker {
        controller: Arc::new(controller),
        queue,
        leadership: runtime.leader_state.leadership(),
        runtime,
        terms: 0,
        running: JoinSet::new(),
        keys: HashMap::new(),
    };
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = worker.begin_term() => {}
        }
        worker.queue.open(CONCURRENCY);
        let ended = worker.work().await;
        worker.queue.close();
        if ended.is_break() {
            return;
        }
    }
}

struct Worker<C: Controller> {
    controller: Arc<C>,
    queue: Arc<Queue<C::Key>>,
    leadership: watch::Receiver<Leadership>,
    runtime: Runtime,
    /// Terms in which this process has led.
    terms: u64,
    running: JoinSet<Ended>,
    /// And since when it is worked on.
    keys: HashMap<Id, (C::Key, Instant)>,
}

impl<C: Controller> Worker<C> {
    /// Waits for this process to lead. In the first term all that the watches reported waits in the queue. In a later one
    /// the keys do whose objects others have changed meanwhile; what follows from leading again is in no event.
    async fn begin_term(&mut self) {
        // The sender lives as long as the runtime.
        let is_leader = |leadership: &Leadership| *leadership != Leadership::Standby;
        let _leading = self.leadership.wait_for(is_leader).await;
        self.terms += 1;
        if self.terms == 1 {
            return;
        }
        self.controller.forget();
        self.queue.forget_failures();
        for key in self.controller.all() {
            self.queue.add(key);
        }
    }

    /// To the end of the term, or of the process.
    async fn work(&mut self) -> ControlFlow<()> {
        loop {
            tokio::select! {
                biased;
                () = self.runtime.stop.cancelled() => {
                    self.queue.close();
                    while self.running.join_next().await.is_some() {}
                    return ControlFlow::Break(());
                }
                // The sender lives as long as the runtime.
                _ = self.leadership.changed() => {
                    self.break_off().await;
                    return ControlFlow::Continue(());
                }
                Some(joined) = self.running.join_next_with_id() => self.end(joined),
                key = self.queue.next(), if self.running.len() < CONCURRENCY => self.begin(key),
            }
        }
    }

    fn begin(&mut self, key: C::Key) {
        let work = self.queue.work(&key);
        let one = reconcile(self.controller.clone(), key.clone(), self.runtime.metrics.clone());
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
                    let metrics = &self.runtime.metrics;
                    metrics.reconcile(C::NAME, Reconciled::Panic, begun.elapsed());
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
async fn reconcile<C: Controller>(controller: Arc<C>, key: C::Key, metrics: Arc<RuntimeMetrics>) -> Ended {
    let span = info_span!("reconcile", controller = C::NAME, %key);
    async {
        let begun = Instant::now();
        let (reconciled, ended) = match controller.reconcile(&key).await {
            Ok(next) => (Reconciled::Done, Ended::Done { wake_in: next.wake_in }),
            Err(error) if error.is_withheld() => {
                debug!(error = error.chain(), "another process leads and writes it");
                (Reconciled::Conflict, Ended::Failed)
            }
            Err(error) if error.is_outdated() => {
                debug!(error = error.chain(), "an object has changed meanwhile; trying again");
                (Reconciled::Conflict, Ended::Failed)
            }
            Err(error) => {
                warn!(error = error.chain(), "reconcile failed; trying again later");
                (Reconciled::Failed, Ended::Failed)
            }
        };
        metrics.reconcile(C::NAME, reconciled, begun.elapsed());
        ended
    }
    .instrument(span)
    .await
}
