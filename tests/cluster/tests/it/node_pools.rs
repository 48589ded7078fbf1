//! YurtAppDaemons on a real API server, under the rights that are shipped, with the controllers and the scheduler of Kubernetes: Pods run on
//! [`PoolNodes`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use stagegate_api::workloads::{TemplateType, WorkloadView, YurtAppDaemon};
use stagegate_api::{Outcome, crd};
use stagegate_cluster_tests::audit;
use stagegate_cluster_tests::control_plane::ControlPlane;
use stagegate_cluster_tests::host::Host;
use stagegate_cluster_tests::installation::{Installation, Kind, USER};

use crate::pool_nodes::PoolNodes;
use crate::scenario::apply;
use crate::{gates, rights};

const NAMESPACE: &str = "shop";
const WITHIN: Duration = Duration::from_secs(60);
const POOLS: [&str; 3] = ["canary", "east", "west"];

/// # Errors
/// What is not as it should be.
pub async fn workloads_go_through_node_pools(folder: &Path) -> anyhow::Result<()> {
    let plane = ControlPlane::start_with_workloads(&folder.join("server")).await?;
    let installation = Installation::install(&plane, Kind::NodePools).await?;
    let mut world = World::of(&plane, folder, &installation).await?;
    world.first_version().await.context("the first version")?;
    world.taints().await.context("a taint that comes")?;
    world.staged_update().await.context("an update by stages")?;
    world.taken_back().await.context("an update that is taken back")?;
    world.pools_and_orphans().await.context("pools, orphans and a quota")?;
    world.idle(&plane).await.context("an idle minute")?;
    world.host.take().context("the program runs")?.stop()?;
    let used = audit::used_by(USER, &plane.audit_log(), plane.unready())?;
    // By the quota, not for want of a right.
    let refused: Vec<String> = used.refused.iter().map(ToString::to_string).collect();
    ensure!(
        refused == ["patch deployments.apps"],
        "the API server refused {refused:?}"
    );
    rights::note(Kind::NodePools, used.rights, &[]);
    Ok(())
}

struct World<'a> {
    client: Client,
    folder: &'a Path,
    installation: &'a Installation,
    host: Option<Host>,
    nodes: PoolNodes,
}

impl<'a> World<'a> {
    async fn of(plane: &ControlPlane, folder: &'a Path, installation: &'a Installation) -> anyhow::Result<World<'a>> {
        let client = plane.client().await?;
        let mut definition = serde_json::to_value(crd::node_pools("v1beta2"))?;
        definition["apiVersion"] = json!("apiextensions.k8s.io/v1");
        definition["kind"] = json!("CustomResourceDefinition");
        apply(&client, &definition).await?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        apply(&client, &namespace).await?;
        apply(&client, &gates::config_map("min-available")?).await?;
        let nodes = PoolNodes::start(client.clone()).await?;
        let mut world = World {
            client,
            folder,
            installation,
            host: None,
            nodes,
        };
        for (name, canary) in [("canary", "yes"), ("east", "no"), ("west", "no")] {
            world.pool(name, canary).await?;
        }
        world.start()?;
        Ok(world)
    }

    fn start(&mut self) -> anyhow::Result<()> {
        let (arguments, environment) = (self.installation.arguments()?, self.installation.environment());
        self.host = Some(Host::start(&arguments, environment, &self.folder.join("host.log"))?);
        Ok(())
    }

    /// With a node. A definition is served a moment after it was written.
    async fn pool(&self, name: &str, canary: &str) -> anyhow::Result<()> {
        let pool = json!({
            "apiVersion": "apps.openyurt.io/v1beta2", "kind": "NodePool",
            "metadata": {"name": name, "labels": {"canary": canary, "proved": "yes", "tier": "edge"}},
            "spec": {"taints": [{"key": "edge", "effect": "NoSchedule"}]},
        });
        self.nodes.add(name).await?;
        let begun = Instant::now();
        loop {
            match apply(&self.client, &pool).await {
                Err(error) if begun.elapsed() > WITHIN => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
                Ok(()) => return Ok(()),
            }
        }
    }

    /// The Deployments' images by pool.
    async fn images(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let all = views(&self.client, TemplateType::Deployment).await?.into_iter();
        let of_pools = all.filter_map(|view| {
            let pool = view.annotations().get("apps.openyurt.io/ref-nodepool")?.clone();
            Some((pool, view.spec.template.spec.containers.first()?.image.clone()?))
        });
        Ok(of_pools.collect())
    }

    fn daemons(&self) -> Api<YurtAppDaemon> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn edit(&self, name: &str, patch: Value) -> anyhow::Result<()> {
        let patch = Patch::Merge(patch);
        self.daemons().patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    async fn until(&self, name: &str, what: &str, is: impl Fn(&YurtAppDaemon) -> bool) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let daemon = self.daemons().get(name).await?;
            if is(&daemon) {
                return Ok(());
            }
            ensure!(
                begun.elapsed() < WITHIN,
                "not within {WITHIN:?}: {what}: {:#?}",
                daemon.status
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn completed(&self, name: &str) -> anyhow::Result<()> {
        self.until(name, "completed", is_completed).await
    }

    async fn first_version(&mut self) -> anyhow::Result<()> {
        for (name, kind) in [("web", TemplateType::Deployment), ("db", TemplateType::StatefulSet)] {
            apply(&self.client, &daemon(name, kind)).await?;
            self.completed(name).await?;
        }
        ensure!(self.images().await?.len() == 3);
        for view in views(&self.client, TemplateType::StatefulSet).await? {
            let pod = &view.spec.template.spec;
            ensure!(pod.tolerations.len() == 1, "{pod:?}");
            ensure!(pod.node_selector.len() == 1, "{pod:?}");
        }
        self.nodes.have_their_pods(&POOLS, 2).await
    }

    /// The Pods of a pool tolerate it as soon as the pool has it, and go on running there.
    async fn taints(&self) -> anyhow::Result<()> {
        let taints = json!([{"key": "edge", "effect": "NoSchedule"}, {"key": "late", "effect": "NoSchedule"}]);
        self.nodes.taint("east", &taints).await?;
        let pools: Api<kube::core::DynamicObject> = Api::all_with(self.client.clone(), &resource());
        let late = Patch::Merge(json!({"spec": {"taints": taints}}));
        pools.patch("east", &PatchParams::default(), &late).await?;
        self.until_tolerated("east", 2).await?;
        for name in ["web", "db"] {
            self.completed(name).await?;
        }
        self.nodes.have_their_pods(&POOLS, 2).await
    }

    async fn until_tolerated(&self, pool: &str, taints: usize) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let mut tolerated = Vec::new();
            for kind in TemplateType::ALL {
                let of_pool = views(&self.client, kind).await?.into_iter().filter(|view| {
                    view.annotations()
                        .get("apps.openyurt.io/ref-nodepool")
                        .map(String::as_str)
                        == Some(pool)
                });
                tolerated.extend(of_pool.map(|view| view.spec.template.spec.tolerations.len()));
            }
            if tolerated == [taints, taints] {
                return Ok(());
            }
            ensure!(begun.elapsed() < WITHIN, "tolerations of pool {pool}: {tolerated:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Killed while the canary is not ready, and again after it is; held by the condition between the two.
    async fn staged_update(&mut self) -> anyhow::Result<()> {
        self.nodes.crash("canary", "web:2").await?;
        self.prove("canary", "no").await?;
        self.edit("web", image(2)).await?;
        for _restart in 0..2 {
            tokio::time::sleep(Duration::from_secs(3)).await;
            let images = self.images().await?;
            ensure!(images["canary"] == "web:2", "{images:?}");
            ensure!(images["east"] == "web:1" && images["west"] == "web:1", "{images:?}");
            self.host.take().context("the program runs")?.kill()?;
            self.start()?;
        }
        self.nodes.recover("canary").await?;
        self.until("web", "the condition holds stage canary", |daemon| {
            reason(daemon) == Some("ConditionFalse")
        })
        .await?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let images = self.images().await?;
        ensure!(images["east"] == "web:1" && images["west"] == "web:1", "{images:?}");
        self.nodes.crash("east", "web:2").await?;
        self.prove("canary", "yes").await?;
        self.until("web", "stage rest is active", |daemon| active(daemon) == Some("rest"))
            .await?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let images = self.images().await?;
        ensure!(images["east"] == "web:2" && images["west"] == "web:1", "{images:?}");
        self.host.take().context("the program runs")?.kill()?;
        self.nodes.recover("east").await?;
        self.start()?;
        self.completed("web").await?;
        ensure!(self.images().await?.values().all(|image| image == "web:2"));
        let status = self.daemons().get("web").await?.status.unwrap_or_default();
        let checks = status.stages.first().map(|stage| &stage.checks);
        let passed = checks
            .into_iter()
            .flatten()
            .filter(|check| check.outcome == Outcome::Pass);
        let passed: Vec<&str> = passed.map(|check| check.name.as_str()).collect();
        ensure!(
            passed == ["evidence", "condition", "gate/min-available", "soak"],
            "{passed:?}"
        );
        self.nodes.have_their_pods(&POOLS, 2).await
    }

    async fn prove(&self, pool: &str, is_proved: &str) -> anyhow::Result<()> {
        let pools: Api<kube::core::DynamicObject> = Api::all_with(self.client.clone(), &resource());
        let labels = Patch::Merge(json!({"metadata": {"labels": {"proved": is_proved}}}));
        pools.patch(pool, &PatchParams::default(), &labels).await?;
        Ok(())
    }

    /// The old revision is raised; the other one goes, as none is kept.
    async fn taken_back(&mut self) -> anyhow::Result<()> {
        let before = self
            .daemons()
            .get("web")
            .await?
            .status
            .unwrap_or_default()
            .current_revision;
        self.edit("web", image(1)).await?;
        self.completed("web").await?;
        let after = self.daemons().get("web").await?.status.unwrap_or_default();
        ensure!(after.current_revision != before, "{after:?}");
        self.edit("web", json!({"spec": {"revisionHistoryLimit": 0}})).await?;
        self.completed("web").await?;
        self.edit("web", image(3)).await?;
        self.completed("web").await?;
        let api: Api<k8s_openapi::api::apps::v1::ControllerRevision> = Api::namespaced(self.client.clone(), NAMESPACE);
        let begun = Instant::now();
        loop {
            let all = api.list(&ListParams::default().labels("app=web")).await?.items;
            if all.len() == 1 {
                break;
            }
            ensure!(begun.elapsed() < WITHIN, "{} revisions are kept", all.len());
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        // A name that other data has taken.
        let mut taken = api.get(&after.current_revision).await.ok();
        if taken.is_none() {
            let other = json!({
                "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {"other": "data"},
                "metadata": {"name": after.current_revision, "namespace": NAMESPACE},
            });
            apply(&self.client, &other).await?;
            taken = api.get(&after.current_revision).await.ok();
        }
        ensure!(taken.is_some());
        self.edit("web", image(1)).await?;
        self.completed("web").await?;
        let status = self.daemons().get("web").await?.status.unwrap_or_default();
        ensure!(status.collision_count == Some(1), "{status:?}");
        Ok(())
    }

    async fn pools_and_orphans(&mut self) -> anyhow::Result<()> {
        // A pool that goes takes its workloads with it, and others stay.
        let pools: Api<kube::core::DynamicObject> = Api::all_with(self.client.clone(), &resource());
        pools.delete("west", &DeleteParams::default()).await?;
        for kind in TemplateType::ALL {
            self.until_pools(kind, &["canary", "east"]).await?;
        }
        // Workloads without an owner are adopted under the names that they have.
        for (name, kind) in [("web", TemplateType::Deployment), ("db", TemplateType::StatefulSet)] {
            apply(&self.client, &orphan(name, kind)).await?;
        }
        self.pool("north", "no").await?;
        for kind in TemplateType::ALL {
            self.until_pools(kind, &["canary", "east", "north"]).await?;
            let all = views(&self.client, kind).await?;
            let found = all
                .iter()
                .find(|view| view.name_any() == "lonely")
                .context("the orphan is gone")?;
            ensure!(found.controller_uid().is_some(), "{found:?}");
        }
        self.completed("web").await?;
        // A quota refuses the workload of the next pool.
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "three", "namespace": NAMESPACE},
            "spec": {"hard": {"count/deployments.apps": "3"}},
        });
        apply(&self.client, &quota).await?;
        let quotas: Api<k8s_openapi::api::core::v1::ResourceQuota> = Api::namespaced(self.client.clone(), NAMESPACE);
        // The controller that counts does not run here.
        let counted = json!({"count/deployments.apps": "3"});
        let counted = Patch::Merge(json!({"status": {"hard": counted, "used": counted}}));
        quotas.patch_status("three", &PatchParams::default(), &counted).await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        self.pool("south", "no").await?;
        self.until("web", "status shows the refusal", |daemon| {
            reason(daemon) == Some("WorkloadRefused")
        })
        .await?;
        quotas.delete("three", &DeleteParams::default()).await?;
        pools.delete("south", &DeleteParams::default()).await?;
        self.completed("web").await?;
        self.completed("db").await
    }

    async fn until_pools(&self, kind: TemplateType, expected: &[&str]) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let all = views(&self.client, kind).await?;
            let controlled = all.iter().filter(|view| view.controller_uid().is_some());
            let pools: BTreeSet<&str> = controlled
                .filter_map(|view| Some(view.annotations().get("apps.openyurt.io/ref-nodepool")?.as_str()))
                .collect();
            if pools.iter().copied().eq(expected.iter().copied()) && all.len() == expected.len() {
                return Ok(());
            }
            ensure!(begun.elapsed() < WITHIN, "{kind:?} in {pools:?}, not in {expected:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Nothing is written, and almost nothing asked.
    async fn idle(&mut self, plane: &ControlPlane) -> anyhow::Result<()> {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let from = std::fs::metadata(plane.audit_log())?.len();
        tokio::time::sleep(Duration::from_secs(20)).await;
        let asked = audit::answered(&plane.audit_log(), from)?;
        let of_objects = asked
            .iter()
            .filter(|asked| asked.user == USER && asked.right.resource != "leases");
        let writes: Vec<String> = of_objects
            .filter(|asked| !["get", "list", "watch"].contains(&asked.right.verb.as_str()))
            .map(|asked| asked.right.to_string())
            .collect();
        ensure!(writes.is_empty(), "{writes:?}");
        Ok(())
    }
}

fn is_completed(daemon: &YurtAppDaemon) -> bool {
    let Some(status) = &daemon.status else { return false };
    let is_ready = |condition: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        condition.type_ == "Ready" && condition.status == "True"
    };
    status.observed_generation == daemon.metadata.generation && status.conditions.iter().any(is_ready)
}

fn active(daemon: &YurtAppDaemon) -> Option<&str> {
    daemon.status.as_ref()?.active_stage.as_deref()
}

fn reason(daemon: &YurtAppDaemon) -> Option<&str> {
    daemon.status.as_ref()?.reason.as_deref()
}

fn resource() -> kube::core::ApiResource {
    let kind = kube::core::GroupVersionKind::gvk("apps.openyurt.io", "v1beta2", "NodePool");
    kube::core::ApiResource::from_gvk(&kind)
}

/// A canary with a condition, a gate and a soak, and all other pools one after the other.
fn daemon(name: &str, kind: TemplateType) -> Value {
    let labels = json!({"app": name});
    let mut template = json!({
        "metadata": {"labels": labels},
        "spec": {"replicas": 2, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "main", "image": format!("{name}:1")}]},
        }},
    });
    let member = match kind {
        TemplateType::Deployment => "deploymentTemplate",
        TemplateType::StatefulSet => {
            template["spec"]["serviceName"] = json!("headless");
            "statefulSetTemplate"
        }
    };
    json!({
        "apiVersion": "apps.openyurt.io/v1alpha1", "kind": "YurtAppDaemon",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "nodepoolSelector": {"matchLabels": {"tier": "edge"}},
            "workloadTemplate": {member: template},
            "updateStrategy": {"stages": [
                {
                    "name": "canary", "nodepoolSelector": {"matchLabels": {"canary": "yes"}}, "soak": "2s",
                    "condition": "pools.all(p, p.labels.proved == 'yes' && p.available == p.replicas)",
                    "gates": [{
                        "name": "min-available", "config": {"atLeast": 2},
                        "module": {"configMap": {"namespace": "stagegate-gates", "name": "min-available", "key": "gate.wasm"}},
                    }],
                },
                {"name": "rest", "nodepoolSelector": {}, "maxConcurrent": 1},
            ]},
        },
    })
}

fn image(tag: u32) -> Value {
    let containers = json!([{"name": "main", "image": format!("web:{tag}")}]);
    json!({"spec": {"workloadTemplate": {"deploymentTemplate": {"spec": {"template": {"spec": {"containers": containers}}}}}}})
}

/// A workload for pool north with the labels of the daemon's, which nothing controls.
fn orphan(name: &str, kind: TemplateType) -> Value {
    let labels = json!({"app": name, "apps.openyurt.io/pool-name": "north"});
    let mut spec = json!({
        "replicas": 1, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web:0"}]}},
    });
    if kind == TemplateType::StatefulSet {
        spec["serviceName"] = json!("headless");
    }
    json!({
        "apiVersion": "apps/v1", "kind": kind.kind(),
        "metadata": {
            "name": "lonely", "namespace": NAMESPACE, "labels": labels, "annotations": {"apps.openyurt.io/ref-nodepool": "north"},
        },
        "spec": spec,
    })
}

async fn views(client: &Client, kind: TemplateType) -> anyhow::Result<Vec<WorkloadView>> {
    let api: Api<WorkloadView> = Api::namespaced_with(client.clone(), NAMESPACE, &kind);
    Ok(api.list(&ListParams::default()).await?.items)
}
