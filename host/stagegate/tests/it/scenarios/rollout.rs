//! Rollouts that nothing disturbs: they complete, in order, on proof, and the workload stays where it ended.

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use serde_json::json;
use stagegate_api::{Phase, StageState};
use stagegate_embedded::clusters::ObjectRef;

use crate::harness::{NAMESPACE, Pace, WELL, World, cluster, deployment_of, policy, said, shop, state_of, workload};

#[tokio::test(start_paused = true)]
async fn three_stages_complete_each_only_after_its_clusters_have_really_answered() {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world.edit_cluster("dev-2", json!({"readyAfter": "30s"})).await;
    world.apply(&workload("web")).await;
    world.apply(&policy("web")).await;
    world.until_stage("web", "dev", 5).await;
    world.holds("web", "dev", 25).await;
    assert!(!world.is_in("test-1", &deployment_of("web")));
    world.until_stage("web", "test", 10).await;
    world.until_stage("web", "prod", 10).await;
    world.until_phase("web", Phase::Completed, 10).await;
    for name in ["prod-1", "prod-2"] {
        assert!(world.is_in(name, &deployment_of("web")));
    }
    world
        .until_so("the first stages are left", 10, async || {
            !world.is_in("dev-1", &deployment_of("web")) && !world.is_in("test-1", &deployment_of("web"))
        })
        .await;
    world.pass(3600).await;
    assert_eq!(world.open("web").await, ["prod"], "the last stage stays placed");
    assert_eq!(world.clusters.truth().removals("prod-1", &deployment_of("web")), []);
}

#[tokio::test(start_paused = true)]
async fn with_previous_stages_kept_the_workload_spreads() {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    world
        .apply(&policy("web").replace("spec:\n  downsync", "spec:\n  previousStages: Keep\n  downsync"))
        .await;
    world.until_phase("web", Phase::Completed, 30).await;
    world.pass(600).await;
    assert_eq!(world.open("web").await, ["dev", "prod", "test"]);
    for name in ["dev-1", "dev-2", "test-1", "prod-1", "prod-2"] {
        assert!(world.is_in(name, &deployment_of("web")), "{name}");
        assert_eq!(world.clusters.truth().removals(name, &deployment_of("web")), []);
    }
    let status = world.status("web").await;
    assert_eq!(state_of(&status, "dev"), Some(StageState::Passed));
}

#[tokio::test(start_paused = true)]
async fn at_kubestellars_own_pace_three_stages_complete_within_a_minute() {
    let world = World::start(Pace::KubeStellar).await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    world.apply(&policy("web")).await;
    world.until_phase("web", Phase::Completed, 60).await;
}

/// There are no results about the Service, because its clause names no StatusCollector.
#[tokio::test(start_paused = true)]
async fn a_condition_over_results_passes_a_service_only_when_it_looks_at_the_kind() {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world.edit_cluster("test-1", json!({"readyAfter": "30s"})).await;
    world.apply(&workload("web")).await;
    let service = "{name: web, namespace: shop, labels: {app: web}}\nspec: {selector: {app: web}, ports: [{port: 80}]}";
    world
        .apply(&format!("apiVersion: v1\nkind: Service\nmetadata: {service}"))
        .await;
    let clause = "  - {apiGroup: '', resources: [services], objectSelectors: [{matchLabels: {app: web}}]}\n  stages:";
    let reads = "collectors['worst'].exists(r, r.available >= 2.0)";
    let unguarded = policy("web").replace("  stages:", clause).replace(WELL, reads);
    world.apply(&unguarded).await;
    world
        .until("web", 30, |status| status.reason.as_deref() == Some("ConditionError"))
        .await;
    world.holds("web", "dev", 60).await;
    let told = said(&world.status("web").await);
    assert!(
        told.contains("services shop/web") && told.contains("no StatusCollector has a result"),
        "{told}"
    );
    let mut stages = json!(world.policies().get("web").await.unwrap().spec.stages);
    for stage in stages.as_array_mut().unwrap() {
        stage["condition"] = json!(format!("object.resource != 'deployments' || {reads}"));
    }
    world.edit_policy("web", json!({"spec": {"stages": stages}})).await;
    world.until_stage("web", "test", 10).await;
    // The results about the Deployment still count.
    world.holds("web", "test", 25).await;
    world.until_phase("web", Phase::Completed, 60).await;
    let service = ObjectRef::namespaced("", "services", NAMESPACE, "web");
    for name in ["prod-1", "prod-2"] {
        assert!(
            world.is_in(name, &deployment_of("web")) && world.is_in(name, &service),
            "{name}"
        );
    }
}

/// The sample of the original project, in both its forms, on one dev cluster whose sum is 1.
async fn the_original_sample_completes(text: &str) {
    let world = World::start(Pace::Fast).await;
    world.apply(&cluster("dev-1", "dev", "{readyAfter: 1s}")).await;
    world.apply(&cluster("prod-1", "prod", "{readyAfter: 1s}")).await;
    world
        .apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}")
        .await;
    world
        .apply(
            "\
apiVersion: control.kubestellar.io/v1alpha1
kind: StatusCollector
metadata: {name: deployments-aggregator}
spec:
  combinedFields: [{name: sum, type: SUM, subject: returned.status.availableReplicas}]
  limit: 20",
        )
        .await;
    let labelled = workload("nginx").replace(
        "labels: {app: nginx}}\nspec",
        "labels: {app.kubernetes.io/name: nginx}}\nspec",
    );
    world.apply(&labelled.replace("replicas: 2", "replicas: 1")).await;
    world.apply(text).await;
    let name = "nginx-staged-bindingpolicy";
    world.until_stage(name, "dev", 5).await;
    world.until_stage(name, "prod", 10).await;
    world.until_phase(name, Phase::Completed, 10).await;
    world.pass(3600).await;
    assert_eq!(world.open(name).await, ["prod"]);
    assert!(
        world.is_in("prod-1", &deployment_of("nginx")),
        "the last stage stays placed"
    );
}

#[tokio::test(start_paused = true)]
async fn the_original_sample_with_its_condition_on_combined_status_completes_unchanged() {
    the_original_sample_completes(include_str!(
        "../../../../../tests/data/original-nginx-combinedstatus.yaml"
    ))
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_original_sample_with_its_condition_on_obj_completes_unchanged() {
    the_original_sample_completes(include_str!("../../../../../tests/data/original-nginx-obj.yaml")).await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_to_forty_clusters_writes_a_dozen_events_at_most_and_each_milestone() {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    // Each cluster gets ready at its own time, so that the message names another cluster each second.
    for number in 0..35 {
        let env = ["dev", "test", "prod"][number % 3];
        let ready = format!("{{readyAfter: {}s}}", 2 + number);
        world.apply(&cluster(&format!("more-{number}"), env, &ready)).await;
    }
    world.apply(&workload("web")).await;
    world.apply(&policy("web")).await;
    world.until_phase("web", Phase::Completed, 300).await;
    world.pass(600).await;
    let all = Api::<Event>::all(world.client.clone())
        .list(&Default::default())
        .await
        .unwrap();
    let written: Vec<String> = all
        .items
        .iter()
        .filter(|event| event.regarding.as_ref().and_then(|it| it.name.as_deref()) == Some("web"))
        .map(|event| format!("{:?} {:?}", event.type_, event.note))
        .collect();
    assert!(written.len() <= 12, "{} Events: {written:#?}", written.len());
    let events = world.events("web").await;
    for (reason, count) in [("StageOpened", 1), ("StagePassed", 2), ("Completed", 1)] {
        assert_eq!(events[reason].len(), count, "{reason}: {events:?}");
    }
    let waiting = written
        .iter()
        .find(|event| event.contains("StatusCollector total failed"));
    assert!(waiting.is_some_and(|event| event.contains("Normal")), "{written:#?}");
}
