//! Bad input: what the definition refuses, what status tells, and what goes on all the same.

use kube::ResourceExt as _;
use serde_json::{Value, json};
use stagegate_api::workloads::TemplateType;
use stagegate_embedded::{Fault, FaultAnswer};

use super::world::{NAMESPACE, World, condition, daemon, edge, image, message, stateful};

fn at<'v>(object: &'v mut Value, path: &str) -> &'v mut Value {
    path.split('.').fold(object, |object, member| &mut object[member])
}

#[tokio::test(start_paused = true)]
async fn the_definition_refuses_what_could_never_work_and_names_the_field() {
    let world = World::start_without_controller(Some("v1beta2")).await;
    let template = "spec.workloadTemplate.deploymentTemplate";
    let with = |path: &str, value: Value| {
        let mut web = daemon("web");
        *at(&mut web, path) = value;
        web
    };
    let both = {
        let mut web = daemon("web");
        let other = stateful("web")["spec"]["workloadTemplate"]["statefulSetTemplate"].clone();
        web["spec"]["workloadTemplate"]["statefulSetTemplate"] = other;
        web
    };
    let mut partition = stateful("web");
    partition["spec"]["workloadTemplate"]["statefulSetTemplate"]["spec"]["updateStrategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
    let cases = [
        (
            with("spec.workloadTemplate", json!({})),
            "spec.workloadTemplate: needs exactly one",
        ),
        (both, "spec.workloadTemplate: needs exactly one"),
        (with("spec.selector", json!({})), "spec.selector: must not be empty"),
        (
            with(&format!("{template}.metadata.labels"), json!({"app": "other"})),
            "spec.workloadTemplate.deploymentTemplate.metadata.labels: spec.selector must match them",
        ),
        (
            with(&format!("{template}.spec.template.metadata"), json!({})),
            "spec.workloadTemplate.deploymentTemplate.spec.template.metadata.labels: spec.selector must match them",
        ),
        (with(&format!("{template}.spec.replicas"), json!(-1)), "replicas"),
        (with("spec.revisionHistoryLimit", json!(-1)), "revisionHistoryLimit"),
        (partition, "updateStrategy.rollingUpdate.partition: is not supported"),
    ];
    for (object, expected) in cases {
        let refused = world.create_raw(&object).await.unwrap_err().to_string();
        assert!(refused.contains(expected), "{expected}\n{refused}");
    }
    world.create(&daemon("web")).await.unwrap();
    let edits = [
        (
            json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}}),
            "spec.selector: cannot be changed",
        ),
        (
            json!({"spec": {"workloadTemplate": {
                "deploymentTemplate": null, "statefulSetTemplate": stateful("web")["spec"]["workloadTemplate"]["statefulSetTemplate"],
            }}}),
            "spec.workloadTemplate: the kind cannot be changed",
        ),
    ];
    for (patch, expected) in edits {
        let patch = kube::api::Patch::Merge(patch);
        let refused = world
            .daemons()
            .patch("web", &Default::default(), &patch)
            .await
            .unwrap_err();
        assert!(refused.to_string().contains(expected), "{expected}\n{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_the_server_refuses_is_told_by_pool_and_field_and_holds_up_no_other_pool() {
    let world = World::start().await;
    for pool in ["beijing", "hangzhou"] {
        world.pool(pool, edge()).await;
    }
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "no-beijing"},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"], "operations": ["CREATE", "UPDATE"]},
            ]},
            "validations": [{
                "expression": "object.metadata.labels['apps.openyurt.io/pool-name'] != 'beijing'", "message": "secret: hunter2",
            }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "no-beijing"},
        "spec": {"policyName": "no-beijing", "validationActions": ["Deny"]},
    });
    world.create_any(&policy).await;
    world.create_any(&binding).await;
    world.create(&daemon("web")).await.unwrap();
    world.pass(5).await;
    world.roll_out().await;
    let status = world.until("web", 5, |status| status.updated_workloads == 1).await;
    assert_eq!(world.deployments().await.keys().collect::<Vec<_>>(), ["hangzhou"]);
    assert_eq!(status.reason.as_deref(), Some("WorkloadRefused"));
    assert_eq!(condition(&status, "WorkLoadFailure"), "True");
    assert_eq!(condition(&status, "WorkLoadProvisioned"), "False");
    let text = message(&status, "WorkLoadFailure");
    assert!(
        text.starts_with("pool beijing: the API server refused its workload: 422"),
        "{text}"
    );
    assert!(!text.contains("hunter2"), "{text}");
    assert!(world.events("web").await.contains("WorkloadRefused"));
    let before = world.tap.writes();
    world.pass(55).await;
    assert!(world.tap.writes() - before <= 2, "it is not tried again all the time");
    let api: kube::Api<k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding> =
        kube::Api::all(world.client.clone());
    super::world::delete(&api, "no-beijing").await;
    world.pass(70).await;
    world.until_completed("web").await;
    assert_eq!(world.deployments().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pool_with_too_long_a_name_and_a_name_that_is_taken_hold_up_no_other_pool() {
    let world = World::start().await;
    let long = "p".repeat(64);
    world.pool(&long, edge()).await;
    world.pool("hangzhou", edge()).await;
    world.create(&daemon("web")).await.unwrap();
    world.pass(3).await;
    world.roll_out().await;
    let status = world.until("web", 5, |status| status.updated_workloads == 1).await;
    assert_eq!(status.reason.as_deref(), Some("PoolSkipped"));
    let text = message(&status, "Ready");
    assert!(
        text.contains(&format!("pool {long} has a name of more than 63 characters")),
        "{text}"
    );
    assert!(condition(&status, "WorkLoadFailure") == "True");
    super::world::delete(&world.pools(), &long).await;
    world.until_completed("web").await;
    // An object of another owner has the name that the workload would get.
    let name = world.deployments().await["hangzhou"].name_any();
    let mut taken = world.deployment("hangzhou").await;
    world
        .edit(
            "web",
            json!({"spec": {"nodepoolSelector": {"matchLabels": {"tier": "nowhere"}}}}),
        )
        .await;
    world.pass(60).await;
    assert!(world.deployments().await.is_empty());
    taken["metadata"] = json!({"name": name, "namespace": NAMESPACE});
    taken.as_object_mut().unwrap().remove("status");
    let foreign = serde_json::from_value(taken).unwrap();
    let api = world.workloads(TemplateType::Deployment);
    let foreign = api.create(&Default::default(), &foreign).await.unwrap();
    world
        .edit(
            "web",
            json!({"spec": {"nodepoolSelector": {"matchLabels": {"tier": "edge"}}}}),
        )
        .await;
    let status = world
        .until("web", 10, |status| status.reason.as_deref() == Some("PoolSkipped"))
        .await;
    let text = message(&status, "Ready");
    assert!(text.contains("does not belong to this YurtAppDaemon"), "{text}");
    let after = api.get(&name).await.unwrap();
    assert_eq!(after.metadata.resource_version, foreign.metadata.resource_version);
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_the_definition_would_refuse_today_moves_nothing() {
    let mut world = World::start_loose().await;
    world.pool("hangzhou", edge()).await;
    world.create(&daemon("web")).await.unwrap();
    world.start_controller().await;
    world.until_completed("web").await;
    let before = world.deployment("hangzhou").await["metadata"]["resourceVersion"].clone();
    let bad = [
        json!({"spec": {"nodepoolSelector": {"matchLabels": null, "matchExpressions": [{"key": "a", "operator": "Near"}]}}}),
        json!({"spec": {"workloadTemplate": {"deploymentTemplate": {"spec": null}}}}),
    ];
    for patch in bad {
        world.edit("web", patch).await;
        let status = world
            .until("web", 5, |status| status.reason.as_deref() == Some("InvalidSpec"))
            .await;
        assert_eq!(condition(&status, "Accepted"), "False");
        assert_eq!(condition(&status, "Stalled"), "True");
        assert!(
            message(&status, "Ready").starts_with("spec."),
            "{}",
            message(&status, "Ready")
        );
    }
    world.edit("web", image(3)).await;
    assert_eq!(
        world.deployment("hangzhou").await["metadata"]["resourceVersion"],
        before
    );
}

#[tokio::test(start_paused = true)]
async fn a_template_that_does_not_fit_its_kind_is_told_without_what_it_holds() {
    let world = World::start().await;
    world.pool("hangzhou", edge()).await;
    let mut web = daemon("web");
    let env = json!({"name": "PASSWORD", "value": "hunter2"});
    web["spec"]["workloadTemplate"]["deploymentTemplate"]["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([env, env]);
    world.create(&web).await.unwrap();
    let status = world
        .until("web", 10, |status| status.reason.as_deref() == Some("WorkloadRefused"))
        .await;
    let text = message(&status, "WorkLoadFailure");
    assert!(
        text.starts_with("pool hangzhou: the API server refused its workload: 500"),
        "{text}"
    );
    for event in world.notes("web").await {
        assert!(!event.contains("hunter2") && !event.contains("PASSWORD"), "{event}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_the_server_refuses_is_told_and_tried_again() {
    let world = World::start().await;
    world.pool("hangzhou", edge()).await;
    world.server.inject(Fault {
        times: 3,
        ..Fault::new("create", "controllerrevisions.apps", FaultAnswer::Status(403))
    });
    world.create(&daemon("web")).await.unwrap();
    let status = world
        .until("web", 10, |status| status.reason.as_deref() == Some("RevisionRefused"))
        .await;
    assert_eq!(condition(&status, "Ready"), "False");
    assert!(world.deployments().await.is_empty());
    world.pass(240).await;
    world.until_completed("web").await;
}
