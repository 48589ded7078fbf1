//! Clusters that are fed by the ManifestWorks of their mailbox namespaces, in virtual time: what they hold, and what a ManifestWork says then.

use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use stagegate_embedded::clusters::Source;

use crate::clusters::{World, after, web};

fn works(world: &World, cluster: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("work.open-cluster-management.io", "v1", "ManifestWork");
    Api::namespaced_with(world.client.clone(), cluster, &ApiResource::from_gvk(&kind))
}

fn manifest(image: &str) -> Value {
    let labels = json!({"a": "b"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": image}]}});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    })
}

async fn bring(world: &World, cluster: &str, configs: Value) {
    let work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": "w", "namespace": cluster},
        "spec": {"workload": {"manifests": [manifest("web:1")]}, "manifestConfigs": configs},
    });
    let work = serde_json::from_value(work).unwrap();
    works(world, cluster)
        .create(&PostParams::default(), &work)
        .await
        .unwrap();
    after(500).await;
}

async fn rewrite(world: &World, cluster: &str) {
    let patch = Patch::Merge(json!({"spec": {"workload": {"manifests": [manifest("web:2")]}}}));
    works(world, cluster)
        .patch("w", &PatchParams::default(), &patch)
        .await
        .unwrap();
    after(500).await;
}

/// The generations that the conditions Applied and Available are about.
async fn told(world: &World, cluster: &str) -> Vec<Value> {
    let work = works(world, cluster).get("w").await.unwrap();
    let conditions = work.data["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    conditions
        .iter()
        .map(|condition| json!([condition["type"], condition["status"], condition["observedGeneration"]]))
        .collect()
}

fn generation(world: &World, cluster: &str) -> Option<i64> {
    world.clusters.truth().present(cluster, &web())?.generation
}

#[tokio::test(start_paused = true)]
async fn a_cluster_holds_what_the_manifest_works_of_its_mailbox_bring() {
    let world = World::fed_by(Source::ManifestWorks);
    for cluster in ["dev", "prod"] {
        world.cluster(cluster, json!({})).await;
    }
    after(500).await;
    // Nobody makes a ManifestWork of it.
    world.deployment().await;
    world.bind("b", &web(), (&["prod"], false)).await;
    bring(&world, "dev", json!([])).await;
    assert_eq!((generation(&world, "dev"), generation(&world, "prod")), (Some(1), None));
    assert_eq!(world.status("dev").await["availableReplicas"], 2);
    assert_eq!(
        told(&world, "dev").await,
        [json!(["Applied", "True", 1]), json!(["Available", "True", 1])]
    );
    rewrite(&world, "dev").await;
    assert_eq!(generation(&world, "dev"), Some(2));
    assert_eq!(world.status("dev").await["observedGeneration"], 2);
    assert_eq!(told(&world, "dev").await[0], json!(["Applied", "True", 2]));
    works(&world, "dev")
        .delete("w", &DeleteParams::default())
        .await
        .unwrap();
    after(500).await;
    assert_eq!(generation(&world, "dev"), None);
    assert!(world.report("dev").await.is_none(), "the report goes with the object");
}

#[tokio::test(start_paused = true)]
async fn what_a_manifest_work_only_creates_is_never_changed() {
    let world = World::fed_by(Source::ManifestWorks);
    world.cluster("dev", json!({})).await;
    after(500).await;
    let of = json!({"group": "apps", "resource": "deployments", "namespace": "default", "name": "web"});
    bring(
        &world,
        "dev",
        json!([{"resourceIdentifier": of, "updateStrategy": {"type": "CreateOnly"}}]),
    )
    .await;
    rewrite(&world, "dev").await;
    assert_eq!(generation(&world, "dev"), Some(1));
    assert_eq!(
        told(&world, "dev").await[0],
        json!(["Applied", "True", 2]),
        "it is applied even so"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_cannot_be_reached_takes_and_tells_nothing_until_it_is_back() {
    let world = World::fed_by(Source::ManifestWorks);
    world.cluster("dev", json!({"unreachable": true})).await;
    after(500).await;
    bring(&world, "dev", json!([])).await;
    assert_eq!(generation(&world, "dev"), None);
    assert!(told(&world, "dev").await.is_empty());
    world.edit_cluster("dev", json!({"unreachable": false})).await;
    after(500).await;
    assert_eq!(generation(&world, "dev"), Some(1));
    assert_eq!(told(&world, "dev").await[0], json!(["Applied", "True", 1]));
}
