//! A host that is killed after any single write and started again ends where an undisturbed one ends.

use std::collections::BTreeMap;

use stagegate_api::Phase;

use crate::harness::{Pace, World, deployment_of, policy, shop, workload};

/// Where a rollout ended: phase, open placements, which clusters hold the workload.
#[derive(Debug, PartialEq)]
struct End {
    phase: Option<Phase>,
    stage: Option<String>,
    placements: BTreeMap<String, bool>,
    clusters: Vec<String>,
}

async fn end_of(world: &World) -> End {
    world.until_phase("web", Phase::Completed, 120).await;
    world.pass(60).await;
    let status = world.status("web").await;
    let placements = world.binding_policies().list(&Default::default()).await.unwrap();
    let open = |placement: &stagegate_api::BindingPolicy| !placement.spec.cluster_selectors.is_empty();
    let truth = world.clusters.truth();
    let clusters = truth
        .clusters
        .iter()
        .filter(|(_, objects)| objects.contains_key(&deployment_of("web")));
    End {
        phase: status.phase,
        stage: status.active_stage,
        placements: placements
            .iter()
            .map(|it| (it.metadata.name.clone().unwrap_or_default(), open(it)))
            .collect(),
        clusters: clusters.map(|(name, _)| name.clone()).collect(),
    }
}

async fn begin() -> World {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_host_killed_after_any_write_and_started_again_ends_where_an_undisturbed_one_ends() {
    let world = begin().await;
    let before = world.tap.writes();
    world.apply(&policy("web")).await;
    let undisturbed = end_of(&world).await;
    let writes = world.tap.writes() - before;
    assert!(writes >= 10, "a rollout of three stages in {writes} writes?");
    for nth in 1..=writes {
        let mut world = begin().await;
        world.tap.run_dry_after(nth);
        world.apply(&policy("web")).await;
        // The number of writes may differ by a few from run to run; then nothing falls dry, and the end is the same.
        let killed = tokio::time::timeout(std::time::Duration::from_secs(120), world.tap.dry()).await;
        if killed.is_ok() {
            world.kill_host();
            world.tap.flow_again();
            world.start_host().await;
        }
        assert_eq!(
            end_of(&world).await,
            undisturbed,
            "killed after write {nth} of {writes}"
        );
    }
}
