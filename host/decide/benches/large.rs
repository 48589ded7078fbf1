//! What the largest policy costs: 1,024 objects in 1,000 clusters, two stages, and updates that clusters acknowledge one after
//! the other. Prints the largest processor time of one decision and the largest status, and ends with 1 when one is over its
//! bar or the policy does not finish.
//!
//! The world is made of typed facts, as the shell hands them over: what decoding a watch event costs is not in these figures.
//! Names are as long as they are in a well-ordered company, since status keeps them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta as Metadata, OwnerReference, Time};
use serde_json::json;
use stagegate_api::evidence::ReportedConditions;
use stagegate_api::{
    Binding, BindingPolicy, BindingPolicyStatus, CombinedStatusView, EvidenceRow, EvidenceView, Phase, Reported,
    evidence, label,
};
use stagegate_decide::checks;
use stagegate_decide::names::{ObjectKey, PlacementName};
use stagegate_decide::staging::{
    BindingFacts, Compilation, Decision, Decoded, EvidenceCollectorFacts, Facts, ObjectFacts, ObjectMeta, Placement,
    Plan, Question, Read, Variable, Verdict, Write, decide, observe,
};

const OBJECTS: usize = 1_024;
const CLUSTERS: usize = 1_000;
/// Objects that are updated while the first stage is judged.
const UPDATED: usize = 512;
/// Processor time of one decision.
const DECISION_BAR: Duration = Duration::from_millis(100);
/// Of status as JSON, in bytes.
const STATUS_BAR: usize = 1024 * 1024;
const STEP: SignedDuration = SignedDuration::from_secs(5);
const STEPS_MAX: usize = 1_000;
const NAMESPACE: &str = "online-shop-frontend";

#[expect(clippy::print_stdout, reason = "the result of a benchmark is what it prints")]
fn main() -> ExitCode {
    let mut world = World::new();
    let mut steps = 0;
    while world.phase() != Some(Phase::Completed) && steps < STEPS_MAX {
        world.step(steps);
        steps += 1;
    }
    let (cost, bytes) = (world.costs.iter().max().copied().unwrap_or_default(), world.bytes_max);
    let mut costs = world.costs.clone();
    costs.sort_unstable();
    let median = costs.get(costs.len() / 2).copied().unwrap_or_default();
    println!(
        "large/decision {:.1} ms of processor time at most (bar {}), median {:.1}, {} decisions for {OBJECTS} objects in \
         {CLUSTERS} clusters",
        cost.as_secs_f64() * 1e3,
        DECISION_BAR.as_millis(),
        median.as_secs_f64() * 1e3,
        costs.len()
    );
    println!("large/status {bytes} bytes at most (bar {STATUS_BAR})");
    for (reason, cost) in &world.slowest {
        println!("large/reason {reason}: {:.1} ms", cost.as_secs_f64() * 1e3);
    }
    let is_completed = world.phase() == Some(Phase::Completed);
    println!(
        "large/end {:?} after {} s of its time",
        world.phase(),
        world.facts.now.duration_since(Timestamp::UNIX_EPOCH).as_secs()
    );
    ExitCode::from(u8::from(!(is_completed && cost <= DECISION_BAR && bytes <= STATUS_BAR)))
}

/// An API server, KubeStellar and the clusters, as far as one policy sees them.
struct World {
    facts: Facts,
    /// What each object has come to, by its position.
    objects: Vec<Live>,
    version: u64,
    costs: Vec<Duration>,
    /// By the reason that status had afterwards, the slowest decision.
    slowest: BTreeMap<String, Duration>,
    bytes_max: usize,
}

struct Live {
    key: ObjectKey,
    uid: String,
    generation: i64,
    version: u64,
    edited_at: Option<Timestamp>,
}

impl World {
    fn new() -> Self {
        let policy = json!({"object": {
            "apiVersion": "community.kubestellar.io/v1alpha1", "kind": "StagedBindingPolicy",
            "metadata": {"name": "online-shop", "uid": "3d0b9b9e-6a53-4f3e-9c0b-0f2d8a5b7c10", "resourceVersion": "1", "generation": 1},
            "spec": {
                "downsync": [{"apiGroup": "apps", "resources": ["deployments"], "objectSelectors": [{"matchLabels": {"app": "shop"}}]}],
                "stages": [
                    {"name": "development", "clusterSelectors": [{"matchLabels": {"environment": "development"}}]},
                    {"name": "production", "clusterSelectors": [{"matchLabels": {"environment": "production"}}]},
                ],
            },
        }});
        let facts = json!({"now": "1970-01-01T01:00:00Z", "policy": policy});
        let objects = (0..OBJECTS).map(|n| Live {
            key: ObjectKey {
                group: "apps".to_owned(),
                resource: "deployments".to_owned(),
                namespace: Some(NAMESPACE.to_owned()),
                name: format!("checkout-payment-provider-{n:04}"),
            },
            uid: format!("5f1d6c1c-3a0e-4a73-8f5d-{n:012}"),
            generation: 1,
            version: 1,
            edited_at: None,
        });
        Self {
            facts: serde_json::from_value(facts).expect("the facts are facts"),
            objects: objects.collect(),
            version: 1_000_000,
            costs: Vec::new(),
            slowest: BTreeMap::new(),
            bytes_max: 0,
        }
    }

    fn phase(&self) -> Option<Phase> {
        self.facts.policy.object.status.as_ref()?.phase
    }

    /// Time passes, everybody else does what there is to do, and the policy is decided on until nothing is left to write.
    fn step(&mut self, step: usize) {
        self.facts.now += STEP;
        self.facts.kubestellar_seen_at = Some(self.facts.now);
        let is_judging = (self.facts.policy.object.status.iter()).any(|status| {
            status.active_stage.as_deref() == Some("development") && status.stages[0].settled_at.is_some()
        });
        if is_judging && self.objects[0].generation == 1 {
            self.update_objects();
        }
        self.play_kubestellar(step);
        while let Some(plan) = self.decide() {
            plan.writes.iter().for_each(|write| self.write(write));
            self.play_kubestellar(step);
        }
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    fn update_objects(&mut self) {
        for object in self.objects.iter_mut().take(UPDATED) {
            object.generation = 2;
            object.version += 1;
            object.edited_at = Some(self.facts.now);
        }
    }

    /// One plan with something to write, if any.
    fn decide(&mut self) -> Option<Plan> {
        self.facts.read = Read::Cached;
        loop {
            let before = processor_time();
            let decision = decide(&self.facts);
            let cost = processor_time().saturating_sub(before);
            self.costs.push(cost);
            let reason = self
                .facts
                .policy
                .object
                .status
                .as_ref()
                .and_then(|status| status.reason.clone());
            let slowest = self.slowest.entry(reason.unwrap_or_default()).or_default();
            *slowest = cost.max(*slowest);
            match decision {
                Decision::Act(plan) if plan.writes.is_empty() => return None,
                Decision::Act(plan) => return Some(plan),
                Decision::Ask(questions) => questions.into_iter().for_each(|question| self.answer(question)),
            }
        }
    }

    fn answer(&mut self, question: Question) {
        match question {
            Question::OfChecks(checks::Question::Compile { digest, .. }) => {
                let named = BTreeSet::from([Variable::CombinedStatus]);
                self.facts.compiled.insert(digest, Compilation::Compiles(named));
            }
            Question::OfChecks(checks::Question::Check { key, .. }) => {
                drop(self.facts.verdicts.insert(key, Verdict::True))
            }
            Question::Object {
                key, resource_version, ..
            } => {
                let object = self.objects.iter().find(|object| object.key == key);
                let found = object.map(|object| ObjectMeta {
                    uid: object.uid.as_str().into(),
                    resource_version: object.version.to_string().into(),
                    generation: Some(object.generation),
                    edited_at: object.edited_at,
                    made_at: Some(Timestamp::UNIX_EPOCH),
                    metadata_digest: "none".to_owned(),
                    content_digest: None,
                });
                let answer = ObjectFacts {
                    asked_at: None,
                    asked_for: resource_version,
                    found,
                    refused: None,
                };
                self.facts.objects.insert(key, answer);
            }
            Question::FreshRead => {
                self.facts.read = Read::Anew {
                    baseline: self.version.to_string().into(),
                    began_at: None,
                };
            }
            Question::FreshPlacements => self.facts.read = Read::Placements,
            question => unreachable!("no gate is named, but was asked: {question:?}"),
        }
    }

    fn write(&mut self, write: &Write) {
        let version = self.next_version();
        match write {
            Write::CreateEvidenceCollector(collector) => {
                let mut object = collector.clone();
                object.metadata.resource_version = Some(version);
                object.metadata.uid = Some("evidence".to_owned());
                self.facts.evidence_collector = Some(EvidenceCollectorFacts {
                    object: Arc::new(object),
                    ours_since: Some(self.facts.now),
                });
            }
            Write::CreateClosed(policy) => {
                let mut object = policy.clone();
                let name = object.metadata.name.clone().expect("it has a name");
                let metadata = &mut object.metadata;
                metadata.uid = Some(format!("7a1d6c1c-3a0e-4a73-8f5d-{version:0>12}"));
                metadata.resource_version = Some(version);
                metadata.generation = Some(1);
                metadata.creation_timestamp = Some(Time(self.facts.now));
                self.facts
                    .placements
                    .insert(name.into(), Decoded::Object(Arc::new(object)));
            }
            Write::Open(placement) | Write::Update(placement) | Write::Fence(placement) => {
                self.change(placement, version)
            }
            Write::Remove { name, .. } => {
                self.facts.placements.remove(name.as_str());
                self.facts.bindings.remove(name.as_str());
                let is_its = |view: &Decoded<CombinedStatusView>| {
                    view.object()
                        .is_some_and(|view| view.label(label::BINDING_POLICY) == name.as_str())
                };
                self.facts.combined.retain(|_, view| !is_its(view));
            }
            Write::Status { status, .. } => {
                let bytes = serde_json::to_vec(status).expect("status is JSON").len();
                self.bytes_max = self.bytes_max.max(bytes);
                let policy = Arc::make_mut(&mut self.facts.policy.object);
                policy.status = Some((**status).clone());
                policy.metadata.resource_version = Some(version);
            }
            Write::Adopt(_)
            | Write::RestoreEvidenceCollector { .. }
            | Write::Release(_)
            | Write::Hold(_)
            | Write::Unhold { .. } => {
                unreachable!("no other writer is in this world")
            }
        }
    }

    fn change(&mut self, placement: &Placement, version: String) {
        let Some(Decoded::Object(object)) = self.facts.placements.get_mut(placement.name.as_str()) else {
            unreachable!("only what is there is changed")
        };
        let object = Arc::make_mut(object);
        if object.spec != placement.spec {
            object.spec = placement.spec.clone();
            object.metadata.generation = object.metadata.generation.map(|generation| generation + 1);
        }
        let annotations = object.metadata.annotations.get_or_insert_default();
        annotations.extend(placement.annotations.clone());
        object.metadata.resource_version = Some(version);
    }
}

/// KubeStellar and the clusters, without delays.
impl World {
    fn play_kubestellar(&mut self, step: usize) {
        let names: Vec<PlacementName> = self.facts.placements.keys().cloned().collect();
        for name in names {
            let version = self.next_version();
            let Some(Decoded::Object(object)) = self.facts.placements.get_mut(&name) else {
                continue;
            };
            let generation = object.metadata.generation.unwrap_or_default();
            if object
                .status
                .as_ref()
                .is_none_or(|status| status.observed_generation != generation)
            {
                let object = Arc::make_mut(object);
                object.status = Some(BindingPolicyStatus {
                    observed_generation: generation,
                    ..BindingPolicyStatus::default()
                });
                object.metadata.resource_version = Some(version);
            }
            let object = Arc::clone(object);
            self.bind(name.as_str(), &object);
            if !object.spec.cluster_selectors.is_empty() {
                self.combine(name.as_str(), &object, step);
            }
        }
    }

    fn bind(&mut self, name: &str, policy: &BindingPolicy) {
        let is_closed = policy.spec.cluster_selectors.is_empty();
        let destinations: Vec<_> = (0..if is_closed { 0 } else { CLUSTERS })
            .map(|n| json!({"clusterId": cluster(n)}))
            .collect();
        let objects: Vec<_> = self
            .objects
            .iter()
            .map(|object| {
                json!({
                    "group": "apps", "version": "v1", "resource": "deployments", "namespace": NAMESPACE, "name": object.key.name,
                    "resourceVersion": object.version.to_string(), "statusCollectors": [evidence::collector_name()],
                })
            })
            .collect();
        let spec = json!({"destinations": destinations, "workload": {"namespaceScope": objects}});
        let known = self.facts.bindings.get(name);
        let spec = serde_json::from_value(spec).expect("a Binding's spec");
        let is_same = |known: &BindingFacts| {
            known
                .object
                .as_ref()
                .and_then(Decoded::object)
                .is_some_and(|binding| binding.spec == spec)
        };
        if known.is_some_and(is_same) {
            return;
        }
        let mut binding = Binding::new(name, spec);
        binding.metadata.uid = Some(format!("binding of {name}"));
        binding.metadata.owner_references = Some(vec![OwnerReference {
            uid: policy.metadata.uid.clone().unwrap_or_default(),
            controller: Some(true),
            ..OwnerReference::default()
        }]);
        let observed = observe(known.map(|known| &known.observed), Some(&binding), self.facts.now);
        binding.metadata.resource_version = Some(self.next_version());
        let facts = BindingFacts {
            object: Some(Decoded::Object(Arc::new(binding))),
            observed,
        };
        self.facts.bindings.insert(name.to_owned().into(), facts);
    }

    /// A report of each cluster about each object: a healthy Deployment at the newest generation, as soon as the cluster's turn
    /// has come.
    fn combine(&mut self, name: &str, policy: &BindingPolicy, step: usize) {
        let now = self.facts.now.as_second();
        let uid = policy.metadata.uid.clone().unwrap_or_default();
        let conditions: ReportedConditions =
            serde_json::from_value(json!(["Available=True", "Progressing=True:NewReplicaSetAvailable"]))
                .expect("conditions");
        for at in 0..self.objects.len() {
            let object = &self.objects[at];
            let key = format!("{NAMESPACE}/{}.{uid}", object.uid);
            let known = self.facts.combined.get(&key).and_then(Decoded::object);
            let is_new = |n: usize| {
                object
                    .edited_at
                    .is_none_or(|edited| now >= edited.as_second() + turn(at, n))
            };
            let row = |n: usize| EvidenceRow {
                cluster: cluster(n).into(),
                at: Reported::At {
                    seconds: object
                        .edited_at
                        .filter(|_| is_new(n))
                        .map_or(3_600, |edited| edited.as_second() + turn(at, n)),
                },
                r#gen: if is_new(n) { object.generation } else { 1 }.to_string(),
                ready: Some(3),
                available: Some(3),
                desired: Some(3),
                total: Some(3),
                updated: Some(3),
                phase: None,
                conditions,
            };
            let is_at_rest = object
                .edited_at
                .is_none_or(|edited| now > edited.as_second() + TURNS + STEP.as_secs());
            if known.is_some() && is_at_rest {
                continue;
            }
            let rows: Vec<EvidenceRow> = (0..CLUSTERS).map(row).collect();
            if known.is_some_and(|known| known.evidence[0].rows == rows) {
                continue;
            }
            let labels = [
                (label::API_GROUP, "apps"),
                (label::RESOURCE, "deployments"),
                (label::NAMESPACE, NAMESPACE),
                (label::NAME, &object.key.name),
                (label::BINDING_POLICY, name),
            ];
            let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
            self.version += 1;
            let view = CombinedStatusView {
                metadata: Metadata {
                    name: Some(format!("{}.{uid}", object.uid)),
                    namespace: Some(NAMESPACE.to_owned()),
                    resource_version: Some(self.version.to_string()),
                    labels: Some(labels.into()),
                    ..Metadata::default()
                },
                digest: format!("{step} {at}"),
                size_bytes: CLUSTERS * 300,
                collectors: Vec::new(),
                evidence: vec![EvidenceView {
                    collector: evidence::collector_name(),
                    rows,
                    ..EvidenceView::default()
                }],
                results: None,
            };
            self.facts.combined.insert(key, Decoded::Object(Arc::new(view)));
        }
    }
}

/// When each cluster acknowledges an update, in seconds after it: differently for each, so that little can be said in one line.
fn turn(object: usize, cluster: usize) -> i64 {
    1 + i64::try_from((object * 7 + cluster * 13) % 60).unwrap_or_default()
}

const TURNS: i64 = 60;

fn cluster(n: usize) -> String {
    format!("eu-central-1-retail-cluster-{n:04}")
}

/// Of this thread alone, whatever else the machine does.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
