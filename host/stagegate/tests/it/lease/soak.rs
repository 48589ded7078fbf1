//! A soak that changes hands: what nobody judged while nobody led does not count.

use serde_json::json;
use stagegate::options::Options;
use stagegate::start::{self, RunningControllers};
use stagegate_api::Phase;

use super::election;
use super::interceptor::Interceptor;
use crate::harness::{Pace, World, policy, shop, workload};

async fn start(world: &World, identity: &str) -> RunningControllers {
    let options = Options {
        election: Some(election(identity)),
        ..world.host_options()
    };
    let interceptor = Interceptor::new(world.server.router(), "host");
    start::start(interceptor.client(), world.clock(), options)
        .await
        .unwrap()
}

/// Whether the stage has passed when a soak of a minute that began before the change of hands would be over.
async fn is_over_in_time(upset: bool) -> bool {
    let mut world = World::start_without_host(Pace::Fast).await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    world.note_host();
    let leader = start(&world, "first").await;
    world.pass(1).await;
    let heir = start(&world, "second").await;
    let mut soaking = policy("web");
    soaking = soaking.replacen("  - name: dev\n", "  - name: dev\n    soak: 60s\n", 1);
    assert!(soaking.contains("soak"));
    world.apply(&soaking).await;
    let is_soaking = |status: &stagegate_api::StagedBindingPolicyStatus| {
        let mut checks = status.stages.iter().flat_map(|stage| &stage.checks);
        checks.any(|check| check.reason == "Soaking")
    };
    world.until("web", 30, is_soaking).await;
    world.pass(20).await;
    drop(leader);
    // Everything below happens while nobody leads.
    if upset {
        world
            .edit_cluster(
                "dev-1",
                json!({"rules": [{"kind": "Deployment", "status": {"availableReplicas": 0}}]}),
            )
            .await;
        world.pass(4).await;
        world.edit_cluster("dev-1", json!({"rules": []})).await;
        world.pass(4).await;
    } else {
        world.pass(8).await;
    }
    world.pass(37).await;
    let is_over = world.status("web").await.active_stage.as_deref() != Some("dev");
    world.until_phase("web", Phase::Completed, 120).await;
    heir.stop().await;
    is_over
}

#[tokio::test(start_paused = true)]
async fn a_soak_goes_on_under_a_new_leader() {
    assert!(is_over_in_time(false).await);
}

#[tokio::test(start_paused = true)]
async fn a_soak_that_was_broken_while_nobody_led_begins_anew_though_the_new_leader_was_watching() {
    assert!(!is_over_in_time(true).await);
}
