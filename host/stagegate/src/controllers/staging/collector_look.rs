//! The StatusCollectors as the API server has them, read once for all policies that ask within a second. Must not judge them.
//!
//! They are few, seldom change, and nearly every policy names the same ones, so that reading them for each policy would be most of
//! what a burst of rollouts reads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::ResourceExt as _;
use stagegate_api::StatusCollector;
use stagegate_runtime::request::RequestError;
use stagegate_runtime::store::Store;
use stagegate_runtime::watch::order;
use tokio::time::Instant;

use super::read::Reader;
use crate::controllers::kinds::Guarded;

/// For how long one list of StatusCollectors may serve other readings.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// All StatusCollectors, at one version of their collection.
#[derive(Clone)]
pub struct Look {
    /// When it was asked for.
    pub begun: Instant,
    version: u64,
    pub collectors: Arc<BTreeMap<String, Guarded<StatusCollector>>>,
}

/// The last look of this process.
#[derive(Default)]
pub struct CollectorLooks {
    last: Mutex<Option<Look>>,
}

impl CollectorLooks {
    /// A list that is at most a second old, and at least as new as what the watch has seen and as `evidence`, the newest version among the
    /// CombinedStatuses that were read: KubeStellar combines again when a StatusCollector changes.
    ///
    /// # Errors
    /// The list request fails, or its answer is older than what the watch has seen.
    pub async fn look(
        &self,
        client: &kube::Client,
        store: &Store<Guarded<StatusCollector>>,
        evidence: u64,
    ) -> Result<Look, RequestError> {
        let last = self.last().clone();
        let known = store.seen().max(evidence);
        if let Some(look) = last.filter(|look| look.begun.elapsed() < LOOK_MAX && known <= look.version) {
            return Ok(look);
        }
        let begun = Instant::now();
        let (items, version) = Reader::new(client, store).all().await?;
        let collectors = items.into_iter().map(|item| (item.name_any(), item)).collect();
        let look = Look {
            begun,
            // A version that cannot be compared counts as the oldest.
            version: order(version.as_str()).unwrap_or_default(),
            collectors: Arc::new(collectors),
        };
        let mut last = self.last();
        if last.as_ref().is_none_or(|last| last.begun <= begun) {
            *last = Some(look.clone());
        }
        Ok(look)
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<Look>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;

    use super::{CollectorLooks, Store};

    /// A server with one StatusCollector, and how often it was asked.
    fn server() -> (Client, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let service = tower::service_fn(move |_: Request<Body>| {
            let nth = counted.fetch_add(1, Ordering::SeqCst);
            let item = json!({
                "metadata": {"name": "errors", "resourceVersion": format!("{nth}")},
                "spec": {"limit": 20},
            });
            let list = json!({"metadata": {"resourceVersion": "9"}, "items": [item]});
            async move { Ok::<_, Infallible>(Response::new(Body::from(list.to_string().into_bytes()))) }
        });
        (Client::new(service, "default"), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_serves_other_readings_for_a_second_and_counts_from_its_beginning() {
        let ((client, asked), store) = (server(), Store::default());
        let looks = CollectorLooks::default();
        let first = looks.look(&client, &store, 0).await.unwrap();
        tokio::time::advance(Duration::from_millis(900)).await;
        let second = looks.look(&client, &store, 0).await.unwrap();
        assert_eq!(second.begun, first.begun, "it is as old as it is");
        assert!(second.collectors.contains_key("errors"));
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        let newer = looks.look(&client, &store, 10).await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 2, "the evidence is newer than version 9");
        assert!(newer.begun > first.begun);
        tokio::time::advance(Duration::from_millis(1_100)).await;
        let third = looks.look(&client, &store, 0).await.unwrap();
        assert!(third.begun > newer.begun);
        assert_eq!(asked.load(Ordering::SeqCst), 3);
    }
}
