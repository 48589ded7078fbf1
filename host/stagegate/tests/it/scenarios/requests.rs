//! What a placement and a transition cost in requests, Events included. The counts do not depend on the machine, so they must not creep
//! up. Each bound has two to spare: which of two tasks runs first decides whether two changes of status become one write, and whether
//! two readings share a list of StatusCollectors.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;
use stagegate_api::Phase;

use crate::harness::{Call, Pace, World, policy, shop, workload};

/// From a new policy until the first stage waits for its clusters.
const PLACEMENT_MAX: usize = 20;
/// From a stage's last report until the next stage waits for its clusters and the previous placement is removed.
const TRANSITION_MAX: usize = 26;

#[tokio::test(start_paused = true)]
async fn a_placement_and_a_transition_cost_no_more_requests_than_they_did() {
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
    let placed = world.tap.calls().len();
    world.edit_cluster("dev-2", json!({"rules": []})).await;
    world.until_stage("web", "test", 60).await;
    world.until_phase("web", Phase::Holding, 60).await;
    world.pass(60).await;
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

/// How often each verb and kind was asked for.
fn counted(calls: &[Call]) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    // Watches list everything of a kind, page by page; a reading lists what is labelled, or one object for the version of the list.
    let is_of_reading = |target: &str| target.contains("labelSelector") || target.ends_with("limit=1");
    let is_of_watch = |call: &&Call| call.is_watch() || (call.is_watchs_list() && !is_of_reading(&call.target));
    for call in calls.iter().filter(|call| !is_of_watch(call)) {
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
    format!(
        "{} {}{subresource}{collection}",
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
