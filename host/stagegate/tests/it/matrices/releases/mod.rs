//! What comes in between while an edit of the workload goes through held stages, at any call of the host: another edit, of the workload or
//! of the policy, or a restart of KubeStellar. Must not disturb the calls themselves: `crash` does that.

mod edits;
mod restarts;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use stagegate_api::{Phase, StagedBindingPolicySpec};

use crate::harness::seeded::{Seeded, budget};
use crate::harness::{Call, Disturbance, NAMESPACE, Pace, World, deployment_of, image, said, shop, staged, workload};
use crate::matrices::crash::two_stages;
use crate::matrices::in_virtual_time;

/// Of virtual time, until a release that was disturbed has gone through all stages.
const END_WITHIN_S: u64 = 900;
/// Of virtual time: a release makes its calls within a fraction of it, and then goes on without what was to come in between.
const CALL_COMES_WITHIN: Duration = Duration::from_secs(60);
/// Until then status may still be about what was before.
const NOTICED_WITHIN_S: u64 = 5;
/// How often a person looks: what status says for two minutes only may pass.
const PATIENCE_S: u64 = 150;
/// After the end nothing changes any more.
const STAYS_S: u64 = 30;

/// Version 1 is in all stages, and nothing is to be done.
async fn at_version_1(pace: Pace) -> World {
    let wall: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut world = World::start_at(wall, pace).await;
    stagegate::held_bindings::install(&world.client).await.unwrap();
    world.start_host().await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    world.apply(&two_stages(&staged("web"))).await;
    world.until_phase("web", Phase::Completed, 300).await;
    world.pass(STAYS_S).await;
    world.tap.forget();
    world
}

/// A release of version 2 until the host is about to make the nth call for it, which waits until [`World::tap`] flows again; or a release
/// that has made all its calls by then.
async fn until_call(pace: Pace, nth: usize) -> World {
    let world = at_version_1(pace).await;
    world.tap.disturb(nth, Disturbance::Waits);
    world.edit_deployment("web", image("web", 2)).await;
    // Which call is the nth may differ by a few from run to run.
    let _is_there = tokio::time::timeout(CALL_COMES_WITHIN, world.tap.dry()).await;
    world
}

/// The calls of a release that nothing disturbs.
fn undisturbed(pace: Pace) -> Vec<Call> {
    in_virtual_time(async {
        let world = at_version_1(pace).await;
        world.edit_deployment("web", image("web", 2)).await;
        ends(&world, &[]).await.unwrap();
        world.tap.calls()
    })
}

/// Calls to disturb, counted from 1: one, chosen by the seed, of as many as `every` says that follow one another; a larger budget
/// takes more.
fn some_of(calls: &[Call], every: u64, seed: u64) -> Vec<usize> {
    let count = u64::try_from(calls.len()).unwrap();
    let every = (every / budget()).max(1);
    let mut chance = Seeded::new(seed);
    let chosen = (0..count).step_by(usize::try_from(every).unwrap());
    let chosen = chosen.map(|first| 1 + first + chance.below(every.min(count - first)));
    chosen.map(|nth| usize::try_from(nth).unwrap()).collect()
}

/// The clusters of all its stages.
fn clusters(spec: &StagedBindingPolicySpec) -> Vec<&'static str> {
    let of_stage = |name: &str| match name {
        "dev" => ["dev-1", "dev-2"].as_slice(),
        "test" => &["test-1"],
        _ => &["prod-1", "prod-2"],
    };
    let stages = spec.stages.iter();
    stages.flat_map(|stage| of_stage(&stage.name)).copied().collect()
}

/// SHA-256 of the workload, as transport hands it over.
async fn newest(world: &World) -> String {
    let resource = ApiResource::erase::<Deployment>(&());
    let all: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), NAMESPACE, &resource);
    let found = all.get("web").await.unwrap();
    let metadata = json!({"labels": found.metadata.labels, "annotations": found.metadata.annotations});
    let manifest = json!({"metadata": metadata, "spec": found.data["spec"]});
    let digest = Sha256::digest(manifest.to_string());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Completed, and each cluster of each stage has the newest version; or what is missing.
async fn is_over(world: &World) -> Result<(), String> {
    let policy = world.policies().get("web").await.unwrap();
    let status = policy.status.unwrap_or_default();
    if status.phase != Some(Phase::Completed) || status.observed_generation != policy.metadata.generation {
        return Err(format!(
            "{:?} at {:?}: {}",
            status.phase,
            status.active_stage,
            said(&status)
        ));
    }
    let newest = newest(world).await;
    let truth = world.clusters.truth();
    for cluster in clusters(&policy.spec) {
        let present = truth.present(cluster, &deployment_of("web"));
        if present.is_none_or(|present| present.digest != newest) {
            return Err(format!("completed, and {cluster} does not have the newest version"));
        }
    }
    Ok(())
}

/// Waits until all is over and stays so. From time to time a person looks at status, and does what it says where its reason is one of
/// `reasons`. Returns these.
async fn ends(world: &World, reasons: &[&'static str]) -> Result<Vec<&'static str>, String> {
    let mut helped = Vec::new();
    world.pass(NOTICED_WITHIN_S).await;
    for second in 1..=END_WITHIN_S {
        if is_over(world).await.is_ok() {
            world.pass(STAYS_S).await;
            return is_over(world).await.map(|()| helped);
        }
        if second % PATIENCE_S == 0 {
            let status = world.status("web").await;
            if let Some(reason) = reasons.iter().find(|reason| status.reason.as_deref() == Some(reason)) {
                helped.push(*reason);
                help(world, reason).await;
            }
        }
        world.pass(1).await;
    }
    let missing = is_over(world).await;
    missing
        .map(|()| helped.clone())
        .map_err(|missing| format!("{missing}, and a person was asked for {helped:?}"))
}

async fn help(world: &World, reason: &str) {
    match reason {
        "UpdateAcknowledgementOverdue" | "NotReported" => world.edit_deployment("web", image("web", 4)).await,
        "CombinedStatusMissing" => {
            let active = world.status("web").await.active_stage.unwrap();
            let placement = format!("web.stage.{active}");
            world.delete(&world.binding_policies(), &placement).await;
        }
        "ActiveStageRemoved" => {
            let stages = serde_saphyr::from_str::<Value>(&two_stages(&staged("web"))).unwrap()["spec"]["stages"].take();
            world.edit_policy("web", json!({"spec": {"stages": stages}})).await;
        }
        other => panic!("nothing says what to do about {other}"),
    }
}
