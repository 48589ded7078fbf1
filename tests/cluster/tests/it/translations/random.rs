//! Matching as a property: random objects of four kinds in three namespaces, clauses derived from some of them, then rounds of random edits. Both sides
//! bind the same objects. Must not judge which ones: KubeStellar is the oracle.

use anyhow::{Context as _, ensure};
use kube::api::{DeleteParams, Patch, PatchParams};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Map, Value, json};

use super::fixture::{Mark, Names, cluster};
use super::{Pair, snapshot};
use crate::scenario::{Reference, apply};

const SEED: &str = "STAGEGATE_SEED";
const OBJECTS: usize = 60;
const POLICIES: usize = 12;
const ROUNDS: usize = 4;
const EDITS: usize = 20;
/// Of everything that a world makes, so that its clauses match nothing of other fixtures.
const LABEL: &str = "random-world";
const NAMESPACES: [&str; 3] = ["random-a", "random-b", "random-c"];
/// Version, kind, group, resource; the first is cluster-scoped.
const KINDS: [(&str, &str, &str, &str); 4] = [
    (
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        "rbac.authorization.k8s.io",
        "clusterroles",
    ),
    ("v1", "ConfigMap", "", "configmaps"),
    (
        "networking.k8s.io/v1",
        "NetworkPolicy",
        "networking.k8s.io",
        "networkpolicies",
    ),
    (
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "autoscaling",
        "horizontalpodautoscalers",
    ),
];

/// # Errors
/// Of a variable that is no number.
pub fn seed() -> anyhow::Result<u64> {
    let Ok(given) = std::env::var(SEED) else {
        return Ok(rand::random());
    };
    given.parse().with_context(|| format!("{SEED} is a whole number"))
}

/// # Errors
/// With the seed: the first round in which the sides differ.
pub async fn agree(pair: &Pair, seed: u64) -> anyhow::Result<()> {
    let mut world = World {
        random: SmallRng::seed_from_u64(seed),
        objects: Vec::new(),
    };
    world.work_through(pair).await.with_context(|| format!("{SEED}={seed}"))
}

struct World {
    random: SmallRng,
    objects: Vec<Object>,
}

/// Where it stands in `KINDS` and `NAMESPACES`, and its labels.
#[derive(Clone)]
struct Object {
    kind: usize,
    namespace: Option<&'static str>,
    name: String,
    labels: Map<String, Value>,
}

impl World {
    async fn work_through(&mut self, pair: &Pair) -> anyhow::Result<()> {
        let mut first: Vec<Value> = cluster("random-1", &[("fleet".to_owned(), LABEL.to_owned())].into()).into();
        for (at, name) in NAMESPACES.iter().enumerate() {
            let labels = json!({LABEL: "it", "tier": format!("tier-{}", at % 2)});
            first.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}));
        }
        for number in 0..OBJECTS {
            let object = self.object(number);
            first.push(object.whole());
            self.objects.push(object);
        }
        let policies: Vec<Value> = (0..POLICIES).map(|number| self.policy(number)).collect();
        let names = Names::of(policies.iter());
        first.extend(policies);
        for client in pair.clients() {
            for object in &first {
                apply(&client, object).await?;
            }
        }
        let mut before = Value::Null;
        for round in 0..=ROUNDS {
            if round > 0 {
                for edit in 0..EDITS {
                    self.edit(pair, round * EDITS + edit).await?;
                }
            }
            let mark = Mark {
                name: format!("round {round}"),
                shows: json!({}),
                differs: Vec::new(),
            };
            pair.reach(&names, &mark).await?;
            let now = snapshot::of(&pair.clients()[1], &names).await?["bindings"].take();
            let bound = now
                .as_object()
                .into_iter()
                .flatten()
                .map(|(_, binding)| binding["objects"].as_object().map_or(0, Map::len));
            let bound: Vec<usize> = bound.collect();
            // Otherwise the clauses are no test of matching.
            ensure!(
                bound.len() == POLICIES && bound.iter().any(|&some| some > 0 && some < OBJECTS),
                "round {round} binds {bound:?}"
            );
            ensure!(now != before, "round {round} changes nothing");
            before = now;
        }
        Ok(())
    }

    fn object(&mut self, number: usize) -> Object {
        let kind = self.random.random_range(0..KINDS.len());
        let namespace = (kind > 0).then(|| *self.any(&NAMESPACES));
        // Some names occur in several kinds and namespaces.
        let name = format!(
            "random-{}",
            if kind > 0 { number % 7 * 10 + number % 3 } else { number }
        );
        let taken = |known: &Object| (known.kind, known.namespace, &known.name) == (kind, namespace, &name);
        let name = if self.objects.iter().any(taken) {
            format!("random-{number}-too")
        } else {
            name
        };
        Object {
            kind,
            namespace,
            name,
            labels: self.labels(),
        }
    }

    fn labels(&mut self) -> Map<String, Value> {
        let mut labels = Map::from_iter([(LABEL.to_owned(), json!("it"))]);
        for label in ["a", "b", "c"] {
            if self.random.random_bool(0.6) {
                labels.insert(label.to_owned(), json!(format!("v{}", self.random.random_range(0..3))));
            }
        }
        labels
    }

    fn policy(&mut self, number: usize) -> Value {
        let clauses: Vec<Value> = (0..self.random.random_range(1..4)).map(|_| self.clause()).collect();
        json!({
            "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy", "metadata": {"name": format!("random-{number}")},
            "spec": {"clusterSelectors": [{"matchLabels": {"fleet": LABEL}}], "downsync": clauses},
        })
    }

    /// Derived from an object, so that it matches something, then at times made to miss it.
    fn clause(&mut self) -> Value {
        let objects = self.objects.clone();
        let like = self.any(&objects).clone();
        let other = self.any(&objects).clone();
        let (_, _, group, resource) = KINDS[like.kind];
        let mut clause = Map::new();
        let mut put = |wanted: bool, member: &str, value: Value| {
            if wanted {
                clause.insert(member.to_owned(), value);
            }
        };
        let mut chance = |probability| self.random.random_bool(probability);
        put(chance(0.6), "apiGroup", json!(group));
        let resources = [
            json!([resource]),
            json!([KINDS[other.kind].3, resource]),
            json!(["*"]),
            json!([]),
        ];
        put(
            chance(0.6),
            "resources",
            resources[usize::from(chance(0.5)) + 2 * usize::from(chance(0.3))].clone(),
        );
        let (mine, another) = (like.namespace.unwrap_or("*"), other.namespace.unwrap_or(""));
        put(
            chance(0.4),
            "namespaces",
            if chance(0.5) {
                json!([mine])
            } else {
                json!([another, mine])
            },
        );
        put(
            chance(0.3),
            "objectNames",
            if chance(0.7) {
                json!([like.name, other.name])
            } else {
                json!(["*"])
            },
        );
        put(
            chance(0.3),
            "namespaceSelectors",
            if chance(0.7) {
                json!([{"matchLabels": {LABEL: "it", "tier": "tier-0"}}])
            } else {
                json!([{}, {"matchLabels": {"tier": "tier-1"}}])
            },
        );
        put(chance(0.3), "createOnly", json!(true));
        // Always one that only this world's objects match.
        let labels = if chance(0.5) {
            json!(like.labels)
        } else {
            json!({LABEL: "it"})
        };
        let mut selectors = vec![json!({"matchLabels": labels})];
        if chance(0.3) {
            let operator = if chance(0.5) { "In" } else { "NotIn" };
            let among = json!({"key": "b", "operator": operator, "values": ["v0", "v1"]});
            selectors.push(
                json!({"matchLabels": {LABEL: "it"}, "matchExpressions": [among, {"key": "a", "operator": "Exists"}]}),
            );
        }
        put(true, "objectSelectors", json!(selectors));
        Value::Object(clause)
    }

    async fn edit(&mut self, pair: &Pair, number: usize) -> anyhow::Result<()> {
        let at = self.random.random_range(0..self.objects.len());
        match self.random.random_range(0..10) {
            0..2 => {
                let gone = self.objects.swap_remove(at);
                for client in pair.clients() {
                    gone.reference()
                        .api(&client)
                        .delete(&gone.name, &DeleteParams::default())
                        .await?;
                }
            }
            2..4 => {
                let object = self.object(OBJECTS + number);
                self.put(pair, &object.whole()).await?;
                self.objects.push(object);
            }
            4..6 => {
                let number = self.random.random_range(0..POLICIES);
                let policy = self.policy(number);
                self.put(pair, &policy).await?;
            }
            _ => {
                let labels = self.labels();
                let (old, object) = (self.objects[at].labels.clone(), &mut self.objects[at]);
                object.labels = labels;
                let mut patch = object.labels.clone();
                for label in old.keys().filter(|label| !object.labels.contains_key(*label)) {
                    patch.insert(label.clone(), Value::Null);
                }
                let patch = Patch::Merge(json!({"metadata": {"labels": patch}}));
                for client in pair.clients() {
                    object
                        .reference()
                        .api(&client)
                        .patch(&object.name, &PatchParams::default(), &patch)
                        .await?;
                }
            }
        }
        Ok(())
    }

    async fn put(&self, pair: &Pair, object: &Value) -> anyhow::Result<()> {
        for client in pair.clients() {
            apply(&client, object).await?;
        }
        Ok(())
    }

    fn any<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        of.choose(&mut self.random).expect("none of them is empty")
    }
}

impl Object {
    fn whole(&self) -> Value {
        let (version, kind, _, _) = KINDS[self.kind];
        let mut object =
            json!({"apiVersion": version, "kind": kind, "metadata": {"name": self.name, "labels": self.labels}});
        if let Some(namespace) = self.namespace {
            object["metadata"]["namespace"] = json!(namespace);
        }
        match kind {
            "NetworkPolicy" => object["spec"] = json!({"podSelector": {}}),
            "HorizontalPodAutoscaler" => {
                object["spec"] = json!({"maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}});
            }
            _ => {}
        }
        object
    }

    fn reference(&self) -> Reference {
        let (version, kind, _, _) = KINDS[self.kind];
        Reference {
            kind: kind.to_owned(),
            name: self.name.clone(),
            namespace: self.namespace.map(str::to_owned),
            api_version: Some(version.to_owned()),
        }
    }
}
