//! Input that is wrong: the policy waits, a condition and an Event say what is wrong and where, what is placed stays
//! placed, and another policy completes meanwhile.

use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use stagegate_api::{BindingPolicy, CollectorResult, CombinedStatus, Phase, StagedBindingPolicy, label};

use crate::harness::{NAMESPACE, Pace, World, deployment_of, policy, said, shop, workload};

/// What must be said about the mistake.
struct Told<'a> {
    /// The reason word of the condition and of the Event.
    reason: &'a str,
    /// Words that the condition and the Event must contain: the thing and its place.
    words: &'a [&'a str],
}

/// `web` at dev, which cannot pass for two minutes.
async fn under_way(world: &World) {
    world.apply(&shop()).await;
    let slow = json!({"rules": [{"name": "web", "after": "2m"}]});
    world.edit_cluster("dev-2", slow).await;
    world.apply(&workload("web")).await;
    world.apply(&policy("web")).await;
    world.until_stage("web", "dev", 5).await;
    world
        .until_so("dev has it", 5, async || world.is_in("dev-1", &deployment_of("web")))
        .await;
}

/// `web` at dev, where all is well and only a soak of four minutes holds it.
async fn soaking(world: &World) {
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    world
        .apply(&policy("web").replacen("    condition:", "    soak: 4m\n    condition:", 1))
        .await;
    world
        .until("web", 30, |status| status.reason.as_deref() == Some("Soaking"))
        .await;
}

async fn set_first_stage(world: &World, member: &str, value: Value) {
    let mut stages = serde_json::to_value(world.policies().get("web").await.unwrap().spec.stages).unwrap();
    stages[0][member] = value;
    world.edit_policy("web", json!({"spec": {"stages": stages}})).await;
}

async fn another_completes(world: &World) {
    world.apply(&workload("other")).await;
    world.apply(&policy("other")).await;
    world.until_phase("other", Phase::Completed, 30).await;
}

async fn waits_and_tells(world: &World, told: Told<'_>) {
    another_completes(world).await;
    is_told(world, told).await;
}

async fn is_told(world: &World, told: Told<'_>) {
    // Longer than dev-2 or the soak needs: the mistake alone holds it by then.
    world.pass(600).await;
    let status = world.status("web").await;
    let conditions = said(&status);
    let events = world.events("web").await;
    let notes = events
        .get(told.reason)
        .unwrap_or_else(|| panic!("no Event {}: {events:?}\n{conditions}", told.reason));
    assert!(conditions.contains(told.reason), "no {} in\n{conditions}", told.reason);
    for word in told.words {
        assert!(conditions.contains(word), "no {word:?} in\n{conditions}");
    }
    // There is one Event for the reason, and it may have named another cluster.
    let is_told = |note: &String| told.words.iter().any(|word| note.contains(word));
    assert!(notes.iter().any(is_told), "no {:?} in {notes:?}", told.words);
    assert_ne!(status.phase, Some(Phase::Completed));
    assert!(
        world.is_in("dev-1", &deployment_of("web")),
        "what is placed stays placed"
    );
    assert!(
        world
            .clusters
            .truth()
            .removals("dev-1", &deployment_of("web"))
            .is_empty()
    );
    assert!(
        !world.is_in("test-1", &deployment_of("web")),
        "and nothing is placed on it"
    );
}

#[tokio::test(start_paused = true)]
async fn an_expression_that_does_not_parse() {
    let world = World::start(Pace::Fast).await;
    under_way(&world).await;
    set_first_stage(&world, "condition", json!("combinedStatus.results.exists(r,")).await;
    waits_and_tells(
        &world,
        Told {
            reason: "InvalidExpression",
            words: &["spec.stages[0].condition"],
        },
    )
    .await;
    set_first_stage(&world, "condition", json!("true")).await;
    world.until_phase("web", Phase::Completed, 30).await;
}

#[tokio::test(start_paused = true)]
async fn an_expression_with_an_unknown_variable() {
    let world = World::start(Pace::Fast).await;
    under_way(&world).await;
    set_first_stage(&world, "condition", json!("combindStatus.results.size() > 0")).await;
    let words = &["spec.stages[0].condition", "combindStatus", "combinedStatus"];
    waits_and_tells(
        &world,
        Told {
            reason: "InvalidExpression",
            words,
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_fails_when_evaluated() {
    let world = World::start(Pace::Fast).await;
    under_way(&world).await;
    set_first_stage(&world, "condition", json!("combinedStatus.nothing.here == 1")).await;
    waits_and_tells(
        &world,
        Told {
            reason: "ConditionError",
            words: &["nothing"],
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_combined_status_of_five_megabytes() {
    let mut world = World::start(Pace::Fast).await;
    soaking(&world).await;
    another_completes(&world).await;
    // The part that would put it right is away.
    world.stop_parts().await;
    let bulk = CollectorResult {
        name: "x".repeat(5 << 20),
        ..CollectorResult::default()
    };
    for mut combined in combined_of(&world, "web").await {
        combined.results.push(bulk.clone());
        world
            .combined()
            .replace(&combined.name_any(), &PostParams::default(), &combined)
            .await
            .unwrap();
    }
    is_told(
        &world,
        Told {
            reason: "CombinedStatusTooLarge",
            words: &["shop/", "deployments.apps"],
        },
    )
    .await;
}

async fn combined_of(world: &World, app: &str) -> Vec<CombinedStatus> {
    let of_app = ListParams::default().labels(&format!("{}={app}", label::NAME));
    world.combined().list(&of_app).await.unwrap().items
}

#[tokio::test(start_paused = true)]
async fn an_active_stage_that_is_renamed() {
    let world = World::start(Pace::Fast).await;
    under_way(&world).await;
    set_first_stage(&world, "name", json!("development")).await;
    waits_and_tells(
        &world,
        Told {
            reason: "ActiveStageRemoved",
            words: &["dev"],
        },
    )
    .await;
    set_first_stage(&world, "name", json!("dev")).await;
    world.until_phase("web", Phase::Completed, 60).await;
}

#[tokio::test(start_paused = true)]
async fn a_binding_policy_of_the_next_stages_name_that_is_somebody_elses() {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    let foreign = BindingPolicy::new("web.stage.test", Default::default());
    world
        .binding_policies()
        .create(&PostParams::default(), &foreign)
        .await
        .unwrap();
    let slow = json!({"rules": [{"name": "web", "after": "1m"}]});
    world.edit_cluster("dev-2", slow).await;
    world.apply(&workload("web")).await;
    world.apply(&policy("web")).await;
    world.until_stage("web", "dev", 5).await;
    waits_and_tells(
        &world,
        Told {
            reason: "BindingPolicyNotOwned",
            words: &["web.stage.test"],
        },
    )
    .await;
    assert!(
        world
            .binding_policies()
            .get("web.stage.test")
            .await
            .unwrap()
            .owner_references()
            .is_empty()
    );
    world.delete(&world.binding_policies(), "web.stage.test").await;
    world.until_phase("web", Phase::Completed, 60).await;
}

#[tokio::test(start_paused = true)]
async fn a_status_collector_that_does_not_exist() {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    world
        .apply(&policy("web").replace("[worst, total]", "[worst, totla]"))
        .await;
    world.until_stage("web", "dev", 5).await;
    waits_and_tells(
        &world,
        Told {
            reason: "StatusCollectorMissing",
            words: &["totla"],
        },
    )
    .await;
    world.apply("apiVersion: control.kubestellar.io/v1alpha1\nkind: StatusCollector\nmetadata: {name: totla}\nspec:\n  combinedFields: [{name: count, type: COUNT}]\n  limit: 20").await;
    world.until_phase("web", Phase::Completed, 60).await;
}

#[tokio::test(start_paused = true)]
async fn a_collector_whose_expression_fails_in_one_cluster() {
    let world = World::start(Pace::Fast).await;
    soaking(&world).await;
    let rule = json!({"kind": "Deployment", "name": "web", "status": {"availableReplicas": "two"}});
    world.edit_cluster("dev-2", json!({"rules": [rule]})).await;
    world
        .edit_collector(
            "total",
            json!({"combinedFields": [
                {"name": "available", "type": "SUM", "subject": "returned.status.availableReplicas + 0"},
            ]}),
        )
        .await;
    waits_and_tells(
        &world,
        Told {
            reason: "RowError",
            words: &["total", "dev-2"],
        },
    )
    .await;
}

/// The stored text is what some other version of the definition let in.
#[tokio::test(start_paused = true)]
async fn a_policy_that_does_not_decode() {
    let world = World::start_loose("stagedbindingpolicies").await;
    under_way(&world).await;
    let raw: Api<DynamicObject> = Api::all_with(world.client.clone(), &ApiResource::erase::<StagedBindingPolicy>(&()));
    let broken = json!({"spec": {"stages": "dev, test and prod"}});
    raw.patch("web", &PatchParams::default(), &Patch::Merge(broken))
        .await
        .unwrap();
    world.apply(&workload("other")).await;
    world.apply(&policy("other")).await;
    world.until_phase("other", Phase::Completed, 30).await;
    world.pass(180).await;
    assert!(world.is_in("dev-1", &deployment_of("web")) && !world.is_in("test-1", &deployment_of("web")));
    let events = world.events("web").await;
    assert!(events.contains_key("InvalidObject"), "{events:?}");
    let stored = serde_json::to_value(raw.get("web").await.unwrap()).unwrap();
    assert!(stored["status"].to_string().contains("InvalidObject"), "{stored}");
}

#[tokio::test(start_paused = true)]
async fn a_combined_status_that_does_not_decode() {
    let mut world = World::start_loose("combinedstatuses").await;
    soaking(&world).await;
    another_completes(&world).await;
    world.stop_parts().await;
    let raw: Api<DynamicObject> = Api::namespaced_with(
        world.client.clone(),
        NAMESPACE,
        &ApiResource::erase::<CombinedStatus>(&()),
    );
    for combined in combined_of(&world, "web").await {
        let broken = Patch::Merge(json!({"results": "all is well"}));
        raw.patch(&combined.name_any(), &PatchParams::default(), &broken)
            .await
            .unwrap();
    }
    is_told(
        &world,
        Told {
            reason: "InvalidObject",
            words: &["CombinedStatus shop/", "cannot be read"],
        },
    )
    .await;
}
