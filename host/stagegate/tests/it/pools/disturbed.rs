//! An update that is disturbed at any call: it ends as one that was not, and makes no workload twice.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use serde_json::{Value, json};
use stagegate_api::workloads::{TemplateType, WorkloadView};
use stagegate_embedded::Commit;

use super::stages::{POOLS, make_pools, staged};
use super::world::{World, daemon, edge, image};
use crate::guests;
use crate::harness::seeded::budget;
use crate::harness::{Disturbance, gate, put_gate};
use crate::tell;

const DISTURBANCES: &[Disturbance] = &[
    Disturbance::KilledBefore,
    Disturbance::KilledAt,
    Disturbance::KilledAfter,
    Disturbance::AnswerLost,
    Disturbance::Refused(409),
    Disturbance::Refused(500),
    Disturbance::Cut,
];

/// So many of them at the call of this number, times the budget: each of them at some call, and with a larger budget all at each.
fn disturbances(nth: usize, number: usize) -> impl Iterator<Item = Disturbance> {
    let number = number.saturating_mul(usize::try_from(budget()).unwrap_or(usize::MAX));
    let all = DISTURBANCES.iter().cycle().skip(nth % DISTURBANCES.len());
    all.take(number.min(DISTURBANCES.len())).copied()
}

/// What there is at the end: images by pool, and the numbers of the revisions.
type End = (BTreeMap<String, String>, Vec<i64>);

async fn end(world: &World) -> End {
    let deployments = world.deployments().await;
    assert_eq!(
        deployments.len(),
        world.views(TemplateType::Deployment).await.len(),
        "no twin"
    );
    let images = deployments.into_iter().map(|(pool, view)| {
        let image = view.spec.template.spec.containers[0].image.clone().unwrap_or_default();
        (pool, image)
    });
    let revisions = world.revisions().await;
    let names: Vec<String> = revisions.iter().map(|revision| revision.name_any()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    (
        images.collect(),
        revisions.iter().map(|revision| revision.revision).collect(),
    )
}

/// From nothing to the second version in three pools, with the disturbance at the call of this number.
async fn run(disturbed: Option<(usize, Disturbance)>) -> (End, usize) {
    let mut world = World::start_without_controller(Some("v1beta2")).await;
    for pool in ["beijing", "hangzhou", "shanghai"] {
        world.pool(pool, edge()).await;
    }
    disturb(&world, disturbed);
    world.create(&daemon("web")).await.unwrap();
    world.start_controller_with_patience().await;
    world.work_off("web").await;
    world.edit("web", image(2)).await;
    world.work_off("web").await;
    let calls = world.tap.calls().len();
    (end(&world).await, calls)
}

fn disturb(world: &World, disturbed: Option<(usize, Disturbance)>) {
    if let Some((nth, disturbance)) = disturbed {
        world.tap.disturb(nth, disturbance);
    }
}

/// The stages with a condition, a gate and a soak.
fn checked() -> Value {
    let mut web = staged();
    let stages = web["spec"]["updateStrategy"]["stages"].as_array_mut().unwrap();
    stages[0]["gates"] = json!([gate("min-available", &json!({"atLeast": 2}))]);
    stages[0]["soak"] = json!("10s");
    stages[1]["condition"] = json!("pools.all(p, p.available == p.replicas)");
    web
}

/// From the first version to the second in six pools of three stages, with the disturbance at the call of this number of the update.
async fn run_staged(web: &Value, disturbed: Option<(usize, Disturbance)>) -> (End, usize) {
    let mut world = World::start_without_controller(Some("v1beta2")).await;
    put_gate(&world.client, "min-available", &guests::wasm("gate_min_available")).await;
    make_pools(&world).await;
    world.create(web).await.unwrap();
    world.start_controller_with_patience().await;
    world.work_off("web").await;
    world.pass(3).await;
    world.tap.forget();
    disturb(&world, disturbed);
    world.server.log_commits();
    world.edit("web", image(2)).await;
    world.work_off("web").await;
    world.pass(3).await;
    let calls = world.tap.calls().len();
    require_order(&world);
    (end(&world).await, calls)
}

/// No pool has got the second version before every pool of the stages before runs it, nor more than one of stage east at a time.
fn require_order(world: &World) {
    let mut settled: BTreeMap<String, bool> = BTreeMap::new();
    let mut begun: BTreeSet<String> = BTreeSet::new();
    for commit in world.server.commits(0) {
        let Some(view) = workload(&commit) else { continue };
        let pool = view.annotations()["apps.openyurt.io/ref-nodepool"].clone();
        let is_new = view.spec.template.spec.containers[0].image.as_deref() == Some("web:2");
        let is_settled = is_new
            && view.status.observed_generation == view.metadata.generation
            && view.status.available_replicas == Some(2);
        if is_new && begun.insert(pool.clone()) {
            let earlier: Vec<&str> = match pool.as_str() {
                "canary-1" => Vec::new(),
                east if east.starts_with("east") => POOLS.into_iter().filter(|other| *other < east).collect(),
                _ => POOLS.into_iter().filter(|other| !other.starts_with("west")).collect(),
            };
            for other in earlier {
                assert_eq!(
                    settled.get(other),
                    Some(&true),
                    "{pool} has got it before {other} ran it"
                );
            }
        }
        settled.insert(pool, is_settled);
    }
    assert_eq!(begun.len(), POOLS.len());
}

fn workload(commit: &Commit) -> Option<WorkloadView> {
    let after = commit.after().filter(|_| commit.resource == "deployments.apps")?;
    serde_json::from_value(after).unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_update_that_is_killed_or_disturbed_at_any_call_ends_as_one_that_was_not() {
    let (undisturbed, calls) = run(None).await;
    let mut runs = 0;
    for nth in 1..=calls {
        for disturbance in disturbances(nth, 2) {
            let (ended, _) = run(Some((nth, disturbance))).await;
            assert_eq!(ended, undisturbed, "{disturbance:?} at call {nth}");
            runs += 1;
        }
    }
    tell(&format!("pools: {runs} runs, each disturbed at one of {calls} calls"));
}

#[tokio::test(start_paused = true)]
async fn a_staged_update_that_is_killed_or_disturbed_at_any_call_brings_no_pool_the_new_version_early() {
    disturb_each_call_of(&staged(), "staged").await;
}

#[tokio::test(start_paused = true)]
async fn an_update_with_checks_that_is_killed_or_disturbed_at_any_call_brings_no_pool_the_new_version_early() {
    disturb_each_call_of(&checked(), "checked").await;
}

async fn disturb_each_call_of(web: &Value, what: &str) {
    let (undisturbed, calls) = run_staged(web, None).await;
    let mut runs = 0;
    for nth in 1..=calls {
        for disturbance in disturbances(nth, 1) {
            let (ended, _) = run_staged(web, Some((nth, disturbance))).await;
            assert_eq!(ended, undisturbed, "{disturbance:?} at call {nth}");
            runs += 1;
        }
    }
    tell(&format!(
        "pools: {runs} {what} runs, each disturbed at one of {calls} calls"
    ));
}
