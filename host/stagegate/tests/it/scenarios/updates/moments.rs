//! Edits that follow each other at any moment of a release.

use std::time::Duration;

use serde_json::json;
use stagegate_api::{Phase, StagedBindingPolicyStatus};

use super::{at_version_1, binding, ran};
use crate::harness::seeded::budget;
use crate::harness::{Pace, World, image};

/// Moments after an edit in milliseconds: while it is noticed, released, written, read by transport and reported, and later ones.
fn moments() -> impl Iterator<Item = u64> {
    let step = 100 / budget().min(5);
    let in_release = (0..2_000).step_by(usize::try_from(step).unwrap());
    in_release.chain((2_000..8_000).step_by(1_000))
}

/// An edit that slips in between KubeStellar's write of a Binding and transport's reading may be in a cluster already when it is released:
/// then the cluster has nothing new to report, and what status says to do helps.
async fn completes_or_says_what_to_do(world: &World) -> &'static str {
    let is_over = |status: &StagedBindingPolicyStatus| {
        status.phase == Some(Phase::Completed) || status.reason.as_deref() == Some("UpdateAcknowledgementOverdue")
    };
    world.until("web", 400, is_over).await;
    if world.status("web").await.phase == Some(Phase::Completed) {
        return "3";
    }
    assert!(world.events("web").await.contains_key("DeliveryUnproven"));
    world.edit_deployment("web", image("web", 4)).await;
    world.pass(5).await;
    world.until_phase("web", Phase::Completed, 400).await;
    "4"
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_is_taken_back_at_any_moment_ends_as_if_there_had_been_none() {
    for at in moments() {
        let world = at_version_1(Pace::Fast).await;
        world.edit_cluster("dev-2", json!({"readyAfter": "12s"})).await;
        world.edit_deployment("web", image("web", 2)).await;
        tokio::time::sleep(Duration::from_millis(at)).await;
        world.edit_deployment("web", image("web", 1)).await;
        world.pass(10).await;
        println!("taken back after {at} ms");
        world.until_phase("web", Phase::Completed, 300).await;
        for cluster in ["test-1", "prod-1"] {
            assert_eq!(ran(&world, cluster), ["1"], "{cluster}, taken back after {at} ms");
        }
        assert_eq!(ran(&world, "dev-1").last().unwrap(), "1", "taken back after {at} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn an_edit_at_any_moment_of_another_one_goes_through_the_stages() {
    for at in moments() {
        let world = at_version_1(Pace::Fast).await;
        world.edit_deployment("web", image("web", 2)).await;
        tokio::time::sleep(Duration::from_millis(at)).await;
        world.edit_deployment("web", image("web", 3)).await;
        world.pass(5).await;
        println!("edited again after {at} ms");
        let newest = completes_or_says_what_to_do(&world).await;
        for cluster in ["dev-1", "test-1", "prod-1"] {
            let last = ran(&world, cluster).pop();
            assert_eq!(last.as_deref(), Some(newest), "{cluster}, edited again after {at} ms");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_is_taken_back_while_transport_reads_is_owed_a_report_of_its_own() {
    for at in moments() {
        let world = at_version_1(Pace::Fast).await;
        world.edit_cluster("dev-2", json!({"readyAfter": "12s"})).await;
        let bad = json!({"rules": [{"image": "registry.example/web:2", "progressing": "Stuck"}]});
        world.edit_cluster("dev-1", bad).await;
        world.edit_deployment("web", image("web", 3)).await;
        tokio::time::sleep(Duration::from_millis(at)).await;
        world.edit_deployment("web", image("web", 2)).await;
        tokio::time::sleep(Duration::from_millis(60)).await;
        world.edit_deployment("web", image("web", 3)).await;
        world.pass(10).await;
        let newest = completes_or_says_what_to_do(&world).await;
        let last = ran(&world, "prod-1").pop();
        assert_eq!(last.as_deref(), Some(newest), "edited and edited back after {at} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn an_edit_between_the_write_of_a_binding_and_the_reading_of_transport_is_named() {
    let world = at_version_1(Pace::Fast).await;
    world.edit_cluster("dev-2", json!({"readyAfter": "12s"})).await;
    let written = async || binding(&world, "dev").await.metadata.generation;
    let before = written().await;
    world.edit_deployment("web", image("web", 2)).await;
    while written().await == before {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    world.edit_deployment("web", image("web", 3)).await;
    world
        .until_so("what slipped in is named", 30, async || {
            world.events("web").await.contains_key("DeliveryUnproven")
        })
        .await;
    assert_eq!(ran(&world, "dev-1"), ["1", "3"]);
}
