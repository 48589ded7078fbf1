//! A whole rollout by the real controllers: undisturbed, refused, and quiet after it.

use std::collections::BTreeMap;
use std::time::Duration;

use stagegate_api::Phase;
use stagegate_embedded::{Fault, FaultAnswer};

use super::world::{World, three_stages};

const ROLLOUT: Duration = Duration::from_secs(10);

async fn sample() -> World {
    let world = World::start().await;
    for text in three_stages() {
        world.create(&text).await;
    }
    world
}

/// All requests but watches, which end and begin by themselves, and lists, with which watches are compared.
fn asked(world: &World) -> BTreeMap<(String, String), u64> {
    let counts = world.server.requests().counts;
    let is_of_a_watch = |verb: &str| matches!(verb, "watch" | "list");
    counts
        .into_iter()
        .filter(|((verb, _), _)| !is_of_a_watch(verb))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn the_three_stage_sample_completes_and_then_nothing_is_asked_written_or_evaluated() {
    let world = sample().await;
    world.until_phase("nginx", Phase::Completed, ROLLOUT).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (requests, counters) = (asked(&world), world.counters());
    tokio::time::sleep(Duration::from_secs(3 * 3600)).await;
    assert_eq!(asked(&world), requests);
    assert_eq!(world.counters().evaluations, counters.evaluations);
    assert_eq!(world.counters().lists, counters.lists);
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_waits_is_quiet_too() {
    let world = World::start().await;
    for text in three_stages() {
        world
            .create(&text.replace("readyAfter: 600ms", "readyAfter: 24h"))
            .await;
    }
    // The rollout's progress deadline of ten minutes is something to report.
    tokio::time::sleep(Duration::from_secs(900)).await;
    let (requests, counters) = (asked(&world), world.counters());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(asked(&world), requests);
    assert_eq!(world.counters().evaluations, counters.evaluations);
    assert_ne!(
        world.policy("nginx").await.status.unwrap().phase,
        Some(Phase::Completed)
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_version_is_read_and_decided_on_again_and_never_sent_again() {
    let world = World::start().await;
    let refused = Fault {
        times: 3,
        ..Fault::new("patch", "bindingpolicies.control.kubestellar.io", status(409))
    };
    world.server.inject(refused);
    for text in three_stages() {
        world.create(&text).await;
    }
    world.until_phase("nginx", Phase::Completed, ROLLOUT).await;
    assert!(world.counters().conflicts >= 3, "{:?}", world.counters());
    let log = world.server.requests();
    let mut read_since = true;
    for request in log.recent.iter().filter(|request| request.name == "nginx.stage.dev") {
        match (request.verb, request.resource.as_str(), request.manager.as_str()) {
            ("get", "bindingpolicies.control.kubestellar.io", _) => read_since = true,
            ("patch", "bindingpolicies.control.kubestellar.io", _) if request.manager == "stagegate" => {
                assert!(read_since, "a write that was not decided on anew");
                read_since = false;
            }
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_is_lost_is_found_and_not_made_twice() {
    let world = World::start().await;
    world.server.inject(Fault::new(
        "create",
        "bindingpolicies.control.kubestellar.io",
        FaultAnswer::LoseAnswer,
    ));
    for text in three_stages() {
        world.create(&text).await;
    }
    world.until_phase("nginx", Phase::Completed, ROLLOUT).await;
}

#[tokio::test(start_paused = true)]
async fn refused_writes_are_told_by_an_event_and_tried_again_ever_more_rarely() {
    let world = World::start().await;
    let forbidden = Fault {
        times: u32::MAX,
        ..Fault::new("create", "bindingpolicies.control.kubestellar.io", status(403))
    };
    world.server.inject(forbidden);
    for text in three_stages() {
        world.create(&text).await;
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
    let tries = world
        .server
        .requests()
        .count("create", "bindingpolicies.control.kubestellar.io");
    assert!((5..60).contains(&tries), "{tries} tries in ten minutes");
    let events = world.events("nginx").await;
    let told = events
        .iter()
        .find(|event| event.reason.as_deref() == Some("WriteFailed"))
        .expect("an Event");
    assert_eq!(told.type_.as_deref(), Some("Warning"));
    assert!(told.note.as_deref().unwrap_or_default().contains("403"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_comes_ends_at_the_deadline_and_is_tried_again() {
    let world = World::start().await;
    let slow = FaultAnswer::Delay(Duration::from_secs(3600));
    world
        .server
        .inject(Fault::new("create", "bindingpolicies.control.kubestellar.io", slow));
    for text in three_stages() {
        world.create(&text).await;
    }
    world
        .until_phase("nginx", Phase::Completed, ROLLOUT + Duration::from_secs(15))
        .await;
}

fn status(code: u16) -> FaultAnswer {
    FaultAnswer::Status(code)
}
