//! Restarts, late deliveries and edits under way: nothing is lost, nothing is passed on old proof.

use jiff::SignedDuration;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Api;
use serde_json::json;
use stagegate_api::{Binding, Phase, StageState, StagedBindingPolicyStatus};

use crate::harness::{NAMESPACE, Pace, World, cluster, deployment_of, policy, said, shop, state_of, workload};

/// One image for another: an edit that moves the generation.
fn image(app: &str, tag: u32) -> serde_json::Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": app, "image": format!("registry.example/{app}:{tag}")}]}}}})
}

async fn at_dev_with_dev_2_starting_slowly(pace: Pace) -> World {
    let world = World::start(pace).await;
    world.apply(&shop()).await;
    world.edit_cluster("dev-2", json!({"readyAfter": "2m"})).await;
    world.apply(&workload("web")).await;
    world.apply(&policy("web")).await;
    world.until_stage("web", "dev", 15).await;
    world
}

async fn completed(pace: Pace) -> World {
    let world = World::start(pace).await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    world.apply(&policy("web")).await;
    world.until_phase("web", Phase::Completed, 90).await;
    world
        .until_so("earlier stages are left", 60, async || {
            world.open("web").await == ["prod"]
        })
        .await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_the_host_in_a_stage_loses_nothing() {
    let mut world = at_dev_with_dev_2_starting_slowly(Pace::Fast).await;
    world.pass(20).await;
    let before = world.binding_policies().get("web.stage.dev").await.unwrap();
    world.restart_host().await;
    world.holds("web", "dev", 20).await;
    let after = world.binding_policies().get("web.stage.dev").await.unwrap();
    assert_eq!((before.metadata.uid, before.spec), (after.metadata.uid, after.spec));
    world.until_phase("web", Phase::Completed, 180).await;
    assert_eq!(world.clusters.truth().removals("prod-1", &deployment_of("web")), []);
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_kubestellar_that_empties_bindings_passes_nothing_and_the_rollout_goes_on() {
    let mut world = at_dev_with_dev_2_starting_slowly(Pace::KubeStellar).await;
    world.pass(20).await;
    world.restart_parts_that_empty_bindings().await;
    world.holds("web", "dev", 90).await;
    let removed = world.clusters.truth().removals("dev-1", &deployment_of("web"));
    assert!(
        !removed.is_empty(),
        "the Binding was empty for a moment, and the cluster lost the workload"
    );
    assert!(!world.is_in("test-1", &deployment_of("web")));
    world.until_phase("web", Phase::Completed, 600).await;
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_was_empty_for_a_moment_counts_only_after_a_long_rest() {
    let mut world = at_dev_with_dev_2_starting_slowly(Pace::KubeStellar).await;
    world.edit_cluster("dev-2", json!({"readyAfter": "1s"})).await;
    world.until_stage("web", "test", 60).await;
    world.restart_parts_that_empty_bindings().await;
    world
        .until("web", 20, |status| status.reason.as_deref() == Some("BindingSetShrank"))
        .await;
    world
        .stays("web", 25, |status| status.reason.as_deref() == Some("BindingSetShrank"))
        .await;
    world.until_phase("web", Phase::Completed, 120).await;
}

#[tokio::test(start_paused = true)]
async fn both_restarts_at_once_in_a_completed_policy_leave_it_completed() {
    let mut world = completed(Pace::Fast).await;
    world.stop_host().await;
    world.restart_parts_that_empty_bindings().await;
    world.start_host().await;
    world
        .stays("web", 120, |status| status.phase == Some(Phase::Completed))
        .await;
    assert_eq!(world.open("web").await, ["prod"]);
    assert!(world.is_in("prod-1", &deployment_of("web")));
}

#[tokio::test(start_paused = true)]
async fn a_selector_edit_of_the_active_stage_updates_its_placement_in_place() {
    let world = at_dev_with_dev_2_starting_slowly(Pace::Fast).await;
    world.apply(&cluster("lab-1", "lab", "{readyAfter: 1s}")).await;
    let before = world.binding_policies().get("web.stage.dev").await.unwrap();
    let mut policy = world.policies().get("web").await.unwrap();
    policy.spec.stages[0].cluster_selectors = serde_json::from_value(json!([{"matchLabels": {"env": "lab"}}])).unwrap();
    world
        .edit_policy("web", json!({"spec": {"stages": policy.spec.stages}}))
        .await;
    world
        .until_so("lab-1 has it", 10, async || world.is_in("lab-1", &deployment_of("web")))
        .await;
    let after = world.binding_policies().get("web.stage.dev").await.unwrap();
    assert_eq!(before.metadata.uid, after.metadata.uid, "updated, not made anew");
    world.until_phase("web", Phase::Completed, 120).await;
}

#[tokio::test(start_paused = true)]
async fn a_clause_edit_after_completion_starts_a_rollout_and_takes_nothing_away_before_its_turn() {
    let world = completed(Pace::Fast).await;
    world.edit_cluster("dev-2", json!({"readyAfter": "1m"})).await;
    let mut policy = world.policies().get("web").await.unwrap();
    policy.spec.downsync[0].want_singleton_reported_state = true;
    world
        .edit_policy("web", json!({"spec": {"downsync": policy.spec.downsync}}))
        .await;
    world.until_stage("web", "dev", 20).await;
    let open = world.open("web").await;
    assert!(
        open.contains(&"dev".to_owned()) && open.contains(&"prod".to_owned()),
        "{open:?}"
    );
    assert_eq!(state_of(&world.status("web").await, "prod"), Some(StageState::Outdated));
    world.until_phase("web", Phase::Completed, 240).await;
    let prod = world.binding_policies().get("web.stage.prod").await.unwrap();
    assert!(
        prod.spec.downsync[0].want_singleton_reported_state,
        "prod got the new clause when its turn came"
    );
    assert_eq!(
        world.clusters.truth().removals("prod-1", &deployment_of("web")),
        [],
        "and never lost the workload"
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_edited_in_a_stage_counts_only_when_every_cluster_has_answered_for_it() {
    let world = at_dev_with_dev_2_starting_slowly(Pace::Fast).await;
    world.pass(60).await;
    world.edit_deployment("web", image("web", 2)).await;
    world.holds("web", "dev", 100).await;
    world.until_stage("web", "test", 60).await;
    assert_eq!(
        world
            .clusters
            .truth()
            .present("dev-2", &deployment_of("web"))
            .unwrap()
            .generation,
        Some(2)
    );
    world.until_phase("web", Phase::Completed, 30).await;
}

/// The host ends as soon as it has opened the stage; then the clusters report, the workload is edited, which takes a minute
/// and a half to reach them, and the next host sees the stage's Binding for the first time.
async fn edited_before_anybody_has_seen_the_binding_of(stage: &str) -> World {
    let mut world = World::start(Pace::KubeStellar).await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    world.apply(&policy("web")).await;
    world
        .until_so("it is opened", 120, async || {
            world.open("web").await.iter().any(|open| open == stage)
        })
        .await;
    world.kill_host();
    let has_been_seen = |status: &StagedBindingPolicyStatus| {
        let record = status.stages.iter().find(|record| record.name == stage);
        record.is_some_and(|record| !record.destinations.is_empty())
    };
    assert!(
        !has_been_seen(&world.status("web").await),
        "killed before its first sight"
    );
    world.pass(30).await;
    world.clusters.delay_hand_over(&format!("web.stage.{stage}"), 90_000);
    world.edit_deployment("web", image("web", 2)).await;
    world.pass(15).await;
    world.start_host().await;
    world
}

#[tokio::test(start_paused = true)]
async fn an_edit_made_between_the_first_open_and_the_first_sight_waits_for_its_answers() {
    let world = edited_before_anybody_has_seen_the_binding_of("dev").await;
    world.until_stage("web", "dev", 10).await;
    world.holds("web", "dev", 60).await;
    let status = world.status("web").await;
    assert_eq!(
        status.reason.as_deref(),
        Some("UpdateUnacknowledged"),
        "{}",
        said(&status)
    );
    world.until_phase("web", Phase::Completed, 300).await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_made_between_a_later_open_and_the_first_sight_waits_for_its_answers() {
    let world = edited_before_anybody_has_seen_the_binding_of("test").await;
    world.until_stage("web", "test", 10).await;
    world.holds("web", "test", 60).await;
    let status = world.status("web").await;
    assert_eq!(
        status.reason.as_deref(),
        Some("UpdateUnacknowledged"),
        "{}",
        said(&status)
    );
    world.until_phase("web", Phase::Completed, 300).await;
}

/// All is well and soaks for half a minute; then an edit that takes a minute and a half to reach the clusters, which
/// go on saying that all is well: with the old version.
async fn edited_with_a_late_delivery(unacknowledged_updates: &str) -> World {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    let members = format!("    soak: 30s\n    unacknowledgedUpdates: {unacknowledged_updates}\n    condition:");
    world
        .apply(&policy("web").replacen("    condition:", &members, 1))
        .await;
    world
        .until("web", 30, |status| status.reason.as_deref() == Some("Soaking"))
        .await;
    world.clusters.delay_hand_over("web.stage.dev", 90_000);
    world.edit_deployment("web", image("web", 2)).await;
    world
}

#[tokio::test(start_paused = true)]
async fn what_clusters_say_of_the_version_before_an_edit_does_not_count() {
    let world = edited_with_a_late_delivery("Wait").await;
    world.holds("web", "dev", 85).await;
    let status = world.status("web").await;
    assert_eq!(
        status.reason.as_deref(),
        Some("UpdateAcknowledgementOverdue"),
        "{}",
        said(&status)
    );
    assert!(said(&status).contains("dev-1"), "{}", said(&status));
    world.until_phase("web", Phase::Completed, 120).await;
    assert_eq!(world.clusters.truth().removals("prod-1", &deployment_of("web")), []);
}

#[tokio::test(start_paused = true)]
async fn where_unseen_updates_are_accepted_an_edit_that_no_cluster_answers_counts_after_a_while() {
    let world = edited_with_a_late_delivery("Ignore").await;
    world.holds("web", "dev", 5).await;
    world.until_stage("web", "test", 60).await;
}

#[tokio::test(start_paused = true)]
async fn two_edits_in_a_row_are_both_owed_and_the_rollout_completes_on_the_last() {
    let world = at_dev_with_dev_2_starting_slowly(Pace::Fast).await;
    world.edit_deployment("web", image("web", 2)).await;
    world.pass(1).await;
    world.edit_deployment("web", image("web", 3)).await;
    world.holds("web", "dev", 100).await;
    world.until_phase("web", Phase::Completed, 400).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_made_anew_in_a_cluster_is_no_answer_before_it_is_available_there() {
    let world = at_dev_with_dev_2_starting_slowly(Pace::Fast).await;
    world.pass(60).await;
    world.edit_deployment("web", image("web", 2)).await;
    world.pass(5).await;
    world.clusters.remake("dev-2", &deployment_of("web")).unwrap();
    world.holds("web", "dev", 110).await;
    world.until_phase("web", Phase::Completed, 400).await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_create_only_alone_needs_no_new_answer() {
    let world = completed(Pace::Fast).await;
    let mut policy = world.policies().get("web").await.unwrap();
    policy.spec.downsync[0].create_only = true;
    world
        .edit_policy("web", json!({"spec": {"downsync": policy.spec.downsync}}))
        .await;
    world
        .until("web", 20, |status| status.phase != Some(Phase::Completed))
        .await;
    world.until_phase("web", Phase::Completed, 120).await;
    assert_eq!(world.clusters.truth().removals("prod-1", &deployment_of("web")), []);
}

/// When the transport begins to take half a minute for what belongs to the stage test.
#[derive(PartialEq)]
enum Late {
    Never,
    AfterTheClosedPlacement,
    FromTheStart,
}

/// `shared-1` is in dev and in test. It has the workload from dev, so that its report says nothing about test.
async fn a_shared_cluster_keeps_the_workload(late: Late) {
    let world = World::start(Pace::KubeStellar).await;
    world.apply(&shop()).await;
    let shared = cluster("shared-1", "dev", "{readyAfter: 1s}");
    world
        .apply(&shared.replacen("{env: dev}", "{env: dev, also: test}", 1))
        .await;
    world.apply(&workload("web")).await;
    if late == Late::FromTheStart {
        world.clusters.delay_hand_over("web.stage.test", 30_000);
    }
    let both = "clusterSelectors: [{matchLabels: {env: test}}, {matchLabels: {also: test}}]";
    world
        .apply(&policy("web").replacen("clusterSelectors: [{matchLabels: {env: test}}]", both, 1))
        .await;
    if late == Late::AfterTheClosedPlacement {
        let bindings: Api<Binding> = Api::all(world.client.clone());
        let taken = async || {
            let binding = bindings.get_opt("web.stage.test").await.unwrap();
            binding
                .and_then(|binding| binding.status)
                .is_some_and(|status| status.observed_generation > 0)
        };
        world.until_so("transport has taken the closed one", 30, taken).await;
        world.clusters.delay_hand_over("web.stage.test", 30_000);
    }
    world.until_phase("web", Phase::Completed, 300).await;
    world
        .until_so("earlier stages are left", 120, async || {
            world.open("web").await == ["prod"]
        })
        .await;
    world.pass(5).await;
    let truth = world.clusters.truth();
    assert_eq!(
        truth.gaps("shared-1", &deployment_of("web")),
        Vec::<SignedDuration>::new()
    );
    let arrived = truth
        .history
        .iter()
        .find(|change| change.cluster == "test-1")
        .unwrap()
        .at;
    let left = truth.removals("dev-1", &deployment_of("web"));
    assert!(
        left.len() == 1 && arrived < left[0],
        "dev is left only after test has it: {arrived} {left:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_shared_by_two_stages_never_loses_the_workload() {
    a_shared_cluster_keeps_the_workload(Late::Never).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_shared_by_two_stages_keeps_the_workload_when_the_hand_over_is_late() {
    a_shared_cluster_keeps_the_workload(Late::AfterTheClosedPlacement).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_shared_by_two_stages_keeps_the_workload_when_transport_was_late_all_the_time() {
    a_shared_cluster_keeps_the_workload(Late::FromTheStart).await;
}

#[tokio::test(start_paused = true)]
async fn a_network_policy_has_no_status_and_is_proven_by_its_report() {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world.apply(&format!("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: web, namespace: {NAMESPACE}, labels: {{app: web}}}}\nspec: {{podSelector: {{}}}}")).await;
    let text = policy("web").replace(
        "apiGroup: apps\n    resources: [deployments]",
        "apiGroup: networking.k8s.io\n    resources: [networkpolicies]",
    );
    // Nothing is returned, so a collector has nothing to take the minimum of: a count of the clusters must do.
    let text = text
        .replace("[worst, total]", "[present]")
        .replace("'worst'", "'present'")
        .replace(">= 2.0", ">= 1.0");
    world.apply("apiVersion: control.kubestellar.io/v1alpha1\nkind: StatusCollector\nmetadata: {name: present}\nspec:\n  combinedFields: [{name: clusters, type: COUNT}]\n  limit: 20").await;
    world.apply(&text).await;
    world.until_phase("web", Phase::Completed, 60).await;
    let policies: Api<NetworkPolicy> = Api::namespaced(world.client.clone(), NAMESPACE);
    assert!(policies.get("web").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_never_arrives_is_named_and_waited_for() {
    let mut world = at_dev_with_dev_2_starting_slowly(Pace::Fast).await;
    world.pass(5).await;
    world.stop_parts().await;
    world.edit_cluster("dev-2", json!({"unreachable": true})).await;
    world.start_parts().await;
    world.edit_deployment("web", image("web", 2)).await;
    world.pass(60).await;
    world.holds("web", "dev", 300).await;
    let status = world.status("web").await;
    assert!(said(&status).contains("dev-2"), "{}", said(&status));
}
