//! What a placement and a transition cost in requests, Events included. The counts do not depend on the machine, so they must not creep
//! up. Each bound has two to spare: which of two tasks runs first decides whether two changes of status become one write, and whether
//! two readings share a list of StatusCollectors.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;
use stagegate_api::Phase;

use super::updates::at_version_1;
use crate::harness::{Call, Pace, World, image, policy, shop, workload};

/// From a new policy until the first stage waits for its clusters.
const PLACEMENT_MAX: usize = 16;
/// From a stage's last report until the next stage waits for its clusters and the previous placement is removed.
const TRANSITION_MAX: usize = 19;

/// From the last report of a stage that is held until the next one waits for its clusters with the same versions.
const RELEASE_MAX: usize = 27;
/// What a release writes: status, the BindingPolicy and the list, and two to spare.
const RELEASE_WRITES_MAX: usize = 5;
/// In ten minutes it is tried three times, twice each, whether Bindings are held.
const IDLE_MAX: usize = 6;

/// A rollout whose first stage waits for dev-2 and whose second stage will wait for test-1, and the number of calls before the policy was
/// created.
async fn waiting_in_dev() -> (World, usize) {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    let has = async |cluster: &str, available: u64| {
        let status = json!({"availableReplicas": available});
        world
            .edit_cluster(cluster, json!({"rules": [{"status": status}]}))
            .await;
    };
    for cluster in ["dev-2", "test-1"] {
        has(cluster, 0).await;
    }
    world.apply(&workload("web")).await;
    world.pass(60).await;
    let begun = world.tap.calls().len();
    world.apply(&policy("web")).await;
    world.until_phase("web", Phase::Holding, 60).await;
    world.pass(60).await;
    (world, begun)
}

/// Until the second stage waits for its cluster.
async fn transition(world: &World) {
    world.edit_cluster("dev-2", json!({"rules": []})).await;
    world.until_stage("web", "test", 60).await;
    world.until_phase("web", Phase::Holding, 60).await;
    world.pass(60).await;
}

#[tokio::test(start_paused = true)]
async fn an_opening_reads_its_evidence_and_a_removal_reads_only_placements_and_their_clusters() {
    let (world, _) = waiting_in_dev().await;
    let placed = world.tap.calls().len();
    transition(&world).await;
    let calls = world.tap.calls();
    let calls = &calls[placed..];
    let is_of = |call: &&Call, method: &str, end: &str| {
        let path = call.target.split('?').next().unwrap_or_default();
        call.method == method && path.ends_with(end)
    };
    let position = |method: &str, end: &str| calls.iter().position(|call| is_of(&call, method, end)).unwrap();
    let opened = position("PATCH", "/bindingpolicies/web.stage.test");
    let removed = position("DELETE", "/bindingpolicies/web.stage.dev");
    let read = |calls: &[Call]| -> Vec<String> {
        let reads = calls.iter().filter(|call| is_request(call) && !call.is_write());
        let ends = reads.map(|call| call.target.split('?').next().unwrap_or_default().to_owned());
        let mut ends: Vec<String> = ends
            .map(|path| path.rsplit('/').take(2).collect::<Vec<_>>().join(" of "))
            .collect();
        ends.sort();
        ends
    };
    assert_eq!(
        read(&calls[..opened]),
        [
            "combinedstatuses of shop",
            "statuscollectors of v1alpha1",
            "web of deployments",
            "web.stage.dev of bindingpolicies",
            "web.stage.dev of bindings",
        ]
    );
    assert_eq!(
        read(&calls[opened..removed]),
        [
            "web.stage.dev of bindings",
            "web.stage.test of bindingpolicies",
            "web.stage.test of bindings",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_placement_and_a_transition_cost_no_more_requests_than_they_did() {
    let (world, begun) = waiting_in_dev().await;
    let placed = world.tap.calls().len();
    transition(&world).await;
    let calls = world.tap.calls();
    for (what, calls, at_most) in [
        ("a placement", &calls[begun..placed], PLACEMENT_MAX),
        ("a transition", &calls[placed..], TRANSITION_MAX),
    ] {
        let counted = counted(calls);
        let sum: usize = counted.values().sum();
        crate::tell(&format!("{what} costs {sum} requests:\n{}", table(&counted)));
        assert!(
            sum <= at_most,
            "{what} costs {sum} requests, at most {at_most}:\n{}",
            table(&counted)
        );
    }
}

/// Version 2 waits for dev-2 in dev and will wait for test-1 in test.
async fn version_2_in_dev() -> World {
    let world = at_version_1(Pace::Fast).await;
    let stuck = json!({"rules": [{"image": "registry.example/web:2", "status": {"availableReplicas": 0}}]});
    for cluster in ["dev-2", "test-1"] {
        world.edit_cluster(cluster, stuck.clone()).await;
    }
    world.edit_deployment("web", image("web", 2)).await;
    world.until_stage("web", "dev", 60).await;
    world.until_phase("web", Phase::Holding, 60).await;
    world.pass(60).await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_release_costs_few_writes_two_tries_and_one_more_look_at_each_object() {
    let world = version_2_in_dev().await;
    let begun = world.tap.calls().len();
    transition(&world).await;
    let calls = &world.tap.calls()[begun..];
    let costs = counted(calls);
    let sum: usize = costs.values().sum();
    let told = format!("a release costs {sum} requests:\n{}", table(&costs));
    crate::tell(&told);
    assert!(sum <= RELEASE_MAX, "at most {RELEASE_MAX}, but {told}");
    let of = |what: &str| costs.get(what).copied().unwrap_or_default();
    // Read with the evidence of the stage before, and once more when transport has taken the versions.
    assert_eq!(of("GET deployments"), 2, "{told}");
    assert_eq!(of("PATCH bindings (tried)"), 2, "{told}");
    let has_listed = |call: &Call| call.target.contains("/bindings/") && is_stored(call);
    let listed = calls.iter().position(has_listed).unwrap();
    let written = calls[..=listed].iter().filter(|call| is_stored(call)).count();
    assert!(
        written <= RELEASE_WRITES_MAX,
        "{written} writes until the list is written: {told}"
    );
}

#[tokio::test(start_paused = true)]
async fn held_stages_with_nothing_to_release_cost_no_writes() {
    let world = at_version_1(Pace::Fast).await;
    world.pass(60).await;
    let begun = world.tap.calls().len();
    world.pass(600).await;
    let calls = &world.tap.calls()[begun..];
    let costs = counted(calls);
    crate::tell(&format!("ten minutes with nothing to release cost:\n{}", table(&costs)));
    assert!(!calls.iter().any(is_stored), "{}", table(&costs));
    assert!(costs.values().sum::<usize>() <= IDLE_MAX, "{}", table(&costs));
}

/// A write, but for Events, that is more than a try.
fn is_stored(call: &Call) -> bool {
    call.is_write() && !is_tried(call) && !call.target.contains("/events")
}

/// What is never stored.
fn is_tried(call: &Call) -> bool {
    call.target.contains("dryRun=")
}

/// Watches list everything of a kind, page by page; a reading lists what is labelled, or one object for the version of the list.
fn is_request(call: &Call) -> bool {
    let is_of_reading = call.target.contains("labelSelector") || call.target.ends_with("limit=1");
    !call.is_watch() && (!call.is_watchs_list() || is_of_reading)
}

/// How often each verb and kind was asked for.
fn counted(calls: &[Call]) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for call in calls.iter().filter(|call| is_request(call)) {
        *counted.entry(what(call)).or_default() += 1;
    }
    counted
}

/// `PATCH bindingpolicies`; a subresource that is written is named, too.
fn what(call: &Call) -> String {
    let path = call.target.split('?').next().unwrap_or_default();
    let mut parts: Vec<&str> = path
        .split('/')
        .skip_while(|part| !part.starts_with('v'))
        .skip(1)
        .collect();
    if parts.first() == Some(&"namespaces") && parts.len() > 2 {
        parts.drain(..2);
    }
    let subresource = parts.get(2).map(|name| format!("/{name}")).unwrap_or_default();
    let is_list = call.method == http::Method::GET && parts.len() == 1;
    let collection = if is_list { " (list)" } else { "" };
    let tried = if is_tried(call) { " (tried)" } else { "" };
    format!(
        "{} {}{subresource}{collection}{tried}",
        call.method,
        parts.first().unwrap_or(&"")
    )
}

fn table(counted: &BTreeMap<String, usize>) -> String {
    let mut text = String::new();
    for (what, count) in counted {
        let _written = writeln!(text, "{count:>4} {what}");
    }
    text
}
