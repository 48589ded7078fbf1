//! What `docs/node-pools.md` promises of a YurtAppDaemon, on a real API server with the controllers and the scheduler of Kubernetes, beside
//! what [`crate::node_pools`] holds: which pools get a workload, what is put back, what is left alone, and what goes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PropagationPolicy};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use stagegate_api::crd;
use stagegate_api::workloads::YurtAppDaemon;
use stagegate_cluster_tests::audit;
use stagegate_cluster_tests::control_plane::ControlPlane;
use stagegate_cluster_tests::host::Host;
use stagegate_cluster_tests::installation::{Installation, Kind, USER};

use crate::pool_nodes::PoolNodes;
use crate::rights;
use crate::scenario::apply;

const NAMESPACE: &str = "shop";
const WITHIN: Duration = Duration::from_secs(60);
/// How long to wait before concluding that nothing happens.
const NOTHING_WITHIN: Duration = Duration::from_secs(4);
/// The only one in which NodePools are served here; in [`crate::node_pools`] it is the next.
const VERSION: &str = "v1beta1";
const POOL: &str = "apps.openyurt.io/ref-nodepool";
const REVISION: &str = "apps.openyurt.io/controller-revision-hash";

/// # Errors
/// What is not as it is promised.
pub async fn promises_hold(folder: &Path) -> anyhow::Result<()> {
    let plane = ControlPlane::start_with_workloads(&folder.join("server")).await?;
    let installation = Installation::install(&plane, Kind::NodePools).await?;
    let client = plane.client().await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    apply(&client, &namespace).await?;
    let world = World {
        nodes: PoolNodes::start(client.clone()).await?,
        client,
    };
    let left = world.as_openyurt_left_it().await.context("what OpenYurt left")?;
    let (arguments, environment) = (installation.arguments()?, installation.environment());
    let host = Host::start(&arguments, environment, &folder.join("host.log"))?;
    world
        .a_definition_that_comes_late()
        .await
        .context("a definition that comes late")?;
    world.taken_over(&left).await.context("a takeover from OpenYurt")?;
    world.selectors().await.context("which pools match")?;
    world.changed_by_hand().await.context("what is changed by hand")?;
    world.history().await.context("old revisions")?;
    world.templates().await.context("what a template may have")?;
    world.of_others().await.context("workloads of others")?;
    world.deletion().await.context("deletion")?;
    world.refusals().await.context("what the definition refuses")?;
    host.stop()?;
    let used = audit::used_by(USER, &plane.audit_log(), plane.unready())?;
    ensure!(used.refused.is_empty(), "the API server refused {:?}", used.refused);
    rights::note(Kind::NodePools, used.rights, &[]);
    Ok(())
}

struct World {
    client: Client,
    nodes: PoolNodes,
}

impl World {
    fn pools(&self) -> Api<DynamicObject> {
        let kind = kube::core::GroupVersionKind::gvk("apps.openyurt.io", VERSION, "NodePool");
        Api::all_with(self.client.clone(), &kube::core::ApiResource::from_gvk(&kind))
    }

    fn daemons(&self) -> Api<YurtAppDaemon> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn pool(&self, name: &str, tier: &str) -> anyhow::Result<()> {
        self.nodes.add(name).await?;
        let taints = json!([{"key": "edge", "effect": "NoSchedule"}]);
        let pool = json!({
            "apiVersion": format!("apps.openyurt.io/{VERSION}"), "kind": "NodePool",
            "metadata": {"name": name, "labels": {"tier": tier}}, "spec": {"taints": taints},
        });
        apply(&self.client, &pool).await
    }

    async fn label(&self, pool: &str, tier: &str) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"tier": tier}}}));
        self.pools().patch(pool, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    async fn edit(&self, name: &str, spec: Value) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.daemons().patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// The Deployments that the YurtAppDaemon controls, by pool.
    async fn of(&self, daemon: &str) -> anyhow::Result<BTreeMap<String, Deployment>> {
        let uid = self.daemons().get(daemon).await?.metadata.uid;
        let all = self.deployments().list(&ListParams::default()).await?;
        let is_own = |deployment: &Deployment| {
            let mut owners = deployment.owner_references().iter();
            owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == uid.as_ref())
        };
        let own = all.items.into_iter().filter(is_own);
        let of_pools = own.filter_map(|deployment| Some((deployment.annotations().get(POOL)?.clone(), deployment)));
        Ok(of_pools.collect())
    }

    async fn until_pools(&self, daemon: &str, pools: &[&str]) -> anyhow::Result<BTreeMap<String, Deployment>> {
        let begun = Instant::now();
        loop {
            let found = self.of(daemon).await?;
            if found.keys().map(String::as_str).eq(pools.iter().copied()) {
                return Ok(found);
            }
            ensure!(
                begun.elapsed() < WITHIN,
                "{daemon} has {:?}, not {pools:?}",
                found.keys().collect::<Vec<_>>()
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn until(&self, what: &str, mut is: impl AsyncFnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
        let begun = Instant::now();
        while !is().await? {
            ensure!(begun.elapsed() < WITHIN, "not within {WITHIN:?}: {what}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    async fn completed(&self, name: &str) -> anyhow::Result<()> {
        self.until(&format!("{name} is completed"), async || {
            let daemon = self.daemons().get(name).await?;
            let Some(status) = daemon.status else { return Ok(false) };
            let mut conditions = status.conditions.iter();
            let is_ready = conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
            Ok(status.observed_generation == daemon.metadata.generation && is_ready)
        })
        .await
    }

    /// A revision with the nulls and empty members of Go's encoder, a Deployment under a random name, and none of Stagegate's annotations.
    async fn as_openyurt_left_it(&self) -> anyhow::Result<Deployment> {
        let mut old = daemon("old", json!({"matchLabels": {"tier": "edge"}}));
        apply(&self.client, &old).await?;
        let owner = json!([{
            "apiVersion": "apps.openyurt.io/v1alpha1", "kind": "YurtAppDaemon", "name": "old", "controller": true,
            "blockOwnerDeletion": true, "uid": self.daemons().get("old").await?.metadata.uid,
        }]);
        let template = old["spec"]["workloadTemplate"]["deploymentTemplate"].take();
        let mut recorded = template.clone();
        recorded["metadata"]["creationTimestamp"] = Value::Null;
        recorded["spec"]["strategy"] = json!({});
        recorded["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({});
        let revision = json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
            "metadata": {"name": "old-5d9f8c7b6d", "namespace": NAMESPACE, "labels": {"app": "old"}, "ownerReferences": owner},
            "data": {"spec": {"workloadTemplate": {"deploymentTemplate": recorded, "$patch": "replace"}}},
        });
        apply(&self.client, &revision).await?;
        let labels = json!({
            "app": "old", "apps.openyurt.io/pool-name": "b", "apps.openyurt.io/controller-revision-hash": "old-5d9f8c7b6d",
        });
        let mut spec = template["spec"].clone();
        spec["selector"] = json!({"matchLabels": {"app": "old", "apps.openyurt.io/pool-name": "b"}});
        spec["template"]["metadata"]["labels"] = labels.clone();
        spec["template"]["spec"]["nodeSelector"] = json!({"apps.openyurt.io/nodepool": "b"});
        spec["template"]["spec"]["tolerations"] =
            json!([{"key": "edge", "operator": "Exists", "effect": "NoSchedule"}]);
        spec["template"]["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "spec": spec,
            "metadata": {
                "name": "old-b-x7k2p", "namespace": NAMESPACE, "labels": labels, "ownerReferences": owner,
                "annotations": {POOL: "b"},
            },
        });
        apply(&self.client, &deployment).await?;
        Ok(self.deployments().get("old-b-x7k2p").await?)
    }

    /// NodePools are not served when the program starts.
    async fn a_definition_that_comes_late(&self) -> anyhow::Result<()> {
        tokio::time::sleep(NOTHING_WITHIN).await;
        ensure!(self.deployments().list(&ListParams::default()).await?.items.len() == 1);
        let mut definition = serde_json::to_value(crd::node_pools(VERSION))?;
        definition["apiVersion"] = json!("apiextensions.k8s.io/v1");
        definition["kind"] = json!("CustomResourceDefinition");
        apply(&self.client, &definition).await?;
        for (pool, tier) in [("a", "none"), ("b", "edge"), ("c", "none")] {
            self.pool(pool, tier).await?;
        }
        Ok(())
    }

    /// Its Pods do not restart, and its name and its revision stay.
    async fn taken_over(&self, left: &Deployment) -> anyhow::Result<()> {
        self.completed("old").await?;
        let found = self.until_pools("old", &["b"]).await?;
        let found = &found["b"];
        ensure!(found.name_any() == left.name_any() && found.metadata.uid == left.metadata.uid);
        ensure!(
            found.metadata.generation == left.metadata.generation,
            "its spec was changed"
        );
        let status = self.daemons().get("old").await?.status.unwrap_or_default();
        ensure!(status.current_revision == "old-5d9f8c7b6d", "{status:?}");
        self.daemons().delete("old", &DeleteParams::default()).await?;
        Ok(())
    }

    async fn selectors(&self) -> anyhow::Result<()> {
        apply(&self.client, &daemon("web", json!({"matchLabels": {"tier": "edge"}}))).await?;
        let first = self.until_pools("web", &["b"]).await?["b"].clone();
        ensure!(first.name_any().starts_with("web-b-"), "{}", first.name_any());
        self.label("a", "edge").await?;
        self.label("c", "edge").await?;
        self.until_pools("web", &["a", "b", "c"]).await?;
        self.label("a", "cloud").await?;
        self.until_pools("web", &["b", "c"]).await?;
        for (expression, pools) in [
            (
                json!({"operator": "In", "key": "tier", "values": ["edge", "cloud"]}),
                &["a", "b", "c"][..],
            ),
            (json!({"operator": "NotIn", "key": "tier", "values": ["edge"]}), &["a"]),
            (json!({"operator": "Exists", "key": "tier"}), &["a", "b", "c"]),
        ] {
            let selector = json!({"matchLabels": null, "matchExpressions": [expression]});
            self.edit("web", json!({"nodepoolSelector": selector})).await?;
            self.until_pools("web", pools).await?;
        }
        let selector = json!({"matchLabels": null, "matchExpressions": null});
        self.edit("web", json!({"nodepoolSelector": selector})).await?;
        let all = self.until_pools("web", &["a", "b", "c"]).await?;
        self.completed("web").await?;
        ensure!(
            all["b"].metadata.generation == Some(1),
            "a selector of pools restarts nothing"
        );
        let revisions: Api<ControllerRevision> = Api::namespaced(self.client.clone(), NAMESPACE);
        let of_web = revisions.list(&ListParams::default().labels("app=web")).await?.items;
        ensure!(of_web.len() == 1, "it is no part of a revision");
        Ok(())
    }

    async fn changed_by_hand(&self) -> anyhow::Result<()> {
        let before = self.of("web").await?["a"].clone();
        let name = before.name_any();
        self.deployments().delete(&name, &DeleteParams::default()).await?;
        self.until("a deleted workload is there again", async || {
            let found = self.deployments().get_opt(&name).await?;
            Ok(found.is_some_and(|found| found.metadata.uid != before.metadata.uid))
        })
        .await?;
        self.scale(&name, 5).await?;
        self.until("replicas of the template are put back", async || {
            Ok(self.deployments().get(&name).await?.spec.and_then(|spec| spec.replicas) == Some(2))
        })
        .await?;
        let mut free = daemon("free", json!({"matchLabels": {"tier": "edge"}}));
        let template = &mut free["spec"]["workloadTemplate"]["deploymentTemplate"]["spec"];
        template.as_object_mut().context("a template")?.remove("replicas");
        apply(&self.client, &free).await?;
        let found = self.until_pools("free", &["b", "c"]).await?;
        let name = found["b"].name_any();
        self.scale(&name, 4).await?;
        tokio::time::sleep(NOTHING_WITHIN).await;
        let replicas = self.deployments().get(&name).await?.spec.and_then(|spec| spec.replicas);
        ensure!(
            replicas == Some(4),
            "{replicas:?} replicas: the template says nothing of them"
        );
        self.daemons().delete("free", &DeleteParams::default()).await?;
        Ok(())
    }

    async fn scale(&self, name: &str, replicas: i32) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.deployments()
            .patch_scale(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Of twelve templates, three old ones are kept beside the one in use, and never goes one that a workload was made from.
    async fn history(&self) -> anyhow::Result<()> {
        let mut many = daemon("many", json!({"matchLabels": {"tier": "edge"}}));
        many["spec"]["revisionHistoryLimit"] = json!(3);
        apply(&self.client, &many).await?;
        self.until_pools("many", &["b", "c"]).await?;
        let revisions: Api<ControllerRevision> = Api::namespaced(self.client.clone(), NAMESPACE);
        let listed = async || revisions.list(&ListParams::default().labels("app=many")).await;
        for nth in 2..=13 {
            let container = json!([{"name": "main", "image": format!("many:{nth}")}]);
            let template = json!({"spec": {"template": {"spec": {"containers": container}}}});
            self.edit("many", json!({"workloadTemplate": {"deploymentTemplate": template}}))
                .await?;
            self.until("a workload is made from the new template", async || {
                // Those of the workloads that are there first: what they name must not be gone afterwards.
                let made_from: Vec<String> = self
                    .of("many")
                    .await?
                    .into_values()
                    .filter_map(|deployment| deployment.labels().get(REVISION).cloned())
                    .collect();
                let kept: Vec<ControllerRevision> = listed().await?.items;
                let mut gone = made_from
                    .iter()
                    .filter(|name| !kept.iter().any(|kept| kept.name_any() == **name));
                ensure!(
                    gone.next().is_none(),
                    "a workload was made from one of {made_from:?}, which is gone"
                );
                let newest = kept.iter().max_by_key(|kept| kept.revision);
                Ok(newest.is_some_and(|newest| newest.revision == nth && made_from.contains(&newest.name_any())))
            })
            .await?;
        }
        self.completed("many").await?;
        self.until("four revisions are left", async || Ok(listed().await?.items.len() == 4))
            .await?;
        self.daemons().delete("many", &DeleteParams::default()).await?;
        Ok(())
    }

    /// Its own nodes and affinity stay beside the pool's; long names are cut.
    async fn templates(&self) -> anyhow::Result<()> {
        let mut odd = daemon("odd", json!({"matchLabels": {"tier": "edge"}}));
        odd["spec"]["selector"] = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["odd"]}]});
        let pod = &mut odd["spec"]["workloadTemplate"]["deploymentTemplate"]["spec"]["template"]["spec"];
        pod["nodeSelector"] = json!({"disk": "ssd"});
        let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "odd"}}});
        pod["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        apply(&self.client, &odd).await?;
        let found = self.until_pools("odd", &["b", "c"]).await?;
        let pod = found["b"].spec.as_ref().and_then(|spec| spec.template.spec.clone());
        let pod = pod.context("a Deployment without Pods")?;
        let selector: Vec<String> = pod.node_selector.into_iter().flatten().map(|(key, _)| key).collect();
        ensure!(selector == ["apps.openyurt.io/nodepool", "disk"], "{selector:?}");
        let affinity = pod.affinity.and_then(|affinity| affinity.pod_anti_affinity);
        ensure!(affinity.is_some(), "its affinity is gone");
        self.daemons().delete("odd", &DeleteParams::default()).await?;
        let (name, pool) = ("n".repeat(60), "p".repeat(63));
        self.pool(&pool, "long").await?;
        apply(&self.client, &daemon(&name, json!({"matchLabels": {"tier": "long"}}))).await?;
        let found = self.until_pools(&name, &[&pool]).await?;
        ensure!(found[&pool].name_any().len() <= 63);
        self.completed(&name).await?;
        self.daemons().delete(&name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// What another object controls is left alone, and so is what is in another namespace.
    async fn of_others(&self) -> anyhow::Result<()> {
        let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
        apply(&self.client, &other).await?;
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": NAMESPACE}});
        apply(&self.client, &map).await?;
        let maps: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        let owner = json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "controller": true, "uid": maps.get("owner").await?.metadata.uid,
        }]);
        for (namespace, owners) in [(NAMESPACE, owner), ("other", json!([]))] {
            let labels = json!({"app": "web", "apps.openyurt.io/pool-name": "d"});
            let template =
                json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web:0"}]}});
            let deployment = json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "theirs", "namespace": namespace, "labels": labels, "ownerReferences": owners, "annotations": {POOL: "d"}},
                "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
            });
            apply(&self.client, &deployment).await?;
        }
        self.pool("d", "edge").await?;
        let found = self.until_pools("web", &["a", "b", "c", "d", &"p".repeat(63)]).await?;
        ensure!(found["d"].name_any() != "theirs");
        for namespace in [NAMESPACE, "other"] {
            let api: Api<Deployment> = Api::namespaced(self.client.clone(), namespace);
            let theirs = api.get("theirs").await?;
            ensure!(theirs.metadata.generation == Some(1), "{namespace}/theirs was changed");
            ensure!(
                !theirs
                    .annotations()
                    .contains_key("community.kubestellar.io/applied-digest")
            );
        }
        Ok(())
    }

    async fn deletion(&self) -> anyhow::Result<()> {
        for (name, policy) in [
            ("gone", PropagationPolicy::Foreground),
            ("kept", PropagationPolicy::Orphan),
        ] {
            apply(&self.client, &daemon(name, json!({"matchLabels": {"tier": "edge"}}))).await?;
            let names: BTreeSet<String> = self
                .until_pools(name, &["b", "c", "d"])
                .await?
                .into_values()
                .map(|deployment| deployment.name_any())
                .collect();
            let params = DeleteParams {
                propagation_policy: Some(policy.clone()),
                ..DeleteParams::default()
            };
            self.daemons().delete(name, &params).await?;
            let is_kept = matches!(policy, PropagationPolicy::Orphan);
            self.until(&format!("what is left of {name}"), async || {
                let all = self.deployments().list(&ListParams::default()).await?.items;
                let mut left = all.iter().filter(|deployment| names.contains(&deployment.name_any()));
                Ok(match is_kept {
                    true => {
                        left.clone().count() == 3 && left.all(|deployment| deployment.owner_references().is_empty())
                    }
                    false => left.next().is_none(),
                })
            })
            .await?;
        }
        Ok(())
    }

    /// Each answer names the field.
    async fn refusals(&self) -> anyhow::Result<()> {
        let all = json!({"matchLabels": {"tier": "edge"}});
        let table = [
            (json!({"workloadTemplate": {}}), "spec.workloadTemplate"),
            (json!({"selector": {}}), "spec.selector"),
            (
                json!({"selector": {"matchLabels": {"app": "other"}}}),
                "spec.workloadTemplate.deploymentTemplate.metadata.labels",
            ),
        ];
        for (change, field) in table {
            let mut wrong = daemon("wrong", all.clone());
            let spec = wrong["spec"].as_object_mut().context("a spec")?;
            spec.extend(change.as_object().cloned().unwrap_or_default());
            let refused = apply(&self.client, &wrong).await.err().context("it is taken")?;
            ensure!(format!("{refused:#}").contains(field), "{refused:#}");
        }
        let stateful = json!({"workloadTemplate": {"deploymentTemplate": null, "statefulSetTemplate": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"serviceName": "web", "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]},
            }},
        }}});
        let refused = self
            .edit("web", stateful)
            .await
            .err()
            .context("another kind is taken")?;
        ensure!(
            format!("{refused:#}").contains("the kind cannot be changed"),
            "{refused:#}"
        );
        Ok(())
    }
}

/// A Deployment of two replicas in every pool that the selector matches.
fn daemon(name: &str, selector: Value) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps.openyurt.io/v1alpha1", "kind": "YurtAppDaemon",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "nodepoolSelector": selector,
            "workloadTemplate": {"deploymentTemplate": {
                "metadata": {"labels": labels},
                "spec": {"replicas": 2, "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": format!("{name}:1")}]},
                }},
            }},
        },
    })
}
