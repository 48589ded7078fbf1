//! NodePools, a YurtAppDaemon, and the controller of Deployments as the benchmark plays it. Must not measure.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta, PartialObjectMeta};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use stagegate_api::crd;
use stagegate_api::workloads::{TemplateType, WorkloadView, YurtAppDaemon};
use stagegate_cluster_tests::bench::noted::Noted;
use tokio::task::JoinSet;

pub const NAMESPACE: &str = "shop";
pub const NAME: &str = "web";
/// Replicas in each pool.
pub const REPLICAS: i64 = 2;
/// Requests of the benchmark that are under way at once.
const CONCURRENCY: usize = 16;
const WITHIN: Duration = Duration::from_secs(600);

pub fn pool_name(number: usize) -> String {
    format!("pool-{number:04}")
}

pub fn pools(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("apps.openyurt.io", "v1beta2", "NodePool");
    Api::all_with(client.clone(), &ApiResource::from_gvk(&kind))
}

pub fn deployments(client: &Client) -> Api<WorkloadView> {
    Api::namespaced_with(client.clone(), NAMESPACE, &TemplateType::Deployment)
}

pub fn daemons(client: &Client) -> Api<YurtAppDaemon> {
    Api::namespaced(client.clone(), NAMESPACE)
}

/// With a Deployment in every pool.
pub fn daemon() -> Value {
    let labels = json!({"app": NAME});
    json!({
        "apiVersion": "apps.openyurt.io/v1alpha1", "kind": "YurtAppDaemon", "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "nodepoolSelector": {},
            "workloadTemplate": {"deploymentTemplate": {
                "metadata": {"labels": labels},
                "spec": {"replicas": REPLICAS, "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": "web:1"}]},
                }},
            }},
        },
    })
}

/// The definition of NodePools, a namespace, the pools and the YurtAppDaemon.
///
/// # Errors
/// What the API server says.
pub async fn prepare(client: &Client, count: usize) -> anyhow::Result<()> {
    let definitions = Api::all(client.clone());
    definitions
        .create(&PostParams::default(), &crd::node_pools("v1beta2"))
        .await?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
    namespaces.create(&PostParams::default(), &namespace).await?;
    let api = pools(client);
    let begun = Instant::now();
    // A definition is served a moment after it was written.
    while let Err(error) = api.list_metadata(&ListParams::default().limit(1)).await {
        ensure!(begun.elapsed() < WITHIN, "NodePools are not served: {error}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let made = (0..count).map(|number| {
        let api = api.clone();
        async move {
            let pool = json!({
                "apiVersion": "apps.openyurt.io/v1beta2", "kind": "NodePool", "metadata": {"name": pool_name(number)},
                "spec": {"type": "Edge", "taints": [{"key": "edge", "effect": "NoSchedule"}]},
            });
            let pool: DynamicObject = serde_json::from_value(pool)?;
            api.create(&PostParams::default(), &pool).await?;
            anyhow::Ok(())
        }
    });
    stream::iter(made)
        .buffer_unordered(CONCURRENCY)
        .try_collect::<()>()
        .await?;
    let daemon = serde_json::from_value(daemon())?;
    daemons(client).create(&PostParams::default(), &daemon).await?;
    Ok(())
}

/// Counts the Deployments as a watch tells of them.
pub struct Created {
    noted: Arc<Noted<usize>>,
    _tasks: JoinSet<()>,
}

impl Created {
    pub fn follow(client: &Client) -> Created {
        let noted: Arc<Noted<usize>> = Noted::new();
        let api: Api<PartialObjectMeta<Deployment>> = Api::namespaced(client.clone(), NAMESPACE);
        let events = watcher(api, watcher::Config::default()).default_backoff();
        let mut tasks = JoinSet::new();
        let of = noted.clone();
        let count = |seen: &mut usize, _: &PartialObjectMeta<Deployment>, _| *seen += 1;
        tasks.spawn(async move { of.follow(events, count).await });
        Created { noted, _tasks: tasks }
    }

    /// When there are so many.
    pub async fn all(&self, count: usize) -> anyhow::Result<Instant> {
        let is_all = || (*self.noted.lock() >= count).then(Instant::now);
        let at = self.noted.wait(WITHIN, is_all).await;
        at.with_context(|| format!("{} of {count} Deployments are there", self.noted.lock()))
    }
}

/// So many replicas are available in each of these Deployments.
///
/// # Errors
/// What the API server says.
pub async fn report(client: &Client, of: &[ObjectMeta], available: i64) -> anyhow::Result<()> {
    let api = deployments(client);
    let reported = of.iter().map(|metadata| {
        let api = api.clone();
        async move {
            let is_done = available >= REPLICAS;
            let progressing = if is_done { "NewReplicaSetAvailable" } else { "ReplicaSetUpdated" };
            let condition = |type_: &str, is_true: bool, reason: &str| {
                json!({"type": type_, "status": if is_true { "True" } else { "False" }, "reason": reason})
            };
            let status = json!({
                "observedGeneration": metadata.generation, "replicas": REPLICAS, "updatedReplicas": REPLICAS,
                "readyReplicas": available, "availableReplicas": available,
                "conditions": [condition("Available", is_done, "Played"), condition("Progressing", true, progressing)],
            });
            let body = Patch::Merge(json!({"status": status}));
            let name = metadata.name.as_deref().unwrap_or_default();
            api.patch_status(name, &PatchParams::default(), &body).await?;
            anyhow::Ok(())
        }
    });
    stream::iter(reported).buffer_unordered(CONCURRENCY).try_collect().await
}

/// Every Deployment, by name.
///
/// # Errors
/// What the API server says.
pub async fn all(client: &Client) -> anyhow::Result<Vec<ObjectMeta>> {
    let listed = deployments(client).list_metadata(&ListParams::default()).await?;
    Ok(listed.items.into_iter().map(|object| object.metadata).collect())
}

/// Waits until every pool is updated.
///
/// # Errors
/// When they are not in time.
pub async fn completed(client: &Client) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let daemon = daemons(client).get(NAME).await?;
        let status = daemon.status.unwrap_or_default();
        let mut conditions = status.conditions.iter();
        if conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True") {
            return Ok(());
        }
        ensure!(
            begun.elapsed() < WITHIN,
            "{} of {} pools are updated",
            status.updated_workloads,
            status.total_workloads
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
