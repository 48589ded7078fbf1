//! KubeStellar is restarted at calls of a release, and writes Bindings without objects and clusters before it has seen the workload again.

use super::{ends, some_of, undisturbed, until_call};
use crate::harness::{Call, Pace, deployment_of};
use crate::matrices::{Matrix, broken, in_virtual_time};

/// So many calls follow one another, and KubeStellar is restarted at one of them.
const CALLS_TO_A_RESTART: u64 = 2;

#[test]
fn a_restart_of_kubestellar_at_any_call_of_a_release_takes_nothing_away_and_ends_where_none_does() {
    for (seed, pace) in [(1, Pace::Fast), (2, Pace::KubeStellar)] {
        let calls = undisturbed(pace);
        let mut matrix = Matrix::new(format!("restarts of KubeStellar in a release, {pace:?}"));
        for nth in some_of(&calls, CALLS_TO_A_RESTART, seed) {
            let outcome = in_virtual_time(restarted(pace, nth));
            let Call { method, target } = &calls[nth - 1];
            let case = || format!("before call {nth} of {}, {method} {target}", calls.len());
            matrix.add(case, outcome);
        }
        matrix.end();
    }
}

async fn restarted(pace: Pace, nth: usize) -> Result<(), String> {
    let mut world = until_call(pace, nth).await;
    world.restart_parts_that_empty_bindings().await;
    world.tap.flow_again();
    let ended = ends(&world, &[]).await;
    let truth = world.clusters.truth();
    let lost = ["dev-1", "dev-2", "test-1"].map(|cluster| truth.removals(cluster, &deployment_of("web")).len());
    broken(&mut world)?;
    ended?;
    if lost == [0, 0, 0] {
        Ok(())
    } else {
        Err(format!(
            "the workload was removed so often from dev-1, dev-2 and test-1: {lost:?}"
        ))
    }
}
