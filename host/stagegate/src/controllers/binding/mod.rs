//! Binding: resolves BindingPolicies in KubeStellar's place. The rules are [`stagegate_decide::binding`]'s; here is what
//! it watches and when it writes.
//!
//! A Binding is written the debounce time after the first change, and never before every kind that the policy's
//! clauses could match was listed as a whole: an object that was not listed yet must not look like one that is gone.

mod workload;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::json;
use stagegate_api::{BINDING_POLICY_FINALIZER, Binding, BindingPolicy, DownsyncClause, ManagedCluster};
use stagegate_decide::binding::{Clauses, Cluster, Facts, Labels, Write, decide};
use stagegate_runtime::controller::{self, Controller, Next};
use stagegate_runtime::events::Notice;
use stagegate_runtime::queue::Queue;
use stagegate_runtime::request::RequestError;
use stagegate_runtime::store::{Change, Store};
use stagegate_runtime::watch::{ManagedFields, Need, keep};
use stagegate_runtime::{Runtime, Tasks};
use tracing::debug;

use self::workload::{Kind, Listeners, Object, Unlisted, Workload};
use super::detections::Detections;
use super::kinds::{Guarded, Kinds};
use super::write::{Patches, Target, Writer, metadata, whole};

const WRITER: Writer = Writer {
    manager: "stagegate-binding",
};
const STATUS_MEMBERS: &[&str] = &["conditions", "observedGeneration", "errors"];
/// How soon it is looked whether a kind that was not listed is refused.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How often it is told that it still is: within the time that makes equal Events a series.
const TELL_AGAIN: Duration = Duration::from_secs(5 * 60);

/// What this controller is told beside what it watches.
#[derive(Clone, Copy, Debug)]
pub struct BindingOptions {
    /// How long after the first change it writes.
    pub delay: Duration,
    /// Whether BindingPolicies get a finalizer.
    pub adds_finalizer: bool,
}

/// Registers what the controller watches and starts it.
pub fn spawn(
    runtime: &Runtime,
    options: BindingOptions,
    (kinds, detections): (&Kinds, &Detections),
    tasks: &mut Tasks,
) {
    let queue = Arc::new(Queue::new(options.delay));
    let stores = Stores {
        policies: kinds.placements.wanted(),
        bindings: kinds.bindings.wanted(),
        clusters: kinds.clusters.wanted(),
        namespaces: kinds.namespaces.wanted(),
        definitions: Arc::default(),
        workload: Workload::new(),
    };
    listen(&stores, &queue, options.adds_finalizer);
    let binding = BindingController {
        runtime: runtime.clone(),
        options,
        stores: stores.clone(),
        detections: detections.clone(),
    };
    spawn_definitions(runtime, &stores, tasks);
    spawn_workload(runtime, &stores, &queue, tasks);
    let runtime = runtime.clone();
    tasks.spawn(async move {
        controller::run(binding, queue, runtime).await;
        "the binding controller"
    });
}

#[derive(Clone)]
struct Stores {
    policies: Arc<Store<Guarded<BindingPolicy>>>,
    bindings: Arc<Store<Guarded<Binding>>>,
    clusters: Arc<Store<Guarded<ManagedCluster>>>,
    namespaces: Arc<Store<Guarded<Namespace>>>,
    definitions: Arc<Store<PartialObjectMeta<CustomResourceDefinition>>>,
    workload: Arc<Workload>,
}

impl Stores {
    fn all_clauses(&self) -> Vec<DownsyncClause> {
        let policies = self.policies.all();
        let readable = policies.iter().filter_map(|policy| policy.object());
        readable.flat_map(|policy| policy.spec.downsync.clone()).collect()
    }

    fn namespace_labels(&self) -> BTreeMap<String, Labels> {
        self.namespaces
            .all()
            .iter()
            .map(|namespace| (namespace.name_any(), namespace.labels().clone()))
            .collect()
    }

    fn clusters(&self) -> Vec<Cluster> {
        let clusters = self.clusters.all();
        clusters
            .iter()
            .map(|one| Cluster {
                name: one.name_any(),
                labels: one.labels().clone(),
            })
            .collect()
    }
}

fn listen(stores: &Stores, queue: &Arc<Queue<String>>, adds_finalizer: bool) {
    let (to, changed) = (queue.clone(), stores.workload.clone());
    stores.policies.listen(move |change| {
        let clauses = |policy: &Arc<Guarded<BindingPolicy>>| policy.object().map(|it| it.spec.downsync.clone());
        if change.before().as_ref().and_then(clauses) != change.after.and_then(clauses) {
            changed.clauses_changed();
        }
        match change.after {
            // The finalizer's writes do not wait: KubeStellar makes them at once, too.
            Some(policy) if needs_finalizer_write(policy, adds_finalizer) => {
                to.add_in(change.id.name.clone(), Duration::ZERO)
            }
            Some(_) => to.add(change.id.name.clone()),
            None => {}
        }
    });
    let to = queue.clone();
    stores.bindings.listen(move |change| to.add(change.id.name.clone()));
    let (to, policies) = (queue.clone(), Arc::downgrade(&stores.policies));
    stores.clusters.listen(move |change| {
        if labels_differ(change)
            && let Some(policies) = policies.upgrade()
        {
            policies.all().iter().for_each(|policy| to.add(policy.name_any()));
        }
    });
    let (to, policies) = (queue.clone(), Arc::downgrade(&stores.policies));
    stores.namespaces.listen(move |change| {
        let Some(policies) = policies.upgrade().filter(|_| labels_differ(change)) else {
            return;
        };
        let selecting =
            |clause: &DownsyncClause| clause.namespace_selectors.as_ref().is_some_and(|all| !all.is_empty());
        for policy in policies.all() {
            if policy
                .0
                .as_ref()
                .is_ok_and(|policy| policy.spec.downsync.iter().any(selecting))
            {
                to.add(policy.name_any());
            }
        }
    });
    let changed = stores.workload.clone();
    stores.definitions.listen(move |_| changed.kinds_changed());
}

fn needs_finalizer_write(policy: &Guarded<BindingPolicy>, adds_finalizer: bool) -> bool {
    let has = policy
        .finalizers()
        .iter()
        .any(|finalizer| finalizer == BINDING_POLICY_FINALIZER);
    let is_leaving = policy.meta().deletion_timestamp.is_some();
    if is_leaving { has } else { adds_finalizer && !has }
}

/// An object that came or went has other labels than none.
fn labels_differ<K: kube::Resource>(change: &Change<'_, K>) -> bool {
    let before = change.before();
    before.as_ref().map(|object| object.labels()) != change.after.map(|object| object.labels())
}

fn spawn_definitions(runtime: &Runtime, stores: &Stores, tasks: &mut Tasks) {
    let api: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(runtime.client.clone());
    let watched = runtime.metrics.add_watch("customresourcedefinitions", Need::Always);
    let (definitions, stop) = (stores.definitions.clone(), runtime.stop.clone());
    tasks.spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = keep(api, definitions, ManagedFields::Dropped, watched) => {}
        }
        "the watch of CustomResourceDefinitions"
    });
}

fn spawn_workload(runtime: &Runtime, stores: &Stores, queue: &Arc<Queue<String>>, tasks: &mut Tasks) {
    let (of, to) = (stores.clone(), queue.clone());
    let on_change = move |kind: &Kind, change: &Change<'_, Object>| {
        let namespaces = of.namespace_labels();
        for stored in of.policies.all() {
            let Ok(policy) = &stored.0 else { continue };
            let clauses = Clauses::new(&policy.spec.downsync);
            if change
                .sides()
                .any(|object| clauses.bind(&kind.candidate(&object), &namespaces).is_some())
            {
                to.add(policy.name_any());
            }
        }
    };
    let (of, to) = (stores.policies.clone(), queue.clone());
    let on_kinds = move || of.all().iter().for_each(|policy| to.add(policy.name_any()));
    let listeners = Listeners {
        on_change: Arc::new(on_change),
        on_kinds: Arc::new(on_kinds),
    };
    let of = stores.clone();
    let clauses = move || of.all_clauses();
    let (workload, stop, runtime) = (stores.workload.clone(), runtime.stop.clone(), runtime.clone());
    tasks.spawn(async move {
        tokio::select! { () = stop.cancelled() => {}, () = workload.run(runtime, clauses, listeners) => {} }
        "the watches of workload kinds"
    });
}

struct BindingController {
    runtime: Runtime,
    options: BindingOptions,
    stores: Stores,
    detections: Detections,
}

impl Controller for BindingController {
    type Key = String;

    const NAME: &'static str = "binding";

    async fn complete(&self) {
        self.detections.complete().await;
        self.stores.policies.complete().await;
        self.stores.bindings.complete().await;
        self.stores.clusters.complete().await;
        self.stores.namespaces.complete().await;
        self.stores.definitions.complete().await;
    }

    fn all(&self) -> Vec<String> {
        self.stores
            .policies
            .all()
            .iter()
            .map(|policy| policy.name_any())
            .collect()
    }

    async fn reconcile(&self, name: &String) -> Result<Next, RequestError> {
        let Some(stored) = self.stores.policies.named(name) else {
            return Ok(Next::default());
        };
        let Ok(policy) = &stored.0 else {
            return Ok(Next::default());
        };
        let objects = match self.stores.workload.candidates(&policy.spec.downsync) {
            Ok(objects) => objects,
            Err(unlisted) => return Ok(self.wait_for(policy, unlisted)),
        };
        let binding = self.stores.bindings.named(name);
        let plan = decide(&Facts {
            policy,
            objects: &objects,
            namespaces: &self.stores.namespace_labels(),
            clusters: &self.stores.clusters(),
            // One that does not decode is there all the same: creating another fails, and the log says so.
            binding: binding.as_ref().and_then(|binding| binding.object()),
            adds_finalizer: self.options.adds_finalizer,
        });
        for write in &plan.writes {
            self.write(policy, write).await?;
            self.runtime.metrics.write();
        }
        Ok(Next::default())
    }
}

impl BindingController {
    /// Its list wakes whoever waits; that it will not come is known later, and a matter for those who grant rights.
    fn wait_for(&self, policy: &BindingPolicy, Unlisted { resource, cause }: Unlisted) -> Next {
        debug!(
            policy = policy.name_any(),
            resource, "a kind that its clauses ask for is not listed yet"
        );
        let Some(cause) = cause else {
            return Next {
                wake_in: Some(ASK_AGAIN),
            };
        };
        self.runtime.events.send(Notice {
            about: policy.object_ref(&()),
            warning: true,
            is_milestone: false,
            reason: "KindNotListed".to_owned(),
            note: format!("its clauses ask for {resource}, which cannot be listed: {cause}; the Binding waits"),
        });
        Next {
            wake_in: Some(TELL_AGAIN),
        }
    }

    async fn write(&self, policy: &BindingPolicy, write: &Write) -> Result<(), RequestError> {
        let policies: Patches<BindingPolicy> = Api::all(self.runtime.client.clone());
        let bindings: Api<Binding> = Api::all(self.runtime.client.clone());
        match write {
            Write::AddFinalizer { name, precondition } | Write::RemoveFinalizer { name, precondition } => {
                let adds = matches!(write, Write::AddFinalizer { .. });
                let others = policy
                    .finalizers()
                    .iter()
                    .filter(|one| *one != BINDING_POLICY_FINALIZER)
                    .cloned();
                let finalizers: Vec<String> = others
                    .chain(adds.then(|| BINDING_POLICY_FINALIZER.to_owned()))
                    .collect();
                let mut metadata = metadata(precondition);
                metadata["finalizers"] = json!(finalizers);
                let body = json!({"metadata": metadata});
                WRITER.patch(&policies, name, body).await.map(drop)
            }
            Write::CreateBinding(binding) => WRITER.create(&bindings, binding).await.map(drop),
            Write::UpdateBinding { binding, .. } => WRITER.replace(&bindings, binding).await,
            Write::PolicyStatus {
                name,
                precondition,
                status,
            } => WRITER
                .patch_status(&policies, Target { name, precondition }, whole(status, STATUS_MEMBERS))
                .await
                .map(drop),
        }
    }
}
