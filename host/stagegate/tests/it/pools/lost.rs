//! What a stage rests on and loses: no pool follows before it is there again.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use stagegate_api::StageState;
use stagegate_api::workloads::{APPLIED_DIGEST, REVISION_NUMBER, TemplateType, YurtAppDaemonStatus};

use super::checks::{prove, proved, reason, state, with_checks};
use super::stages::{ready, with_image};
use super::world::{World, delete, image};
use crate::guests;
use crate::harness::{GATES, gate, put_gate};

/// What a stage rests on, each by how it is lost and how it comes back.
#[derive(Clone, Copy, Debug)]
enum Lost {
    Status,
    Workload,
    Component,
    Image,
    ImageAndDigest,
    ImageAndAnnotations,
    Taint,
}

impl Lost {
    const ALL: [Self; 7] = [
        Self::Status,
        Self::Workload,
        Self::Component,
        Self::Image,
        Self::ImageAndDigest,
        Self::ImageAndAnnotations,
        Self::Taint,
    ];

    async fn lose(self, world: &World) {
        let name = world.deployments().await["canary-1"].name_any();
        let api = world.workloads(TemplateType::Deployment);
        match self {
            Self::Status => {
                let nothing = json!({"status": {"observedGeneration": null}});
                let patch = Patch::Merge(nothing);
                api.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
            }
            Self::Workload => delete(&api, &name).await,
            Self::Component => {
                let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), GATES);
                delete(&maps, "min-available").await;
            }
            Self::Image | Self::ImageAndDigest | Self::ImageAndAnnotations => {
                let containers = json!([{"name": "main", "image": "mine:9"}]);
                let annotations: &[&str] = match self {
                    Self::ImageAndDigest => &[APPLIED_DIGEST],
                    Self::ImageAndAnnotations => &[APPLIED_DIGEST, REVISION_NUMBER],
                    _ => &[],
                };
                let annotations: BTreeMap<_, _> = annotations.iter().map(|key| (*key, Value::Null)).collect();
                let patch = json!({
                    "metadata": {"annotations": annotations},
                    "spec": {"template": {"spec": {"containers": containers}}},
                });
                world.edit_workload(&name, patch).await;
                ready(world, "canary-1").await;
            }
            Self::Taint => {
                let taints = json!([{"key": "edge", "value": "yes", "effect": "NoSchedule"}]);
                world.edit_pool("canary-1", json!({"spec": {"taints": taints}})).await;
            }
        }
    }

    async fn restore(self, world: &World) {
        if matches!(self, Self::Component) {
            put_gate(&world.client, "min-available", &guests::wasm("gate_min_available")).await;
        }
        world.pass(70).await;
        ready(world, "canary-1").await;
    }
}

/// The status of the daemon is as of one that was just created.
async fn lose_status(world: &World) {
    let nothing: serde_json::Map<_, _> = match serde_json::to_value(world.status("web").await).unwrap() {
        Value::Object(status) => status.into_iter().map(|(name, _)| (name, Value::Null)).collect(),
        _ => unreachable!("a status is an object"),
    };
    let patch = Patch::Merge(json!({"status": nothing}));
    let daemons = world.daemons();
    daemons
        .patch_status("web", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(world.status("web").await, YurtAppDaemonStatus::default());
}

#[tokio::test(start_paused = true)]
async fn a_template_that_is_taken_back_is_evaluated_also_where_status_was_lost() {
    let mut world = with_checks(proved()).await;
    world.edit("web", image(2)).await;
    world.pass(5).await;
    ready(&world, "canary-1").await;
    world.edit("web", image(1)).await;
    world.pass(5).await;
    world.kill_controller();
    lose_status(&world).await;
    world.start_controller().await;
    world.pass(5).await;
    ready(&world, "canary-1").await;
    world.pass(30).await;
    let status = world.status("web").await;
    assert_eq!(
        (reason(&status), state(&status, "canary")),
        ("ConditionFalse", StageState::Active)
    );
    prove(&world, "canary-1").await;
    world.until_completed("web").await;
}

#[tokio::test(start_paused = true)]
async fn whatever_a_stage_rests_on_is_lost_no_pool_follows_before_it_is_there_again() {
    for lost in Lost::ALL {
        let mut checks = proved();
        checks["gates"] = json!([gate("min-available", &json!({"atLeast": 2}))]);
        let world = with_checks(checks).await;
        put_gate(&world.client, "min-available", &guests::wasm("gate_min_available")).await;
        world.edit("web", image(2)).await;
        world.pass(5).await;
        ready(&world, "canary-1").await;
        assert_eq!(reason(&world.status("web").await), "ConditionFalse", "{lost:?}");
        // What is put back is back at once, but not its status.
        lost.lose(&world).await;
        prove(&world, "canary-1").await;
        world.pass(60).await;
        let others = with_image(&world, 2)
            .await
            .into_iter()
            .filter(|pool| pool != "canary-1");
        assert_eq!(others.count(), 0, "{lost:?}");
        lost.restore(&world).await;
        world.pass(5).await;
        assert_eq!(with_image(&world, 2).await, ["canary-1", "east-1"], "{lost:?}");
    }
}
