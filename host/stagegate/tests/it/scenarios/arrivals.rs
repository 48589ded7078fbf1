//! What joins a rollout under way: clusters, objects, and placements that an older stager left behind.

use kube::ResourceExt as _;
use kube::api::PostParams;
use serde_json::json;
use stagegate_api::{BindingPolicy, Phase};

use crate::harness::{Pace, World, cluster, deployment_of, policy, said, shop, workload};

/// `web` at dev, where all is well and only a soak holds it.
async fn soaking(minutes: u32) -> World {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    let soak = format!("    soak: {minutes}m\n    condition:");
    world.apply(&policy("web").replacen("    condition:", &soak, 1)).await;
    world
        .until("web", 30, |status| status.reason.as_deref() == Some("Soaking"))
        .await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_joins_the_active_stage_has_to_answer_too() {
    let world = soaking(2).await;
    world.pass(60).await;
    world.apply(&cluster("dev-3", "dev", "{unreachable: true}")).await;
    world.holds("web", "dev", 300).await;
    let status = world.status("web").await;
    assert!(said(&status).contains("dev-3"), "{}", said(&status));
    world.edit_cluster("dev-3", json!({"unreachable": false})).await;
    world.holds("web", "dev", 110).await;
    world.until_phase("web", Phase::Completed, 60).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_joins_a_passed_stage_gets_the_workload_and_moves_nothing_else() {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    world
        .apply(&policy("web").replace("spec:\n  downsync", "spec:\n  previousStages: Keep\n  downsync"))
        .await;
    world.until_phase("web", Phase::Completed, 60).await;
    world.apply(&cluster("dev-3", "dev", "{}")).await;
    world
        .stays("web", 300, |status| status.phase == Some(Phase::Completed))
        .await;
    assert!(world.is_in("dev-3", &deployment_of("web")));
    assert_eq!(world.open("web").await, ["dev", "prod", "test"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_joins_the_workload_is_judged_too() {
    let world = soaking(2).await;
    world.pass(60).await;
    world
        .edit_cluster(
            "dev-2",
            json!({"rules": [{"name": "late", "status": {"availableReplicas": 0}}]}),
        )
        .await;
    world
        .apply(&workload("late").replacen("labels: {app: late}", "labels: {app: web}", 1))
        .await;
    world.holds("web", "dev", 300).await;
    let status = world.status("web").await;
    assert!(said(&status).contains("shop/late"), "{}", said(&status));
    world.edit_cluster("dev-2", json!({"rules": []})).await;
    world.until_phase("web", Phase::Completed, 180).await;
    assert!(world.is_in("prod-2", &deployment_of("late")));
}

/// The stager written in Go writes the clauses as they are, an owner reference, and no annotation.
#[tokio::test(start_paused = true)]
async fn placements_of_the_stager_written_in_go_are_taken_over_without_a_gap() {
    let mut world = World::start(Pace::Fast).await;
    world.stop_host().await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    world.apply(&policy("web")).await;
    let owner = world.policies().get("web").await.unwrap();
    let mut left = BindingPolicy::new("web.stage.dev", Default::default());
    left.spec.downsync = owner.spec.downsync.clone();
    left.spec.cluster_selectors = owner.spec.stages[0].cluster_selectors.clone();
    left.metadata.owner_references = Some(vec![kube::Resource::owner_ref(&owner, &()).unwrap()]);
    let left = world
        .binding_policies()
        .create(&PostParams::default(), &left)
        .await
        .unwrap();
    world
        .until_so("dev has it", 10, async || world.is_in("dev-1", &deployment_of("web")))
        .await;
    world.pass(30).await;

    world.start_host().await;
    world.until_stage("web", "dev", 10).await;
    assert_eq!(
        world.binding_policies().get("web.stage.dev").await.unwrap().uid(),
        left.uid(),
        "taken over"
    );
    world.until_phase("web", Phase::Completed, 120).await;
    world
        .until_so("earlier stages are left", 60, async || {
            world.open("web").await == ["prod"]
        })
        .await;
    world.pass(5).await;
    let truth = world.clusters.truth();
    let arrived = truth
        .history
        .iter()
        .find(|change| change.cluster == "test-1")
        .unwrap()
        .at;
    let gone = truth.removals("dev-1", &deployment_of("web"));
    assert!(gone.len() == 1 && arrived < gone[0], "{arrived} {gone:?}");
}
