//! Every edit of a policy at every moment of a rollout, and where it must end. Must not look at single decisions: the tables
//! of `stagegate_decide` do that.

use std::collections::BTreeMap;

use kube::Api;
use kube::api::{DeleteParams, PropagationPolicy};
use serde_json::{Value, json};
use stagegate_api::{Phase, StagedBindingPolicyStatus};

use crate::guests;
use crate::harness::{Pace, WELL, World, cluster, deployment_of, gate, policy, said, shop, workload};
use crate::matrices::{Matrix, broken, in_virtual_time};

/// When the edit is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// No host has seen the policy yet.
    Before,
    /// The first stage was opened this moment.
    DevOpened,
    /// A cluster of the first stage is not ready.
    DevWaits,
    /// The second was opened this moment, and the first is still placed.
    TestOpened,
    TestWaits,
    ProdWaits,
    Completed,
}

const MOMENTS: [Moment; 7] = [
    Moment::Before,
    Moment::DevOpened,
    Moment::DevWaits,
    Moment::TestOpened,
    Moment::TestWaits,
    Moment::ProdWaits,
    Moment::Completed,
];

/// Where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// Completed, with only the last stage of the spec placed; or all of them under Keep.
    Completed,
    /// The active stage is gone from the spec: its placement stays until the stage is put back, then it completes.
    Stalled,
    /// Completed, and the first stage's placement, which was about to be left, stays: `Accepted` names it.
    Leftover,
    /// Completed, and the stage that completed the rollout before stays placed: only a new revision removes it.
    Stays,
    /// Nothing moves until it goes on, then it completes.
    Paused,
    /// The last stage's condition says no.
    Holding,
    /// No placement is left, and no workload.
    Gone,
    /// The policy is gone; where the workload was it stays.
    Orphaned,
}

use Ends::{
    Completed as C, Gone as G, Holding as H, Leftover as L, Orphaned as O, Paused as P, Stalled as S, Stays as K,
};

struct Edit {
    name: &'static str,
    /// From a spec to the edited one.
    change: fn(&mut Value),
    /// At each moment, in the order of [`MOMENTS`].
    ends: [Ends; 7],
}

const EDITS: &[Edit] = &[
    Edit {
        name: "a stage is added at the end",
        change: |spec| stages(spec).push(stage("late")),
        ends: [C, C, C, C, C, C, K],
    },
    Edit {
        name: "a stage is added at the start",
        change: |spec| stages(spec).insert(0, stage("late")),
        ends: [C, C, C, C, C, C, C],
    },
    Edit {
        name: "a stage is added after the first",
        change: |spec| stages(spec).insert(1, stage("late")),
        ends: [C, C, C, C, C, C, C],
    },
    Edit {
        name: "a stage is added before the last",
        change: |spec| stages(spec).insert(2, stage("late")),
        ends: [C, C, C, C, C, C, C],
    },
    Edit {
        name: "the first stage is taken out",
        change: |spec| drop(stages(spec).remove(0)),
        ends: [C, S, S, L, C, C, C],
    },
    Edit {
        name: "the second stage is taken out",
        change: |spec| drop(stages(spec).remove(1)),
        ends: [C, C, C, S, S, C, C],
    },
    Edit {
        name: "the last stage is taken out",
        change: |spec| drop(stages(spec).remove(2)),
        ends: [C, C, C, C, C, S, S],
    },
    Edit {
        name: "all but the first are taken out",
        change: |spec| stages(spec).truncate(1),
        ends: [C, C, C, S, S, S, S],
    },
    Edit {
        name: "the first stage is renamed",
        change: |spec| stages(spec)[0]["name"] = json!("other"),
        ends: [C, S, S, L, C, C, C],
    },
    Edit {
        name: "the second stage is renamed",
        change: |spec| stages(spec)[1]["name"] = json!("other"),
        ends: [C, C, C, S, S, C, C],
    },
    Edit {
        name: "the last stage is renamed",
        change: |spec| stages(spec)[2]["name"] = json!("other"),
        ends: [C, C, C, C, C, S, S],
    },
    Edit {
        name: "the first two change places",
        change: |spec| stages(spec).swap(0, 1),
        ends: [C, C, C, C, C, C, C],
    },
    Edit {
        name: "the last two change places",
        change: |spec| stages(spec).swap(1, 2),
        ends: [C, C, C, C, C, C, K],
    },
    Edit {
        name: "the first stage selects other clusters",
        change: |spec| select(spec, 0, "late"),
        ends: [C, C, C, C, C, C, C],
    },
    Edit {
        name: "the second stage selects other clusters",
        change: |spec| select(spec, 1, "late"),
        ends: [C, C, C, C, C, C, C],
    },
    Edit {
        name: "the last stage selects other clusters",
        change: |spec| select(spec, 2, "late"),
        ends: [C, C, C, C, C, C, C],
    },
    Edit {
        name: "a clause wants the state of one cluster",
        change: |spec| spec["downsync"][0]["wantSingletonReportedState"] = json!(true),
        ends: [C, C, C, C, C, C, C],
    },
    Edit {
        name: "a clause names fewer collectors",
        change: |spec| spec["downsync"][0]["statusCollectors"] = json!(["worst"]),
        ends: [C, C, C, C, C, C, C],
    },
    Edit {
        name: "a clause creates only",
        change: |spec| spec["downsync"][0]["createOnly"] = json!(true),
        ends: [C, C, C, C, C, C, C],
    },
    Edit {
        name: "a clause selects by another label",
        change: |spec| spec["downsync"][0]["objectSelectors"] = json!([{"matchLabels": {"also": "web"}}]),
        ends: [C, C, C, C, C, C, C],
    },
    Edit {
        name: "a second clause is added",
        change: |spec| {
            spec["downsync"].as_array_mut().unwrap().push(
                json!({"apiGroup": "", "resources": ["configmaps"], "namespaces": ["shop"], "objectNames": ["none"]}),
            )
        },
        ends: [C, C, C, C, C, C, C],
    },
    Edit {
        name: "all stages get a filter",
        change: |spec| each(spec, "filter", &json!("downsyncClause.resource == 'deployments'")),
        ends: [C, C, C, C, C, C, C],
    },
    Edit {
        name: "all conditions are worded anew",
        change: |spec| each(spec, "condition", &json!(format!("({WELL}) && true"))),
        ends: [C, C, C, C, C, C, C],
    },
    Edit {
        name: "the last condition is taken out",
        change: |spec| drop(stages(spec)[2].as_object_mut().unwrap().remove("condition")),
        ends: [C, C, C, C, C, C, C],
    },
    Edit {
        name: "the last condition says no",
        change: |spec| stages(spec)[2]["condition"] = json!("false"),
        ends: [H, H, H, H, H, H, C],
    },
    Edit {
        name: "all stages get a gate",
        change: |spec| each(spec, "gates", &json!([gate("min-available", &json!({"atLeast": 2}))])),
        ends: [C, C, C, C, C, C, C],
    },
    Edit {
        name: "previous stages are kept",
        change: |spec| spec["previousStages"] = json!("Keep"),
        ends: [C, C, C, C, C, C, C],
    },
    Edit {
        name: "all stages soak",
        change: |spec| each(spec, "soak", &json!("5s")),
        ends: [C, C, C, C, C, C, C],
    },
    Edit {
        name: "unseen updates are accepted",
        change: |spec| each(spec, "unacknowledgedUpdates", &json!("Ignore")),
        ends: [C, C, C, C, C, C, C],
    },
    Edit {
        name: "it is paused",
        change: |spec| spec["paused"] = json!(true),
        ends: [P, P, P, P, P, P, P],
    },
];

/// A deletion and where it ends.
const DELETIONS: &[(&str, PropagationPolicy, Ends)] = &[
    ("it is deleted in the background", PropagationPolicy::Background, G),
    ("it is deleted in the foreground", PropagationPolicy::Foreground, G),
    ("it is deleted and leaves orphans", PropagationPolicy::Orphan, O),
];

fn stages(spec: &mut Value) -> &mut Vec<Value> {
    spec["stages"].as_array_mut().unwrap()
}

fn stage(env: &str) -> Value {
    json!({"name": env, "clusterSelectors": [{"matchLabels": {"env": env}}], "condition": WELL})
}

fn select(spec: &mut Value, index: usize, env: &str) {
    stages(spec)[index]["clusterSelectors"] = json!([{"matchLabels": {"env": env}}]);
}

fn each(spec: &mut Value, member: &str, value: &Value) {
    for stage in stages(spec) {
        stage[member] = value.clone();
    }
}

#[test]
fn every_edit_at_every_moment_of_a_rollout_ends_where_it_must() {
    let mut matrix = Matrix::new("edit matrix");
    for edit in EDITS {
        for (moment, ends) in MOMENTS.into_iter().zip(edit.ends) {
            let outcome = in_virtual_time(edited(edit, moment, ends));
            matrix.add(|| format!("{} at {moment:?}", edit.name), outcome);
        }
    }
    matrix.end();
}

#[test]
fn a_deletion_at_every_moment_of_a_rollout_ends_where_it_must() {
    let mut matrix = Matrix::new("deletion matrix");
    for (name, propagation, ends) in DELETIONS {
        for moment in MOMENTS {
            let outcome = in_virtual_time(deleted(propagation, moment, *ends));
            matrix.add(|| format!("{name} at {moment:?}"), outcome);
        }
    }
    matrix.end();
}

/// A world in which the moment has come.
async fn at(moment: Moment) -> World {
    let mut world = World::start_without_host(Pace::Fast).await;
    world.apply(&shop()).await;
    world.apply(&cluster("late-1", "late", "{readyAfter: 1s}")).await;
    world.apply_gates_namespace().await;
    world
        .put_gate("min-available", &guests::wasm("gate_min_available"))
        .await;
    world
        .apply(&workload("web").replacen("labels: {app: web}", "labels: {app: web, also: web}", 1))
        .await;
    let slow = match moment {
        Moment::DevWaits => Some("dev-2"),
        Moment::TestWaits => Some("test-1"),
        Moment::ProdWaits => Some("prod-2"),
        _ => None,
    };
    if let Some(slow) = slow {
        world.edit_cluster(slow, json!({"readyAfter": "1h"})).await;
    }
    world.apply(&policy("web")).await;
    if moment == Moment::Before {
        return world;
    }
    world.start_host().await;
    let stage = match moment {
        Moment::DevOpened | Moment::DevWaits => "dev",
        Moment::TestOpened | Moment::TestWaits => "test",
        _ => "prod",
    };
    world
        .until_so("the stage is open", 60, async || {
            world.open("web").await.contains(&stage.to_owned())
        })
        .await;
    match moment {
        Moment::DevWaits | Moment::TestWaits | Moment::ProdWaits => world.pass(15).await,
        Moment::Completed => {
            world.until_phase("web", Phase::Completed, 60).await;
            world.pass(10).await;
        }
        _ => {}
    }
    world
}

async fn edited(edit: &Edit, moment: Moment, ends: Ends) -> Result<(), String> {
    let mut world = at(moment).await;
    let before = world.policies().get("web").await.unwrap();
    let original = json!(before.spec);
    let mut spec = original.clone();
    (edit.change)(&mut spec);
    put(&world, &original, &spec).await;
    if moment == Moment::Before {
        world.start_host().await;
    }
    let open = world.open("web").await;
    make_ready(&world).await;
    match ends {
        Ends::Stalled => {
            world.pass(30).await;
            let status = world.status("web").await;
            let is_told = status.reason.as_deref() == Some("ActiveStageRemoved");
            let now = world.open("web").await;
            if !is_told || !open.iter().all(|stage| now.contains(stage)) && moment != Moment::TestOpened {
                return Err(format!("{now:?} open, before {open:?}: {}", said(&status)));
            }
            put(&world, &spec, &original).await;
            completes(&world, &original).await?;
        }
        Ends::Paused => {
            world.pass(1).await;
            let open = world.open("web").await;
            world.pass(60).await;
            let status = world.status("web").await;
            // A pause does not undo completion.
            let is_as_it_was = match moment {
                Moment::Completed => status.phase == Some(Phase::Completed),
                _ => status.phase == Some(Phase::Paused),
            };
            if !is_as_it_was || world.open("web").await != open {
                return Err(format!(
                    "{:?} open, before {open:?}: {}",
                    world.open("web").await,
                    said(&status)
                ));
            }
            put(&world, &spec, &original).await;
            completes(&world, &original).await?;
        }
        Ends::Holding => {
            let holds = |status: &StagedBindingPolicyStatus| {
                status.phase == Some(Phase::Holding) && status.active_stage.as_deref() == Some("prod")
            };
            if let Err(status) = reaches(&world, 120, holds).await {
                return Err(said(&status));
            }
        }
        Ends::Stays => {
            let is_as_the_spec_says = completes(&world, &spec).await.is_ok();
            let open = world.open("web").await;
            let last = spec["stages"]
                .as_array()
                .and_then(|stages| stages.last()?["name"].as_str());
            let stays = |name: &str| open.iter().any(|stage| stage == name);
            if is_as_the_spec_says || open.len() != 2 || !stays("prod") || !last.is_some_and(stays) {
                return Err(format!(
                    "{open:?} open in the end: {}",
                    said(&world.status("web").await)
                ));
            }
        }
        Ends::Leftover => {
            let is_as_the_spec_says = completes(&world, &spec).await.is_ok();
            let told = said(&world.status("web").await);
            let open = world.open("web").await;
            if is_as_the_spec_says || open != ["dev", "prod"] || !told.contains("web.stage.dev") {
                return Err(format!("{open:?} open in the end: {told}"));
            }
        }
        _ => completes(&world, &spec).await?,
    }
    broken(&mut world)
}

async fn deleted(propagation: &PropagationPolicy, moment: Moment, ends: Ends) -> Result<(), String> {
    let mut world = at(moment).await;
    if moment == Moment::Before {
        world.start_host().await;
        world.pass(1).await;
    }
    let params = DeleteParams {
        propagation_policy: Some(propagation.clone()),
        ..DeleteParams::default()
    };
    world.policies().delete("web", &params).await.unwrap();
    world.pass(1).await;
    let open = world.open("web").await;
    world.pass(90).await;
    let left = world.open("web").await;
    let truth = world.clusters.truth();
    let runs = truth
        .clusters
        .values()
        .any(|objects| objects.contains_key(&deployment_of("web")));
    let is_gone = world.policies().get_opt("web").await.unwrap().is_none();
    let is_as_it_must = match ends {
        Ends::Gone => left.is_empty() && !runs,
        _ => left == open && !open.is_empty() && runs,
    };
    if !is_gone || !is_as_it_must {
        return Err(format!(
            "gone: {is_gone}, open after a second {open:?}, at the end {left:?}, runs: {runs}"
        ));
    }
    broken(&mut world)
}

/// Replaces the spec, so that what the edit has taken out goes.
async fn put(world: &World, from: &Value, to: &Value) {
    let removed = from
        .as_object()
        .unwrap()
        .keys()
        .filter(|member| to.get(*member).is_none());
    let mut patch: BTreeMap<String, Value> = removed.map(|member| (member.clone(), Value::Null)).collect();
    patch.extend(to.as_object().unwrap().clone());
    patch.entry("paused".to_owned()).or_insert(Value::Null);
    world.edit_policy("web", json!({"spec": patch})).await;
}

async fn make_ready(world: &World) {
    let clusters: Api<stagegate_api::SimulatedCluster> = Api::all(world.client.clone());
    for name in clusters
        .list(&Default::default())
        .await
        .unwrap()
        .iter()
        .filter_map(|it| it.metadata.name.clone())
    {
        world.edit_cluster(&name, json!({"readyAfter": "1s"})).await;
    }
}

/// Completed, and the workload is just where the spec wants it.
async fn completes(world: &World, spec: &Value) -> Result<(), String> {
    let generation = world.policies().get("web").await.unwrap().metadata.generation;
    let is_completed = |status: &StagedBindingPolicyStatus| {
        status.phase == Some(Phase::Completed) && status.observed_generation == generation
    };
    if let Err(status) = reaches(world, 300, is_completed).await {
        return Err(format!("{:?} open: {}", world.open("web").await, said(&status)));
    }
    world.pass(20).await;
    let names: Vec<&str> = spec["stages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|stage| stage["name"].as_str())
        .collect();
    let open = world.open("web").await;
    let is_last_open = open.iter().any(|stage| Some(stage.as_str()) == names.last().copied());
    let is_kept = spec["previousStages"] == "Keep";
    if !is_last_open || open.len() > 1 && !is_kept {
        return Err(format!("{open:?} open in the end, of {names:?}"));
    }
    let placement = world
        .binding_policies()
        .get(&format!("web.stage.{}", names.last().unwrap()))
        .await
        .unwrap();
    let env = placement.spec.cluster_selectors[0]
        .match_labels
        .clone()
        .unwrap_or_default();
    let truth = world.clusters.truth();
    let of_stage = |name: &str| env.get("env").is_some_and(|env| name.starts_with(env.as_str()));
    let wrong = truth.clusters.iter().find(|(name, objects)| {
        let runs = objects.contains_key(&deployment_of("web"));
        runs != of_stage(name) && (of_stage(name) || !is_kept)
    });
    wrong.map_or(Ok(()), |(name, _)| {
        Err(format!(
            "{name} should not be as it is: {:?}",
            truth.clusters[name].keys()
        ))
    })
}

async fn reaches(
    world: &World,
    seconds: u64,
    is: impl Fn(&StagedBindingPolicyStatus) -> bool,
) -> Result<(), StagedBindingPolicyStatus> {
    for _ in 0..seconds {
        if is(&world.status("web").await) {
            return Ok(());
        }
        world.pass(1).await;
    }
    Err(world.status("web").await)
}
