//! Clusters that are sick, silent or dying: the stage waits, says which cluster it is, and nobody else is held up.

use kube::Api;
use serde_json::{Value, json};
use stagegate_api::{Phase, WorkStatus};

use crate::harness::{Pace, World, deployment_of, policy, said, shop, workload};

fn sick(status: Value) -> Value {
    json!({"rules": [{"kind": "Deployment", "name": "web", "status": status}]})
}

/// The policy waits at dev and names the cluster; another one, in the same clusters, completes meanwhile.
async fn waits_for(world: &World, cluster: &str) {
    world.apply(&workload("other")).await;
    world.apply(&policy("other")).await;
    world.holds("web", "dev", 60).await;
    let status = world.status("web").await;
    assert!(said(&status).contains(cluster), "{}", said(&status));
    assert!(!world.is_in("test-1", &deployment_of("web")));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_never_becomes_available_holds_its_stage_and_is_named() {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world
        .edit_cluster("dev-2", sick(json!({"availableReplicas": null})))
        .await;
    world.apply(&workload("web")).await;
    world.apply(&policy("web")).await;
    world.until_stage("web", "dev", 5).await;
    waits_for(&world, "dev-2").await;
    world.until_phase("other", Phase::Completed, 1).await;
    world.edit_cluster("dev-2", json!({"rules": []})).await;
    world.until_phase("web", Phase::Completed, 30).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_runs_too_little_makes_the_condition_false_and_the_policy_holding() {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world.edit_cluster("dev-2", sick(json!({"availableReplicas": 1}))).await;
    world.apply(&workload("web")).await;
    let ignoring = policy("web").replace("    condition:", "    health: Ignored\n    condition:");
    world.apply(&ignoring).await;
    world.until_phase("web", Phase::Holding, 20).await;
    world.holds("web", "dev", 60).await;
    assert_eq!(world.status("web").await.reason.as_deref(), Some("ConditionFalse"));
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_cluster_holds_its_stage_and_is_named() {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world.edit_cluster("dev-2", json!({"unreachable": true})).await;
    world.apply(&workload("web")).await;
    world.apply(&policy("web")).await;
    world.until_stage("web", "dev", 5).await;
    world.holds("web", "dev", 60).await;
    let status = world.status("web").await;
    assert!(said(&status).contains("dev-2"), "{}", said(&status));
    world.edit_cluster("dev-2", json!({"unreachable": false})).await;
    world.until_phase("web", Phase::Completed, 30).await;
}

/// KubeStellar counts destinations, whether or not anything was returned: the answer is 2 from the start.
#[tokio::test(start_paused = true)]
async fn a_count_of_clusters_is_true_before_any_has_answered_and_passes_nothing() {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world.edit_cluster("dev-2", json!({"unreachable": true})).await;
    world
        .apply(
            "\
apiVersion: control.kubestellar.io/v1alpha1
kind: StatusCollector
metadata: {name: present}
spec:
  combinedFields: [{name: clusters, type: COUNT}]
  limit: 20",
        )
        .await;
    world.apply(&workload("web")).await;
    world
        .apply(
            &policy("web")
                .replace("[worst, total]", "[present]")
                .replace("'worst'", "'present'")
                .replace(">= 2.0", ">= 1.0"),
        )
        .await;
    world.until_stage("web", "dev", 5).await;
    world.holds("web", "dev", 60).await;
    let status = world.status("web").await;
    assert_eq!(status.reason.as_deref(), Some("NotReported"), "{}", said(&status));
    assert!(said(&status).contains("dev-2"), "{}", said(&status));
    world.edit_cluster("dev-2", json!({"unreachable": false})).await;
    world.until_phase("web", Phase::Completed, 30).await;
}

/// When a CombinedStatus is written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    ComparedBothWays,
    /// As KubeStellar does it.
    ComparedOneWay,
}

/// dev passes its condition and soaks for two minutes; meanwhile a cluster dies.
async fn dies_while_its_stage_soaks(rows: Rows, die: impl AsyncFn(&World)) {
    let mut world = World::start(Pace::Fast).await;
    if rows == Rows::ComparedOneWay {
        world.restart_parts_that_compare_one_way().await;
    }
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    world
        .apply(&policy("web").replacen("    condition:", "    soak: 2m\n    condition:", 1))
        .await;
    world.until_stage("web", "dev", 5).await;
    world
        .until("web", 30, |status| {
            status.stages.iter().any(|stage| stage.passing_since.is_some())
        })
        .await;
    world.pass(60).await;
    die(&world).await;
    world.pass(5).await;
    world.holds("web", "dev", 600).await;
    let status = world.status("web").await;
    assert!(said(&status).contains("dev-2"), "{}", said(&status));
    assert!(!world.is_in("test-1", &deployment_of("web")));
    assert!(
        world.is_in("dev-1", &deployment_of("web")),
        "what is placed stays placed"
    );
}

async fn loses_its_counters(world: &World) {
    let status = json!({"availableReplicas": null, "readyReplicas": null});
    world
        .edit_cluster(
            "dev-2",
            json!({"readyAfter": "1s", "rules": [{"kind": "Deployment", "status": status}]}),
        )
        .await;
}

async fn loses_its_report(world: &World) {
    let reports: Api<WorkStatus> = Api::namespaced(world.client.clone(), "dev-2");
    for report in reports.list(&Default::default()).await.unwrap() {
        world.delete(&reports, report.metadata.name.as_deref().unwrap()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_dies_behind_a_minimum_after_having_been_well_does_not_pass() {
    dies_while_its_stage_soaks(Rows::ComparedBothWays, loses_its_counters).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_whose_report_vanishes_after_having_been_well_does_not_pass() {
    dies_while_its_stage_soaks(Rows::ComparedBothWays, loses_its_report).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_dies_does_not_pass_even_where_rows_are_compared_one_way() {
    dies_while_its_stage_soaks(Rows::ComparedOneWay, loses_its_counters).await;
}

#[tokio::test(start_paused = true)]
async fn a_vanished_report_does_not_pass_even_where_rows_are_compared_one_way() {
    dies_while_its_stage_soaks(Rows::ComparedOneWay, loses_its_report).await;
}
