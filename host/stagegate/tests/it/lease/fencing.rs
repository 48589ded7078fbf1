//! What fencing tokens say of the lease: a new leader raises them before it opens anything, and a Lease that was lost, or given up,
//! leaves no policy behind.

use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::json;
use stagegate::options::Options;
use stagegate::start::{self, RunningControllers};
use stagegate_api::{Phase, annotation};

use super::interceptor::Interceptor;
use super::{election, leases, put_lease, record};
use crate::harness::{Pace, World, policy, shop, workload};

/// A world in which a leader of count 7 has died in stage dev, and has left a closed placement for the next one.
async fn half_way() -> World {
    let mut world = World::start_without_host(Pace::Fast).await;
    put_lease(&world.server, json!({"leaseTransitions": 6})).await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    world.note_host();
    let leader = start(&world, Some("first")).await;
    world.apply(&policy("web")).await;
    world
        .until_so("test is fenced under the lease", 30, async || {
            token(&world).await.ends_with(".7")
        })
        .await;
    drop(leader);
    world
}

async fn start(world: &World, elected: Option<&str>) -> RunningControllers {
    let options = Options {
        election: elected.map(election),
        ..world.host_options()
    };
    let interceptor = Interceptor::new(world.server.router(), "host");
    start::start(interceptor.client(), world.clock(), options)
        .await
        .unwrap()
}

/// Of the placement of stage test; empty where there is none.
async fn token(world: &World) -> String {
    let placement = world.binding_policies().get_opt("web.stage.test").await.unwrap();
    let token = placement.and_then(|placement| placement.annotations().get(annotation::FENCING_TOKEN).cloned());
    token.unwrap_or_default()
}

/// The fencing tokens that the placement of stage test had, in order, and whether it was open with each.
fn tokens(world: &World) -> Vec<(String, bool)> {
    let commits = world.server.commits(0).into_iter();
    let of_test =
        commits.filter(|commit| commit.name == "web.stage.test" && commit.resource.starts_with("bindingpolicies"));
    let mut tokens: Vec<_> = of_test
        .filter_map(|commit| commit.after())
        .map(|after| {
            let token = after["metadata"]["annotations"][annotation::FENCING_TOKEN]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let selectors = after["spec"]["clusterSelectors"].as_array();
            (token, selectors.is_some_and(|selectors| !selectors.is_empty()))
        })
        .collect();
    tokens.dedup();
    tokens
}

fn told(tokens: &[(&str, bool)]) -> Vec<(String, bool)> {
    tokens
        .iter()
        .map(|(token, is_open)| ((*token).to_owned(), *is_open))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_raises_the_stamps_of_closed_placements_before_it_opens_them() {
    let world = half_way().await;
    let heir = start(&world, Some("second")).await;
    world.until_phase("web", Phase::Completed, 60).await;
    assert_eq!(tokens(&world), told(&[("1.7", false), ("1.8", false), ("1.8", true)]));
    heir.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_deleted_and_counts_anew_catches_up_with_the_stamps() {
    let world = half_way().await;
    leases(&world.server)
        .delete("stagegate", &DeleteParams::default())
        .await
        .unwrap();
    let heir = start(&world, Some("second")).await;
    world.until_phase("web", Phase::Completed, 60).await;
    assert_eq!(record(&world.server).await["leaseTransitions"], json!(8));
    assert_eq!(tokens(&world), told(&[("1.7", false), ("1.8", false), ("1.8", true)]));
    heir.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_process_without_an_election_goes_on_where_elected_ones_have_been() {
    let world = half_way().await;
    let heir = start(&world, None).await;
    world.until_phase("web", Phase::Completed, 60).await;
    assert_eq!(tokens(&world), told(&[("1.7", false), ("1.7", true)]));
    heir.stop().await;
}
