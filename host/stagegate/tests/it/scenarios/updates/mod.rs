//! Staged updates: an edit of the workload goes through the stages like the first version, and stages that it has not reached keep what
//! they have.

mod broken;
mod moments;

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;
use stagegate_api::{ADMITTED_VERSIONS, Binding, Phase, StageState};

use crate::harness::{NAMESPACE, Pace, World, deployment_of, image, said, shop, staged, state_of, workload};

/// Version 1 is in all stages.
pub async fn at_version_1(pace: Pace) -> World {
    let world = World::start_held(pace).await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    world.apply(&staged("web")).await;
    world.until_phase("web", Phase::Completed, 180).await;
    world
}

/// The tags of the image that the cluster has run since the start, in this order, each once.
fn ran(world: &World, cluster: &str) -> Vec<String> {
    let truth = world.clusters.truth();
    let of_it = truth
        .fared
        .iter()
        .filter(|fared| fared.cluster == cluster && fared.object == deployment_of("web"));
    let mut tags: Vec<String> = Vec::new();
    for fared in of_it {
        let image = fared.spec["template"]["spec"]["containers"][0]["image"]
            .as_str()
            .unwrap_or_default();
        let tag = image.rsplit(':').next().unwrap_or_default().to_owned();
        if tags.last() != Some(&tag) {
            tags.push(tag);
        }
    }
    tags
}

/// Edits the image, and waits until the first stage is evaluated with it.
async fn edited(world: &World, tag: u32) {
    world.edit_deployment("web", image("web", tag)).await;
    world.until_phase("web", Phase::Progressing, 30).await;
    world.until_stage("web", "dev", 30).await;
}

async fn binding(world: &World, stage: &str) -> Binding {
    let bindings: Api<Binding> = Api::all(world.client.clone());
    bindings.get(&format!("web.stage.{stage}")).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn version_2_goes_through_three_stages_and_each_keeps_version_1_until_its_turn() {
    let world = at_version_1(Pace::Fast).await;
    let before = world.status("web").await;
    let revision = before.stages[0].revision.clone();
    for cluster in ["dev-2", "test-1"] {
        world.edit_cluster(cluster, json!({"readyAfter": "30s"})).await;
    }
    world.edit_deployment("web", image("web", 2)).await;
    world.until_stage("web", "dev", 10).await;
    world
        .until_so("dev runs version 2", 20, async || ran(&world, "dev-1") == ["1", "2"])
        .await;
    world.holds("web", "dev", 20).await;
    assert_eq!(ran(&world, "test-1"), ["1"]);
    let status = world.status("web").await;
    assert_ne!(status.stages[0].revision, revision);
    assert_eq!(state_of(&status, "prod"), Some(StageState::Outdated));
    assert_eq!(
        status.stages[2].objects, before.stages[2].objects,
        "what prod has is on record"
    );
    world.until_stage("web", "test", 60).await;
    world
        .until_so("test runs version 2", 20, async || ran(&world, "test-1") == ["1", "2"])
        .await;
    world.holds("web", "test", 20).await;
    assert_eq!(ran(&world, "prod-1"), ["1"]);
    world.until_phase("web", Phase::Completed, 120).await;
    for cluster in ["dev-1", "dev-2", "test-1", "prod-1", "prod-2"] {
        assert_eq!(ran(&world, cluster), ["1", "2"], "{cluster}");
        assert_eq!(world.clusters.truth().removals(cluster, &deployment_of("web")), []);
    }
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_is_taken_back_brings_dev_back_and_never_touches_the_other_stages() {
    let world = at_version_1(Pace::Fast).await;
    let stuck = json!({"rules": [{"image": "registry.example/web:2", "progressing": "Stuck"}]});
    for cluster in ["dev-1", "dev-2"] {
        world.edit_cluster(cluster, stuck.clone()).await;
    }
    let held = || {
        ["test-1", "prod-1", "prod-2"]
            .map(|cluster| world.clusters.truth().present(cluster, &deployment_of("web")).cloned())
    };
    let before = held();
    world.edit_deployment("web", image("web", 2)).await;
    world
        .until_so("dev has version 2", 30, async || ran(&world, "dev-1") == ["1", "2"])
        .await;
    world.holds("web", "dev", 120).await;
    world.edit_deployment("web", image("web", 1)).await;
    world
        .until_so("dev is back at version 1", 30, async || {
            ran(&world, "dev-1") == ["1", "2", "1"]
        })
        .await;
    world.until_phase("web", Phase::Completed, 60).await;
    for cluster in ["test-1", "prod-1", "prod-2"] {
        assert_eq!(ran(&world, cluster), ["1"], "{cluster}");
    }
    assert_eq!(before, held(), "nothing has changed in the other stages");
}

#[tokio::test(start_paused = true)]
async fn version_3_during_version_2_starts_again_in_the_first_stage() {
    let world = at_version_1(Pace::Fast).await;
    world.edit_cluster("test-1", json!({"readyAfter": "40s"})).await;
    world.edit_deployment("web", image("web", 2)).await;
    world.until_stage("web", "test", 60).await;
    world.edit_deployment("web", image("web", 3)).await;
    world.until_stage("web", "dev", 20).await;
    world.until_phase("web", Phase::Completed, 240).await;
    assert_eq!(ran(&world, "dev-1"), ["1", "2", "3"]);
    assert_eq!(ran(&world, "prod-1"), ["1", "3"], "version 2 has not passed test");
    assert!(world.events("web").await.contains_key("StagePassed"));
}

#[tokio::test(start_paused = true)]
async fn version_3_before_version_2_has_passed_dev_is_told_of() {
    let world = at_version_1(Pace::Fast).await;
    world.edit_cluster("dev-2", json!({"readyAfter": "40s"})).await;
    world.edit_deployment("web", image("web", 2)).await;
    world
        .until_so("dev has version 2", 30, async || ran(&world, "dev-1") == ["1", "2"])
        .await;
    world.edit_deployment("web", image("web", 3)).await;
    world
        .until_so("dev has version 3", 30, async || {
            ran(&world, "dev-1") == ["1", "2", "3"]
        })
        .await;
    assert!(world.events("web").await.contains_key("Superseded"));
    world.until_phase("web", Phase::Completed, 240).await;
    assert_eq!(ran(&world, "test-1"), ["1", "3"]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_the_host_at_any_moment_of_an_update_skips_no_stage() {
    for seconds in [0, 1, 2, 3, 5, 8, 13] {
        let mut world = at_version_1(Pace::Fast).await;
        world.edit_cluster("test-1", json!({"readyAfter": "20s"})).await;
        world.edit_deployment("web", image("web", 2)).await;
        world.pass(seconds).await;
        world.restart_host().await;
        world.until_stage("web", "test", 60).await;
        assert_eq!(ran(&world, "prod-1"), ["1"]);
        world.until_phase("web", Phase::Completed, 120).await;
        assert_eq!(ran(&world, "prod-1"), ["1", "2"], "restarted after {seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_admission_policy_nothing_is_opened_and_status_says_why() {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    world.apply(&staged("web")).await;
    world
        .until("web", 30, |status| status.reason.as_deref() == Some("HoldsNotEnforced"))
        .await;
    world.pass(600).await;
    let status = world.status("web").await;
    assert_eq!(status.phase, Some(Phase::Stalled));
    assert!(
        said(&status).contains("deploy/kustomize/staged-updates"),
        "{}",
        said(&status)
    );
    assert_eq!(world.open("web").await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn when_the_admission_policy_is_taken_away_nothing_more_is_released() {
    let world = at_version_1(Pace::Fast).await;
    let bound: Api<ValidatingAdmissionPolicyBinding> = Api::all(world.client.clone());
    world.delete(&bound, "stagegate-held-bindings").await;
    world
        .until("web", 400, |status| {
            status.reason.as_deref() == Some("HoldsNotEnforced")
        })
        .await;
    assert_eq!(world.status("web").await.phase, Some(Phase::Stalled));
    world.edit_deployment("web", image("web", 2)).await;
    let (writes, begun) = (world.tap.writes(), world.tap.calls().len());
    world.pass(600).await;
    let written = world.tap.writes() - writes;
    assert!(written < 40, "{written} writes in ten minutes");
    let asked = world.tap.calls().len() - begun;
    assert!(asked < 400, "{asked} requests in ten minutes");
    assert!(
        world.events("web").await.contains_key("HoldBroken"),
        "all stages have got the edit"
    );
    let (_, binding) = stagegate::held_bindings::shipped();
    bound.create(&Default::default(), &binding).await.unwrap();
    world
        .until("web", 60, |status| status.reason.as_deref() != Some("HoldsNotEnforced"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_secret_goes_through_the_stages_although_no_cluster_reports_on_it() {
    let world = World::start_held(Pace::Fast).await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    let config = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: web, namespace: {NAMESPACE}, labels: {{app: web}}}}\ndata: {{a: one}}"
    );
    world.apply(&config).await;
    let both = "  - {apiGroup: '', resources: [configmaps], objectSelectors: [{matchLabels: {app: web}}]}\n  stages:";
    world.apply(&staged("web").replace("  stages:", both)).await;
    world.until_phase("web", Phase::Completed, 120).await;
    world.edit_cluster("dev-2", json!({"readyAfter": "1s"})).await;
    let configs: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(world.client.clone(), NAMESPACE);
    let of = |cluster: &str| {
        let object = stagegate_embedded::clusters::ObjectRef::namespaced("", "configmaps", NAMESPACE, "web");
        world
            .clusters
            .truth()
            .present(cluster, &object)
            .map(|present| present.digest.clone())
    };
    let (dev, prod) = (of("dev-1"), of("prod-1"));
    world.edit_policy("web", json!({"spec": {"paused": true}})).await;
    world.merge(&configs, "web", json!({"data": {"a": "two"}})).await;
    world.pass(60).await;
    assert_eq!(
        (of("dev-1"), of("prod-1")),
        (dev.clone(), prod.clone()),
        "paused: nothing is released"
    );
    world.edit_policy("web", json!({"spec": {"paused": false}})).await;
    world
        .until_so("dev has the other value", 60, async || of("dev-1") != dev)
        .await;
    world.until_phase("web", Phase::Completed, 180).await;
    assert_ne!(of("prod-1"), prod);
    for stage in world.status("web").await.stages {
        let message = stage.message.unwrap_or_default();
        let told = "no status tells whether the last update of configmaps shop/web arrived in the clusters";
        assert!(message.contains(told), "{}: {message}", stage.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_joins_a_held_stage_gets_the_version_of_the_stage() {
    let world = at_version_1(Pace::Fast).await;
    world
        .apply(&crate::harness::cluster("prod-3", "prod", "{readyAfter: 1s}"))
        .await;
    world
        .until_so("prod-3 has version 1", 30, async || ran(&world, "prod-3") == ["1"])
        .await;
    edited(&world, 2).await;
    world.until_phase("web", Phase::Completed, 240).await;
    assert_eq!(ran(&world, "prod-3"), ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn the_switch_to_staged_holds_what_is_placed_and_the_switch_back_lets_it_go() {
    let world = World::start_held(Pace::Fast).await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    world.apply(&staged("web").replace("  updates: Staged\n", "")).await;
    world.until_phase("web", Phase::Completed, 120).await;
    world.edit_policy("web", json!({"spec": {"updates": "Staged"}})).await;
    world.until_phase("web", Phase::Progressing, 30).await;
    world.until_phase("web", Phase::Completed, 240).await;
    let lists = async |stages: [&str; 3]| {
        let mut lists = BTreeSet::new();
        for stage in stages {
            let annotations = binding(&world, stage).await.metadata.annotations.unwrap_or_default();
            lists.insert(annotations.get(ADMITTED_VERSIONS).cloned());
        }
        lists
    };
    let held = lists(["dev", "test", "prod"]).await;
    assert!(held.len() == 1 && held.iter().all(Option::is_some), "{held:?}");
    for cluster in ["dev-1", "test-1", "prod-1"] {
        assert_eq!(ran(&world, cluster), ["1"]);
        assert_eq!(world.clusters.truth().removals(cluster, &deployment_of("web")), []);
    }
    world
        .edit_policy("web", json!({"spec": {"updates": "Immediate", "paused": true}}))
        .await;
    world.pass(60).await;
    assert_eq!(lists(["dev", "test", "prod"]).await, held, "a pause keeps holds");
    world.edit_policy("web", json!({"spec": {"paused": false}})).await;
    world.pass(60).await;
    assert_eq!(lists(["dev", "test", "prod"]).await, BTreeSet::from([None]));
    let placements = world.binding_policies().get_opt("web.versions").await.unwrap();
    assert!(placements.is_none(), "nothing needs the newest versions any more");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_taken_away_is_put_back_as_the_binding_is() {
    let world = at_version_1(Pace::Fast).await;
    let bindings: Api<Binding> = Api::all(world.client.clone());
    let without = json!({"metadata": {"annotations": {ADMITTED_VERSIONS: null}}});
    world.merge(&bindings, "web.stage.prod", without).await;
    world
        .until_so("it is held again", 5, async || {
            let annotations = binding(&world, "prod").await.metadata.annotations.unwrap_or_default();
            annotations.contains_key(ADMITTED_VERSIONS)
        })
        .await;
    world.pass(5).await;
    assert!(world.events("web").await.contains_key("HoldBroken"));
    world.edit_deployment("web", image("web", 2)).await;
    world.pass(2).await;
    assert_eq!(ran(&world, "prod-1"), ["1"]);
}

/// The number of writes that the API server has taken so far.
async fn writes(world: &World) -> u64 {
    let all = world.combined().list(&ListParams::default()).await.unwrap();
    all.metadata.resource_version.unwrap().parse().unwrap()
}

/// Version 1 is deleted and stays in all clusters; then the object is there again.
async fn deleted_and_created_again(as_version: u32) -> World {
    let world = at_version_1(Pace::Fast).await;
    world.delete(&world.deployments(), "web").await;
    world
        .until("web", 60, |status| {
            ["VersionsUnknown", "NoObjects"].contains(&status.reason.as_deref().unwrap_or_default())
        })
        .await;
    world.pass(10).await;
    let before = writes(&world).await;
    world.pass(60).await;
    let writes = writes(&world).await - before;
    assert!(writes < 30, "{writes} writes in a minute in which nothing happens");
    for cluster in ["dev-1", "prod-1"] {
        assert!(world.is_in(cluster, &deployment_of("web")), "{cluster}");
    }
    world
        .apply(&workload("web").replace("web:1", &format!("web:{as_version}")))
        .await;
    world
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_and_created_again_goes_through_the_stages() {
    let world = deleted_and_created_again(2).await;
    world.until_stage("web", "test", 120).await;
    assert_eq!(ran(&world, "prod-1"), ["1"]);
    world.until_phase("web", Phase::Completed, 300).await;
    assert_eq!(ran(&world, "prod-1"), ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_and_created_again_as_it_was_waits_for_reports_about_it() {
    let world = deleted_and_created_again(1).await;
    // Clusters have the same object as before and nothing new to report.
    world
        .until("web", 120, |status| status.reason.as_deref() == Some("NotReported"))
        .await;
    world.edit_deployment("web", image("web", 2)).await;
    world.until_phase("web", Phase::Completed, 300).await;
    assert_eq!(ran(&world, "prod-1"), ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn a_label_that_clusters_do_not_report_goes_through_the_stages_without_an_acknowledgement() {
    let world = at_version_1(Pace::Fast).await;
    let held = |cluster: &str| world.clusters.truth().present(cluster, &deployment_of("web")).cloned();
    let before = ["dev-1", "test-1", "prod-1"].map(held);
    world
        .edit_cluster("dev-2", json!({"rules": [{"status": {"availableReplicas": 0}}]}))
        .await;
    world.pass(5).await;
    world
        .edit_deployment("web", json!({"metadata": {"labels": {"team": "a"}}}))
        .await;
    world
        .until_so("dev has the label", 30, async || held("dev-1") != before[0])
        .await;
    world.pass(60).await;
    assert_eq!([held("test-1"), held("prod-1")], [before[1].clone(), before[2].clone()]);
    world.edit_cluster("dev-2", json!({"rules": []})).await;
    world
        .until_so("prod has the label", 60, async || held("prod-1") != before[2])
        .await;
    world.until_phase("web", Phase::Completed, 60).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_status_says_is_no_new_version() {
    let world = at_version_1(Pace::Fast).await;
    let before = world.status("web").await;
    let deployments = world.deployments();
    for replicas in 1..4 {
        let status = kube::api::Patch::Merge(json!({"status": {"replicas": replicas}}));
        deployments
            .patch_status("web", &Default::default(), &status)
            .await
            .unwrap();
        world.pass(40).await;
        let status = world.status("web").await;
        assert_eq!(
            (status.phase, &status.stages[0].revision),
            (before.phase, &before.stages[0].revision)
        );
    }
    // A cluster that joins has to be admitted at the version that KubeStellar names now.
    world
        .apply(&crate::harness::cluster("prod-3", "prod", "{readyAfter: 1s}"))
        .await;
    world
        .until_so("prod-3 has version 1", 60, async || ran(&world, "prod-3") == ["1"])
        .await;
}

#[tokio::test(start_paused = true)]
async fn two_stages_that_share_a_cluster_get_no_two_versions() {
    let world = at_version_1(Pace::Fast).await;
    let both = crate::harness::cluster("both-1", "dev", "{readyAfter: 1s}").replacen(
        "{env: dev}",
        "{env: dev, also: prod}",
        1,
    );
    let stages = json!(world.policies().get("web").await.unwrap().spec.stages);
    let mut stages = stages;
    stages[2]["clusterSelectors"] = json!([{"matchLabels": {"env": "prod"}}, {"matchLabels": {"also": "prod"}}]);
    world.edit_policy("web", json!({"spec": {"stages": stages}})).await;
    world.apply(&both).await;
    world
        .until_so("both-1 has version 1", 120, async || ran(&world, "both-1") == ["1"])
        .await;
    world.until_phase("web", Phase::Completed, 120).await;
    world.edit_deployment("web", image("web", 2)).await;
    world
        .until("web", 60, |status| status.reason.as_deref() == Some("SharedCluster"))
        .await;
    world.pass(60).await;
    assert_eq!(world.status("web").await.phase, Some(Phase::Stalled));
    for cluster in ["dev-1", "both-1", "prod-1"] {
        assert_eq!(ran(&world, cluster), ["1"], "{cluster}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_is_opened_on_a_cluster_of_a_later_stage_is_not_evaluated() {
    let world = World::start_held(Pace::Fast).await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    let moving = staged("web").replace("  previousStages: Keep\n", "");
    let growing = moving.replacen(
        "[{matchLabels: {env: prod}}]",
        "[{matchLabels: {env: prod}}, {matchLabels: {env: dev}}]",
        1,
    );
    world.apply(&growing).await;
    world.until_phase("web", Phase::Completed, 180).await;
    world.pass(10).await;
    assert_eq!(world.open("web").await, ["prod"]);
    world.edit_deployment("web", image("web", 2)).await;
    world
        .until("web", 60, |status| status.reason.as_deref() == Some("SharedCluster"))
        .await;
    world.pass(120).await;
    assert_eq!(world.status("web").await.phase, Some(Phase::Stalled));
    assert_eq!(ran(&world, "prod-1"), ["1"]);
    assert!(!world.is_in("test-1", &deployment_of("web")));
}
