//! KubeStellar's part, without its delays: it writes the Binding of each BindingPolicy when that or the Deployment has changed, the
//! BindingPolicy's status after it, and the CombinedStatus of the first stage's cluster. A Binding that is refused is tried again, later each
//! time. Must not know what is measured.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use stagegate_api::{Binding, BindingPolicy, versions_binding_policy_name};
use stagegate_cluster_tests::bench::kinds::Kinds;
use stagegate_cluster_tests::bench::objects::{self, Answer, Bound, NAMESPACE, Placed, STAGES, Stored, placement};
use stagegate_cluster_tests::bench::writes::{CONCURRENCY, Reported, create, report};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// Before a refused write is tried again, at first; as KubeStellar's own.
const RETRY: Duration = Duration::from_millis(5);

pub struct Player {
    part: Arc<Part>,
    _tasks: JoinSet<()>,
}

struct Part {
    client: Client,
    kinds: Kinds,
    bindings: Api<DynamicObject>,
    /// One for each worker: all that is about one BindingPolicy is done in order.
    queues: Vec<UnboundedSender<Job>>,
    hasher: RandomState,
    known: Mutex<HashMap<String, Known>>,
    /// By number.
    deployments: Mutex<Vec<Stored>>,
}

/// A Binding to write.
struct Job {
    name: String,
    /// How often it was refused since something changed.
    refused: u32,
}

/// A BindingPolicy, and what was written of it.
#[derive(Clone, Debug)]
struct Known {
    number: usize,
    /// None of the one that selects no cluster.
    stage: Option<usize>,
    uid: String,
    generation: i64,
    is_open: bool,
    collectors: Vec<String>,
    written: Option<Value>,
    observed: i64,
    is_reported: bool,
}

impl Player {
    /// Plays for so many policies, with these Deployments by number.
    pub fn start(client: &Client, deployments: Vec<Stored>) -> Player {
        let (queues, jobs): (Vec<_>, Vec<_>) = (0..CONCURRENCY).map(|_| unbounded_channel()).unzip();
        let kinds = Kinds::all();
        let part = Arc::new(Part {
            bindings: Api::all_with(client.clone(), &kube::core::ApiResource::erase::<Binding>(&())),
            client: client.clone(),
            kinds,
            queues,
            hasher: RandomState::new(),
            known: Mutex::default(),
            deployments: Mutex::new(deployments),
        });
        let mut tasks = JoinSet::new();
        for jobs in jobs {
            tasks.spawn(work(part.clone(), jobs));
        }
        tasks.spawn(follow(part.clone()));
        Player { part, _tasks: tasks }
    }

    /// The cluster of the first stage reports anew.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn report(&self, number: usize, answer: Answer) -> anyhow::Result<Reported> {
        let name = placement(number, 0);
        let known = self.part.known().get(&name).cloned();
        let placed = self
            .part
            .placed(&known.with_context(|| format!("{name} is not there"))?);
        let api = self.part.kinds.combined(&self.part.client);
        report(&api, placed.combined_name(), answer).await
    }

    /// Moves the Deployment's resourceVersion: its status has so many replicas.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn touch(&self, number: usize, replicas: usize) -> anyhow::Result<()> {
        let api: Api<Deployment> = Api::namespaced(self.part.client.clone(), NAMESPACE);
        let status = Patch::Merge(json!({"status": {"replicas": replicas}}));
        let name = objects::name(number);
        let written = api.patch_status(&name, &PatchParams::default(), &status).await?;
        let version = written.metadata.resource_version.unwrap_or_default();
        self.part.deployments()[number].resource_version = version;
        let stages = (0..STAGES.len()).map(|stage| placement(number, stage));
        for name in stages.chain([versions_binding_policy_name(&name)]) {
            self.part.queue(Job { name, refused: 0 });
        }
        Ok(())
    }
}

async fn follow(part: Arc<Part>) {
    let placements: Api<BindingPolicy> = Api::all(part.client.clone());
    let events = watcher(placements, watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(placement) | Event::InitApply(placement)) => part.note(&placement),
            Ok(Event::Delete(_) | Event::Init | Event::InitDone) => {}
            Err(error) => eprintln!("a watch of the benchmark: {error}"),
        }
    }
}

async fn work(part: Arc<Part>, mut jobs: UnboundedReceiver<Job>) {
    while let Some(job) = jobs.recv().await {
        match part.write(&job.name).await {
            Ok(true) => {}
            Ok(false) => part.retry(job),
            Err(error) => eprintln!("{}: {error:#}", job.name),
        }
    }
}

impl Part {
    fn note(&self, placement: &BindingPolicy) {
        let name = placement.name_any();
        let Some((number, stage)) = parse(&name) else {
            return;
        };
        let generation = placement.metadata.generation.unwrap_or_default();
        let clauses = &placement.spec.downsync;
        let collectors: BTreeSet<&String> = clauses.iter().flat_map(|clause| &clause.status_collectors).collect();
        let seen = Known {
            number,
            stage,
            uid: placement.uid().unwrap_or_default(),
            generation,
            is_open: !placement.spec.cluster_selectors.is_empty(),
            collectors: collectors.into_iter().cloned().collect(),
            written: None,
            observed: 0,
            is_reported: false,
        };
        {
            let mut all = self.known();
            let known = all.entry(name.clone()).or_insert_with(|| seen.clone());
            // Its metadata and status are not what a Binding is made of.
            if known.generation == generation && known.observed >= generation {
                return;
            }
            known.generation = generation;
            known.is_open = seen.is_open;
            known.collectors = seen.collectors;
        }
        self.queue(Job { name, refused: 0 });
    }

    fn queue(&self, job: Job) {
        let at = self.hasher.hash_one(&job.name) % CONCURRENCY as u64;
        if let Some(queue) = usize::try_from(at).ok().and_then(|at| self.queues.get(at)) {
            // Whoever would take it has ended with the player.
            drop(queue.send(job));
        }
    }

    /// Each refusal doubles the wait, as KubeStellar does.
    fn retry(self: &Arc<Self>, job: Job) {
        let part = self.clone();
        let wait = RETRY * 2_u32.saturating_pow(job.refused.min(16));
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            part.queue(Job {
                refused: job.refused + 1,
                ..job
            });
        });
    }

    /// `false`: the Binding was refused.
    async fn write(&self, name: &str) -> anyhow::Result<bool> {
        let Some(known) = self.known().get(name).cloned() else {
            return Ok(true);
        };
        let binding = self.bound(name, &known).binding();
        if known.written.as_ref() != Some(&binding["spec"]) {
            if !self.write_binding(name, &known, &binding).await? {
                return Ok(false);
            }
            self.change(name, |known| known.written = Some(binding["spec"].clone()));
        }
        if known.observed != known.generation {
            let status = Patch::Merge(json!({"status": {"observedGeneration": known.generation}}));
            let api = self.kinds.placements(&self.client);
            api.patch_status(name, &PatchParams::default(), &status).await?;
            self.change(name, |now| now.observed = known.generation);
        }
        if known.is_open && known.stage == Some(0) && !known.is_reported {
            let combined = self.placed(&known);
            let combined = combined.combined(&self.kinds.combined.api_version, Answer::default());
            create(&self.kinds.combined(&self.client), combined).await?;
            self.change(name, |known| known.is_reported = true);
        }
        Ok(true)
    }

    async fn write_binding(&self, name: &str, known: &Known, binding: &Value) -> anyhow::Result<bool> {
        if known.written.is_none() {
            create(&self.bindings, binding.clone()).await?;
            return Ok(true);
        }
        let spec = Patch::Merge(json!({"spec": binding["spec"]}));
        match self.bindings.patch_metadata(name, &PatchParams::default(), &spec).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.is_forbidden() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn bound(&self, name: &str, known: &Known) -> Bound {
        let clusters = known.stage.filter(|_| known.is_open).map(objects::cluster);
        Bound {
            name: name.to_owned(),
            owner: known.uid.clone(),
            number: known.number,
            resource_version: self.deployments()[known.number].resource_version.clone(),
            clusters: clusters.into_iter().collect(),
            collectors: known.collectors.clone(),
        }
    }

    fn placed(&self, known: &Known) -> Placed {
        Placed {
            number: known.number,
            stage: known.stage.unwrap_or_default(),
            uid: known.uid.clone(),
            deployment: self.deployments()[known.number].clone(),
        }
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Known)) {
        if let Some(known) = self.known().get_mut(name) {
            change(known);
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deployments(&self) -> MutexGuard<'_, Vec<Stored>> {
        self.deployments.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The policy's number, and the stage's, of which the one that selects no cluster has none.
fn parse(name: &str) -> Option<(usize, Option<usize>)> {
    let (policy, rest) = name.split_once('.')?;
    let number = policy.strip_prefix("web-")?.parse().ok()?;
    match rest.strip_prefix("stage.") {
        Some(stage) => Some((number, Some(STAGES.iter().position(|known| *known == stage)?))),
        None => Some((number, None)),
    }
}
