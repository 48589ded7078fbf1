//! Metadata watches of the kinds that clauses ask for: they come and go as clauses do. Must not match objects.
//!
//! Kinds are known by discovery, which is asked anew when a CustomResourceDefinition changes. A clause that names its
//! resources costs watches of those only; one that names none (or `*`) costs a watch of every kind that can be workload.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::discovery::{Discovery, verbs};
use kube::{Api, ResourceExt as _};
use stagegate_api::DownsyncClause;
use stagegate_decide::binding::{Candidate, is_watched};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tracing::{debug, warn};

use crate::controllers::objects::api_resource;
use crate::shell::request::{RequestError, request};
use crate::shell::start::Context;
use crate::shell::store::{Change, Store};
use crate::shell::watch::{Ailment, ManagedFields, Need, Watched, keep};

/// A workload object as far as clauses can see it.
pub type Object = PartialObjectMeta<DynamicObject>;

/// Pause after a discovery that failed.
const DISCOVERY_PAUSE: Duration = Duration::from_secs(2);
/// CustomResourceDefinitions come in bunches, and are served a moment after they are written.
const DISCOVERY_DEBOUNCE: Duration = Duration::from_millis(50);

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

#[derive(Default)]
struct State {
    /// `None` before the first discovery.
    known: Option<BTreeSet<Kind>>,
    watches: BTreeMap<Kind, Watch>,
    rediscover: bool,
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
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    pub fn clauses_changed(&self) {
        self.changed.notify_one();
    }

    pub fn kinds_changed(&self) {
        self.lock().rediscover = true;
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
            return Err(Unlisted { resource, cause: None });
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
                        Some(Ailment::NeverListed { cause }) => cause,
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
        context: Context,
        clauses: impl Fn() -> Vec<DownsyncClause>,
        listeners: Listeners,
    ) {
        let mut watches = Watches {
            context,
            listeners,
            handles: BTreeMap::new(),
            tasks: JoinSet::new(),
        };
        loop {
            let rediscovers = self.needs_discovery();
            if rediscovers {
                match discover(&watches.context).await {
                    Ok(known) => self.lock().known = Some(known),
                    Err(error) => {
                        warn!(
                            error = error.chain(),
                            "the kinds of the API server could not be read; trying again"
                        );
                        self.lock().rediscover = true;
                        tokio::time::sleep(DISCOVERY_PAUSE).await;
                        continue;
                    }
                }
            }
            let wanted = self.wanted(&clauses());
            self.lock().watches.retain(|kind, _| wanted.contains(kind));
            watches.end_all_but(&wanted);
            for kind in wanted {
                if !watches.handles.contains_key(&kind) {
                    let watch = watches.begin(kind.clone());
                    self.lock().watches.insert(kind, watch);
                }
            }
            if rediscovers {
                (watches.listeners.on_kinds)();
            }
            self.changed.notified().await;
            tokio::time::sleep(DISCOVERY_DEBOUNCE).await;
        }
    }

    fn needs_discovery(&self) -> bool {
        let mut state = self.lock();
        std::mem::take(&mut state.rediscover) || state.known.is_none()
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
    context: Context,
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
        let api: Api<Object> = Api::all_with(self.context.client.clone(), &resource);
        let watched = Watched::new(&kind.resource, Need::WhenNamed, &self.context.counters);
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
async fn discover(context: &Context) -> Result<BTreeSet<Kind>, RequestError> {
    let discovery = Discovery::new(context.client.clone()).run_aggregated();
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
