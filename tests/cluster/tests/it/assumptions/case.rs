//! What a trial of an assumption has for itself: a namespace, clusters, and a Binding of one name, with words for what is done to them and
//! for what the transport makes of it. Must not say what is to hold.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use stagegate_cluster_tests::audit::{self, Answered};
use stagegate_cluster_tests::control_plane::client;

use crate::scenario::apply;

const LOOK: Duration = Duration::from_millis(50);
/// Nothing that comes at all takes longer: a wait of KubeStellar is 2 s or 5 s.
const COMES_MAX: Duration = Duration::from_secs(30);
/// What the transport calls itself.
const TRANSPORT: &str = "transport-controller";
/// A ManifestWork names its Binding and that one's generation.
const BINDING: &str = "transport.kubestellar.io/originOwnerReferenceBindingKey";
const GENERATION: &str = "transport.kubestellar.io/originOwnerReferenceBindingGeneration";

pub struct Case {
    /// Of its namespace, its Binding, its BindingPolicy and the label of its clusters.
    pub name: String,
    pub client: Client,
    audit_log: PathBuf,
}

/// A ManifestWork that carries one Deployment.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Cluster and object, as `a/one`.
    pub place: String,
    pub name: String,
    pub uid: String,
    pub generation: i64,
    /// Of the Binding that it was written for.
    of_generation: String,
    pub image: String,
}

impl Case {
    pub async fn begin(of: &str, (kubeconfig, audit_log): (&Path, PathBuf)) -> anyhow::Result<Case> {
        // The trials' names are too long for a namespace; their beginnings differ.
        let words: Vec<&str> = of.split('_').take(3).collect();
        let case = Case {
            name: words.join("-"),
            client: client(kubeconfig).await?,
            audit_log,
        };
        apply(&case.client, &namespace(&case.name)).await?;
        for cluster in ["a", "b"] {
            case.join(cluster).await?;
        }
        Ok(case)
    }

    /// Puts a cluster into the inventory, with its mailbox namespace.
    pub async fn join(&self, cluster: &str) -> anyhow::Result<()> {
        let name = self.mailbox(cluster);
        apply(&self.client, &namespace(&name)).await?;
        let entry = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": name, "labels": {"case": self.name}}, "spec": {"hubAcceptsClient": true},
        });
        apply(&self.client, &entry).await
    }

    /// It is still there, and the BindingPolicy does not select it any more.
    pub async fn leave(&self, cluster: &str) -> anyhow::Result<()> {
        let kind = GroupVersionKind::gvk("cluster.open-cluster-management.io", "v1", "ManagedCluster");
        let clusters: Api<DynamicObject> = Api::all_with(self.client.clone(), &ApiResource::from_gvk(&kind));
        let unlabelled = Patch::Merge(json!({"metadata": {"labels": {"case": null}}}));
        clusters
            .patch(&self.mailbox(cluster), &PatchParams::default(), &unlabelled)
            .await?;
        Ok(())
    }

    /// Creates or edits a Deployment. There is no controller that would touch it.
    pub async fn write(&self, object: &str, image: &str) -> anyhow::Result<()> {
        let labels = json!({"case": self.name});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": object, "namespace": self.name, "labels": labels},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "it", "image": image}]}},
            },
        });
        apply(&self.client, &deployment).await
    }

    pub async fn delete(&self, object: &str) -> anyhow::Result<()> {
        self.deployments().delete(object, &DeleteParams::default()).await?;
        Ok(())
    }

    /// The Deployment's resourceVersion; none if there is no such object.
    pub async fn version(&self, object: &str) -> anyhow::Result<Option<String>> {
        let found = self.deployments().get_opt(object).await?;
        Ok(found.and_then(|found| found.resource_version()))
    }

    /// Places these Deployments in these clusters by a Binding of our own, which KubeStellar leaves alone: it belongs to no BindingPolicy.
    pub async fn bind(&self, objects: &[&str], clusters: &[&str]) -> anyhow::Result<()> {
        let mut bound = Vec::new();
        for name in objects {
            let version = self.version(name).await?.unwrap_or_else(|| "0".to_owned());
            bound.push(json!({
                "group": "apps", "version": "v1", "resource": "deployments", "namespace": self.name, "name": name,
                "resourceVersion": version,
            }));
        }
        let destinations: Vec<Value> = clusters
            .iter()
            .map(|cluster| json!({"clusterId": self.mailbox(cluster)}))
            .collect();
        let binding = json!({
            "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "Binding", "metadata": {"name": self.name},
            "spec": {"workload": {"namespaceScope": bound}, "destinations": destinations},
        });
        apply(&self.client, &binding).await
    }

    /// Places all of its Deployments in all of its clusters by a BindingPolicy.
    pub async fn place(&self, collector: &str) -> anyhow::Result<()> {
        let policy = json!({
            "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy", "metadata": {"name": self.name},
            "spec": {
                "clusterSelectors": [{"matchLabels": {"case": self.name}}],
                "downsync": [{
                    "apiGroup": "apps", "resources": ["deployments"], "namespaces": [self.name],
                    "objectSelectors": [{"matchLabels": {"case": self.name}}], "statusCollectors": [collector],
                }],
            },
        });
        apply(&self.client, &policy).await
    }

    pub async fn binding(&self) -> anyhow::Result<Value> {
        Ok(json!(self.bindings().get_opt(&self.name).await?))
    }

    /// Moves no generation, but wakes everybody who watches the Binding.
    pub async fn annotate(&self, annotations: Value) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        self.bindings()
            .patch(&self.name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// The ManifestWorks of the Binding, ordered by place.
    pub async fn works(&self) -> anyhow::Result<Vec<Work>> {
        let of = ListParams::default().labels(&format!("{BINDING}={}", self.name));
        let listed = Api::<DynamicObject>::all_with(self.client.clone(), &work_kind())
            .list(&of)
            .await?;
        let mut works: Vec<Work> = listed.items.iter().map(|work| self.shown(work)).collect();
        works.sort_by(|a, b| (&a.place, &a.name).cmp(&(&b.place, &b.name)));
        Ok(works)
    }

    /// Waits until there are ManifestWorks of exactly these places, with these images.
    pub async fn comes(&self, wanted: &[(&str, &str)]) -> anyhow::Result<()> {
        until(&format!("the ManifestWorks are {wanted:?}"), async || {
            let works = self.works().await?;
            let found: Vec<(&str, &str)> = works
                .iter()
                .map(|work| (work.place.as_str(), work.image.as_str()))
                .collect();
            Ok((found == wanted).then_some(()).ok_or_else(|| format!("{found:?}")))
        })
        .await?;
        until("the transport has observed the Binding", async || {
            let binding = self.binding().await?;
            let (generation, observed) = (
                &binding["metadata"]["generation"],
                &binding["status"]["observedGeneration"],
            );
            Ok((generation == observed)
                .then_some(())
                .ok_or_else(|| format!("{generation} {observed}")))
        })
        .await
    }

    /// For so many seconds the ManifestWorks are these.
    pub async fn stay(&self, works: &[Work], seconds: u64) -> anyhow::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(seconds) {
            let found = self.works().await?;
            ensure!(
                found == works,
                "after {:?} the ManifestWorks are {found:#?}, not {works:#?}",
                begun.elapsed()
            );
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Reports as the cluster's agent does: the ManifestWork's status is written.
    pub async fn report(&self, place: &str) -> anyhow::Result<()> {
        let (api, name) = self.work(place).await?;
        let now = Timestamp::now().to_string();
        let condition = json!({
            "type": "Applied", "status": "True", "reason": "AppliedManifestWorkComplete", "lastTransitionTime": now,
            // So that it differs from the last one.
            "message": format!("applied at {now}"),
        });
        let status = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        api.patch_status(&name, &PatchParams::default(), &status).await?;
        Ok(())
    }

    pub async fn delete_work(&self, place: &str) -> anyhow::Result<()> {
        let (api, name) = self.work(place).await?;
        api.delete(&name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// What was asked of the server about this case since then, in its order.
    pub fn asked(&self, since: Timestamp) -> anyhow::Result<Vec<Answered>> {
        let mailboxes = format!("{}-", self.name);
        let mut asked = audit::answered(&self.audit_log, 0)?;
        asked.retain(|request| {
            let is_own = request.namespace == self.name || request.namespace.starts_with(&mailboxes);
            request.asked_at > since && (is_own || request.namespace.is_empty() && request.name == self.name)
        });
        asked.sort_by_key(|request| request.asked_at);
        Ok(asked)
    }

    /// The same, of the transport alone.
    pub fn asked_by_transport(&self, since: Timestamp) -> anyhow::Result<Vec<Answered>> {
        let mut asked = self.asked(since)?;
        asked.retain(|request| request.agent == TRANSPORT);
        Ok(asked)
    }

    /// Waits until the transport has asked for a Deployment after that time.
    pub async fn looks(&self, object: &str, since: Timestamp) -> anyhow::Result<()> {
        until(&format!("the transport reads {object}"), async || {
            let asked = self.asked_by_transport(since)?;
            let has_read = asked
                .iter()
                .any(|request| request.right.resource == "deployments" && request.name == object);
            Ok(has_read.then_some(()).ok_or_else(|| format!("{asked:?}")))
        })
        .await
    }

    pub fn bindings(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("control.kubestellar.io", "v1alpha1", "Binding");
        Api::all_with(self.client.clone(), &ApiResource::from_gvk(&kind))
    }

    pub fn mailbox(&self, cluster: &str) -> String {
        format!("{}-{cluster}", self.name)
    }

    fn deployments(&self) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment"));
        Api::namespaced_with(self.client.clone(), &self.name, &kind)
    }

    async fn work(&self, place: &str) -> anyhow::Result<(Api<DynamicObject>, String)> {
        let works = self.works().await?;
        let found = works.into_iter().find(|work| work.place == place);
        let name = found.with_context(|| format!("no ManifestWork is at {place}"))?.name;
        let cluster = place.split('/').next().unwrap_or_default();
        let api = Api::namespaced_with(self.client.clone(), &self.mailbox(cluster), &work_kind());
        Ok((api, name))
    }

    fn shown(&self, work: &DynamicObject) -> Work {
        let manifest = &work.data["spec"]["workload"]["manifests"][0];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mailbox = work.namespace().unwrap_or_default();
        let cluster = mailbox.strip_prefix(&format!("{}-", self.name)).unwrap_or(&mailbox);
        Work {
            place: format!("{cluster}/{}", text(&manifest["metadata"]["name"])),
            name: work.name_any(),
            uid: work.uid().unwrap_or_default(),
            generation: work.metadata.generation.unwrap_or_default(),
            of_generation: work.annotations().get(GENERATION).cloned().unwrap_or_default(),
            image: text(&manifest["spec"]["template"]["spec"]["containers"][0]["image"]),
        }
    }
}

/// Waits until it gives something; else an error that tells what it gave last.
pub async fn until<T>(what: &str, look: impl AsyncFn() -> anyhow::Result<Result<T, String>>) -> anyhow::Result<T> {
    let begun = Instant::now();
    loop {
        match look().await? {
            Ok(found) => return Ok(found),
            Err(found) => ensure!(
                begun.elapsed() < COMES_MAX,
                "not within {COMES_MAX:?}: {what}; it is {found}"
            ),
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn work_kind() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(
        "work.open-cluster-management.io",
        "v1",
        "ManifestWork",
    ))
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}
