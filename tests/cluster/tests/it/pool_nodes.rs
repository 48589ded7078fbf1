//! One node for each pool, and one without taints that belongs to no pool, so that a Pod without its pool's nodeSelector could land there.
//! Must not know what is to run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use stagegate_api::{SimulatedNode, crd};
use stagegate_clock::TokioClock;
use stagegate_cluster_tests::definitions::install;
use stagegate_embedded::nodes::{Nodes, RunningNodes, Settings, Workloads};

use crate::scenario::apply;

const WITHIN: Duration = Duration::from_secs(60);
/// Elsewhere there are the Pods of the program itself, as it is installed.
const NAMESPACE: &str = "shop";
const POOL_OF_NODE: &str = "apps.openyurt.io/nodepool";
const POOL_OF_POD: &str = "apps.openyurt.io/pool-name";

pub struct PoolNodes {
    client: Client,
    _running: RunningNodes,
}

impl PoolNodes {
    /// # Errors
    /// When the kind is not served in time.
    pub async fn start(client: Client) -> anyhow::Result<PoolNodes> {
        for definition in crd::playground() {
            install(&client, &definition).await?;
        }
        let settings = Settings {
            status_delay_ms: 50,
            workloads: Workloads::OfControllers,
        };
        let nodes = PoolNodes {
            _running: Nodes::start(client.clone(), TokioClock::shared(), settings),
            client,
        };
        nodes.write("free", json!({}), &json!([])).await?;
        Ok(nodes)
    }

    /// One with the taint that all pools have.
    ///
    /// # Errors
    /// Of the API server.
    pub async fn add(&self, pool: &str) -> anyhow::Result<()> {
        let taints = json!([{"key": "edge", "effect": "NoSchedule"}]);
        self.write(pool, json!({POOL_OF_NODE: pool}), &taints).await
    }

    async fn write(&self, name: &str, labels: Value, taints: &Value) -> anyhow::Result<()> {
        let node = json!({
            "apiVersion": "playground.community.kubestellar.io/v1alpha1", "kind": "SimulatedNode",
            "metadata": {"name": name, "labels": labels}, "spec": {"taints": taints},
        });
        apply(&self.client, &node).await
    }

    /// # Errors
    /// Of the API server.
    pub async fn taint(&self, pool: &str, taints: &Value) -> anyhow::Result<()> {
        self.edit(pool, json!({"spec": {"taints": taints}})).await
    }

    /// From now on, Pods with this image never get ready.
    ///
    /// # Errors
    /// Of the API server.
    pub async fn crash(&self, pool: &str, image: &str) -> anyhow::Result<()> {
        let rule = json!({"kind": "Pod", "image": image, "progressing": "Stuck"});
        self.edit(pool, json!({"spec": {"rules": [rule]}})).await
    }

    /// # Errors
    /// Of the API server.
    pub async fn recover(&self, pool: &str) -> anyhow::Result<()> {
        self.edit(pool, json!({"spec": {"rules": null}})).await
    }

    async fn edit(&self, pool: &str, patch: Value) -> anyhow::Result<()> {
        let api: Api<SimulatedNode> = Api::all(self.client.clone());
        api.patch(pool, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Every workload of a pool runs so many Pods, each on a node of that pool, and there are no others.
    ///
    /// # Errors
    /// Which Pods run elsewhere, at once; how many there are, when it does not come to that.
    pub async fn have_their_pods(&self, pools: &[&str], each: usize) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let running = self.running().await?;
            let workloads = running.len();
            let is_all = workloads == 2 * pools.len() && running.values().all(|count| *count == each);
            if is_all && pools.iter().all(|pool| running.keys().any(|(_, of)| of == pool)) {
                return Ok(());
            }
            ensure!(
                begun.elapsed() < WITHIN,
                "Pods that run by workload and pool: {running:?}"
            );
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    /// By the app and the pool, how many Pods run.
    async fn running(&self) -> anyhow::Result<BTreeMap<(String, String), usize>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut running = BTreeMap::new();
        for pod in pods.list(&ListParams::default()).await? {
            let labels = pod.labels();
            let [app, pool] = ["app", POOL_OF_POD].map(|label| labels.get(label).cloned().unwrap_or_default());
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            if let Some(node) = &node {
                let api: Api<k8s_openapi::api::core::v1::Node> = Api::all(self.client.clone());
                let of_node = api.get(node).await?.labels().get(POOL_OF_NODE).cloned();
                ensure!(
                    of_node.as_deref() == Some(pool.as_str()),
                    "a Pod of pool {pool} is on node {node} of {of_node:?}"
                );
            }
            let status = pod.status.as_ref().context("a Pod without a status")?;
            let is_ready = status
                .conditions
                .iter()
                .flatten()
                .any(|it| it.type_ == "Ready" && it.status == "True");
            if node.is_some() && is_ready && pod.metadata.deletion_timestamp.is_none() {
                *running.entry((app, pool)).or_default() += 1;
            }
        }
        Ok(running)
    }
}
