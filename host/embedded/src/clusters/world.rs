//! The one task that drives the clusters: watches in, hand-overs and reports out, in the order of time. Must not block
//! on real time: every wait is tokio's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::Api;
use kube::runtime::watcher::Event;
use stagegate_api::{Binding, SimulatedCluster};
use tokio_util::sync::CancellationToken;

use super::agent::{self, Kinds, ManifestWork};
use super::fleet::{Finding, ObjectInCluster};
use super::inventory::Inventory;
use super::report::Reporter;
use super::settings::Source;
use super::shared::Shared;
use super::transport::{self, BringerVersion};
use crate::time::later;
use crate::watched::{Guarded, Mirror, Seen, decoded, events, key};

/// A request that failed is tried again after this.
const RETRY_MS: u64 = 1_000;

/// A look at a Binding that misses an object is repeated after this, doubled each time, up to the longest pause.
const MISSING_MS: u64 = 5;
const MISSING_MS_MAX: u64 = 1_000_000;

enum Input {
    Cluster(Event<Guarded<SimulatedCluster>>),
    Binding(Event<Guarded<Binding>>),
    ManifestWork(Event<Guarded<ManifestWork>>),
}

/// What brings objects to clusters.
#[derive(Clone)]
enum Bringer {
    Binding(Box<Binding>),
    ManifestWork(Box<ManifestWork>),
}

pub(super) async fn run(client: kube::Client, shared: Arc<Shared>, stop: CancellationToken) {
    let mut world = World {
        client: client.clone(),
        shared: Arc::clone(&shared),
        clusters: Mirror::default(),
        bringers: Mirror::default(),
        known: BTreeMap::new(),
        missing: BTreeMap::new(),
        due: BTreeMap::new(),
        inventory: Inventory::default(),
        kinds: Kinds::default(),
        reporter: Reporter::default(),
    };
    let clusters = events(Api::all(client.clone()), "SimulatedCluster").map(Input::Cluster);
    let bringers = match shared.settings.source {
        Source::Bindings => events(Api::all(client.clone()), "Binding").map(Input::Binding).boxed(),
        Source::ManifestWorks => events(Api::all(client.clone()), "ManifestWork")
            .map(Input::ManifestWork)
            .boxed(),
    };
    let mut inputs = stream::select(clusters.boxed(), bringers);
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

struct World {
    client: kube::Client,
    shared: Arc<Shared>,
    clusters: Mirror,
    bringers: Mirror,
    known: BTreeMap<String, Bringer>,
    /// By Binding: how often in a row an object was missing.
    missing: BTreeMap<String, u32>,
    /// When a Binding is looked at.
    due: BTreeMap<String, Timestamp>,
    inventory: Inventory,
    kinds: Kinds,
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
                for seen in self.bringers.changes(event) {
                    self.take_bringer(seen, |binding| Bringer::Binding(Box::new(binding)));
                }
            }
            Input::ManifestWork(event) => {
                for seen in self.bringers.changes(event) {
                    self.take_bringer(seen, |work| Bringer::ManifestWork(Box::new(work)));
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
                self.wake_all(self.works_of(&name));
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

    /// A cluster that can be reached again has something to say of each.
    fn works_of(&self, cluster: &str) -> Vec<String> {
        let of_cluster = |bringer: &Bringer| match bringer {
            Bringer::Binding(_) => false,
            Bringer::ManifestWork(work) => work.namespace().as_deref() == Some(cluster),
        };
        let own = self.known.iter().filter(|(_, bringer)| of_cluster(bringer));
        own.map(|(name, _)| name.clone()).collect()
    }

    fn take_bringer<K>(&mut self, seen: Seen<Guarded<K>>, bringer: impl Fn(K) -> Bringer)
    where
        K: kube::Resource<DynamicType = ()>,
    {
        let name = match seen {
            Seen::Set(guarded) => {
                let name = key(&guarded);
                let Some(object) = decoded(guarded) else { return };
                self.known.insert(name.clone(), bringer(object));
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
        match self.known.get(name).cloned() {
            None => {
                self.missing.remove(name);
                self.shared.fleet().withdraw(name, self.shared.now());
                Ok(())
            }
            Some(Bringer::Binding(binding)) => self.hand_over_binding(name, &binding).await,
            Some(Bringer::ManifestWork(work)) => self.hand_over_work(name, &work).await,
        }
    }

    async fn hand_over_binding(&mut self, name: &str, binding: &Binding) -> kube::Result<()> {
        let work = match transport::pack(&self.client, binding).await? {
            Ok(work) => work,
            Err(object) => {
                tracing::debug!(binding = name, %object, "an object of the Binding is missing, nothing of it is handed over");
                let current = BringerVersion::of(&binding.metadata);
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
        transport::acknowledge(&self.client, binding).await?;
        self.shared.fleet().hand_over(name, work, self.shared.now());
        Ok(())
    }

    async fn hand_over_work(&mut self, name: &str, work: &ManifestWork) -> kube::Result<()> {
        let unpacked = agent::unpack(&self.client, work, &mut self.kinds).await?;
        let is_reachable = unpacked
            .destinations
            .iter()
            .all(|cluster| self.shared.fleet().is_reachable(cluster));
        self.shared.fleet().hand_over(name, unpacked, self.shared.now());
        match is_reachable {
            true => agent::acknowledge(&self.client, work, self.shared.now()).await,
            // The agent of a cluster that is out of reach acknowledges nothing.
            false => Ok(()),
        }
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
