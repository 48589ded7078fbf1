//! What the stager written in Go got wrong and what takes more than one decision to show; the numbers are those of
//! `tests/data/old-stager-defects.md`.

use kube::ResourceExt as _;
use kube::api::PostParams;
use serde_json::json;
use stagegate_api::{BindingPolicy, Phase};
use stagegate_embedded::{Fault, FaultAnswer};

use crate::harness::{Pace, World, deployment_of, policy, shop, workload};

async fn shop_with(app: &str) -> World {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world.apply(&workload(app)).await;
    world
}

/// Hits the next `times` matching requests.
fn faults(times: u32, fault: Fault) -> Fault {
    Fault { times, ..fault }
}

const PLACEMENTS: &str = "bindingpolicies.control.kubestellar.io";

#[tokio::test(start_paused = true)]
async fn s01_a_last_stage_whose_condition_is_true_stays_placed() {
    let mut world = shop_with("web").await;
    world.apply(&policy("web")).await;
    world.until_phase("web", Phase::Completed, 30).await;
    world.restart_host().await;
    world.pass(3600).await;
    assert_eq!(world.open("web").await, ["prod"]);
    assert!(world.is_in("prod-1", &deployment_of("web")));
    assert!(
        world
            .clusters
            .truth()
            .removals("prod-1", &deployment_of("web"))
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn s03_a_restarted_host_takes_up_a_rollout_that_waits() {
    let mut world = shop_with("web").await;
    world
        .edit_cluster("dev-2", json!({"rules": [{"status": {"availableReplicas": 0}}]}))
        .await;
    world.apply(&policy("web")).await;
    world.until_phase("web", Phase::Holding, 30).await;
    world.restart_host().await;
    world.edit_cluster("dev-2", json!({"rules": []})).await;
    world.until_phase("web", Phase::Completed, 30).await;
}

#[tokio::test(start_paused = true)]
async fn s04_an_edit_of_the_spec_under_way_is_taken_up() {
    let world = shop_with("web").await;
    world.apply(&policy("web").replacen(">= 2.0", ">= 3.0", 1)).await;
    world.until_phase("web", Phase::Holding, 30).await;
    let mut spec = world.policies().get("web").await.unwrap().spec;
    spec.stages[0].condition = Some("combinedStatus.results.size() > 0".to_owned());
    spec.downsync[0].object_names = Some(vec!["web".to_owned()]);
    world.edit_policy("web", json!({"spec": spec})).await;
    world.until_stage("web", "test", 30).await;
    let placement = world.binding_policies().get("web.stage.test").await.unwrap();
    assert_eq!(placement.spec.downsync[0].object_names, Some(vec!["web".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn s07_a_placement_that_cannot_be_created_is_tried_again_and_nothing_is_taken_away() {
    let world = shop_with("web").await;
    world
        .server
        .inject(faults(5, Fault::new("create", PLACEMENTS, FaultAnswer::Status(503))));
    world.apply(&policy("web")).await;
    world.until_stage("web", "dev", 30).await;
    let next = async || world.binding_policies().get_opt("web.stage.test").await.unwrap();
    // KubeStellar's own patch of it must be over, or it would meet the faults in the host's place.
    world
        .until_so("the next one is there", 30, async || {
            next().await.is_some_and(|it| !it.finalizers().is_empty())
        })
        .await;
    world.server.inject(Fault {
        name: "web.stage.test".to_owned(),
        times: 8,
        ..Fault::new("patch", PLACEMENTS, FaultAnswer::Status(500))
    });
    world.until_phase("web", Phase::Completed, 120).await;
    assert!(
        world
            .clusters
            .truth()
            .removals("prod-1", &deployment_of("web"))
            .is_empty()
    );
    let failures = world.host().counters().failures;
    assert!(failures >= 13, "the faults were met {failures} times");
}

#[tokio::test(start_paused = true)]
async fn s08_status_writes_that_fail_between_placements_lose_nothing() {
    let world = shop_with("web").await;
    let status = "stagedbindingpolicies.community.kubestellar.io/status";
    world
        .server
        .inject(faults(4, Fault::new("patch", status, FaultAnswer::LoseAnswer)));
    world.apply(&policy("web")).await;
    world.until_stage("web", "dev", 30).await;
    world
        .server
        .inject(faults(4, Fault::new("patch", status, FaultAnswer::Status(409))));
    world.until_stage("web", "test", 60).await;
    world
        .server
        .inject(faults(4, Fault::new("patch", status, FaultAnswer::Status(500))));
    world.until_phase("web", Phase::Completed, 120).await;
    world
        .until_so("earlier stages are left", 60, async || {
            world.open("web").await == ["prod"]
        })
        .await;
    let counters = world.host().counters();
    assert!(
        counters.failures + counters.conflicts >= 12,
        "the faults were met: {counters:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn s10_a_binding_policy_of_our_name_that_is_not_ours_is_never_touched() {
    let world = shop_with("web").await;
    let foreign = BindingPolicy::new("web.stage.dev", Default::default());
    let made = world
        .binding_policies()
        .create(&PostParams::default(), &foreign)
        .await
        .unwrap();
    world.apply(&policy("web")).await;
    world.pass(120).await;
    let found = world.binding_policies().get("web.stage.dev").await.unwrap();
    assert_eq!((made.metadata.uid, made.spec), (found.metadata.uid, found.spec));
    assert!(!world.is_in("dev-1", &deployment_of("web")));
    assert!(world.events("web").await.contains_key("BindingPolicyNotOwned"));
}

#[tokio::test(start_paused = true)]
async fn s14_a_stage_without_clusters_passes_nothing() {
    let world = shop_with("web").await;
    world
        .apply(&policy("web").replacen("{env: dev}", "{env: nowhere}", 1))
        .await;
    world
        .until("web", 30, |status| status.reason.as_deref() == Some("NoDestinations"))
        .await;
    world.holds("web", "dev", 300).await;
}

#[tokio::test(start_paused = true)]
async fn s18_one_policy_whose_writes_hang_does_not_hold_up_another() {
    let world = shop_with("slow").await;
    let hang = FaultAnswer::Delay(std::time::Duration::from_secs(3600));
    world.server.inject(Fault {
        name: "slow.stage.*".to_owned(),
        times: 1000,
        ..Fault::new("*", PLACEMENTS, hang)
    });
    world.apply(&policy("slow")).await;
    world.apply(&workload("web")).await;
    world.apply(&policy("web")).await;
    world.until_phase("web", Phase::Completed, 30).await;
    assert_ne!(world.status("slow").await.phase, Some(Phase::Completed));
}

#[tokio::test(start_paused = true)]
async fn s19_an_expression_is_compiled_once_and_evaluated_once_per_answer() {
    let world = shop_with("web").await;
    world
        .edit_cluster("dev-2", json!({"rules": [{"status": {"availableReplicas": 0}}]}))
        .await;
    world.apply(&policy("web")).await;
    world.until_phase("web", Phase::Holding, 30).await;
    world.pass(30).await;
    let before = world.host().counters();
    let writes = world.writes();
    world.pass(3600).await;
    assert_eq!(
        world.host().counters().evaluations,
        before.evaluations,
        "nothing new, nothing evaluated"
    );
    assert_eq!(world.writes(), writes, "and nothing written");
    // The three stages have the same condition: one text, compiled once.
    assert_eq!(before.compilations, 1);
    world
        .edit_cluster("dev-2", json!({"rules": [{"status": {"availableReplicas": 1}}]}))
        .await;
    world.pass(30).await;
    let evaluations = world.host().counters().evaluations - before.evaluations;
    assert!(
        (1..=2).contains(&evaluations),
        "{evaluations} evaluations for one new answer"
    );
}

#[tokio::test(start_paused = true)]
async fn s22_a_soak_ends_by_the_passing_of_time_alone() {
    let world = shop_with("web").await;
    world
        .apply(&policy("web").replacen("    condition:", "    soak: 1h\n    condition:", 1))
        .await;
    world.until_stage("web", "dev", 10).await;
    world.holds("web", "dev", 3_500).await;
    world.until_stage("web", "test", 200).await;
}

#[tokio::test(start_paused = true)]
async fn s24_a_policy_that_is_being_deleted_moves_nothing() {
    let world = shop_with("web").await;
    world
        .edit_cluster("dev-2", json!({"rules": [{"status": {"availableReplicas": 0}}]}))
        .await;
    let mut held = policy("web");
    held = held.replacen(
        "metadata: {name: web}",
        "metadata: {name: web, finalizers: [example.org/keep]}",
        1,
    );
    world.apply(&held).await;
    world.until_phase("web", Phase::Holding, 30).await;
    world.delete(&world.policies(), "web").await;
    world.edit_cluster("dev-2", json!({"rules": []})).await;
    let writes = world.tap.writes();
    world.pass(300).await;
    assert_eq!(world.open("web").await, ["dev"]);
    assert_eq!(world.tap.writes(), writes, "the host writes nothing for it");
    world
        .edit_policy("web", json!({"metadata": {"finalizers": null}}))
        .await;
    world
        .until_so("its placements and the workload are gone", 30, async || {
            world.open("web").await.is_empty() && !world.is_in("dev-1", &deployment_of("web"))
        })
        .await;
}
