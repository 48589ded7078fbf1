//! Metadata watches of the kinds that clauses ask for: they come and go as clauses do. Must not match objects.
//!
//! Kinds are known by discovery, which is asked anew when a CustomResourceDefinition changes, and again until what it says
//! can be believed. A clause that names its resources costs watches of those only; one that names none (or `*`) costs a
//! watch of every kind that can be workload.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::discovery::{Discovery, verbs};
use kube::{Api, ResourceExt as _};
use stagegate_api::DownsyncClause;
use stagegate_decide::binding::{Candidate, is_watched};
use stagegate_runtime::Runtime;
use stagegate_runtime::request::{RequestError, request};
use stagegate_runtime::store::{Change, Store};
use stagegate_runtime::watch::{ManagedFields, Need, WatchHealth, Watched, keep};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::controllers::objects::api_resource;

/// A workload object as far as clauses can see it.
pub type Object = PartialObjectMeta<DynamicObject>;

/// Pause after a discovery that failed.
const DISCOVERY_PAUSE: Duration = Duration::from_secs(2);
/// CustomResourceDefinitions come in bunches, and are served a moment after they are written.
const DISCOVERY_DEBOUNCE: Duration = Duration::from_millis(50);
/// How long that moment may be: nothing tells when a server's discovery has caught up with its definitions, which takes a
/// busy one seconds. So it is asked again after pauses, each twice as long as the one before, the last one no longer than this.
const DISCOVERY_LAG_MAX: Duration = Duration::from_secs(30);

/// One kind, in the one version that is bound.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    pub group: String,
    pub version: String,
    /// Lower-case plural.
    pub resource: String,
}

impl Kind {
    /// Whether the clause could match an object of this kind.
    fn may_match(&self, clause: &DownsyncClause) -> bool {
        let group = clause.api_group.as_ref().is_none_or(|group| *group == self.group);
        let names = clause.resources.as_deref().unwrap_or_default();
        let resource = names.is_empty() || names.iter().any(|name| name == "*" || *name == self.resource);
        group && resource
    }

    /// Whatever the versions.
    fn is_resource_of(&self, other: &Kind) -> bool {
        (&self.group, &self.resource) == (&other.group, &other.resource)
    }

    pub fn candidate(&self, object: &Object) -> Candidate {
        Candidate {
            group: self.group.clone(),
            version: self.version.clone(),
            resource: self.resource.clone(),
            namespace: object.namespace(),
            name: object.name_any(),
            resource_version: object.resource_version().unwrap_or_default(),
            labels: object.labels().clone(),
        }
    }
}

/// The kinds there are and the stores of those that are watched.
pub struct Workload {
    state: Mutex<State>,
    /// Clauses or CustomResourceDefinitions have changed.
    changed: Notify,
}

struct State {
    /// `None` before the first discovery.
    known: Option<BTreeSet<Kind>>,
    watches: BTreeMap<Kind, Watch>,
    /// When discovery is asked next, and the pause that follows if nothing changes.
    look: Look,
    /// Why the last discovery failed.
    failure: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Look {
    /// CustomResourceDefinitions have changed, or nothing is known.
    Now,
    At {
        at: Instant,
        pause: Duration,
    },
    /// What is known is what there is.
    Never,
}

#[derive(Clone)]
struct Watch {
    store: Arc<Store<Object>>,
    watched: Arc<Watched>,
}

/// A kind that clauses ask for was not listed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlisted {
    pub resource: String,
    /// Why not, once the server has said so.
    pub cause: Option<String>,
}

type OnChange = dyn Fn(&Kind, &Change<'_, Object>) + Send + Sync;

/// What the owner of the watches is told.
pub struct Listeners {
    pub on_change: Arc<OnChange>,
    /// A kind was listed for the first time, or discovery gave new ones.
    pub on_kinds: Arc<dyn Fn() + Send + Sync>,
}

impl Workload {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                known: None,
                watches: BTreeMap::new(),
                look: Look::Now,
                failure: None,
            }),
            changed: Notify::new(),
        })
    }

    pub fn clauses_changed(&self) {
        self.changed.notify_one();
    }

    pub fn kinds_changed(&self) {
        self.lock().look = Look::Now;
        self.changed.notify_one();
    }

    /// The objects that clauses could match.
    ///
    /// # Errors
    /// A kind that they ask for was not listed yet: one that the server refuses before others.
    pub fn candidates(&self, clauses: &[DownsyncClause]) -> Result<Vec<Candidate>, Unlisted> {
        let state = self.lock();
        let Some(known) = &state.known else {
            let resource = "the kinds of the API server".to_owned();
            let cause = state.failure.clone();
            return Err(Unlisted { resource, cause });
        };
        let kinds = known
            .iter()
            .filter(|kind| clauses.iter().any(|clause| kind.may_match(clause)));
        let (mut candidates, mut unlisted) = (Vec::new(), None);
        for kind in kinds {
            match state.watches.get(kind) {
                Some(watch) if watch.store.listed_at().is_some() => {
                    candidates.extend(watch.store.all().iter().map(|object| kind.candidate(object)));
                }
                watch => {
                    let cause = watch.and_then(|watch| match watch.watched.ailment() {
                        Some(WatchHealth::NeverListed { cause }) => cause,
                        _ => None,
                    });
                    let is_worse = unlisted.as_ref().is_none_or(|known: &Unlisted| known.cause.is_none());
                    if is_worse {
                        let resource = kind.resource.clone();
                        unlisted = Some(Unlisted { resource, cause });
                    }
                }
            }
        }
        unlisted.map_or(Ok(candidates), Err)
    }

    /// Starts and stops watches as `clauses` (all there are now) ask for; never returns.
    pub async fn run(
        self: Arc<Self>,
        runtime: Runtime,
        clauses: impl Fn() -> Vec<DownsyncClause>,
        listeners: Listeners,
    ) {
        let mut watches = Watches {
            runtime,
            listeners,
            handles: BTreeMap::new(),
            tasks: JoinSet::new(),
        };
        loop {
            let is_new = match self.look(&watches.runtime).await {
                Ok(is_new) => is_new,
                Err(error) => {
                    let cause = error.chain();
                    warn!(
                        error = cause,
                        "the kinds of the API server could not be read; trying again"
                    );
                    let is_first = self.lock().failure.replace(cause).is_none();
                    if is_first {
                        (watches.listeners.on_kinds)();
                    }
                    false
                }
            };
            let wanted = self.wanted(&clauses());
            self.lock().watches.retain(|kind, _| wanted.contains(kind));
            watches.end_all_but(&wanted);
            for kind in wanted {
                if !watches.handles.contains_key(&kind) {
                    let watch = watches.begin(kind.clone());
                    self.lock().watches.insert(kind, watch);
                }
            }
            if is_new {
                (watches.listeners.on_kinds)();
            }
            self.wait().await;
        }
    }

    /// Asks discovery if it is time to; whether there are other kinds than before. A kind goes by the first and the last answer
    /// after a change: between them one of several servers may be behind another.
    async fn look(&self, runtime: &Runtime) -> Result<bool, RequestError> {
        let is_first_or_last = {
            let mut state = self.lock();
            let (is_first, pause) = match state.look {
                Look::Now => (true, DISCOVERY_DEBOUNCE),
                Look::At { at, pause } if at <= Instant::now() => (false, pause * 2),
                Look::At { .. } | Look::Never => return Ok(false),
            };
            // Before the answer comes: a change meanwhile is one that it may not know.
            state.look = if pause > DISCOVERY_LAG_MAX {
                Look::Never
            } else {
                let at = Instant::now() + pause;
                Look::At { at, pause }
            };
            is_first || state.look == Look::Never
        };
        let found = discover(runtime).await;
        let mut state = self.lock();
        let mut found = found.inspect_err(|_| {
            let at = Instant::now() + DISCOVERY_PAUSE;
            let pause = DISCOVERY_DEBOUNCE;
            state.look = Look::At { at, pause };
        })?;
        if !is_first_or_last {
            // One that is there in another version is not missing.
            let known = state.known.iter().flatten();
            let missing = known.filter(|known| !found.iter().any(|kind| kind.is_resource_of(known)));
            let missing: Vec<Kind> = missing.cloned().collect();
            found.extend(missing);
        }
        state.failure = None;
        let is_new = state.known.as_ref() != Some(&found);
        state.known = Some(found);
        Ok(is_new)
    }

    /// For a change, or the time to look again.
    async fn wait(&self) {
        let look = self.lock().look;
        let time = async {
            match look {
                Look::Now => {}
                Look::At { at, .. } => tokio::time::sleep_until(at).await,
                Look::Never => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.changed.notified() => tokio::time::sleep(DISCOVERY_DEBOUNCE).await,
            () = time => {}
        }
    }

    fn wanted(&self, clauses: &[DownsyncClause]) -> BTreeSet<Kind> {
        let state = self.lock();
        let known = state.known.iter().flatten();
        known
            .filter(|kind| clauses.iter().any(|clause| kind.may_match(clause)))
            .cloned()
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The watches that run; dropping it ends them.
struct Watches {
    runtime: Runtime,
    listeners: Listeners,
    handles: BTreeMap<Kind, AbortHandle>,
    tasks: JoinSet<()>,
}

impl Watches {
    fn begin(&mut self, kind: Kind) -> Watch {
        let store: Arc<Store<Object>> = Arc::default();
        let (of, on_change) = (kind.clone(), self.listeners.on_change.clone());
        store.listen(move |change| on_change(&of, change));
        let resource = api_resource(&kind.group, &kind.version, &kind.resource);
        let api: Api<Object> = Api::all_with(self.runtime.client.clone(), &resource);
        let watched = self.runtime.metrics.add_watch(&kind.resource, Need::WhenNamed);
        let watch = Watch { store, watched };
        let (Watch { store: filled, watched }, on_kinds) = (watch.clone(), self.listeners.on_kinds.clone());
        let handle = self.tasks.spawn(async move {
            let first_list = async {
                filled.complete().await;
                on_kinds();
            };
            let watch = keep(api, filled.clone(), ManagedFields::Dropped, watched);
            tokio::join!(first_list, watch);
        });
        self.handles.insert(kind, handle);
        watch
    }

    fn end_all_but(&mut self, wanted: &BTreeSet<Kind>) {
        self.handles.retain(|kind, handle| {
            let keep = wanted.contains(kind);
            if !keep {
                debug!(
                    group = kind.group,
                    resource = kind.resource,
                    "no clause asks for this kind any more"
                );
                handle.abort();
            }
            keep
        });
        while self.tasks.try_join_next().is_some() {}
    }
}

/// Every kind that can be workload and be watched, in its preferred version.
async fn discover(runtime: &Runtime) -> Result<BTreeSet<Kind>, RequestError> {
    let discovery = Discovery::new(runtime.client.clone()).run_aggregated();
    let discovery = request("discover the kinds of the API server", discovery).await?;
    let resources = discovery.groups().flat_map(|group| group.recommended_resources());
    let watched = resources.filter(|(resource, capabilities)| {
        let listable = capabilities.supports_operation(verbs::LIST) && capabilities.supports_operation(verbs::WATCH);
        listable && !resource.plural.contains('/') && is_watched(&resource.group, &resource.plural)
    });
    Ok(watched.map(|(resource, _)| kind(resource)).collect())
}

fn kind(resource: ApiResource) -> Kind {
    Kind {
        group: resource.group,
        version: resource.version,
        resource: resource.plural,
    }
}
