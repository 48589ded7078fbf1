//! The one task that drives the nodes: watches in, Nodes and statuses out, in the order of time. Must not block on real time: every wait
//! is tokio's.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::core::ApiResource;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};
use stagegate_api::SimulatedNode;
use stagegate_clock::SharedClock;
use tokio_util::sync::CancellationToken;

use super::node;
use super::pods::BoundPod;
use super::workloads::Played;
use super::{Settings, Workloads};
use crate::client_errors::gone_is_fine;
use crate::health::{Health, RunningReplicas};
use crate::time::later;
use crate::watched::{Guarded, Mirror, Seen, decoded, events, key};

/// A request that failed is tried again after this.
const RETRY_MS: u64 = 1_000;
/// With nothing due, a look is taken after this.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

enum Input {
    Node(Event<Guarded<SimulatedNode>>),
    Object(Kind, Event<DynamicObject>),
}

/// What runs on nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Pod,
    Deployment,
    StatefulSet,
}

impl Kind {
    const WORKLOADS: [Self; 2] = [Self::Deployment, Self::StatefulSet];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
        }
    }

    fn resource(self) -> ApiResource {
        match self {
            Self::Pod => ApiResource::erase::<Pod>(&()),
            Self::Deployment => ApiResource::erase::<Deployment>(&()),
            Self::StatefulSet => ApiResource::erase::<StatefulSet>(&()),
        }
    }
}

/// An object that runs, by its kind and its `namespace/name`; or a Node, by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Node(String),
    Object(Kind, String),
}

/// An object that runs, or is to.
struct Running {
    seen: DynamicObject,
    /// The object as it is simulated; its `changed_at` is when a Pod was first seen bound, or when a workload's generation last changed.
    played: Played,
    /// The status that was written last.
    said: Option<Value>,
}

pub(super) async fn run(client: kube::Client, (clock, settings): (SharedClock, Settings), stop: CancellationToken) {
    let objects = |kind: Kind| {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind.resource());
        events(api, kind.as_str())
            .map(move |event| Input::Object(kind, event))
            .boxed()
    };
    let nodes = events(Api::all(client.clone()), "SimulatedNode").map(Input::Node);
    let mut inputs = stream::select_all([nodes.boxed(), objects(Kind::Pod)]);
    if settings.workloads == Workloads::Played {
        inputs.extend(Kind::WORKLOADS.map(objects));
    }
    let mut world = World {
        client: client.clone(),
        clock,
        settings,
        node_names: Mirror::default(),
        object_names: BTreeMap::new(),
        nodes: BTreeMap::new(),
        has_begun: false,
        running: BTreeMap::new(),
        due: BTreeMap::new(),
    };
    loop {
        let pause = world.pause();
        tokio::select! {
            () = stop.cancelled() => return,
            input = inputs.next() => match input {
                Some(input) => world.take(input),
                None => return,
            },
            () = tokio::time::sleep(pause) => {}
        }
        world.work_off().await;
    }
}

struct World {
    client: kube::Client,
    clock: SharedClock,
    settings: Settings,
    node_names: Mirror,
    object_names: BTreeMap<Kind, Mirror>,
    nodes: BTreeMap<String, SimulatedNode>,
    /// There has been a node: without one, workloads are templates that run nowhere.
    has_begun: bool,
    running: BTreeMap<(Kind, String), Running>,
    due: BTreeMap<Subject, Timestamp>,
}

impl World {
    fn pause(&self) -> Duration {
        let Some(next) = self.due.values().min() else {
            return PAUSE_MAX;
        };
        // Tokio counts milliseconds: half a one too early would be a busy loop.
        let left = Duration::try_from(next.duration_since(self.clock.now())).unwrap_or_default();
        match left.is_zero() {
            true => left,
            false => left + Duration::from_millis(1),
        }
    }

    fn take(&mut self, input: Input) {
        let now = self.clock.now();
        match input {
            Input::Node(event) => {
                for seen in self.node_names.changes(event) {
                    let name = match seen {
                        Seen::Set(guarded) => {
                            let name = guarded.name_any();
                            let Some(node) = decoded(guarded) else { continue };
                            self.nodes.insert(name.clone(), node);
                            self.has_begun = true;
                            name
                        }
                        Seen::Gone(name) => {
                            self.nodes.remove(&name);
                            name
                        }
                    };
                    self.due.insert(Subject::Node(name), now);
                    let all = self.running.keys();
                    let all: Vec<Subject> = all.map(|(kind, key)| Subject::Object(*kind, key.clone())).collect();
                    self.due.extend(all.into_iter().map(|subject| (subject, now)));
                }
            }
            Input::Object(kind, event) => {
                let names = self.object_names.entry(kind).or_default();
                for seen in names.changes(event) {
                    match seen {
                        Seen::Set(object) => self.take_object(kind, object, now),
                        Seen::Gone(name) => {
                            self.due.remove(&Subject::Object(kind, name.clone()));
                            self.running.remove(&(kind, name));
                        }
                    }
                }
            }
        }
    }

    fn take_object(&mut self, kind: Kind, object: DynamicObject, now: Timestamp) {
        let key = key(&object);
        if kind == Kind::Pod && node_of(&object).is_none() {
            return;
        }
        let known = self.running.get(&(kind, key.clone()));
        let known = known.filter(|known| known.seen.metadata.uid == object.metadata.uid);
        let manifest = object.data.clone();
        let (changed_at, before) = match known {
            None => (now, RunningReplicas::default()),
            Some(known) if kind == Kind::Pod || known.seen.metadata.generation == object.metadata.generation => {
                (known.played.changed_at, known.played.before.clone())
            }
            Some(known) => (now, known.played.replaced(&manifest, (&self.nodes, now))),
        };
        let running = Running {
            said: known.and_then(|known| known.said.clone()),
            played: Played {
                kind: kind.as_str(),
                namespace: object.namespace(),
                name: object.name_any(),
                generation: object.metadata.generation,
                manifest,
                changed_at,
                before,
            },
            seen: object,
        };
        self.running.insert((kind, key.clone()), running);
        self.due.insert(Subject::Object(kind, key), now);
    }

    async fn work_off(&mut self) {
        let now = self.clock.now();
        let ready = self.due.iter().filter(|(_, at)| **at <= now);
        let ready: Vec<Subject> = ready.map(|(subject, _)| subject.clone()).collect();
        for subject in ready {
            self.due.remove(&subject);
            let result = match &subject {
                Subject::Node(name) => match self.nodes.get(name) {
                    Some(of) => node::keep(&self.client, of).await,
                    None => node::drop_node(&self.client, name).await,
                },
                Subject::Object(kind, key) => self.report((*kind, key), now).await,
            };
            if let Err(error) = result {
                tracing::warn!(?subject, %error, "the Node or the status could not be written; trying again in 1 s");
                self.due.insert(subject, later(now, RETRY_MS));
            }
        }
    }

    async fn report(&mut self, (kind, key): (Kind, &str), now: Timestamp) -> kube::Result<()> {
        let id = (kind, key.to_owned());
        let Some(running) = self.running.get(&id) else {
            return Ok(());
        };
        if kind == Kind::Pod && running.seen.metadata.deletion_timestamp.is_some() {
            return self.end(running).await;
        }
        let Some(health) = self.examine(kind, running, now) else {
            return Ok(());
        };
        let subject = || Subject::Object(kind, key.to_owned());
        if let Some(at) = health.changes_at {
            self.due.insert(subject(), at);
        }
        let Some(status) = health.status.filter(|status| running.said.as_ref() != Some(status)) else {
            return Ok(());
        };
        let due_at = later(health.since, self.settings.status_delay_ms);
        if due_at > now {
            self.due.insert(subject(), due_at);
            return Ok(());
        }
        let (namespace, name) = (running.played.namespace.clone(), running.played.name.clone());
        // Another object may have the name by now.
        let uid = running.seen.metadata.uid.clone();
        let patch = match kind {
            // The scheduler writes to it, too.
            Kind::Pod => Patch::Merge(json!({"metadata": {"uid": uid}, "status": status})),
            // A count that a status leaves out is 0.
            _ => {
                let whole = json!([
                    {"op": "test", "path": "/metadata/uid", "value": uid},
                    {"op": "add", "path": "/status", "value": status},
                ]);
                Patch::Json(serde_json::from_value(whole).map_err(kube::Error::SerdeError)?)
            }
        };
        let written = self
            .api(kind, namespace.as_deref())
            .patch_status(&name, &PatchParams::default(), &patch)
            .await;
        gone_is_fine(written.map(drop))?;
        if let Some(running) = self.running.get_mut(&id) {
            running.said = Some(status);
        }
        Ok(())
    }

    /// `None`: nothing is to be said about it.
    fn examine(&self, kind: Kind, running: &Running, now: Timestamp) -> Option<Health> {
        let played = &running.played;
        if kind != Kind::Pod {
            return self.has_begun.then(|| played.examine(&self.nodes, now));
        }
        let pod = BoundPod {
            namespace: played.namespace.as_deref(),
            name: &played.name,
            manifest: &played.manifest,
            bound_at: played.changed_at,
        };
        let node = self.nodes.get(node_of(&running.seen)?)?;
        Some(pod.examine(&node.spec, now))
    }

    /// A Pod that is being deleted has ended when its node says so; a node that cannot be reached says nothing.
    async fn end(&self, running: &Running) -> kube::Result<()> {
        let node = node_of(&running.seen).and_then(|name| self.nodes.get(name));
        if node.is_none_or(|node| node.spec.unreachable) {
            return Ok(());
        }
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: running.seen.metadata.uid.clone(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let api = self.api(Kind::Pod, running.played.namespace.as_deref());
        match api.delete(&running.played.name, &params).await {
            // Another Pod has the name.
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(()),
            other => gone_is_fine(other.map(drop)),
        }
    }

    fn api(&self, kind: Kind, namespace: Option<&str>) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace.unwrap_or_default(), &kind.resource())
    }
}

fn node_of(pod: &DynamicObject) -> Option<&str> {
    pod.data["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())
}
