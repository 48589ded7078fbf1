//! What changes all the time and decides nothing: how often status says so.

use serde_json::json;
use stagegate_api::Phase;

use crate::harness::seeded::budget;
use crate::harness::{Pace, World, policy, said, shop, workload};

/// An hour with `make soak`.
fn seconds() -> u64 {
    360 * budget()
}

#[tokio::test(start_paused = true)]
async fn a_count_that_changes_every_second_is_written_every_ten_seconds_and_is_no_event() {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    let has = async |available: u64| {
        let status = json!({"availableReplicas": available});
        world
            .edit_cluster("dev-2", json!({"rules": [{"status": status}]}))
            .await;
    };
    has(0).await;
    world.apply(&workload("web")).await;
    world.apply(&policy("web")).await;
    world.until_phase("web", Phase::Holding, 60).await;
    let (events, calls) = (world.events("web").await, world.tap.calls().len());
    for second in 0..seconds() {
        has(second % 2).await;
        world.pass(1).await;
    }
    let calls = world.tap.calls().split_off(calls);
    let is_status = |target: &str| target.contains("/stagedbindingpolicies/web/status");
    let written = calls
        .iter()
        .filter(|call| call.is_write() && is_status(&call.target))
        .count();
    let at_most = usize::try_from(seconds() / 10).unwrap();
    assert!(written <= at_most, "{written} writes of status in {} s", seconds());
    assert!(
        written >= at_most / 2,
        "{written} writes of status: how far it is shows nowhere"
    );
    assert_eq!(world.events("web").await, events);
    // What it is now is said in the end, and a change that is more than words at once.
    has(1).await;
    world.pass(15).await;
    let status = world.status("web").await;
    assert!(said(&status).contains("1 of 2"), "{}", said(&status));
    world.edit_cluster("dev-2", json!({"rules": []})).await;
    world.until_phase("web", Phase::Completed, 30).await;
}
