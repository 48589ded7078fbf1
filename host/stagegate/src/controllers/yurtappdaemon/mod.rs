//! YurtAppDaemon: keeps a workload in every node pool. The rules are [`stagegate_decide::pools`]'; here is what it watches, how its
//! readings are made and its writes carried out.
//!
//! Workloads are watched by the label of their pool, and only a change of what the rules look at is a reason to decide.

mod apply;
mod gather;
mod gathered;
mod managed;
mod memory;
mod node_pools;
mod read;
mod session;
mod stores;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt as _};
use stagegate_api::workloads::{NodePool, WorkloadView, YurtAppDaemon};
use stagegate_decide::checks::{self, GateNamespaces};
use stagegate_decide::pools::{Child, Plan, Pool};
use stagegate_runtime::controller::{self, Controller, Next};
use stagegate_runtime::events::Notice;
use stagegate_runtime::queue::Queue;
use stagegate_runtime::request::RequestError;
use stagegate_runtime::store::{Change, ObjectId};
use stagegate_runtime::{Runtime, Tasks};
use tracing::info;

use self::gather::gates_of;
use self::gathered::Gathered;
use self::memory::Memory;
use self::session::DaemonSession;
use self::stores::Stores;
use super::evaluator::Evaluator;
use super::gates::Gates;
use super::gates::sources::Sources;
use super::guarded::Guarded;
use super::lateness;
use super::session as reconcile;

/// Changes of one daemon's objects that come together are one decision.
const DEBOUNCE: Duration = Duration::from_millis(100);
type DaemonQueue = Arc<Queue<ObjectId>>;

/// What this controller is given beside what it watches.
pub struct PoolOptions {
    /// Namespaces whose ConfigMaps may be run as gates.
    pub gate_namespaces: GateNamespaces,
    pub evaluator: Arc<Evaluator>,
    pub gates: Arc<Gates>,
}

/// Registers what the controller watches and starts it.
pub fn spawn(runtime: &Runtime, options: PoolOptions, tasks: &mut Tasks) {
    let queue: DaemonQueue = Arc::new(Queue::new(DEBOUNCE));
    let stores = Stores::new(Sources::new(options.gate_namespaces));
    listen(&stores, &queue);
    stores.spawn(runtime, &queue, tasks);
    let daemons = YurtAppDaemons {
        runtime: runtime.clone(),
        stores,
        evaluator: options.evaluator,
        gates: options.gates,
        memories: Mutex::default(),
        gathered: Mutex::default(),
    };
    let runtime = runtime.clone();
    tasks.spawn(async move {
        controller::run(daemons, queue, runtime).await;
        "the YurtAppDaemon controller"
    });
}

fn listen(stores: &Stores, queue: &DaemonQueue) {
    let sources = stores.sources.clone();
    // Before the daemon is queued.
    stores.daemons.listen(move |change| {
        let daemon = change.after.and_then(|daemon| daemon.object());
        sources.set(&change.id.to_string(), daemon.into_iter().flat_map(gates_of));
    });
    let to = queue.clone();
    // Also when it is gone: what is kept of it goes then.
    stores.daemons.listen(move |change| {
        if differs(change, |daemon| daemon.object().map(seen_of_daemon)) {
            to.add(change.id.clone());
        }
    });
    for workloads in [&stores.deployments, &stores.stateful_sets] {
        let (to, daemons) = (queue.clone(), Arc::downgrade(&stores.daemons));
        workloads.listen(move |change| {
            let Some(daemons) = daemons.upgrade().filter(|_| is_news(change)) else {
                return;
            };
            let namespace = change.id.namespace.clone().unwrap_or_default();
            // One that has lost its owner, or has none, may be any daemon's.
            let owners: Option<Vec<ObjectId>> = change.sides().map(|workload| owner(&workload, &namespace)).collect();
            let touched = owners.unwrap_or_else(|| {
                let all = daemons.in_namespace(&namespace);
                all.iter().map(|daemon| ObjectId::of(daemon.meta())).collect()
            });
            touched.into_iter().for_each(|daemon| to.add(daemon));
        });
    }
    let (to, daemons) = (queue.clone(), Arc::downgrade(&stores.daemons));
    stores.pools.listen(move |change| {
        if let Some(daemons) = daemons.upgrade().filter(|_| differs(change, seen_of_pool)) {
            daemons.ids().into_iter().for_each(|daemon| to.add(daemon));
        }
    });
}

/// Whether what `seen` gives of an object has changed.
fn differs<K: Resource, S: PartialEq>(change: &Change<'_, K>, seen: impl Fn(&Arc<K>) -> S) -> bool {
    change.before().as_ref().map(&seen) != change.after.map(&seen)
}

/// Status is no reason to decide again: what is decided on is compared with it when it is to be written.
fn seen_of_daemon(daemon: &YurtAppDaemon) -> (Option<i64>, Option<String>, bool) {
    let metadata = &daemon.metadata;
    (
        metadata.generation,
        metadata.uid.clone(),
        metadata.deletion_timestamp.is_some(),
    )
}

type SeenPool = (BTreeMap<String, String>, Option<stagegate_api::workloads::NodePoolSpec>);

/// A heartbeat changes status alone.
fn seen_of_pool(pool: &Arc<Guarded<NodePool>>) -> SeenPool {
    (pool.labels().clone(), pool.object().map(|pool| pool.spec.clone()))
}

fn is_news(change: &Change<'_, Guarded<WorkloadView>>) -> bool {
    match (change.before().as_deref(), change.after.map(|after| &**after)) {
        (Some(Guarded(Ok(before))), Some(Guarded(Ok(after)))) => !before.is_like(after),
        _ => true,
    }
}

/// The daemon that controls it; `None`: none does.
fn owner(workload: &Guarded<WorkloadView>, namespace: &str) -> Option<ObjectId> {
    let owners = workload.meta().owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    controllers.next().map(|owner| ObjectId {
        namespace: Some(namespace.to_owned()),
        name: owner.name.clone(),
    })
}

struct YurtAppDaemons {
    runtime: Runtime,
    stores: Stores,
    evaluator: Arc<Evaluator>,
    gates: Arc<Gates>,
    memories: Mutex<BTreeMap<ObjectId, Memory>>,
    gathered: Mutex<AllGathered>,
}

/// What the stores hold, as facts.
#[derive(Default)]
struct AllGathered {
    pools: Gathered<NodePool, Pool>,
    /// By the plural of their kind and their namespace.
    workloads: BTreeMap<(&'static str, String), Gathered<WorkloadView, Child>>,
}

impl Controller for YurtAppDaemons {
    type Key = ObjectId;

    const NAME: &'static str = "yurtappdaemon";

    async fn complete(&self) {
        self.stores.daemons.complete().await;
        self.stores.deployments.complete().await;
        self.stores.stateful_sets.complete().await;
    }

    fn all(&self) -> Vec<ObjectId> {
        self.stores.daemons.ids()
    }

    fn forget(&self) {
        self.memories().clear();
        *self.gathered() = AllGathered::default();
    }

    async fn reconcile(&self, key: &ObjectId) -> Result<Next, RequestError> {
        let mut memory = self.memories().remove(key).unwrap_or_default();
        let Some(facts) = self.facts(key, &mut memory) else {
            return Ok(Next::default());
        };
        self.tell_of_pruning(&facts.daemon, &mut memory);
        let about = reference(&facts.daemon);
        let session = DaemonSession::of(self, facts, &mut memory);
        let result = reconcile::run(session, (&self.runtime, key)).await;
        self.memories().insert(key.clone(), memory);
        result.inspect_err(|error| {
            if !error.is_outdated() && !error.is_withheld() {
                let note = format!("{}; trying again later", error.chain());
                self.notify(about, (true, "RequestFailed".to_owned(), note));
            }
        })
    }
}

impl YurtAppDaemons {
    /// When to decide again after a plan that came too late. From the second in a row on, an Event reports it.
    fn put_off_late(&self, daemon: &YurtAppDaemon, memory: &mut Memory) -> Next {
        memory.late = memory.late.saturating_add(1);
        if memory.late > 1 {
            let reason = checks::Reason::EvidenceExpired.as_str().to_owned();
            self.notify(reference(daemon), (true, reason, lateness::NOTE.to_owned()));
        }
        Next {
            wake_in: Some(lateness::pause(memory.late)),
        }
    }

    fn announce(&self, daemon: &YurtAppDaemon, plan: &Plan) {
        for event in &plan.events {
            let name = ObjectId::of(&daemon.metadata);
            info!(daemon = %name, reason = event.reason.as_str(), warning = event.warning, "{}", event.message);
            let told = (event.warning, event.reason.as_str().to_owned(), event.message.clone());
            self.notify(reference(daemon), told);
        }
    }

    fn tell_of_invalid(&self, daemon: &Guarded<YurtAppDaemon>) {
        let note =
            "the YurtAppDaemon cannot be read, so nothing is changed: compare its fields with deploy/crds/workloads";
        self.notify(
            daemon.object_ref(&()),
            (true, "InvalidObject".to_owned(), note.to_owned()),
        );
    }

    /// Once, as long as it is so.
    fn tell_of_pruning(&self, daemon: &YurtAppDaemon, memory: &mut Memory) {
        if memory.pruned.is_some() && !std::mem::replace(&mut memory.has_told_of_pruning, true) {
            let note = "the definition of YurtAppDaemon in this cluster drops members of status, as OpenYurt's does: apply \
                        deploy/crds/workloads over it";
            self.notify(
                reference(daemon),
                (true, "DefinitionOutdated".to_owned(), note.to_owned()),
            );
        }
    }

    fn notify(&self, about: ObjectReference, (warning, reason, note): (bool, String, String)) {
        self.runtime.events.send(Notice {
            about,
            warning,
            is_milestone: false,
            reason,
            note,
        });
    }

    fn gathered(&self) -> MutexGuard<'_, AllGathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memories(&self) -> MutexGuard<'_, BTreeMap<ObjectId, Memory>> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reference(daemon: &YurtAppDaemon) -> ObjectReference {
    daemon.object_ref(&())
}
