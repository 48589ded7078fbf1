//! Stages whose condition, gates and soak hold an update, and let it go on.

use kube::ResourceExt as _;
use serde_json::{Value, json};
use stagegate_api::workloads::{TemplateType, YurtAppDaemonStatus};
use stagegate_api::{CheckStatus, Outcome, Phase, StageState};

use super::stages::{at_version_1, make_pools, ready, staged, with_image};
use super::world::{World, condition, delete, image, message};
use crate::guests;
use crate::harness::{gate, put_gate};

/// Six pools at the first version, of which stage canary has these checks.
pub async fn with_checks(checks: Value) -> World {
    of_stage(0, checks).await
}

/// The same for the stage of this number.
async fn of_stage(number: usize, checks: Value) -> World {
    let world = at_version_1().await;
    put_gate(&world.client, "hostile", &guests::wasm("gate_hostile")).await;
    set(&world, number, checks).await;
    world.until_completed("web").await;
    world
}

/// The stages with these members in the one of this number.
async fn set(world: &World, number: usize, checks: Value) {
    let mut stages = staged()["spec"]["updateStrategy"]["stages"].take();
    let stage = stages[number].as_object_mut().unwrap();
    stage.extend(checks.as_object().unwrap().clone());
    world
        .edit("web", json!({"spec": {"updateStrategy": {"stages": stages}}}))
        .await;
}

pub fn check<'a>(status: &'a YurtAppDaemonStatus, stage: &str, name: &str) -> &'a CheckStatus {
    let record = status.stages.iter().find(|record| record.name == stage).unwrap();
    let found = record.checks.iter().find(|check| check.name == name);
    found.unwrap_or_else(|| panic!("no {name}: {:?}", record.checks))
}

pub fn state(status: &YurtAppDaemonStatus, stage: &str) -> StageState {
    status.stages.iter().find(|record| record.name == stage).unwrap().state
}

pub fn reason(status: &YurtAppDaemonStatus) -> &str {
    status.reason.as_deref().unwrap_or_default()
}

/// So many replicas of the pool's Deployment are available.
async fn available(world: &World, pool: &str, count: i64) {
    let view = world.deployments().await[pool].clone();
    world.report(TemplateType::Deployment, &view, count).await;
}

/// A condition that a label of every updated pool must fulfil.
pub fn proved() -> Value {
    json!({"condition": "pools.all(p, 'proved' in p.labels && p.labels.proved == 'yes')"})
}

pub async fn prove(world: &World, pool: &str) {
    world
        .edit_pool(pool, json!({"metadata": {"labels": {"proved": "yes"}}}))
        .await;
    world.pass(2).await;
}

#[tokio::test(start_paused = true)]
async fn a_stage_passes_when_its_condition_is_true_for_the_pools_that_are_updated() {
    let world = with_checks(proved()).await;
    world.edit("web", image(2)).await;
    world.pass(5).await;
    ready(&world, "canary-1").await;
    world.pass(60).await;
    assert_eq!(with_image(&world, 2).await, ["canary-1"]);
    let status = world.status("web").await;
    assert_eq!(
        (reason(&status), status.phase),
        ("ConditionFalse", Some(Phase::Holding))
    );
    assert_eq!(check(&status, "canary", "condition").outcome, Outcome::Hold);
    assert_eq!(check(&status, "canary", "evidence").outcome, Outcome::Pass);
    let said = message(&status, "Ready");
    assert!(
        said.contains("the condition of stage canary is false for 1 updated pool"),
        "{said}"
    );
    prove(&world, "canary-1").await;
    assert_eq!(with_image(&world, 2).await, ["canary-1", "east-1"]);
    assert_eq!(state(&world.status("web").await, "canary"), StageState::Passed);
}

#[tokio::test(start_paused = true)]
async fn within_a_stage_the_next_pools_follow_when_the_checks_pass_over_all_that_are_updated() {
    let mut checks = proved();
    checks["maxConcurrent"] = json!(2);
    let world = of_stage(1, checks).await;
    world.edit("web", image(2)).await;
    world.pass(5).await;
    ready(&world, "canary-1").await;
    assert_eq!(with_image(&world, 2).await, ["canary-1", "east-1", "east-2"]);
    let first_two = ["canary-1", "east-1", "east-2"];
    ready(&world, "east-1").await;
    prove(&world, "east-1").await;
    world.pass(30).await;
    assert_eq!(with_image(&world, 2).await, first_two, "of one the change is not seen");
    let status = world.status("web").await;
    let evidence = check(&status, "east", "evidence");
    assert_eq!(
        (evidence.outcome, evidence.reason.as_str()),
        (Outcome::Unknown, "WorkloadUnproven")
    );
    ready(&world, "east-2").await;
    world.pass(30).await;
    assert_eq!(with_image(&world, 2).await, first_two, "one is not proved");
    assert_eq!(reason(&world.status("web").await), "ConditionFalse");
    available(&world, "east-2", 1).await;
    prove(&world, "east-2").await;
    world.pass(30).await;
    assert_eq!(with_image(&world, 2).await, first_two, "one is not rolled out");
    assert_eq!(
        check(&world.status("web").await, "east", "condition").outcome,
        Outcome::Pass
    );
    ready(&world, "east-2").await;
    assert_eq!(with_image(&world, 2).await, ["canary-1", "east-1", "east-2", "east-3"]);
    ready(&world, "east-3").await;
    prove(&world, "east-3").await;
    assert_eq!(with_image(&world, 2).await.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_gate_holds_until_the_pools_have_enough_available_and_then_the_update_goes_on() {
    let world = with_checks(json!({"gates": [gate("min-available", &json!({"atLeast": 2}))]})).await;
    put_gate(&world.client, "min-available", &guests::wasm("gate_min_available")).await;
    world.edit("web", image(2)).await;
    world.pass(5).await;
    available(&world, "canary-1", 1).await;
    world.pass(5).await;
    let status = world.status("web").await;
    let held = check(&status, "canary", "gate/min-available");
    assert_eq!((held.outcome, held.reason.as_str()), (Outcome::Hold, "GateHolds"));
    assert!(held.message.contains("canary-1 has 1"), "{}", held.message);
    assert_eq!(with_image(&world, 2).await, ["canary-1"]);
    ready(&world, "canary-1").await;
    assert_eq!(with_image(&world, 2).await, ["canary-1", "east-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_gate_is_shown_the_daemon_and_the_pools_that_are_updated() {
    let world = with_checks(json!({
        "condition": "pools.size() == 1",
        "gates": [gate("hostile", &json!({"do": "pass-echo"}))],
        "soak": "1h",
    }))
    .await;
    world.edit("web", image(2)).await;
    world.pass(5).await;
    ready(&world, "canary-1").await;
    let status = world.status("web").await;
    let passed = check(&status, "canary", "gate/hostile");
    let saw = |name: &str| {
        let piece = passed.evidence.iter().find(|piece| piece.name == name);
        piece
            .unwrap_or_else(|| panic!("no {name}: {:?}", passed.evidence))
            .value
            .clone()
    };
    assert_eq!(saw("policy"), "shop/web");
    assert_eq!(saw("stage"), "canary");
    assert_eq!(saw("attempt"), "2");
    let object = saw("object");
    assert!(
        object.starts_with("apps.openyurt.io/yurtappdaemons shop/web "),
        "{object}"
    );
    assert_eq!(saw("pools.pool"), "1 rows, first text canary-1");
    assert_eq!(saw("pools.available"), "1 rows, first integer 2");
    let pool = saw("destination");
    assert!(
        pool.starts_with("canary-1 canary=yes,region=west,tier=edge healthy "),
        "{pool}"
    );
    assert_eq!(saw("earlier"), "condition pass ConditionTrue");
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_fails_stops_the_update_until_its_entry_is_edited_and_all_else_goes_on() {
    let world = with_checks(json!({"gates": [gate("hostile", &json!({"do": "fail", "reason": "never"}))]})).await;
    world.edit("web", image(2)).await;
    world.pass(5).await;
    available(&world, "canary-1", 0).await;
    world.pass(5).await;
    let status = world.status("web").await;
    assert_eq!((reason(&status), status.phase), ("GateFailed", Some(Phase::Failed)));
    assert_eq!(state(&status, "canary"), StageState::Failed);
    ready(&world, "canary-1").await;
    world
        .edit_workload(
            &world.deployments().await["east-1"].name_any(),
            json!({"spec": {"replicas": 7}}),
        )
        .await;
    world.pass(60).await;
    assert_eq!(world.deployments().await["east-1"].spec.replicas, Some(2));
    assert_eq!(with_image(&world, 2).await, ["canary-1"]);
    assert!(world.events("web").await.contains("GateFailed"));
    let canary = world.deployments().await["canary-1"].name_any();
    delete(&world.workloads(TemplateType::Deployment), &canary).await;
    world.pass(5).await;
    let status = world.status("web").await;
    assert_eq!(
        (reason(&status), state(&status, "canary")),
        ("GateFailed", StageState::Failed),
        "the gate's fail stays after the workload that it judged is deleted"
    );
    set(&world, 0, json!({"gates": [gate("hostile", &json!({"do": "pass"}))]})).await;
    world.pass(5).await;
    ready(&world, "canary-1").await;
    assert_eq!(with_image(&world, 2).await, ["canary-1", "east-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_gate_is_asked_again_for_another_template() {
    let world = with_checks(json!({"gates": [gate("hostile", &json!({"do": "fail", "reason": "never"}))]})).await;
    world.edit("web", image(2)).await;
    world.pass(5).await;
    available(&world, "canary-1", 0).await;
    world.pass(5).await;
    assert_eq!(state(&world.status("web").await, "canary"), StageState::Failed);
    world.edit("web", image(3)).await;
    world.pass(5).await;
    available(&world, "canary-1", 0).await;
    world.pass(5).await;
    assert_eq!(with_image(&world, 3).await, ["canary-1"]);
    let status = world.status("web").await;
    let failed = check(&status, "canary", "gate/hostile");
    assert!(failed.message.contains("has failed attempt 3"), "{}", failed.message);
}

#[tokio::test(start_paused = true)]
async fn a_soak_begins_when_every_pool_is_updated_and_anew_when_one_is_not_available_any_more() {
    let world = of_stage(1, json!({"soak": "10m"})).await;
    world.edit("web", image(2)).await;
    world.pass(5).await;
    for pool in ["canary-1", "east-1", "east-2"] {
        ready(&world, pool).await;
    }
    world.pass(1_200).await;
    assert_eq!(with_image(&world, 2).await, ["canary-1", "east-1", "east-2", "east-3"]);
    ready(&world, "east-3").await;
    world.pass(500).await;
    let status = world.status("web").await;
    assert_eq!((reason(&status), status.phase), ("Soaking", Some(Phase::Progressing)));
    available(&world, "east-1", 1).await;
    world.pass(60).await;
    assert_eq!(reason(&world.status("web").await), "RollingOut");
    ready(&world, "east-1").await;
    world.pass(590).await;
    assert_eq!(with_image(&world, 2).await.len(), 4, "the time before does not count");
    world.pass(20).await;
    assert_eq!(with_image(&world, 2).await.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_soak_goes_on_after_a_restart_and_begins_anew_if_the_evidence_is_another_one_then() {
    for is_changed in [false, true] {
        let mut world = with_checks(json!({"soak": "10m"})).await;
        world.edit("web", image(2)).await;
        world.pass(5).await;
        ready(&world, "canary-1").await;
        world.pass(300).await;
        world.kill_controller();
        if is_changed {
            available(&world, "canary-1", 1).await;
            ready(&world, "canary-1").await;
        }
        world.start_controller().await;
        world.pass(320).await;
        let begun = if is_changed { 1 } else { 2 };
        assert_eq!(with_image(&world, 2).await.len(), begun, "changed: {is_changed}");
        world.pass(300).await;
        assert_eq!(with_image(&world, 2).await.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_takes_the_place_of_another_one_has_to_soak_itself() {
    let world = of_stage(1, json!({"soak": "10m"})).await;
    world.edit("web", image(2)).await;
    world.pass(5).await;
    for pool in ["canary-1", "east-1", "east-2", "east-3"] {
        ready(&world, pool).await;
    }
    world.pass(500).await;
    assert_eq!(reason(&world.status("web").await), "Soaking");
    for (pool, labels) in [
        ("east-3", json!({"canary": "yes", "region": "west"})),
        ("canary-1", json!({"canary": "no", "region": "east"})),
    ] {
        world.edit_pool(pool, json!({"metadata": {"labels": labels}})).await;
    }
    world.pass(500).await;
    assert_eq!(reason(&world.status("web").await), "Soaking");
    assert_eq!(with_image(&world, 2).await.len(), 4);
    world.pass(110).await;
    assert_eq!(with_image(&world, 2).await.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn an_edited_condition_lets_a_soak_begin_anew() {
    let world = with_checks(json!({"condition": "pools.size() > 0", "soak": "10m"})).await;
    world.edit("web", image(2)).await;
    world.pass(5).await;
    ready(&world, "canary-1").await;
    world.pass(500).await;
    set(&world, 0, json!({"condition": "pools.size() == 1", "soak": "10m"})).await;
    world.pass(500).await;
    assert_eq!(with_image(&world, 2).await, ["canary-1"]);
    world.pass(110).await;
    assert_eq!(with_image(&world, 2).await, ["canary-1", "east-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_soak_begins_anew_after_a_time_in_which_nothing_could_be_evaluated() {
    let checks = json!({"condition": "pools.size() > 0", "soak": "10m"});
    let world = with_checks(checks.clone()).await;
    world.edit("web", image(2)).await;
    world.pass(5).await;
    ready(&world, "canary-1").await;
    world.pass(500).await;
    set(&world, 0, json!({"condition": "pools.size(", "soak": "10m"})).await;
    world.pass(5).await;
    assert_eq!(reason(&world.status("web").await), "InvalidExpression");
    set(&world, 0, checks).await;
    world.pass(500).await;
    assert_eq!(with_image(&world, 2).await, ["canary-1"]);
    world.pass(110).await;
    assert_eq!(with_image(&world, 2).await, ["canary-1", "east-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_component_that_is_missing_is_no_pass_and_the_update_goes_on_when_it_comes() {
    let world = with_checks(json!({"gates": [gate("late", &json!({"do": "pass"}))]})).await;
    world.edit("web", image(2)).await;
    world.pass(5).await;
    ready(&world, "canary-1").await;
    world.pass(60).await;
    assert_eq!(with_image(&world, 2).await, ["canary-1"]);
    assert_eq!(reason(&world.status("web").await), "GateModuleMissing");
    put_gate(&world.client, "late", &guests::wasm("gate_hostile")).await;
    world.pass(5).await;
    assert_eq!(with_image(&world, 2).await, ["canary-1", "east-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_gives_no_verdict_is_no_pass() {
    for what in ["trap", "error", "loop"] {
        let world = with_checks(json!({"gates": [gate("hostile", &json!({"do": what}))]})).await;
        world.edit("web", image(2)).await;
        world.pass(5).await;
        ready(&world, "canary-1").await;
        world.pass(120).await;
        assert_eq!(with_image(&world, 2).await, ["canary-1"], "{what}");
        assert_eq!(reason(&world.status("web").await), "GateError", "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_fails_is_no_pass_and_one_that_does_not_compile_changes_nothing_at_all() {
    let world = with_checks(json!({"condition": "pools[7].available == 2"})).await;
    world.edit("web", image(2)).await;
    world.pass(5).await;
    ready(&world, "canary-1").await;
    world.pass(60).await;
    assert_eq!(with_image(&world, 2).await, ["canary-1"]);
    let status = world.status("web").await;
    assert_eq!(reason(&status), "ConditionError");
    assert!(message(&status, "Ready").contains("correct spec.updateStrategy.stages[].condition"));
    set(&world, 0, json!({"condition": "pools.all(p, p.nothing == 2)"})).await;
    world.edit("web", image(3)).await;
    world.pass(60).await;
    let status = world.status("web").await;
    assert_eq!(
        (reason(&status), condition(&status, "Accepted")),
        ("InvalidExpression", "False")
    );
    let said = message(&status, "Ready");
    assert!(
        said.contains("spec.updateStrategy.stages[0].condition does not compile"),
        "{said}"
    );
    assert!(said.contains("a condition may use the variables pools"), "{said}");
    assert_eq!(with_image(&world, 3).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_config_that_a_gate_refuses_changes_nothing_at_all() {
    let world = with_checks(json!({"gates": [gate("min-available", &json!({"atLeast": "two"}))]})).await;
    put_gate(&world.client, "min-available", &guests::wasm("gate_min_available")).await;
    world.edit("web", image(2)).await;
    world.pass(30).await;
    let status = world.status("web").await;
    assert_eq!(
        (reason(&status), condition(&status, "Accepted")),
        ("InvalidGateConfig", "False")
    );
    let said = message(&status, "Ready");
    assert!(said.contains("spec.updateStrategy.stages[0].gates[0].config"), "{said}");
    assert_eq!(with_image(&world, 2).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn checks_are_not_asked_about_what_was_changed_by_hand() {
    let world = with_checks(json!({"condition": "pools.size() > 0"})).await;
    world.edit("web", image(2)).await;
    world.pass(5).await;
    // As often as another client changes it, it is put back after a longer pause.
    for _time in 0..3 {
        let name = world.deployments().await["canary-1"].name_any();
        let other = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "mine:9"}]}}}});
        world.edit_workload(&name, other).await;
        ready(&world, "canary-1").await;
    }
    assert_eq!(with_image(&world, 2).await, [""; 0]);
    let status = world.status("web").await;
    let evidence = check(&status, "canary", "evidence");
    assert_eq!(
        (evidence.outcome, evidence.reason.as_str()),
        (Outcome::Unknown, "WorkloadUnproven")
    );
    world.pass(60).await;
    ready(&world, "canary-1").await;
    assert_eq!(with_image(&world, 2).await, ["canary-1", "east-1"]);
}

#[tokio::test(start_paused = true)]
async fn while_it_is_paused_checks_are_told_and_no_pool_follows() {
    let world = with_checks(proved()).await;
    world.edit("web", image(2)).await;
    world.pass(5).await;
    ready(&world, "canary-1").await;
    world
        .edit("web", json!({"spec": {"updateStrategy": {"paused": true}}}))
        .await;
    prove(&world, "canary-1").await;
    world.pass(60).await;
    assert_eq!(with_image(&world, 2).await, ["canary-1"]);
    let status = world.status("web").await;
    assert_eq!(status.phase, Some(Phase::Paused));
    assert_eq!(check(&status, "canary", "condition").outcome, Outcome::Pass);
    world
        .edit("web", json!({"spec": {"updateStrategy": {"paused": false}}}))
        .await;
    world.pass(5).await;
    assert_eq!(with_image(&world, 2).await, ["canary-1", "east-1"]);
}

#[tokio::test(start_paused = true)]
async fn the_first_rollout_goes_through_the_checks_too() {
    let world = World::start().await;
    make_pools(&world).await;
    let mut web = staged();
    web["spec"]["updateStrategy"]["stages"][0]["condition"] = proved()["condition"].clone();
    world.create(&web).await.unwrap();
    world.pass(5).await;
    ready(&world, "canary-1").await;
    world.pass(60).await;
    assert_eq!(with_image(&world, 1).await, ["canary-1"]);
    prove(&world, "canary-1").await;
    assert_eq!(with_image(&world, 1).await, ["canary-1", "east-1"]);
}

#[tokio::test(start_paused = true)]
async fn an_update_that_its_gates_hold_writes_nothing_while_nothing_changes() {
    let held = json!({"do": "hold", "reason": "not today"});
    let world = with_checks(json!({"condition": "pools.size() == 1", "gates": [gate("hostile", &held)]})).await;
    world.edit("web", image(2)).await;
    world.pass(5).await;
    ready(&world, "canary-1").await;
    world.pass(30).await;
    assert_eq!(reason(&world.status("web").await), "GateHolds");
    assert_eq!(world.writes_in(600).await, 0);
}
