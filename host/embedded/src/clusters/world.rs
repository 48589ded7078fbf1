//! The one task that drives the clusters: watches in, hand-overs and reports out, in the order of time. Must not block
//! on real time: every wait is tokio's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::Api;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use stagegate_api::{Binding, SimulatedCluster};
use tokio_util::sync::CancellationToken;

use super::fleet::{Finding, ObjectInCluster};
use super::inventory::Inventory;
use super::mirror::{Mirror, Seen};
use super::report::Reporter;
use super::settings::later;
use super::shared::Shared;
use super::transport::{self, BindingVersion};

/// A request that failed is tried again after this.
const RETRY_MS: u64 = 1_000;

/// A look at a Binding that misses an object is repeated after this, doubled each time, up to the longest pause.
const MISSING_MS: u64 = 5;
const MISSING_MS_MAX: u64 = 1_000_000;

enum Input {
    Cluster(Event<Guarded<SimulatedCluster>>),
    Binding(Event<Guarded<Binding>>),
}

/// One object that does not decode must not stop the watch.
type Guarded<K> = DeserializeGuard<K>;

pub(super) async fn run(client: kube::Client, shared: Arc<Shared>, stop: CancellationToken) {
    let mut world = World {
        client: client.clone(),
        shared: Arc::clone(&shared),
        clusters: Mirror::default(),
        bindings: Mirror::default(),
        known: BTreeMap::new(),
        missing: BTreeMap::new(),
        due: BTreeMap::new(),
        inventory: Inventory::default(),
        reporter: Reporter::default(),
    };
    let clusters = events::<SimulatedCluster>(&client).map(Input::Cluster);
    let bindings = events::<Binding>(&client).map(Input::Binding);
    let mut inputs = stream::select(clusters.boxed(), bindings.boxed());
    loop {
        let pause = world.pause();
        tokio::select! {
            () = stop.cancelled() => return,
            input = inputs.next() => match input {
                Some(input) => world.take(input).await,
                None => return,
            },
            () = shared.wake.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
        world.wake_all(shared.take_lost_carriers());
        world.hand_over_due().await;
        world.report_due().await;
    }
}

/// A watch that outlives its errors; they are told once each and the watch goes on.
fn events<K>(client: &kube::Client) -> impl Stream<Item = Event<Guarded<K>>> + use<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let api: Api<Guarded<K>> = Api::all(client.clone());
    watch(api, watcher::Config::default())
        .default_backoff()
        .inspect_err(|error| tracing::warn!(%error, kind = %K::kind(&()), "watch failed, it is started again"))
        .filter_map(|event| std::future::ready(event.ok()))
}

struct World {
    client: kube::Client,
    shared: Arc<Shared>,
    clusters: Mirror,
    bindings: Mirror,
    known: BTreeMap<String, Binding>,
    /// By Binding: how often in a row an object was missing.
    missing: BTreeMap<String, u32>,
    /// When a Binding is looked at.
    due: BTreeMap<String, Timestamp>,
    inventory: Inventory,
    reporter: Reporter,
}

impl World {
    /// Until something is due by the passing of time; an hour when nothing is.
    fn pause(&self) -> Duration {
        let next = self.due.values().copied().chain(self.shared.fleet().next_due()).min();
        let Some(next) = next else {
            return Duration::from_secs(3600);
        };
        // Tokio counts milliseconds: half a one too early would be a busy loop.
        let left = Duration::try_from(next.duration_since(self.shared.now())).unwrap_or_default();
        if left.is_zero() {
            left
        } else {
            left + Duration::from_millis(1)
        }
    }

    async fn take(&mut self, input: Input) {
        match input {
            Input::Cluster(event) => {
                for seen in self.clusters.changes(event) {
                    self.take_cluster(seen).await;
                }
            }
            Input::Binding(event) => {
                for seen in self.bindings.changes(event) {
                    self.take_binding(seen);
                }
            }
        }
    }

    async fn take_cluster(&mut self, seen: Seen<Guarded<SimulatedCluster>>) {
        let now = self.shared.now();
        let (name, result) = match seen {
            Seen::Set(guarded) => {
                let name = guarded.name_any();
                let Some(cluster) = decoded(guarded) else { return };
                let result = self.inventory.keep(&self.client, &cluster).await;
                let bereft = self.shared.fleet().set_cluster(&name, cluster.spec, now);
                self.wake_all(bereft);
                (name, result)
            }
            Seen::Gone(name) => {
                let bereft = self.shared.fleet().remove_cluster(&name, now);
                self.wake_all(bereft);
                let result = self.inventory.drop(&self.client, &name).await;
                (name, result)
            }
        };
        if let Err(error) = result {
            tracing::warn!(cluster = %name, %error, "inventory entry not written");
        }
    }

    fn take_binding(&mut self, seen: Seen<Guarded<Binding>>) {
        let name = match seen {
            Seen::Set(guarded) => {
                let name = guarded.name_any();
                let Some(binding) = decoded(guarded) else { return };
                self.known.insert(name.clone(), binding);
                name
            }
            Seen::Gone(name) => {
                self.known.remove(&name);
                name
            }
        };
        self.wake(name);
    }

    fn wake_all(&mut self, bindings: impl IntoIterator<Item = String>) {
        for binding in bindings {
            self.wake(binding);
        }
    }

    /// Any event of a Binding or of one of its carriers leads to a look at it, whatever has changed.
    fn wake(&mut self, binding: String) {
        let at = self.shared.hand_over_at(&binding);
        let due = self.due.entry(binding).or_insert(at);
        *due = at.min(*due);
    }

    async fn hand_over_due(&mut self) {
        let now = self.shared.now();
        let ready: Vec<String> = self
            .due
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(name, _)| name.clone())
            .collect();
        for name in ready {
            self.due.remove(&name);
            if let Err(error) = self.hand_over(&name).await {
                tracing::warn!(binding = %name, %error, "hand-over failed, it is tried again");
                self.due.insert(name, later(now, RETRY_MS));
            }
        }
    }

    async fn hand_over(&mut self, name: &str) -> kube::Result<()> {
        let Some(binding) = self.known.get(name).cloned() else {
            self.missing.remove(name);
            self.shared.fleet().withdraw(name, self.shared.now());
            return Ok(());
        };
        let work = match transport::pack(&self.client, &binding).await? {
            Ok(work) => work,
            Err(object) => {
                tracing::debug!(binding = name, %object, "an object of the Binding is missing, nothing of it is handed over");
                let current = BindingVersion::of(&binding);
                self.shared.fleet().withdraw_earlier(name, &current, self.shared.now());
                let times = self.missing.entry(name.to_owned()).or_default();
                let pause = MISSING_MS
                    .saturating_mul(2_u64.saturating_pow(*times))
                    .min(MISSING_MS_MAX);
                *times = times.saturating_add(1);
                self.due.insert(name.to_owned(), later(self.shared.now(), pause));
                return Ok(());
            }
        };
        self.missing.remove(name);
        transport::acknowledge(&self.client, &binding).await?;
        self.shared.fleet().hand_over(name, work, self.shared.now());
        Ok(())
    }

    async fn report_due(&mut self) {
        let now = self.shared.now();
        loop {
            // The guard must be gone before the await below.
            let due = self.shared.fleet().take_due(now);
            let Some(place) = due else { return };
            if let Err(error) = self.report(&place, now).await {
                tracing::warn!(cluster = %place.0, object = %place.1, %error, "report failed, it is tried again");
                self.shared.fleet().look_again(place, later(now, RETRY_MS));
            }
        }
    }

    async fn report(&mut self, place: &ObjectInCluster, now: Timestamp) -> kube::Result<()> {
        let finding = self.shared.fleet().examine(place, now);
        let (source, health) = match finding {
            Finding::Silent => return Ok(()),
            Finding::Gone => return self.reporter.unsay(&self.client, place).await,
            Finding::Report(report) => *report,
        };
        if let Some(at) = health.changes_at {
            self.shared.fleet().look_again(place.clone(), at);
        }
        if !self.reporter.is_news(place, health.status.as_ref()) {
            return Ok(());
        }
        let due_at = later(health.since, self.shared.settings.status_delay_ms);
        if due_at > now {
            self.shared.fleet().look_again(place.clone(), due_at);
            return Ok(());
        }
        self.reporter.say(&self.client, place, (source, health.status)).await?;
        let bindings = self.shared.fleet().bindings_of(place);
        self.wake_all(bindings);
        Ok(())
    }
}

fn decoded<K: kube::Resource<DynamicType = ()>>(guarded: Guarded<K>) -> Option<K> {
    let name = guarded.name_any();
    match guarded.0 {
        Ok(object) => Some(object),
        Err(error) => {
            tracing::warn!(kind = %K::kind(&()), name, error = %error.error, "object does not decode, it is passed over");
            None
        }
    }
}
