//! Combine: combines returned statuses in KubeStellar's place. The rules are [`stagegate_decide::combine`]'s; here is
//! what it watches, what it reads for an expression's variables, and when it writes.
//!
//! A combination is written the debounce time after the first thing that touched it.

pub mod evaluate;
mod index;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::core::{DynamicObject, ObjectMeta};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use stagegate_api::{
    Binding, BoundObject, CombinedStatus, CombinedStatusView, StatusCollector, StatusCollectorSpec, WorkStatus,
};
use stagegate_decide::combine::{self, WorkloadObject, Write};
use stagegate_decide::names::ObjectKey;
use stagegate_runtime::bounded::BoundedMap;
use stagegate_runtime::controller::{self, Controller, Next};
use stagegate_runtime::queue::Queue;
use stagegate_runtime::request::{RequestError, request};
use stagegate_runtime::store::{Change, ObjectId, Store};
use stagegate_runtime::{Runtime, Tasks};
use tracing::{debug, warn};

use self::evaluate::{Inputs, Returned};
use self::index::{Index, Key};
use super::detections::Detections;
use super::evaluator::Evaluator;
use super::kinds::{Guarded, Kinds};
use super::objects::{api_resource, object_key};
use super::write::{Patches, Target, Writer, delete, whole};

const WRITER: Writer = Writer {
    manager: "stagegate-combine",
};
const COLLECTOR_STATUS_MEMBERS: &[&str] = &["observedGeneration", "errors"];
const STATUS_MEMBERS: &[&str] = &["conditions", "observedGeneration", "errors"];
/// Workload objects kept for the next combination of the same version.
const OBJECTS_MAX: usize = 1024;

/// What this controller is told and given beside what it watches.
#[derive(Clone, Debug)]
pub struct CombineOptions {
    /// How long after the first change it writes.
    pub delay: Duration,
    pub evaluator: Arc<Evaluator>,
}

/// Registers what the controller watches and starts it.
pub fn spawn(
    runtime: &Runtime,
    options: CombineOptions,
    (kinds, detections): (&Kinds, &Detections),
    tasks: &mut Tasks,
) {
    let stores = Stores {
        bindings: kinds.bindings.wanted(),
        collectors: kinds.collectors.wanted(),
        work_statuses: kinds.work_statuses.wanted(),
        combined: kinds.combined.wanted(),
    };
    let queue = Arc::new(Queue::new(options.delay));
    let index = Arc::new(Mutex::new(Index::default()));
    stores.bindings.listen(touching(&index, &queue, Index::binding));
    stores.collectors.listen(touching(&index, &queue, Index::collector));
    stores
        .work_statuses
        .listen(touching(&index, &queue, Index::work_status));
    stores.combined.listen(touching(&index, &queue, Index::combined));
    let combine = Combine {
        runtime: runtime.clone(),
        options,
        stores,
        detections: detections.clone(),
        index,
        objects: Mutex::new(BoundedMap::new(OBJECTS_MAX)),
        report_namespace: AtomicBool::new(false),
    };
    let runtime = runtime.clone();
    tasks.spawn(async move {
        controller::run(combine, queue, runtime).await;
        "the combine controller"
    });
}

fn touching<T>(
    index: &Arc<Mutex<Index>>,
    queue: &Arc<Queue<Key>>,
    touched: impl Fn(&mut Index, &Change<'_, T>) -> Vec<Key> + Send + Sync + 'static,
) -> impl Fn(&Change<'_, T>) + Send + Sync + 'static {
    let (index, queue) = (index.clone(), queue.clone());
    move |change| {
        let keys = touched(&mut index.lock().unwrap_or_else(PoisonError::into_inner), change);
        for key in keys {
            queue.add(key);
        }
    }
}

struct Stores {
    bindings: Arc<Store<Guarded<Binding>>>,
    collectors: Arc<Store<Guarded<StatusCollector>>>,
    work_statuses: Arc<Store<Guarded<WorkStatus>>>,
    combined: Arc<Store<Guarded<CombinedStatusView>>>,
}

/// A workload object and the resourceVersion of its Binding that it was read for.
type Known = (String, Arc<DynamicObject>);

struct Combine {
    runtime: Runtime,
    options: CombineOptions,
    stores: Stores,
    detections: Detections,
    index: Arc<Mutex<Index>>,
    objects: Mutex<BoundedMap<ObjectKey, Known>>,
    /// Whether the namespace for cluster-scoped objects was created, or found, by this process.
    report_namespace: AtomicBool,
}

impl Controller for Combine {
    type Key = Key;

    const NAME: &'static str = "combine";

    async fn complete(&self) {
        self.detections.complete().await;
        self.stores.bindings.complete().await;
        self.stores.collectors.complete().await;
        self.stores.work_statuses.complete().await;
        self.stores.combined.complete().await;
    }

    fn all(&self) -> Vec<Key> {
        let collectors = self.stores.collectors.all();
        let collectors = collectors.iter().map(|collector| Key::Collector(collector.name_any()));
        self.index().all().into_iter().chain(collectors).collect()
    }

    fn forget(&self) {
        self.objects().clear();
        self.report_namespace.store(false, Ordering::Relaxed);
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, RequestError> {
        let writes = match key {
            Key::Combination { binding, object } => self.combination(binding, object).await?,
            Key::Binding(name) => self.binding_status(name).await,
            Key::Collector(name) => self.collector_status(name).await,
        };
        for write in writes {
            self.write(write).await?;
            self.runtime.metrics.write();
        }
        Ok(Next::default())
    }
}

impl Combine {
    async fn combination(&self, name: &str, key: &ObjectKey) -> Result<Vec<Write>, RequestError> {
        let binding = self
            .stores
            .bindings
            .named(name)
            .and_then(|binding| binding.0.as_ref().ok().cloned());
        let bound = binding.as_ref().and_then(|binding| bound(binding, key)).cloned();
        let mut existing = self.existing(name, key).await?;
        let Some(bound) = bound else {
            // Nothing asks for them any more; the object itself does not matter.
            return Ok(existing.iter().filter_map(combine_delete).collect());
        };
        // Its CombinedStatus may have gone with the object that it was about, and a held Binding goes on naming that object.
        let is_read_anew = existing.is_empty() && !bound.status_collectors.is_empty();
        let Some(object) = self.object(key, &bound, is_read_anew).await? else {
            debug!(key = %key, binding = name, "the bound object is gone: its CombinedStatus goes with it");
            return Ok(Vec::new());
        };
        existing.extend(self.mislabelled(binding.as_deref(), &object, &existing).await?);
        let types = object.types.clone().unwrap_or_default();
        let inputs = Inputs {
            object: WorkloadObject {
                uid: object.uid().unwrap_or_default(),
                group: key.group.clone(),
                version: bound.version.clone(),
                kind: types.kind,
                resource: key.resource.clone(),
                namespace: key.namespace.clone(),
                name: key.name.clone(),
            },
            content: json!(*object),
            binding,
            specs: self.specs(&bound),
            returned: self.returned(key),
            existing,
            report_namespace_exists: self.report_namespace.load(Ordering::Relaxed),
        };
        let evaluator = self.options.evaluator.clone();
        let planned = tokio::task::spawn_blocking(move || evaluate::plan(&evaluator, &inputs)).await;
        let plan = planned.unwrap_or_default();
        if let Some(problem) = plan.problem {
            warn!(key = %key, binding = name, problem, "nothing can be combined");
        }
        Ok(plan.writes)
    }

    /// The CombinedStatuses of the object under the Binding, whole: one, or an old one besides.
    async fn existing(&self, binding: &str, key: &ObjectKey) -> Result<Vec<CombinedStatus>, RequestError> {
        let ids = self.index().combined_of(binding);
        let mut existing = Vec::new();
        for id in ids.into_iter().filter(|id| self.is_about(id, key)) {
            existing.extend(self.whole(&id).await?);
        }
        Ok(existing)
    }

    /// The one that has the name, if somebody took its labels away: it is put right, since none can be created beside it.
    async fn mislabelled(
        &self,
        binding: Option<&Binding>,
        object: &DynamicObject,
        existing: &[CombinedStatus],
    ) -> Result<Option<CombinedStatus>, RequestError> {
        let owners = binding.map(|binding| binding.owner_references()).unwrap_or_default();
        let Some(owner) = owners.iter().find(|owner| owner.controller == Some(true)) else {
            return Ok(None);
        };
        let namespace = object.namespace();
        let id = ObjectId {
            namespace: Some(CombinedStatus::namespace_of(namespace.as_deref()).to_owned()),
            name: CombinedStatus::name_of(&object.uid().unwrap_or_default(), &owner.uid),
        };
        let is_known = existing
            .iter()
            .any(|known| known.metadata.name.as_deref() == Some(&id.name));
        if is_known || self.stores.combined.get(&id).is_none() {
            return Ok(None);
        }
        self.whole(&id).await
    }

    async fn whole(&self, id: &ObjectId) -> Result<Option<CombinedStatus>, RequestError> {
        let namespace = id.namespace.clone().unwrap_or_default();
        let api: Api<Guarded<CombinedStatus>> = Api::namespaced(self.runtime.client.clone(), &namespace);
        match request(format!("get combinedstatus {id}"), api.get(&id.name)).await {
            Ok(guarded) => Ok(Some(match guarded.0 {
                Ok(object) => Arc::unwrap_or_clone(object),
                Err(invalid) => unreadable(invalid.metadata),
            })),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn is_about(&self, id: &ObjectId, key: &ObjectKey) -> bool {
        use stagegate_api::label::{API_GROUP, NAME, NAMESPACE, RESOURCE};
        let Some(view) = self.stores.combined.get(id) else {
            return false;
        };
        let label = |name| view.labels().get(name).map_or("", String::as_str);
        (label(API_GROUP), label(RESOURCE), label(NAME)) == (&*key.group, &*key.resource, &*key.name)
            && label(NAMESPACE) == key.namespace.as_deref().unwrap_or_default()
    }

    /// As it was when the Binding last named another version of it, or read now.
    async fn object(
        &self,
        key: &ObjectKey,
        bound: &BoundObject,
        is_read_anew: bool,
    ) -> Result<Option<Arc<DynamicObject>>, RequestError> {
        if !is_read_anew
            && let Some((version, object)) = self.objects().get(key)
            && *version == bound.resource_version
        {
            return Ok(Some(object.clone()));
        }
        let resource = api_resource(&bound.group, &bound.version, &bound.resource);
        let api: Api<DynamicObject> = match &key.namespace {
            Some(namespace) => Api::namespaced_with(self.runtime.client.clone(), namespace, &resource),
            None => Api::all_with(self.runtime.client.clone(), &resource),
        };
        match request(format!("get {key}"), api.get(&key.name)).await {
            Ok(mut object) => {
                object.metadata.managed_fields = None;
                let object = Arc::new(object);
                self.objects()
                    .insert(key.clone(), (bound.resource_version.clone(), object.clone()));
                Ok(Some(object))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn specs(&self, bound: &BoundObject) -> BTreeMap<String, StatusCollectorSpec> {
        let named = bound.status_collectors.iter();
        named
            .filter_map(|name| {
                let collector = self.stores.collectors.named(name)?;
                Some((name.clone(), collector.object()?.spec.clone()))
            })
            .collect()
    }

    fn returned(&self, key: &ObjectKey) -> BTreeMap<String, Returned> {
        let ids = self.index().returned(key);
        ids.into_iter()
            .filter_map(|(cluster, id)| {
                let guarded = self.stores.work_statuses.get(&id)?;
                let work = guarded.object()?;
                Some((
                    cluster,
                    Returned {
                        status: work.status.clone(),
                        at: work.last_returned(),
                    },
                ))
            })
            .collect()
    }

    /// A collector that is refused counts as missing, as with KubeStellar.
    async fn binding_status(&self, name: &str) -> Vec<Write> {
        let stored = self.stores.bindings.named(name);
        let Some(binding) = stored.and_then(|stored| stored.0.as_ref().ok().cloned()) else {
            return Vec::new();
        };
        if binding.metadata.deletion_timestamp.is_some() {
            return Vec::new();
        }
        let objects = binding.spec.workload.objects();
        let specs: BTreeMap<String, StatusCollectorSpec> = objects.flat_map(|object| self.specs(object)).collect();
        let (evaluator, now) = (self.options.evaluator.clone(), self.runtime.clock.now());
        let written = tokio::task::spawn_blocking(move || {
            let valid = specs
                .iter()
                .filter(|(_, spec)| evaluate::errors(&evaluator, spec).is_empty());
            let valid: BTreeSet<String> = valid.map(|(name, _)| name.clone()).collect();
            combine::binding_status(&binding, &valid, now)
        });
        written.await.ok().flatten().into_iter().collect()
    }

    async fn collector_status(&self, name: &str) -> Vec<Write> {
        let Some(stored) = self.stores.collectors.named(name) else {
            return Vec::new();
        };
        let Ok(collector) = stored.0.as_ref().cloned() else {
            return Vec::new();
        };
        let evaluator = self.options.evaluator.clone();
        let written = tokio::task::spawn_blocking(move || {
            let errors = evaluate::errors(&evaluator, &collector.spec);
            combine::collector_status(&collector, errors)
        });
        written.await.ok().flatten().into_iter().collect()
    }

    async fn create(&self, combined: &CombinedStatus) -> Result<(), RequestError> {
        let api = namespaced(self.runtime.client.clone(), combined);
        WRITER.create(&api, combined).await.map(drop)
    }

    async fn write(&self, write: Write) -> Result<(), RequestError> {
        let client = || self.runtime.client.clone();
        match write {
            Write::CreateNamespace { name } => {
                let metadata = ObjectMeta {
                    name: Some(name),
                    ..ObjectMeta::default()
                };
                let created = WRITER
                    .create(
                        &Api::all(client()),
                        &Namespace {
                            metadata,
                            ..Namespace::default()
                        },
                    )
                    .await;
                if created.as_ref().err().is_none_or(RequestError::is_conflict) {
                    self.report_namespace.store(true, Ordering::Relaxed);
                    return Ok(());
                }
                created.map(drop)
            }
            Write::Create(combined) => self.create(&combined).await,
            Write::Update { combined_status, .. } => {
                WRITER
                    .replace(&namespaced(client(), &combined_status), &combined_status)
                    .await
            }
            Write::Delete {
                namespace,
                name,
                precondition,
            } => {
                let api: Patches<CombinedStatus> = Api::namespaced(client(), &namespace);
                delete(
                    &api,
                    Target {
                        name: &name,
                        precondition: &precondition,
                    },
                )
                .await
            }
            Write::CollectorStatus {
                name,
                precondition,
                status,
            } => {
                let api: Patches<StatusCollector> = Api::all(client());
                let target = Target {
                    name: &name,
                    precondition: &precondition,
                };
                WRITER
                    .patch_status(&api, target, whole(&status, COLLECTOR_STATUS_MEMBERS))
                    .await
                    .map(drop)
            }
            Write::BindingStatus {
                name,
                precondition,
                status,
            } => {
                let api: Patches<Binding> = Api::all(client());
                WRITER
                    .patch_status(
                        &api,
                        Target {
                            name: &name,
                            precondition: &precondition,
                        },
                        whole(&status, STATUS_MEMBERS),
                    )
                    .await
                    .map(drop)
            }
        }
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn objects(&self) -> MutexGuard<'_, BoundedMap<ObjectKey, Known>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bound<'a>(binding: &'a Binding, key: &ObjectKey) -> Option<&'a BoundObject> {
    binding
        .spec
        .workload
        .objects()
        .find(|object| object_key(object) == *key)
}

fn namespaced(client: kube::Client, combined: &CombinedStatus) -> Api<CombinedStatus> {
    Api::namespaced(client, combined.metadata.namespace.as_deref().unwrap_or_default())
}

/// What cannot be read differs from whatever is combined, so it is put right.
fn unreadable(metadata: ObjectMeta) -> CombinedStatus {
    CombinedStatus {
        metadata,
        results: Vec::new(),
    }
}

fn combine_delete(existing: &CombinedStatus) -> Option<Write> {
    if existing.metadata.deletion_timestamp.is_some() {
        return None;
    }
    Some(Write::Delete {
        namespace: existing.metadata.namespace.clone()?,
        name: existing.metadata.name.clone()?,
        precondition: stagegate_decide::precondition::Precondition {
            uid: existing.metadata.uid.clone()?.into(),
            resource_version: existing.metadata.resource_version.clone()?.into(),
        },
    })
}
