//! What carries objects to the simulated clusters, as KubeStellar's transport does it: when it is made, renewed and held up.

use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use stagegate_api::{Binding, SimulatedCluster};
use stagegate_embedded::clusters::ObjectRef;

use crate::clusters::{World, after, web};

impl World {
    /// Binding `b` has brought the Deployment to these clusters.
    async fn placed(clusters: &[&str]) -> World {
        let world = World::start();
        for cluster in clusters {
            world.cluster(cluster, json!({})).await;
        }
        world.deployment().await;
        world.bind("b", &web(), (clusters, false)).await;
        after(500).await;
        world
    }

    async fn patch_binding(&self, name: &str, patch: Value) {
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
        let bindings: Api<Binding> = Api::all(self.client.clone());
        bindings.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Lists another object in the Binding.
    async fn add(&self, name: &str, object: &ObjectRef) {
        let bound = json!({
            "group": object.group, "version": "v1", "resource": object.resource, "namespace": "default",
            "name": object.name, "resourceVersion": "1",
        });
        let path = "/spec/workload/namespaceScope/-";
        self.patch_binding(name, json!([{"op": "add", "path": path, "value": bound}]))
            .await;
    }

    /// The generation of the Binding, and the one that was handed over.
    async fn generations(&self, name: &str) -> (Option<i64>, Option<i64>) {
        let binding = Api::<Binding>::all(self.client.clone()).get(name).await.unwrap();
        let observed = binding.status.map(|status| status.observed_generation);
        (binding.metadata.generation, observed)
    }

    /// Edits the Deployment, and no Binding.
    async fn scale(&self, replicas: u32) {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.objects("Deployment", "apps")
            .patch("web", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    async fn replicas(&self, cluster: &str) -> Value {
        self.status(cluster).await["availableReplicas"].clone()
    }
}

fn settings() -> ObjectRef {
    ObjectRef::namespaced("", "configmaps", "default", "web")
}

#[tokio::test(start_paused = true)]
async fn one_missing_object_keeps_all_of_its_binding_where_it_is() {
    let world = World::placed(&["dev"]).await;
    world.cluster("prod", json!({})).await;
    world.add("b", &settings()).await;
    world.scale(1).await;
    let destination = json!([{"op": "replace", "path": "/spec/destinations", "value": [{"clusterId": "prod"}]}]);
    world.patch_binding("b", destination).await;
    after(30_000).await;
    let truth = world.clusters.truth();
    assert!(truth.present("dev", &web()).is_some(), "nothing is taken away");
    assert_eq!(world.replicas("dev").await, 2, "nothing is written");
    assert!(truth.present("prod", &web()).is_none());
    assert_eq!(
        world.generations("b").await,
        (Some(3), Some(1)),
        "and the Binding is not observed"
    );
    world.workload("", "ConfigMap", Value::Null).await;
    after(40_000).await;
    let truth = world.clusters.truth();
    assert!(truth.present("dev", &web()).is_none());
    assert!(truth.present("prod", &settings()).is_some());
    assert_eq!(world.replicas("prod").await, 1);
    assert_eq!(world.generations("b").await, (Some(3), Some(3)));
}

#[tokio::test(start_paused = true)]
async fn an_edit_travels_with_the_bindings_generation_and_not_with_reports() {
    let world = World::placed(&["dev"]).await;
    world.scale(1).await;
    let flapping = json!({"rules": [{"kind": "Deployment", "status": {"availableReplicas": 5}}]});
    world.edit_cluster("dev", flapping).await;
    let annotated = json!([{"op": "add", "path": "/metadata/annotations", "value": {"seen": "by nobody"}}]);
    world.patch_binding("b", annotated).await;
    after(500).await;
    assert_eq!(world.replicas("dev").await, 5, "it has reported");
    let present = world.clusters.truth().present("dev", &web()).cloned().unwrap();
    assert_eq!(present.generation, Some(1));
    world.touch("b", "2").await;
    after(500).await;
    let present = world.clusters.truth().present("dev", &web()).cloned().unwrap();
    assert_eq!(present.generation, Some(2));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_made_anew_travels_at_the_next_report_of_any_cluster() {
    let world = World::placed(&["dev", "prod"]).await;
    let deployments = world.objects("Deployment", "apps");
    let before = deployments.get("web").await.unwrap().uid();
    deployments.delete("web", &DeleteParams::default()).await.unwrap();
    world.deployment().await;
    world.scale(1).await;
    assert_ne!(deployments.get("web").await.unwrap().uid(), before);
    after(10_000).await;
    assert_eq!(world.replicas("prod").await, 2, "nothing has woken the transport");
    let unwell = json!({"rules": [{"kind": "Deployment", "status": {"availableReplicas": 0}}]});
    world.edit_cluster("dev", unwell).await;
    after(1_000).await;
    assert_eq!(world.replicas("prod").await, 1);
    assert!(
        world.clusters.truth().gaps("prod", &web()).is_empty(),
        "it is updated in place"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_comes_back_gets_what_is_there_then() {
    let world = World::placed(&["dev"]).await;
    world.scale(1).await;
    let clusters: Api<SimulatedCluster> = Api::all(world.client.clone());
    clusters.delete("dev", &DeleteParams::default()).await.unwrap();
    after(1_000).await;
    world.scale(3).await;
    world.cluster("dev", json!({})).await;
    after(1_000).await;
    assert_eq!(world.replicas("dev").await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_binding_made_anew_withdraws_what_the_one_before_it_brought_though_an_object_is_missing() {
    let world = World::placed(&["dev"]).await;
    let bindings: Api<Binding> = Api::all(world.client.clone());
    bindings.delete("b", &DeleteParams::default()).await.unwrap();
    world.bind("b", &settings(), (&["dev"], false)).await;
    after(500).await;
    assert!(world.clusters.truth().present("dev", &web()).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_carrier_that_is_deleted_takes_the_object_along_and_comes_back_with_what_is_there_now() {
    let world = World::placed(&["dev", "prod"]).await;
    world.scale(1).await;
    after(10_000).await;
    assert_eq!(world.replicas("prod").await, 2);
    world.clusters.delete_carrier("b", "prod", &web()).unwrap();
    assert!(world.clusters.truth().present("prod", &web()).is_none());
    after(500).await;
    assert_eq!(world.replicas("prod").await, 1);
    assert_eq!(world.clusters.truth().gaps("prod", &web()).len(), 1);
    assert_eq!(world.replicas("dev").await, 2, "the carrier beside it stays as it is");
    assert!(world.clusters.delete_carrier("b", "prod", &settings()).is_err());
}
