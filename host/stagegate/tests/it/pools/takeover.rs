//! Objects that OpenYurt's controller wrote before: they go on as they are.

use kube::ResourceExt as _;
use serde_json::{Value, json};
use stagegate_api::workloads::{TemplateType, YurtAppDaemon};

use super::world::{NAMESPACE, World, condition, daemon, edge, image};

/// What OpenYurt 1.6 leaves of a daemon in one pool: nulls and empty members in the revision, names with random ends, no digest of ours, the
/// pool's nodes alone, and a status without `collisionCount`.
async fn as_openyurt_left_it(world: &World) -> (YurtAppDaemon, Value) {
    let mut web = daemon("web");
    let template = &mut web["spec"]["workloadTemplate"]["deploymentTemplate"];
    template["metadata"]["creationTimestamp"] = Value::Null;
    template["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
    let recorded = template.clone();
    let found = world.create(&web).await.unwrap();
    let owner = json!([{
        "apiVersion": "apps.openyurt.io/v1alpha1", "kind": "YurtAppDaemon", "name": "web", "uid": found.metadata.uid, "controller": true,
        "blockOwnerDeletion": true,
    }]);
    let mut data = recorded.clone();
    data["metadata"]["creationTimestamp"] = Value::Null;
    data["spec"]["strategy"] = json!({});
    data["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    data["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({});
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"name": "web-5d9f8c7b6d", "namespace": NAMESPACE, "labels": {"app": "web"}, "ownerReferences": owner},
        "data": {"spec": {"workloadTemplate": {"deploymentTemplate": data, "$patch": "replace"}}}, "revision": 1,
    });
    let revisions: kube::Api<k8s_openapi::api::apps::v1::ControllerRevision> =
        kube::Api::namespaced(world.client.clone(), NAMESPACE);
    let revision = serde_json::from_value(revision).unwrap();
    revisions.create(&Default::default(), &revision).await.unwrap();
    let labels = json!({
        "app": "web", "apps.openyurt.io/pool-name": "hangzhou", "apps.openyurt.io/controller-revision-hash": "web-5d9f8c7b6d",
    });
    let mut spec = recorded["spec"].clone();
    spec["selector"] = json!({"matchLabels": {"app": "web", "apps.openyurt.io/pool-name": "hangzhou"}});
    spec["template"]["metadata"]["labels"] = labels.clone();
    spec["template"]["spec"]["nodeSelector"] = json!({"apps.openyurt.io/nodepool": "hangzhou"});
    spec["template"]["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
    spec["template"]["spec"]["containers"] =
        json!([spec["template"]["spec"]["containers"][0], {"name": "sidecar", "image": "side:1"}]);
    let child = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web-hangzhou-x7k2p", "namespace": NAMESPACE, "labels": labels, "ownerReferences": owner,
            "annotations": {"apps.openyurt.io/ref-nodepool": "hangzhou"},
        },
        "spec": spec,
    });
    let api = world.workloads(TemplateType::Deployment);
    let child = serde_json::from_value(child).unwrap();
    let child = api.create(&Default::default(), &child).await.unwrap();
    world.roll_out().await;
    (found, json!(child))
}

#[tokio::test(start_paused = true)]
async fn what_openyurt_left_is_taken_over_without_a_restart_and_changed_with_the_next_revision() {
    let mut world = World::start_without_controller(Some("v1beta1")).await;
    let pool = json!({
        "apiVersion": "apps.openyurt.io/v1beta1", "kind": "NodePool", "metadata": {"name": "hangzhou", "labels": edge()},
        "spec": {"taints": [{"key": "edge", "effect": "NoSchedule"}]},
    });
    let pool = serde_json::from_value(pool).unwrap();
    world
        .pools_in("v1beta1")
        .create(&Default::default(), &pool)
        .await
        .unwrap();
    let (_, before) = as_openyurt_left_it(&world).await;
    world.start_controller().await;
    let status = world.until_completed("web").await;
    assert_eq!(status.current_revision, "web-5d9f8c7b6d");
    assert_eq!(world.revisions().await.len(), 1);
    let after = world.deployment("hangzhou").await;
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(after["metadata"]["name"], before["metadata"]["name"]);
    assert_eq!(world.writes_in(60).await, 0);
    world.edit("web", image(2)).await;
    world.until_completed("web").await;
    let after = world.deployment("hangzhou").await;
    assert_eq!(after["metadata"]["name"], before["metadata"]["name"]);
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(
        after["spec"]["template"]["spec"]["containers"][0]["image"],
        json!("web:2")
    );
    let containers = after["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    assert_eq!(
        containers.len(),
        1,
        "what the template does not have goes: {containers:?}"
    );
    let tolerations = json!([{"key": "edge", "operator": "Exists", "effect": "NoSchedule"}]);
    assert_eq!(after["spec"]["template"]["spec"]["tolerations"], tolerations);
}

#[tokio::test(start_paused = true)]
async fn a_status_of_openyurts_is_read_and_replaced() {
    let mut world = World::start_without_controller(Some("v1beta2")).await;
    world.pool("hangzhou", edge()).await;
    world.create(&daemon("web")).await.unwrap();
    let status = json!({
        "observedGeneration": 1, "currentRevision": "web-old", "templateType": "Deployment", "nodepools": ["hangzhou"],
        "workloadSummary": [{"availableCondition": "True", "readyReplicas": 1, "replicas": 1, "workloadName": "web-hangzhou-x"}],
        "conditions": [{
            "type": "WorkLoadUpdated", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z", "reason": "", "message": "",
        }],
    });
    let patch = kube::api::Patch::Merge(json!({"status": status}));
    world
        .daemons()
        .patch_status("web", &Default::default(), &patch)
        .await
        .unwrap();
    world.start_controller().await;
    let status = world.until_completed("web").await;
    assert_eq!(condition(&status, "WorkLoadUpdated"), "True");
    assert_ne!(status.current_revision, "web-old");
}

#[tokio::test(start_paused = true)]
async fn under_openyurts_definition_which_prunes_status_there_is_no_loop_of_writes() {
    let mut world = World::start_without_controller(Some("v1beta2")).await;
    let definitions: kube::Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = kube::Api::all(world.client.clone());
    let mut definition = serde_json::to_value(&stagegate_api::crd::workloads()[0]).unwrap();
    let status =
        &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"];
    for ours in [
        "updateRevision",
        "phase",
        "reason",
        "totalWorkloads",
        "updatedWorkloads",
        "readyWorkloads",
    ] {
        assert!(status.as_object_mut().unwrap().remove(ours).is_some());
    }
    let patch = kube::api::Patch::Merge(json!({"spec": definition["spec"]}));
    definitions
        .patch("yurtappdaemons.apps.openyurt.io", &Default::default(), &patch)
        .await
        .unwrap();
    world.pool("hangzhou", edge()).await;
    world.start_controller().await;
    world.create(&daemon("web")).await.unwrap();
    world.pass(5).await;
    world.roll_out().await;
    world.pass(10).await;
    let found = world.deployments().await["hangzhou"].clone();
    assert!(!found.name_any().is_empty());
    assert_eq!(condition(&world.status("web").await, "Ready"), "True");
    assert!(world.events("web").await.contains("DefinitionOutdated"));
    let (requests, writes) = (world.tap.requests(), world.tap.writes());
    world.pass(600).await;
    assert_eq!(world.tap.writes(), writes);
    assert!(
        world.tap.requests() - requests < 300,
        "{}",
        world.tap.requests() - requests
    );
}
