//! Updates that go through the pools stage by stage.

use kube::ResourceExt as _;
use serde_json::{Value, json};
use stagegate_api::workloads::{TemplateType, YurtAppDaemonStatus};
use stagegate_api::{Phase, StageState};

use super::world::{World, condition, daemon, delete, edge, image, message};

/// A canary, then the pools of region east, one at a time, then all others.
pub fn staged() -> Value {
    let mut web = daemon("web");
    web["spec"]["updateStrategy"] = json!({"stages": [
        {"name": "canary", "nodepoolSelector": {"matchLabels": {"canary": "yes"}}},
        {"name": "east", "nodepoolSelector": {"matchLabels": {"region": "east"}}, "maxConcurrent": 1},
    ]});
    web
}

pub const POOLS: [&str; 6] = ["canary-1", "east-1", "east-2", "east-3", "west-1", "west-2"];

pub async fn make_pools(world: &World) {
    for pool in POOLS {
        let region = if pool.starts_with("east") { "east" } else { "west" };
        let canary = if pool.starts_with("canary") { "yes" } else { "no" };
        world
            .pool(pool, json!({"tier": "edge", "region": region, "canary": canary}))
            .await;
    }
}

/// Six pools at the first version.
pub async fn at_version_1() -> World {
    let world = World::start().await;
    make_pools(&world).await;
    world.create(&staged()).await.unwrap();
    world.until_completed("web").await;
    world
}

/// The pools that have this image.
pub async fn with_image(world: &World, tag: u32) -> Vec<String> {
    let wanted = format!("web:{tag}");
    let all = world.deployments().await.into_iter();
    let having = all.filter(|(_, view)| view.spec.template.spec.containers[0].image.as_deref() == Some(&wanted));
    having.map(|(pool, _)| pool).collect()
}

/// Everything runs in this pool.
pub async fn ready(world: &World, pool: &str) {
    let view = world.deployments().await[pool].clone();
    world.report(TemplateType::Deployment, &view, 2).await;
    world.pass(2).await;
}

fn states(status: &YurtAppDaemonStatus) -> Vec<(&str, StageState, i32, i32)> {
    let stages = status.stages.iter();
    stages
        .map(|stage| (stage.name.as_str(), stage.state, stage.pools, stage.updated))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_new_template_goes_from_stage_to_stage_and_so_many_pools_at_once_as_the_stage_says() {
    let world = at_version_1().await;
    let first = world.status("web").await.current_revision;
    world.edit("web", image(2)).await;
    world.pass(30).await;
    assert_eq!(with_image(&world, 2).await, ["canary-1"]);
    let status = world.status("web").await;
    assert_eq!(
        states(&status),
        [
            ("canary", StageState::Active, 1, 0),
            ("east", StageState::Pending, 3, 0)
        ]
    );
    assert_eq!(
        (status.active_stage.as_deref(), &status.current_revision),
        (Some("canary"), &first)
    );
    assert!(
        message(&status, "Ready")
            .starts_with("0 of 6 pools updated; pool canary-1 of stage canary has a workload whose last change"),
        "{}",
        message(&status, "Ready")
    );
    ready(&world, "canary-1").await;
    assert_eq!(with_image(&world, 2).await, ["canary-1", "east-1"]);
    assert_eq!(
        states(&world.status("web").await),
        [("canary", StageState::Passed, 1, 1), ("east", StageState::Active, 3, 0)]
    );
    ready(&world, "east-1").await;
    assert_eq!(with_image(&world, 2).await, ["canary-1", "east-1", "east-2"]);
    ready(&world, "east-2").await;
    ready(&world, "east-3").await;
    assert_eq!(
        with_image(&world, 1).await,
        Vec::<String>::new(),
        "the pools of no stage come last, all at once"
    );
    let status = world.status("web").await;
    assert_eq!(
        (status.active_stage.as_deref(), status.phase),
        (None, Some(Phase::Progressing))
    );
    assert_eq!(status.current_revision, first);
    let status = world.until_completed("web").await;
    assert_ne!(status.current_revision, first);
    assert_eq!(world.writes_in(60).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_gets_sick_again_after_it_has_passed_stops_no_later_stage_and_an_unready_pool_stops_its_own() {
    let world = at_version_1().await;
    world.edit("web", image(2)).await;
    world.pass(2).await;
    ready(&world, "canary-1").await;
    let canary = world.deployments().await["canary-1"].clone();
    world.report(TemplateType::Deployment, &canary, 0).await;
    world.pass(2).await;
    ready(&world, "east-1").await;
    assert_eq!(with_image(&world, 2).await, ["canary-1", "east-1", "east-2"]);
    let half = world.deployments().await["east-2"].clone();
    world.report(TemplateType::Deployment, &half, 1).await;
    world.pass(600).await;
    assert_eq!(with_image(&world, 2).await, ["canary-1", "east-1", "east-2"]);
    let status = world.status("web").await;
    assert_eq!(condition(&status, "Ready"), "False");
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_comes_and_a_workload_that_is_lost_get_the_revision_that_their_stage_has() {
    let world = at_version_1().await;
    world.edit("web", image(2)).await;
    world.pass(2).await;
    let lost = world.deployments().await["west-1"].name_any();
    delete(&world.workloads(TemplateType::Deployment), &lost).await;
    world.pool("east-9", json!({"tier": "edge", "region": "east"})).await;
    world.pool("canary-2", json!({"tier": "edge", "canary": "yes"})).await;
    world.pass(3).await;
    let all = world.deployments().await;
    assert_eq!(all.len(), 8);
    assert_eq!(with_image(&world, 2).await, ["canary-1", "canary-2"]);
    let revision = |pool: &str| all[pool].labels()["apps.openyurt.io/controller-revision-hash"].clone();
    assert_eq!(revision("east-9"), revision("west-2"));
    assert_eq!(revision("west-1"), revision("west-2"));
    // A taint is borne at once, without another revision.
    let before = revision("west-2");
    world
        .edit_pool(
            "west-2",
            json!({"spec": {"taints": [{"key": "edge", "effect": "NoSchedule"}]}}),
        )
        .await;
    world.pass(3).await;
    let view = world.deployments().await["west-2"].clone();
    assert_eq!(view.spec.template.spec.tolerations.len(), 1);
    assert_eq!(view.labels()["apps.openyurt.io/controller-revision-hash"], before);
    assert_eq!(view.spec.template.spec.containers[0].image.as_deref(), Some("web:1"));
}

#[tokio::test(start_paused = true)]
async fn before_the_first_revision_has_settled_later_stages_have_no_workload() {
    let world = World::start().await;
    make_pools(&world).await;
    world.create(&staged()).await.unwrap();
    world.pass(30).await;
    assert_eq!(world.deployments().await.into_keys().collect::<Vec<_>>(), ["canary-1"]);
    let status = world.status("web").await;
    assert_eq!(condition(&status, "WorkLoadProvisioned"), "False");
    ready(&world, "canary-1").await;
    assert_eq!(
        world.deployments().await.into_keys().collect::<Vec<_>>(),
        ["canary-1", "east-1"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_newer_template_begins_at_the_first_stage_and_one_taken_back_goes_nowhere_else() {
    let world = at_version_1().await;
    world.edit("web", image(2)).await;
    world.pass(2).await;
    ready(&world, "canary-1").await;
    assert_eq!(with_image(&world, 2).await, ["canary-1", "east-1"]);
    world.edit("web", image(3)).await;
    world.pass(30).await;
    assert_eq!(with_image(&world, 3).await, ["canary-1"]);
    assert_eq!(with_image(&world, 2).await, ["east-1"]);
    world.edit("web", image(1)).await;
    world.pass(3).await;
    assert_eq!(
        with_image(&world, 1).await.len(),
        5,
        "the canary again, and those that never left"
    );
    world.until_completed("web").await;
    assert_eq!(with_image(&world, 1).await.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn while_it_is_paused_no_pool_changes_its_revision_and_all_else_goes_on() {
    let world = at_version_1().await;
    world
        .edit("web", json!({"spec": {"updateStrategy": {"paused": true}}}))
        .await;
    world.edit("web", image(2)).await;
    world.pass(30).await;
    assert_eq!(with_image(&world, 2).await, Vec::<String>::new());
    let status = world.status("web").await;
    assert_eq!(
        (status.phase, status.reason.as_deref()),
        (Some(Phase::Paused), Some("Paused"))
    );
    let lost = world.deployments().await["west-1"].name_any();
    delete(&world.workloads(TemplateType::Deployment), &lost).await;
    world.pool("west-9", edge()).await;
    let scaled = world.deployments().await["east-1"].name_any();
    world.edit_workload(&scaled, json!({"spec": {"replicas": 9}})).await;
    world.pass(5).await;
    assert_eq!(with_image(&world, 1).await.len(), 7);
    assert_eq!(world.deployments().await["east-1"].spec.replicas, Some(2));
    world
        .edit("web", json!({"spec": {"updateStrategy": {"paused": false}}}))
        .await;
    world.until_completed("web").await;
    assert_eq!(with_image(&world, 2).await.len(), 7);
    // Without stages, too.
    world
        .edit(
            "web",
            json!({"spec": {"updateStrategy": {"paused": true, "stages": null}}}),
        )
        .await;
    world.edit("web", image(3)).await;
    world.pass(30).await;
    assert_eq!(with_image(&world, 3).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_stage_without_pools_waits_and_says_so() {
    let world = World::start().await;
    world.pool("west-1", edge()).await;
    world.create(&staged()).await.unwrap();
    world.pass(30).await;
    assert!(world.deployments().await.is_empty());
    let status = world.status("web").await;
    assert_eq!(status.reason.as_deref(), Some("NoPools"));
    assert_eq!(
        message(&status, "Ready"),
        "0 of 1 pool updated; no NodePool belongs to stage canary: label one, or remove the stage"
    );
    world.edit("web", json!({"spec": {"updateStrategy": null}})).await;
    world.until_completed("web").await;
}

#[tokio::test(start_paused = true)]
async fn a_percentage_of_a_stage_is_rounded_down_to_at_least_one_pool() {
    for (percent, at_once) in [("1%", 1), ("50%", 2), ("99%", 3), ("100%", 4)] {
        let world = World::start().await;
        for nth in 0..4 {
            world.pool(&format!("pool-{nth}"), edge()).await;
        }
        let mut web = daemon("web");
        web["spec"]["updateStrategy"] =
            json!({"stages": [{"name": "all", "nodepoolSelector": {}, "maxConcurrent": percent}]});
        world.create(&web).await.unwrap();
        world.pass(5).await;
        assert_eq!(world.deployments().await.len(), at_once, "{percent}");
        world.until_completed("web").await;
    }
    let world = World::start_without_controller(Some("v1beta2")).await;
    for wrong in [json!(0), json!("0%"), json!("101%"), json!("a"), json!("5")] {
        let mut web = daemon("web");
        web["spec"]["updateStrategy"] =
            json!({"stages": [{"name": "all", "nodepoolSelector": {}, "maxConcurrent": wrong}]});
        let refused = world.create_raw(&web).await.unwrap_err().to_string();
        assert!(
            refused.contains("spec.updateStrategy.stages.maxConcurrent: must be"),
            "{wrong}: {refused}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_process_that_comes_after_a_kill_knows_which_stages_have_passed() {
    let mut world = at_version_1().await;
    world.edit("web", image(2)).await;
    world.pass(2).await;
    ready(&world, "canary-1").await;
    let canary = world.deployments().await["canary-1"].clone();
    world.kill_controller();
    // It has passed, and is sick now.
    world.report(TemplateType::Deployment, &canary, 0).await;
    world.start_controller().await;
    world.pass(5).await;
    assert_eq!(
        states(&world.status("web").await),
        [("canary", StageState::Passed, 1, 0), ("east", StageState::Active, 3, 0)]
    );
    assert_eq!(with_image(&world, 2).await, ["canary-1", "east-1"]);
}

#[tokio::test(start_paused = true)]
async fn what_runs_in_a_pool_after_a_change_by_hand_proves_nothing_of_the_new_revision() {
    let world = at_version_1().await;
    world.edit("web", image(2)).await;
    world.pass(2).await;
    for _round in 0..30 {
        let canary = world.deployments().await["canary-1"].clone();
        let by_hand = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "mine:9"}]}}}});
        world.edit_workload(&canary.name_any(), by_hand).await;
        let canary = world.deployments().await["canary-1"].clone();
        world.report(TemplateType::Deployment, &canary, 2).await;
        world.pass(1).await;
        assert_eq!(
            with_image(&world, 2)
                .await
                .iter()
                .filter(|pool| *pool != "canary-1")
                .count(),
            0
        );
    }
    let status = world.status("web").await;
    assert_eq!(status.active_stage.as_deref(), Some("canary"));
    world.pass(70).await;
    world.until_completed("web").await;
    assert_eq!(with_image(&world, 2).await.len(), 6);
}
