//! The simulated clusters on the embedded API server, in virtual time: what they take, what they report, and when.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use stagegate_api::{Binding, ManagedCluster, SimulatedCluster, WorkStatus};
use stagegate_clock::TokioClock;
use stagegate_embedded::Server;
use stagegate_embedded::clusters::{Clusters, ObjectRef, RunningClusters, Settings, Source};

pub struct World {
    pub client: Client,
    pub clusters: RunningClusters,
    server: Server,
}

impl World {
    pub fn start() -> World {
        World::fed_by(Source::Bindings)
    }

    pub fn fed_by(source: Source) -> World {
        let clock = TokioClock::shared();
        let server = Server::new(clock.clone());
        let definitions = stagegate_api::crd::all_for_playground().into_iter();
        server
            .install_crds(definitions.chain([manifest_works()]).collect())
            .unwrap();
        let client = server.client();
        let settings = Settings {
            source,
            ..Settings::default()
        };
        let clusters = Clusters::start(client.clone(), clock, settings);
        World {
            client,
            clusters,
            server,
        }
    }

    pub async fn cluster(&self, name: &str, spec: Value) {
        let cluster = serde_json::from_value(json!({
            "apiVersion": "playground.community.kubestellar.io/v1alpha1", "kind": "SimulatedCluster",
            "metadata": {"name": name, "labels": {"env": name}}, "spec": spec,
        }))
        .unwrap();
        Api::<SimulatedCluster>::all(self.client.clone())
            .create(&PostParams::default(), &cluster)
            .await
            .unwrap();
    }

    pub async fn edit_cluster(&self, name: &str, spec: Value) {
        let api: Api<SimulatedCluster> = Api::all(self.client.clone());
        api.patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec})))
            .await
            .unwrap();
    }

    pub fn objects(&self, kind: &str, group: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        Api::namespaced_with(self.client.clone(), "default", &resource)
    }

    pub async fn workload(&self, group: &str, kind: &str, spec: Value) {
        let object = serde_json::from_value(json!({
            "apiVersion": if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") }, "kind": kind,
            "metadata": {"name": "web", "namespace": "default"}, "spec": spec,
        }))
        .unwrap();
        self.objects(kind, group)
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }

    pub async fn deployment(&self) {
        let template =
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}});
        let selector = json!({"matchLabels": {"a": "b"}});
        self.workload(
            "apps",
            "Deployment",
            json!({"replicas": 2, "selector": selector, "template": template}),
        )
        .await;
    }

    pub async fn bind(&self, name: &str, object: &ObjectRef, (clusters, create_only): (&[&str], bool)) {
        let destinations: Vec<_> = clusters.iter().map(|cluster| json!({"clusterId": cluster})).collect();
        let binding = json!({
            "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "Binding", "metadata": {"name": name},
            "spec": {"destinations": destinations, "workload": {"namespaceScope": [{
                "group": object.group, "version": "v1", "resource": object.resource, "namespace": "default",
                "name": object.name, "resourceVersion": "1", "createOnly": create_only,
            }]}},
        });
        let bindings: Api<Binding> = Api::all(self.client.clone());
        bindings
            .create(&PostParams::default(), &serde_json::from_value(binding).unwrap())
            .await
            .unwrap();
    }

    pub async fn touch(&self, name: &str, version: &str) {
        let patch =
            json!([{"op": "replace", "path": "/spec/workload/namespaceScope/0/resourceVersion", "value": version}]);
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
        Api::<Binding>::all(self.client.clone())
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Replaces the image of the Deployment and has the Binding deliver it.
    async fn roll_out(&self, binding: &str, image: &str) {
        let template = json!({"spec": {"containers": [{"name": "web", "image": image}]}});
        let patch = Patch::Merge(json!({"spec": {"template": template}}));
        self.objects("Deployment", "apps")
            .patch("web", &PatchParams::default(), &patch)
            .await
            .unwrap();
        self.touch(binding, image).await;
    }

    async fn unbind(&self, name: &str) {
        Api::<Binding>::all(self.client.clone())
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    pub async fn report(&self, cluster: &str) -> Option<WorkStatus> {
        let all = Api::<WorkStatus>::namespaced(self.client.clone(), cluster)
            .list(&Default::default())
            .await
            .unwrap();
        all.items.into_iter().next()
    }

    pub async fn status(&self, cluster: &str) -> Value {
        self.report(cluster)
            .await
            .and_then(|report| report.status)
            .unwrap_or_default()
    }
}

/// The playground has no ManifestWorks.
fn manifest_works() -> CustomResourceDefinition {
    let open = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "manifestworks.work.open-cluster-management.io"},
        "spec": {
            "group": "work.open-cluster-management.io",
            "scope": "Namespaced",
            "names": {"kind": "ManifestWork", "plural": "manifestworks"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": open}],
        },
    }))
    .unwrap()
}

pub fn web() -> ObjectRef {
    ObjectRef::namespaced("apps", "deployments", "default", "web")
}

/// total, updated, available; the status and reason of `Progressing`.
fn rollout(status: &Value) -> (&Value, [i64; 3], String) {
    let numbers =
        ["replicas", "updatedReplicas", "availableReplicas"].map(|name| status[name].as_i64().unwrap_or_default());
    let progressing = &status["conditions"][1];
    let progressing = format!("{}:{}", progressing["status"], progressing["reason"]).replace('"', "");
    (&status["observedGeneration"], numbers, progressing)
}

pub async fn after(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_has_its_inventory_entry_and_mailbox_and_takes_them_along() {
    let world = World::start();
    world.cluster("dev", json!({})).await;
    after(100).await;
    let inventory: Api<ManagedCluster> = Api::all(world.client.clone());
    assert_eq!(
        inventory.get("dev").await.unwrap().metadata.labels.unwrap()["env"],
        "dev"
    );
    let mailboxes: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(world.client.clone());
    assert!(mailboxes.get("dev").await.is_ok());
    let clusters: Api<SimulatedCluster> = Api::all(world.client.clone());
    clusters.delete("dev", &DeleteParams::default()).await.unwrap();
    after(100).await;
    assert!(inventory.get_opt("dev").await.unwrap().is_none());
    assert!(mailboxes.get_opt("dev").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_reported_as_starting_and_then_as_available() {
    let world = World::start();
    world.cluster("dev", json!({"readyAfter": "5s"})).await;
    world.deployment().await;
    world.bind("b", &web(), (&["dev"], false)).await;
    after(1_000).await;
    let starting = world.status("dev").await;
    assert_eq!(starting["observedGeneration"], 1);
    assert!(starting.get("availableReplicas").is_none(), "{starting}");
    after(5_000).await;
    assert_eq!(world.status("dev").await["availableReplicas"], 2);
    let report = world.report("dev").await.unwrap();
    let source = &report.spec.source_ref;
    assert_eq!(
        (source.kind.as_str(), source.resource.as_str(), source.version.as_str()),
        ("Deployment", "deployments", "v1")
    );
    assert!(
        report.last_returned().is_some(),
        "the time of the status must be found in the managed fields"
    );
    let binding = Api::<Binding>::all(world.client.clone()).get("b").await.unwrap();
    assert_eq!(
        Some(binding.status.unwrap().observed_generation),
        binding.metadata.generation
    );
}

#[tokio::test(start_paused = true)]
async fn an_edited_spec_counts_a_generation_and_starts_what_is_missing_but_not_under_create_only() {
    let world = World::start();
    world.cluster("dev", json!({"readyAfter": "2s"})).await;
    world.cluster("prod", json!({"readyAfter": "2s"})).await;
    world.deployment().await;
    world.bind("free", &web(), (&["dev"], false)).await;
    world.bind("held", &web(), (&["prod"], true)).await;
    after(3_000).await;
    let patch = Patch::Merge(json!({"spec": {"replicas": 3}}));
    world
        .objects("Deployment", "apps")
        .patch("web", &PatchParams::default(), &patch)
        .await
        .unwrap();
    world.touch("free", "2").await;
    world.touch("held", "2").await;
    after(500).await;
    let truth = world.clusters.truth();
    assert_eq!(truth.present("dev", &web()).unwrap().generation, Some(2));
    assert_eq!(truth.present("prod", &web()).unwrap().generation, Some(1));
    let dev = world.status("dev").await;
    assert_eq!(
        (
            &dev["observedGeneration"],
            &dev["availableReplicas"],
            &dev["unavailableReplicas"]
        ),
        (&json!(2), &json!(2), &json!(1)),
        "what runs already stays"
    );
    after(2_000).await;
    assert_eq!(world.status("dev").await["availableReplicas"], 3);
    assert_eq!(world.status("prod").await["availableReplicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn an_object_leaves_with_its_last_binding_only() {
    let world = World::start();
    world.cluster("dev", json!({})).await;
    world.deployment().await;
    world.bind("one", &web(), (&["dev"], false)).await;
    world.bind("two", &web(), (&["dev"], false)).await;
    after(500).await;
    world.unbind("one").await;
    after(500).await;
    assert!(world.clusters.truth().present("dev", &web()).is_some());
    world.unbind("two").await;
    after(500).await;
    let truth = world.clusters.truth();
    assert!(truth.present("dev", &web()).is_none());
    assert_eq!(truth.removals("dev", &web()).len(), 1);
    assert!(world.report("dev").await.is_none(), "the report goes with the object");
}

#[tokio::test(start_paused = true)]
async fn a_late_hand_over_leaves_a_gap_that_the_truth_shows() {
    let world = World::start();
    world.cluster("dev", json!({})).await;
    world.deployment().await;
    world.bind("old", &web(), (&["dev"], false)).await;
    after(500).await;
    world.clusters.delay_hand_over("new", 10_000);
    world.bind("new", &web(), (&["dev"], false)).await;
    world.unbind("old").await;
    after(15_000).await;
    let gaps = world.clusters.truth().gaps("dev", &web());
    assert!(gaps.len() == 1 && (9..=10).contains(&gaps[0].as_secs()), "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn an_edited_cluster_turns_sick_at_once_and_an_unreachable_one_falls_silent() {
    let world = World::start();
    world.cluster("dev", json!({})).await;
    world.deployment().await;
    world.bind("b", &web(), (&["dev"], false)).await;
    after(500).await;
    assert_eq!(world.status("dev").await["availableReplicas"], 2);
    world
        .edit_cluster(
            "dev",
            json!({"rules": [{"kind": "Deployment", "status": {"availableReplicas": null}}]}),
        )
        .await;
    after(200).await;
    assert!(world.status("dev").await.get("availableReplicas").is_none());
    world
        .edit_cluster("dev", json!({"unreachable": true, "rules": []}))
        .await;
    world.unbind("b").await;
    after(60_000).await;
    assert!(
        world.status("dev").await.get("availableReplicas").is_none(),
        "nobody reports any more"
    );
    assert!(
        world.clusters.truth().present("dev", &web()).is_some(),
        "nothing is taken away either"
    );
    world.edit_cluster("dev", json!({"unreachable": false})).await;
    after(500).await;
    assert!(
        world.clusters.truth().present("dev", &web()).is_none(),
        "it hears of the removal when it is back"
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_made_anew_counts_from_one_again() {
    let world = World::start();
    world.cluster("dev", json!({"readyAfter": "5s"})).await;
    world.deployment().await;
    world.bind("b", &web(), (&["dev"], false)).await;
    after(500).await;
    let patch = Patch::Merge(json!({"spec": {"replicas": 1}}));
    world
        .objects("Deployment", "apps")
        .patch("web", &PatchParams::default(), &patch)
        .await
        .unwrap();
    world.touch("b", "2").await;
    after(6_000).await;
    assert_eq!(world.status("dev").await["observedGeneration"], 2);
    world.clusters.remake("dev", &web()).unwrap();
    after(500).await;
    let status = world.status("dev").await;
    assert_eq!(
        (&status["observedGeneration"], status.get("availableReplicas")),
        (&json!(1), None)
    );
    assert!(world.clusters.remake("prod", &web()).is_err());
}

#[tokio::test(start_paused = true)]
async fn kinds_without_status_are_reported_bare_or_not_at_all() {
    let world = World::start();
    world.cluster("dev", json!({})).await;
    world
        .workload("networking.k8s.io", "NetworkPolicy", json!({"podSelector": {}}))
        .await;
    world
        .bind(
            "b",
            &ObjectRef::namespaced("networking.k8s.io", "networkpolicies", "default", "web"),
            (&["dev"], false),
        )
        .await;
    after(500).await;
    let report = world.report("dev").await.unwrap();
    assert_eq!((report.status.as_ref(), report.last_returned()), (None, None));
    world.unbind("b").await;
    let settings =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": "default"}});
    let settings = serde_json::from_value(settings).unwrap();
    world
        .objects("ConfigMap", "")
        .create(&PostParams::default(), &settings)
        .await
        .unwrap();
    let config = ObjectRef::namespaced("", "configmaps", "default", "web");
    world.bind("c", &config, (&["dev"], false)).await;
    after(500).await;
    assert!(world.clusters.truth().present("dev", &config).is_some());
    assert!(world.report("dev").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_report_stays_away_and_nothing_is_written_while_nothing_changes() {
    let world = World::start();
    world.cluster("dev", json!({})).await;
    world.deployment().await;
    world.bind("b", &web(), (&["dev"], false)).await;
    after(500).await;
    let name = world.report("dev").await.unwrap().metadata.name.unwrap();
    Api::<WorkStatus>::namespaced(world.client.clone(), "dev")
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    let before = world.server.requests().writes();
    after(7_200_000).await;
    assert!(world.report("dev").await.is_none());
    assert_eq!(world.server.requests().writes(), before);
    world.clusters.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_looping_edit_is_observed_at_once_leaves_the_old_version_running_and_misses_its_deadline() {
    let world = World::start();
    let rules = json!([{"image": "web:2", "progressing": "Stuck"}]);
    world.cluster("dev", json!({"readyAfter": "2s", "rules": rules})).await;
    world.deployment().await;
    world.bind("b", &web(), (&["dev"], false)).await;
    after(3_000).await;
    let done = "True:NewReplicaSetAvailable".to_owned();
    assert_eq!(
        rollout(&world.status("dev").await),
        (&json!(1), [2, 2, 2], done.clone())
    );
    world.roll_out("b", "web:2").await;
    after(500).await;
    let under_way = "True:ReplicaSetUpdated".to_owned();
    assert_eq!(
        rollout(&world.status("dev").await),
        (&json!(2), [3, 1, 2], under_way.clone())
    );
    after(598_000).await;
    assert_eq!(
        rollout(&world.status("dev").await),
        (&json!(2), [3, 1, 2], under_way.clone())
    );
    after(2_000).await;
    let late = "False:ProgressDeadlineExceeded".to_owned();
    assert_eq!(rollout(&world.status("dev").await), (&json!(2), [3, 1, 2], late));
    world.roll_out("b", "web:3").await;
    after(500).await;
    assert_eq!(rollout(&world.status("dev").await), (&json!(3), [3, 1, 2], under_way));
    after(2_000).await;
    assert_eq!(rollout(&world.status("dev").await), (&json!(3), [2, 2, 2], done));
    let fared = world.clusters.truth().fared;
    let healthy: Vec<_> = fared
        .iter()
        .map(|fared| (fared.generation.unwrap_or_default(), fared.is_healthy))
        .collect();
    let wanted = [(1, false), (1, true), (2, false), (2, false), (3, false), (3, true)];
    assert_eq!(healthy, wanted, "the truth tells which version runs well");
}

#[tokio::test(start_paused = true)]
async fn a_slow_rollout_is_reported_replica_by_replica_and_goes_on_through_a_silence() {
    let world = World::start();
    let rules = json!([{"image": "web:2", "progressing": "Slow", "after": "10s"}]);
    world.cluster("dev", json!({"rules": rules})).await;
    world.deployment().await;
    world.bind("b", &web(), (&["dev"], false)).await;
    after(500).await;
    world.roll_out("b", "web:2").await;
    after(11_000).await;
    let under_way = "True:ReplicaSetUpdated".to_owned();
    assert_eq!(
        rollout(&world.status("dev").await),
        (&json!(2), [3, 2, 2], under_way.clone())
    );
    world.edit_cluster("dev", json!({"unreachable": true})).await;
    after(60_000).await;
    assert_eq!(rollout(&world.status("dev").await), (&json!(2), [3, 2, 2], under_way));
    world.edit_cluster("dev", json!({"unreachable": false})).await;
    after(500).await;
    let done = "True:NewReplicaSetAvailable".to_owned();
    assert_eq!(rollout(&world.status("dev").await), (&json!(2), [2, 2, 2], done));
}

#[tokio::test(start_paused = true)]
async fn a_flapping_object_is_reported_in_turns_and_a_failed_one_at_once() {
    let world = World::start();
    let rules = json!([{"progressing": "Flapping", "period": "20s"}]);
    world.cluster("dev", json!({"rules": rules})).await;
    world
        .cluster("prod", json!({"rules": [{"progressing": "Failed"}]}))
        .await;
    world.deployment().await;
    world.bind("b", &web(), (&["dev", "prod"], false)).await;
    after(1_000).await;
    let failed = "False:ProgressDeadlineExceeded".to_owned();
    assert_eq!(rollout(&world.status("prod").await), (&json!(1), [2, 2, 0], failed));
    for available in [2, 0, 2, 0] {
        assert_eq!(rollout(&world.status("dev").await).1, [2, 2, available]);
        after(20_000).await;
    }
    world.edit_cluster("dev", json!({"rules": []})).await;
    after(500).await;
    let before = world.server.requests().writes();
    after(3_600_000).await;
    assert_eq!(world.server.requests().writes(), before, "it has come to rest");
}
