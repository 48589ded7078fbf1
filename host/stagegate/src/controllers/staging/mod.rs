//! Staging: moves StagedBindingPolicies. The rules are [`stagegate_decide::staging`]'s; here is what it watches, how its
//! questions are answered and its writes carried out.
//!
//! A reconcile is a conversation: facts from the watches → questions and answers until a plan comes out → its writes in
//! order. A refused version (KubeStellar writes each new BindingPolicy three times) is not retried but decided on again.

mod announce;
mod answer;
mod apply;
mod collector_look;
mod contention;
mod execute;
mod fresh_read;
mod gather;
mod hold_probe;
mod index;
mod memory;
mod options;
mod phases;
mod read;
mod session;
mod status_backoff;
mod stores;
mod written;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stagegate_api::{Gate, StagedBindingPolicy};
use stagegate_decide::staging::{Facts, Settings, newest_lease};
use stagegate_runtime::controller::{self, Controller, Next};
use stagegate_runtime::events::Notice;
use stagegate_runtime::queue::Queue;
use stagegate_runtime::request::RequestError;
use stagegate_runtime::{Runtime, Tasks};
use tokio::time::Instant;

use self::announce::reference;
use self::answer::Means;
use self::collector_look::CollectorLooks;
use self::fresh_read::{FreshReader, Reading};
use self::hold_probe::HoldProbe;
use self::index::Index;
use self::memory::Memory;
pub use self::options::StagingOptions;
use self::session::{Failure, PolicySession};
use self::stores::Stores;
use self::written::WrittenVersions;
use super::checks::CheckMeans;
use super::gates::sources::Sources;
use super::gates::{GateSession, Gates};
use super::kinds::Kinds;
use super::lateness::ago;
use super::session as reconcile;

/// Registers what staging watches and starts it.
pub fn spawn(runtime: &Runtime, options: StagingOptions, (kinds, gates): (&Kinds, Arc<Gates>), tasks: &mut Tasks) {
    let stores = Stores {
        policies: kinds.policies.wanted_singly(),
        placements: kinds.placements.wanted_singly(),
        bindings: kinds.bindings.wanted_singly(),
        collectors: kinds.collectors.wanted(),
        combined: kinds.combined.wanted_singly(),
        sources: Sources::new(options.gate_namespaces.clone()),
    };
    let queue = Arc::new(Queue::new(Duration::ZERO));
    let index = Arc::new(Mutex::new(Index::default()));
    let clock = runtime.clock.clone();
    let sources = stores.sources.clone();
    // Before the policy is queued.
    stores.policies.listen(move |change| {
        let policy = change.after.and_then(|policy| policy.object());
        sources.set(&change.id.name, policy.into_iter().flat_map(gates_of));
    });
    stores
        .policies
        .listen(touching(&index, &queue, |index, change| index.policy(change)));
    let now = clock.clone();
    stores.placements.listen(touching(&index, &queue, move |index, change| {
        index.placement(change, now.now())
    }));
    let now = clock.clone();
    stores.combined.listen(touching(&index, &queue, move |index, change| {
        index.combined(change, now.now())
    }));
    let now = clock.clone();
    stores.bindings.listen(touching(&index, &queue, move |index, change| {
        index.binding(change, now.now())
    }));
    let now = clock.clone();
    stores.collectors.listen(touching(&index, &queue, move |index, change| {
        index.collector(change, now.now())
    }));
    stores.policies.listen(phases::counted(options.metrics.clone()));
    let to = queue.clone();
    stores
        .sources
        .spawn(runtime, move |policy| to.add(policy.to_owned()), tasks);
    let staging = Staging {
        runtime: runtime.clone(),
        gates,
        options,
        stores,
        index,
        looks: CollectorLooks::default(),
        probe: HoldProbe::default(),
        memories: Mutex::default(),
    };
    let runtime = runtime.clone();
    tasks.spawn(async move {
        controller::run(staging, queue, runtime).await;
        "the staging controller"
    });
}

/// Of all its stages.
fn gates_of(policy: &StagedBindingPolicy) -> impl Iterator<Item = &Gate> {
    policy.spec.stages.iter().flat_map(|stage| &stage.gates)
}

/// A listener that keeps the index and queues the policies it names.
fn touching<T>(
    index: &Arc<Mutex<Index>>,
    queue: &Arc<Queue<String>>,
    touched: impl Fn(&mut Index, &stagegate_runtime::store::Change<'_, T>) -> Vec<String> + Send + Sync + 'static,
) -> impl Fn(&stagegate_runtime::store::Change<'_, T>) + Send + Sync + 'static {
    let (index, queue) = (index.clone(), queue.clone());
    move |change| {
        let keys = touched(&mut index.lock().unwrap_or_else(PoisonError::into_inner), change);
        for key in keys {
            queue.add(key);
        }
    }
}

struct Staging {
    runtime: Runtime,
    options: StagingOptions,
    gates: Arc<Gates>,
    stores: Stores,
    index: Arc<Mutex<Index>>,
    looks: CollectorLooks,
    probe: HoldProbe,
    memories: Mutex<BTreeMap<String, Memory>>,
}

impl Controller for Staging {
    type Key = String;

    const NAME: &'static str = "staging";

    async fn complete(&self) {
        self.stores.policies.complete().await;
        self.stores.placements.complete().await;
        self.stores.bindings.complete().await;
        self.stores.collectors.complete().await;
        self.stores.combined.complete().await;
    }

    fn all(&self) -> Vec<String> {
        self.stores.policies.ids().into_iter().map(|id| id.name).collect()
    }

    fn forget(&self) {
        self.memories().clear();
    }

    async fn reconcile(&self, policy: &String) -> Result<Next, RequestError> {
        let mut memory = self.memories().remove(policy).unwrap_or_default();
        if let Some(wait) = memory.written.wait(policy, &self.stores) {
            self.memories().insert(policy.clone(), memory);
            return Ok(Next { wake_in: Some(wait) });
        }
        let begun = Instant::now();
        let Some(mut facts) = self.facts(policy, &memory) else {
            return Ok(Next::default());
        };
        let reader = FreshReader {
            runtime: &self.runtime,
            stores: &self.stores,
            index: &self.index,
            looks: &self.looks,
        };
        if let Err(error) = reader.recover_status(policy, &mut facts).await {
            self.memories().insert(policy.clone(), memory);
            return Err(error);
        }
        let about = reference(&facts.policy.object);
        let session = PolicySession {
            policy,
            runtime: &self.runtime,
            options: &self.options,
            means: Means {
                client: &self.runtime.client,
                clock: &self.runtime.clock,
                probe: &self.probe,
                checks: CheckMeans {
                    evaluator: &self.options.evaluator,
                    gates: &self.gates,
                },
            },
            reader,
            reading: Reading::of_watches(facts, begun),
            memory: &mut memory,
            talk: GateSession::default(),
        };
        let result = reconcile::run(session, (&self.runtime, policy)).await;
        if result.is_err() {
            // Waiting for the watches would look like success to those who count failures in a row.
            memory.written = WrittenVersions::default();
        }
        self.memories().insert(policy.clone(), memory);
        result.map_err(|failure| {
            let reason = failure.reason().to_owned();
            let (Failure::Read(error) | Failure::Write(error)) = failure;
            if !error.is_outdated() && !error.is_withheld() {
                let note = format!("{}; trying again later", error.chain());
                self.runtime.events.send(Notice {
                    about,
                    warning: true,
                    is_milestone: false,
                    reason,
                    note,
                });
            }
            error
        })
    }
}

impl Staging {
    fn facts(&self, policy: &str, memory: &Memory) -> Option<Facts> {
        let settings = Settings {
            settle_ms: self.options.settle_ms,
            ..Settings::default()
        };
        let now = self.runtime.clock.now();
        let mut facts = gather::facts(policy, &self.stores, &self.index, (memory, now, settings))?;
        let at_work = self.runtime.leader_state.at_work_since().map(|since| ago(since, now));
        facts.watching_since = facts.watching_since.map(|since| since.max(at_work.unwrap_or(since)));
        facts.hold = self.probe.last();
        facts.lease_transitions = self.runtime.leader_state.fence(newest_lease(&facts));
        Some(facts)
    }

    fn memories(&self) -> MutexGuard<'_, BTreeMap<String, Memory>> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
