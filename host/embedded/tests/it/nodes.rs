//! The simulated nodes on the embedded API server, in virtual time.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use stagegate_api::SimulatedNode;
use stagegate_clock::TokioClock;
use stagegate_embedded::Server;
use stagegate_embedded::nodes::{Nodes, RunningNodes, Settings, Workloads};

struct World {
    client: Client,
    _nodes: RunningNodes,
}

impl World {
    fn start(workloads: Workloads) -> World {
        let clock = TokioClock::shared();
        let server = Server::new(clock.clone());
        server.install_crds(stagegate_api::crd::all_for_playground()).unwrap();
        let client = server.client();
        let settings = Settings {
            workloads,
            ..Settings::default()
        };
        World {
            _nodes: Nodes::start(client.clone(), clock, settings),
            client,
        }
    }

    async fn node(&self, name: &str, spec: Value) {
        let node = serde_json::from_value(json!({
            "apiVersion": "playground.community.kubestellar.io/v1alpha1", "kind": "SimulatedNode",
            "metadata": {"name": name, "labels": {"pool": "edge"}}, "spec": spec,
        }));
        let api: Api<SimulatedNode> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &node.unwrap()).await.unwrap();
        pass(1).await;
    }

    async fn edit_node(&self, name: &str, spec: Value) {
        let api: Api<SimulatedNode> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({"spec": spec}));
        api.patch(name, &PatchParams::default(), &patch).await.unwrap();
        pass(1).await;
    }

    async fn seen(&self, name: &str) -> Node {
        Api::all(self.client.clone()).get(name).await.unwrap()
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    async fn pod(&self, name: &str, spec: Value) {
        let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}});
        pod["spec"]
            .as_object_mut()
            .unwrap()
            .extend(spec.as_object().unwrap().clone());
        let pod = serde_json::from_value(pod).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
        pass(1).await;
    }

    async fn is_ready(&self, pod: &str) -> bool {
        let status = self.pods().get(pod).await.unwrap().status.unwrap_or_default();
        let mut conditions = status.conditions.into_iter().flatten();
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::default_namespaced(self.client.clone())
    }

    async fn deployment(&self, image: &str, node_selector: Value) {
        let labels = json!({"app": "web"});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels},
                "spec": {"nodeSelector": node_selector, "containers": [{"name": "main", "image": image}]},
            }},
        });
        let apply = PatchParams::apply("test");
        self.deployments()
            .patch("web", &apply, &Patch::Apply(deployment))
            .await
            .unwrap();
        pass(1).await;
    }

    /// Replicas, updated and available ones, and whether the newest generation was seen.
    async fn counts(&self) -> (i32, i32, i32, bool) {
        let found = self.deployments().get("web").await.unwrap();
        let status = found.status.unwrap_or_default();
        let count = |count: Option<i32>| count.unwrap_or_default();
        let is_seen = status.observed_generation == found.metadata.generation;
        (
            count(status.replicas),
            count(status.updated_replicas),
            count(status.available_replicas),
            is_seen,
        )
    }
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn ready(node: &Node) -> &str {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    conditions
        .find(|it| it.type_ == "Ready")
        .map_or("absent", |it| &it.status)
}

fn taints(node: &Node) -> Vec<String> {
    let taints = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.clone())
        .unwrap_or_default();
    taints
        .into_iter()
        .map(|taint| format!("{}:{}", taint.key, taint.effect))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_simulated_node_becomes_a_node_with_its_labels_and_taints_and_goes_with_it() {
    let world = World::start(Workloads::Played);
    world
        .node("a", json!({"taints": [{"key": "edge", "effect": "NoSchedule"}]}))
        .await;
    let node = world.seen("a").await;
    assert_eq!(node.labels()["pool"], "edge");
    assert_eq!(
        (ready(&node), taints(&node)),
        ("True", vec!["edge:NoSchedule".to_owned()])
    );
    world.edit_node("a", json!({"unreachable": true, "taints": null})).await;
    let node = world.seen("a").await;
    assert_eq!(ready(&node), "Unknown");
    assert_eq!(
        taints(&node),
        [
            "node.kubernetes.io/unreachable:NoSchedule",
            "node.kubernetes.io/unreachable:NoExecute"
        ]
    );
    let nodes: Api<SimulatedNode> = Api::all(world.client.clone());
    nodes.delete("a", &DeleteParams::default()).await.unwrap();
    pass(1).await;
    let all: Api<Node> = Api::all(world.client.clone());
    assert!(all.get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_pod_runs_where_it_is_bound_as_the_rules_of_its_node_say() {
    let world = World::start(Workloads::OfControllers);
    let rule = json!({"kind": "Pod", "image": "web:2", "progressing": "Stuck"});
    world.node("a", json!({"readyAfter": "10s", "rules": [rule]})).await;
    world.pod("unbound", json!({})).await;
    world.pod("first", json!({"nodeName": "a"})).await;
    world
        .pod(
            "stuck",
            json!({"nodeName": "a", "containers": [{"name": "main", "image": "web:2"}]}),
        )
        .await;
    assert!(!world.is_ready("first").await);
    pass(10).await;
    assert!(world.is_ready("first").await);
    pass(100).await;
    assert!(!world.is_ready("stuck").await);
    assert!(!world.is_ready("unbound").await);
    world.edit_node("a", json!({"unreachable": true})).await;
    assert!(!world.is_ready("first").await);
    world.edit_node("a", json!({"unreachable": false, "rules": null})).await;
    assert!(world.is_ready("first").await && world.is_ready("stuck").await);
}

#[tokio::test(start_paused = true)]
async fn where_no_controllers_run_a_deployment_has_the_status_of_the_nodes_that_it_selects() {
    let world = World::start(Workloads::Played);
    world.deployment("web:1", json!({"pool": "edge"})).await;
    assert!(!world.counts().await.3, "without a node a workload is only a template");
    world.node("a", json!({})).await;
    world.node("b", json!({"unreachable": true})).await;
    assert_eq!(world.counts().await, (3, 3, 2, true));
    world.edit_node("b", json!({"unreachable": false})).await;
    assert_eq!(world.counts().await, (3, 3, 3, true));
    pass(20).await;
    for node in ["a", "b"] {
        world.edit_node(node, json!({"readyAfter": "10s"})).await;
    }
    world.deployment("web:2", json!({"pool": "edge"})).await;
    let (replicas, updated, available, is_seen) = world.counts().await;
    assert!(
        updated < replicas && available >= 2 && is_seen,
        "{replicas} {updated} {available}"
    );
    pass(10).await;
    assert_eq!(world.counts().await, (3, 3, 3, true));
    world.deployment("web:2", json!({"pool": "nowhere"})).await;
    pass(60).await;
    let (replicas, updated, available, _) = world.counts().await;
    assert!(
        updated < replicas && available == 3,
        "the old Pods stay: {replicas} {updated} {available}"
    );
}

#[tokio::test(start_paused = true)]
async fn where_controllers_run_the_status_of_workloads_is_theirs() {
    let world = World::start(Workloads::OfControllers);
    world.node("a", json!({})).await;
    world.deployment("web:1", json!({"pool": "edge"})).await;
    pass(60).await;
    assert_eq!(world.counts().await, (0, 0, 0, false));
}
