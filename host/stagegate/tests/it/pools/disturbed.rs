//! An update that is disturbed at any call: it ends as one that was not, and makes no workload twice.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use stagegate_api::workloads::TemplateType;

use super::world::{World, daemon, edge, image};
use crate::harness::Disturbance;
use crate::tell;

const DISTURBANCES: &[Disturbance] = &[
    Disturbance::KilledBefore,
    Disturbance::KilledAt,
    Disturbance::KilledAfter,
    Disturbance::AnswerLost,
    Disturbance::Refused(409),
    Disturbance::Refused(500),
    Disturbance::Cut,
];

/// What there is at the end: images by pool, and the numbers of the revisions.
type End = (BTreeMap<String, String>, Vec<i64>);

async fn end(world: &World) -> End {
    let deployments = world.deployments().await;
    assert_eq!(
        deployments.len(),
        world.views(TemplateType::Deployment).await.len(),
        "no twin"
    );
    let images = deployments.into_iter().map(|(pool, view)| {
        let image = view.spec.template.spec.containers[0].image.clone().unwrap_or_default();
        (pool, image)
    });
    let revisions = world.revisions().await;
    let names: Vec<String> = revisions.iter().map(|revision| revision.name_any()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    (
        images.collect(),
        revisions.iter().map(|revision| revision.revision).collect(),
    )
}

/// From nothing to the second version in three pools, with the disturbance at the call of this number.
async fn run(disturbed: Option<(usize, Disturbance)>) -> (End, usize) {
    let mut world = World::start_without_controller(Some("v1beta2")).await;
    for pool in ["beijing", "hangzhou", "shanghai"] {
        world.pool(pool, edge()).await;
    }
    if let Some((nth, disturbance)) = disturbed {
        world.tap.disturb(nth, disturbance);
    }
    world.create(&daemon("web")).await.unwrap();
    world.start_controller_with_patience().await;
    world.work_off("web").await;
    world.edit("web", image(2)).await;
    world.work_off("web").await;
    let calls = world.tap.calls().len();
    (end(&world).await, calls)
}

#[tokio::test(start_paused = true)]
async fn an_update_that_is_killed_or_disturbed_at_any_call_ends_as_one_that_was_not() {
    let (undisturbed, calls) = run(None).await;
    let mut runs = 0;
    for nth in 1..=calls {
        for disturbance in DISTURBANCES {
            let (ended, _) = run(Some((nth, *disturbance))).await;
            assert_eq!(ended, undisturbed, "{disturbance:?} at call {nth}");
            runs += 1;
        }
    }
    tell(&format!("pools: {runs} runs, each disturbed at one of {calls} calls"));
}
