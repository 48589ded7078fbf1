//! Policies with nothing but names and clusters: health decides. An image that crash-loops does not leave its stage, though the
//! previous version stays available there.

use serde_json::json;
use stagegate_api::{Phase, StagedBindingPolicyStatus};

use crate::harness::{Pace, World, deployment_of, said, shop, shortest, workload};

/// The second version crash-loops in all clusters; the others start within a second.
async fn where_v2_crash_loops() -> World {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    for cluster in ["dev-1", "dev-2", "test-1", "prod-1", "prod-2"] {
        let rules = json!([{"image": "registry.example/web:2", "progressing": "Stuck"}]);
        world
            .edit_cluster(cluster, json!({"readyAfter": "1s", "rules": rules}))
            .await;
    }
    world.apply(&workload("web")).await;
    world
}

/// A world in which dev-2 has this rule, and the shortest policy has opened dev.
async fn at_dev_with(rule: serde_json::Value) -> World {
    let world = where_v2_crash_loops().await;
    world.edit_cluster("dev-2", json!({"rules": [rule]})).await;
    world.apply(&shortest("web")).await;
    world.until_stage("web", "dev", 5).await;
    world
}

async fn roll_out(world: &World, version: u32) {
    let image = format!("registry.example/web:{version}");
    let template = json!({"spec": {"containers": [{"name": "web", "image": image}]}});
    world
        .edit_deployment("web", json!({"spec": {"template": template}}))
        .await;
}

fn condition<'a>(status: &'a StagedBindingPolicyStatus, kind: &str) -> Option<&'a str> {
    let found = status.conditions.iter().find(|condition| condition.type_ == kind)?;
    Some(found.status.as_str())
}

fn is_reason(status: &StagedBindingPolicyStatus, reason: &str) -> bool {
    status.reason.as_deref() == Some(reason)
}

#[tokio::test(start_paused = true)]
async fn the_shortest_policy_completes_on_health_alone() {
    let world = at_dev_with(json!({"after": "30s"})).await;
    world.holds("web", "dev", 25).await;
    let status = world.status("web").await;
    assert!(is_reason(&status, "Unhealthy"), "{}", said(&status));
    assert!(said(&status).contains("dev-2"), "{}", said(&status));
    world.until_phase("web", Phase::Completed, 60).await;
    assert_eq!(condition(&world.status("web").await, "Ready"), Some("True"));
    world.pass(3600).await;
    assert_eq!(world.open("web").await, ["prod"]);
}

#[tokio::test(start_paused = true)]
async fn a_condition_over_clusters_holds_until_the_last_cluster_has_its_replicas() {
    let world = where_v2_crash_loops().await;
    world.edit_cluster("dev-2", json!({"rules": [{"after": "30s"}]})).await;
    let condition =
        "{name: dev, health: Ignored, condition: 'object.generation == 1 && clusters.all(c, c.available >= 2)', ";
    world
        .apply(&shortest("web").replacen("{name: dev, ", condition, 1))
        .await;
    world.until_stage("web", "dev", 5).await;
    world.holds("web", "dev", 25).await;
    let status = world.status("web").await;
    assert!(is_reason(&status, "ConditionFalse"), "{}", said(&status));
    assert!(said(&status).contains("dev-2"), "{}", said(&status));
    world.until_phase("web", Phase::Completed, 60).await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_to_a_crash_looping_image_holds_its_stage_until_the_image_is_fixed() {
    let world = at_dev_with(json!({"image": "registry.example/web:1", "after": "1m"})).await;
    world.pass(10).await;
    roll_out(&world, 2).await;
    // dev-2 has no rule for this version, so it runs it; dev-1 does not.
    let is_seen = |status: &StagedBindingPolicyStatus| status.stages[0].objects[0].generation == Some(2);
    let is_held_by_dev_1 =
        |status: &_| is_seen(status) && is_reason(status, "Unhealthy") && said(status).contains("dev-1");
    world.until("web", 60, is_held_by_dev_1).await;
    let truth = world.clusters.truth();
    let dev_1 = truth.fared.iter().rfind(|fared| fared.cluster == "dev-1").unwrap();
    let status = dev_1.status.as_ref().unwrap();
    assert_eq!(
        (&status["observedGeneration"], &status["availableReplicas"]),
        (&json!(2), &json!(2)),
        "dev-1 has observed the edit and still runs what was there before: {status}"
    );
    world.holds("web", "dev", 500).await;
    let status = world.status("web").await;
    assert!(said(&status).contains("dev-1"), "{}", said(&status));
    world
        .until("web", 300, |status| is_reason(status, "HealthFailed"))
        .await;
    world.holds("web", "dev", 3600).await;
    assert!(!world.is_in("test-1", &deployment_of("web")) && !world.is_in("prod-1", &deployment_of("web")));
    roll_out(&world, 3).await;
    world.until_phase("web", Phase::Completed, 120).await;
    assert!(world.is_in("prod-2", &deployment_of("web")));
}

#[tokio::test(start_paused = true)]
async fn an_edit_after_completion_is_reported_and_ready_is_false_until_it_runs() {
    let world = at_dev_with(json!({})).await;
    world.until_phase("web", Phase::Completed, 60).await;
    world
        .until_so("dev and test are left", 30, async || {
            world.open("web").await == ["prod"]
        })
        .await;
    roll_out(&world, 2).await;
    world
        .until("web", 30, |status| condition(status, "Ready") == Some("False"))
        .await;
    let reported = async || world.events("web").await.contains_key("EditedAfterCompletion");
    world.until_so("the edit is reported", 30, reported).await;
    world.pass(3600).await;
    let status = world.status("web").await;
    assert_eq!(condition(&status, "Ready"), Some("False"), "{}", said(&status));
    assert_eq!(condition(&status, "Completed"), Some("True"), "{}", said(&status));
    assert_eq!(status.phase, Some(Phase::Stalled), "{}", said(&status));
    roll_out(&world, 3).await;
    world
        .until("web", 60, |status| condition(status, "Ready") == Some("True"))
        .await;
    assert_eq!(world.clusters.truth().removals("prod-1", &deployment_of("web")), []);
}

#[tokio::test(start_paused = true)]
async fn a_slow_rollout_holds_its_stage_until_its_last_replica_is_ready() {
    let world = at_dev_with(json!({"progressing": "Slow", "after": "40s"})).await;
    world.holds("web", "dev", 75).await;
    world.until_stage("web", "test", 10).await;
    world.until_phase("web", Phase::Completed, 60).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_rollout_is_called_failed_at_once_and_not_waited_for_in_vain() {
    let world = at_dev_with(json!({"progressing": "Failed"})).await;
    world.until("web", 10, |status| is_reason(status, "HealthFailed")).await;
    world.holds("web", "dev", 600).await;
    world.edit_cluster("dev-2", json!({"rules": []})).await;
    world.until_phase("web", Phase::Completed, 60).await;
}

#[tokio::test(start_paused = true)]
async fn a_flapping_cluster_never_gets_through_a_soak_that_is_longer_than_its_turns() {
    let world = where_v2_crash_loops().await;
    let rule = json!({"progressing": "Flapping", "period": "20s"});
    world.edit_cluster("dev-2", json!({"rules": [rule]})).await;
    world
        .apply(&shortest("web").replacen("name: dev,", "name: dev, soak: 1m,", 1))
        .await;
    world.until_stage("web", "dev", 5).await;
    world.holds("web", "dev", 1200).await;
    world.edit_cluster("dev-2", json!({"rules": []})).await;
    world.until_phase("web", Phase::Completed, 150).await;
}
