//! What happens to held stages when KubeStellar is restarted, or when something else than a release changes their Bindings.

use std::time::Duration;

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use stagegate_api::{ADMITTED_VERSIONS, Binding, Phase, label};

use super::{at_version_1, binding, ran};
use crate::harness::{Pace, World, deployment_of, image, said};

#[tokio::test(start_paused = true)]
async fn a_restart_of_kubestellar_takes_nothing_from_a_held_stage() {
    let mut world = at_version_1(Pace::KubeStellar).await;
    world.restart_parts_that_empty_bindings().await;
    world.pass(60).await;
    for cluster in ["dev-1", "test-1", "prod-1"] {
        assert_eq!(
            world.clusters.truth().removals(cluster, &deployment_of("web")),
            [],
            "{cluster}"
        );
    }
    world.pass(120).await;
    let status = world.status("web").await;
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    assert_eq!(
        ready.unwrap().status,
        "True",
        "prod is reported again: {}",
        said(&status)
    );
    world.edit_deployment("web", image("web", 2)).await;
    world
        .until_so("dev has version 2", 120, async || ran(&world, "dev-1") == ["1", "2"])
        .await;
    world.until_phase("web", Phase::Completed, 600).await;
    assert_eq!(ran(&world, "prod-1"), ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_kubestellar_while_a_stage_is_evaluated_ends_with_the_same_evidence() {
    let mut world = at_version_1(Pace::KubeStellar).await;
    world.edit_cluster("dev-2", json!({"readyAfter": "90s"})).await;
    world.edit_deployment("web", image("web", 2)).await;
    world
        .until_so("dev has version 2", 120, async || ran(&world, "dev-1") == ["1", "2"])
        .await;
    world.pass(20).await;
    world.restart_parts_that_empty_bindings().await;
    world.pass(15).await;
    let of_dev = kube::api::ListParams::default().labels(&format!("{}=web.stage.dev", label::BINDING_POLICY));
    let combined = world.combined();
    assert_eq!(combined.list(&of_dev).await.unwrap().items.len(), 0);
    world.until_phase("web", Phase::Completed, 900).await;
    for cluster in ["dev-1", "test-1", "prod-1"] {
        assert_eq!(ran(&world, cluster), ["1", "2"], "{cluster}");
        assert_eq!(world.clusters.truth().removals(cluster, &deployment_of("web")), []);
    }
}

/// Version 2 is being evaluated in dev, where it is never ready.
async fn stuck_in_dev() -> World {
    let world = at_version_1(Pace::Fast).await;
    let stuck = json!({"rules": [{"image": "registry.example/web:2", "progressing": "Stuck"}]});
    world.edit_cluster("dev-2", stuck).await;
    world.edit_deployment("web", image("web", 2)).await;
    world
        .until_so("dev has version 2", 30, async || ran(&world, "dev-1") == ["1", "2"])
        .await;
    world.pass(5).await;
    world
}

/// What status says of versions that prod may have got, and in the end all stages have version 3.
async fn tells_what_prod_has_got_and_goes_on(world: World) {
    world
        .until_so("prod has got version 2", 30, async || {
            ran(&world, "prod-1") == ["1", "2"]
        })
        .await;
    world
        .until("web", 5, |status| {
            status.stages[2].unproven == ["deployments.apps shop/web"]
        })
        .await;
    world.pass(60).await;
    let status = world.status("web").await;
    assert_eq!(status.active_stage.as_deref(), Some("dev"));
    assert_eq!(
        status.stages[2].unproven.len(),
        1,
        "status names it until the next release"
    );
    assert_eq!(ran(&world, "test-1"), ["1"]);
    for reason in ["HoldBroken", "DeliveryUnproven"] {
        assert!(world.events("web").await.contains_key(reason), "{reason}");
    }
    world.edit_deployment("web", image("web", 3)).await;
    world.pass(10).await;
    world.until_phase("web", Phase::Completed, 300).await;
    assert_eq!(ran(&world, "prod-1"), ["1", "2", "3"]);
    assert_eq!(world.status("web").await.stages[2].unproven, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_taken_away_while_a_newer_version_waits_is_told_of() {
    let mut world = stuck_in_dev().await;
    world.stop_host().await;
    let bindings: Api<Binding> = Api::all(world.client.clone());
    let without = json!({"metadata": {"annotations": {ADMITTED_VERSIONS: null}}});
    world.merge(&bindings, "web.stage.prod", without).await;
    world
        .edit_deployment("web", json!({"metadata": {"annotations": {"touched": "yes"}}}))
        .await;
    world.pass(2).await;
    world.start_host().await;
    tells_what_prod_has_got_and_goes_on(world).await;
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_is_deleted_while_a_newer_version_waits_is_told_of() {
    let world = stuck_in_dev().await;
    let bindings: Api<Binding> = Api::all(world.client.clone());
    world.delete(&bindings, "web.stage.prod").await;
    tells_what_prod_has_got_and_goes_on(world).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_of_kubestellar_a_late_report_on_the_older_version_acknowledges_nothing() {
    let mut world = at_version_1(Pace::KubeStellar).await;
    world.edit_cluster("dev-2", json!({"readyAfter": "60s"})).await;
    world.edit_deployment("web", image("web", 2)).await;
    world
        .until_so("dev has version 2", 120, async || ran(&world, "dev-1") == ["1", "2"])
        .await;
    let list =
        async |world: &World| binding(world, "prod").await.metadata.annotations.unwrap()[ADMITTED_VERSIONS].clone();
    let before = list(&world).await;
    world.restart_parts_that_empty_bindings().await;
    world
        .until_so("prod is released", 900, async || list(&world).await != before)
        .await;
    assert_eq!(ran(&world, "prod-1"), ["1"]);
    let sick = json!({"rules": [{"image": "registry.example/web:1", "progressing": "Stuck"}]});
    // Two late reports, the second of which is healthy; then nothing more comes.
    for late in [sick, json!({"rules": []}), json!({"unreachable": true})] {
        world.edit_cluster("prod-1", late).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    world.pass(600).await;
    assert_eq!(ran(&world, "prod-1"), ["1"]);
    let status = world.status("web").await;
    assert_ne!(status.phase, Some(Phase::Completed), "{}", said(&status));
    world.edit_cluster("prod-1", json!({"unreachable": false})).await;
    world.until_phase("web", Phase::Completed, 300).await;
    assert_eq!(ran(&world, "prod-1"), ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn what_transport_cannot_deliver_to_a_held_stage_is_told() {
    let world = stuck_in_dev().await;
    let bindings: Api<Binding> = Api::all(world.client.clone());
    let errors = async |errors: &[&str]| {
        let status = Patch::Merge(json!({"status": {"errors": errors}}));
        bindings
            .patch_status("web.stage.prod", &PatchParams::default(), &status)
            .await
            .unwrap();
    };
    errors(&["the template of shop/web fails"]).await;
    world
        .until("web", 5, |status| {
            let message = status.stages[2].message.as_deref().unwrap_or_default();
            message.contains("the template of shop/web fails")
                && message.contains("clusters of stage prod may have lost")
        })
        .await;
    world.pass(60).await;
    assert_eq!(world.events("web").await["TransportError"].len(), 1);
    errors(&[]).await;
    world.until("web", 5, |status| status.stages[2].message.is_none()).await;
}
