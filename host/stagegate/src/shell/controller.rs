//! The loop that every controller runs in: take a key, reconcile it, put it back with a wake-up or a back-off.
//!
//! A key that fails, hangs or panics holds up nobody but itself: sixteen are worked on at once, and every request has
//! its own deadline.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use super::counters::Live;
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

    /// Brings the world one step closer to what the facts about `key` ask for.
    fn reconcile(&self, key: &Self::Key) -> impl Future<Output = Result<Next, RequestError>> + Send;
}

/// Runs `controller` until `stop`; what has begun then is finished.
pub async fn run<C: Controller>(
    controller: Arc<C>,
    queue: Arc<Queue<C::Key>>,
    counters: Arc<Live>,
    stop: CancellationToken,
) {
    tokio::select! {
        () = stop.cancelled() => return,
        () = controller.complete() => debug!(controller = C::NAME, "all kinds are listed"),
    }
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
                        error!(controller = C::NAME, error = %error, "a reconcile broke off");
                        (error.id(), Ended::Failed)
                    }
                };
                if let Some(key) = keys.remove(&id) {
                    queue.end(&key, ended);
                }
            }
            key = queue.next(), if running.len() < CONCURRENCY => {
                counters.reconcile();
                let (controller, counters, of) = (controller.clone(), counters.clone(), key.clone());
                let handle = running.spawn(async move { reconcile(&*controller, &of, &counters).await });
                keys.insert(handle.id(), key);
            }
        }
    }
    while running.join_next().await.is_some() {}
}

async fn reconcile<C: Controller>(controller: &C, key: &C::Key, counters: &Live) -> Ended {
    match controller.reconcile(key).await {
        Ok(next) => Ended::Done { wake_in: next.wake_in },
        Err(error) if error.is_outdated() => {
            counters.failure();
            debug!(key = %key, controller = C::NAME, error = error.chain(), "the world moved on; trying again");
            Ended::Failed
        }
        Err(error) => {
            counters.failure();
            warn!(key = %key, controller = C::NAME, error = error.chain(), "reconcile failed; trying again later");
            Ended::Failed
        }
    }
}
