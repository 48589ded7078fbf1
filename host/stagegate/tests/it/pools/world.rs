//! An embedded API server, the controller, and whatever else a cluster with node pools has: NodePools that tests write, and the
//! controllers of Deployments and StatefulSets, played by [`World::roll_out`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use stagegate::options::{ControllerName, Options};
use stagegate::start::{self, RunningControllers};
use stagegate_api::crd;
use stagegate_api::workloads::{TemplateType, WorkloadView, YurtAppDaemon, YurtAppDaemonStatus};
use stagegate_clock::{SharedClock, TokioClock};
use stagegate_embedded::Server;

use crate::harness::{GATES, Tap, sandbox};

pub const NAMESPACE: &str = "shop";

pub struct World {
    pub server: Server,
    pub client: Client,
    pub tap: Tap,
    /// One for all processes, as a cluster has.
    clock: SharedClock,
    running: Option<RunningControllers>,
}

impl World {
    pub async fn start() -> Self {
        Self::start_with("v1beta2").await
    }

    /// With NodePools in this version.
    pub async fn start_with(version: &'static str) -> Self {
        let mut world = Self::start_without_controller(Some(version)).await;
        world.start_controller().await;
        world
    }

    /// With a definition that takes anything, and without a controller.
    pub async fn start_loose() -> Self {
        let mut definitions = crd::workloads();
        for version in definitions
            .iter_mut()
            .flat_map(|definition| &mut definition.spec.versions)
        {
            let anything = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
            version.schema = serde_json::from_value(anything).unwrap();
        }
        Self::of_definitions(definitions, Some("v1beta2")).await
    }

    /// `None`: no NodePools are served.
    pub async fn start_without_controller(version: Option<&'static str>) -> Self {
        Self::of_definitions(crd::workloads(), version).await
    }

    async fn of_definitions(workloads: Vec<CustomResourceDefinition>, version: Option<&'static str>) -> Self {
        let clock = TokioClock::shared();
        let server = Server::new(clock.clone());
        server.install_crds(workloads).unwrap();
        server
            .install_crds(version.map(crd::node_pools).into_iter().collect())
            .unwrap();
        let client = server.client();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        for name in [NAMESPACE, GATES] {
            let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        }
        let tap = Tap::new(server.router(), "host");
        Self {
            server,
            client,
            tap,
            clock,
            running: None,
        }
    }

    fn options() -> Options {
        Options {
            controllers: BTreeSet::from([ControllerName::YurtAppDaemon]),
            sandbox: sandbox(),
            ..Options::default()
        }
    }

    pub async fn start_controller(&mut self) {
        let running = start::start(self.tap.client(), self.clock.clone(), Self::options()).await;
        self.running = Some(running.unwrap());
    }

    /// One whose first request fails is started again, as a cluster would.
    pub async fn start_controller_with_patience(&mut self) {
        for _try in 0..5 {
            let options = Self::options();
            let starting = start::start(self.tap.client(), self.clock.clone(), options);
            tokio::select! {
                started = starting => if let Ok(running) = started {
                    self.running = Some(running);
                    return;
                },
                () = self.tap.dry() => self.tap.flow_again(),
            }
        }
        panic!("the controller does not start");
    }

    /// Until the daemon is completed; a controller that is killed meanwhile is started again.
    pub async fn work_off(&mut self, name: &str) {
        for _second in 0..300 {
            let is_dry = tokio::select! { () = self.tap.dry() => true, () = self.pass(1) => false };
            if is_dry {
                self.kill_controller();
                self.tap.flow_again();
                self.start_controller_with_patience().await;
            }
            self.roll_out().await;
            let daemon = self.daemons().get(name).await.unwrap();
            let status = daemon.status.unwrap_or_default();
            if status.observed_generation == daemon.metadata.generation && condition(&status, "Ready") == "True" {
                return;
            }
        }
        panic!("not completed: {:#?}", self.status(name).await);
    }

    /// Decisions so far.
    pub fn decisions(&self) -> u64 {
        self.running.as_ref().map_or(0, |running| running.counters().reconciles)
    }

    /// As `kill -9` would.
    pub fn kill_controller(&mut self) {
        drop(self.running.take());
    }

    pub async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    // -- pools

    pub fn pools(&self) -> Api<DynamicObject> {
        self.pools_in("v1beta2")
    }

    pub fn pools_in(&self, version: &str) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &resource("apps.openyurt.io", version, "NodePool"))
    }

    /// With these labels, as JSON, and no taints.
    pub async fn pool(&self, name: &str, labels: Value) {
        self.pool_with(name, labels, json!({})).await;
    }

    pub async fn pool_with(&self, name: &str, labels: Value, spec: Value) {
        let pool = json!({
            "apiVersion": "apps.openyurt.io/v1beta2", "kind": "NodePool", "metadata": {"name": name, "labels": labels}, "spec": spec,
        });
        let pool = serde_json::from_value(pool).unwrap();
        self.pools().create(&PostParams::default(), &pool).await.unwrap();
    }

    pub async fn edit_pool(&self, name: &str, patch: Value) {
        merge(&self.pools(), name, patch).await;
    }

    // -- daemons

    pub fn daemons(&self) -> Api<YurtAppDaemon> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub async fn create(&self, daemon: &Value) -> kube::Result<YurtAppDaemon> {
        let daemon = serde_json::from_value(daemon.clone()).unwrap();
        self.daemons().create(&PostParams::default(), &daemon).await
    }

    /// As it is, whether or not it decodes.
    pub async fn create_raw(&self, object: &Value) -> kube::Result<DynamicObject> {
        let kind = resource("apps.openyurt.io", "v1alpha1", "YurtAppDaemon");
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), NAMESPACE, &kind);
        let object = serde_json::from_value(object.clone()).unwrap();
        api.create(&PostParams::default(), &object).await
    }

    /// A cluster-scoped object of any kind.
    pub async fn create_any(&self, object: &Value) {
        let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
        let kind = object["kind"].as_str().unwrap();
        let plural = match kind {
            "ValidatingAdmissionPolicy" => "validatingadmissionpolicies".to_owned(),
            kind => format!("{}s", kind.to_lowercase()),
        };
        let gvk = kube::core::GroupVersionKind::gvk(group, version, kind);
        let api: Api<DynamicObject> =
            Api::all_with(self.client.clone(), &ApiResource::from_gvk_with_plural(&gvk, &plural));
        let object = serde_json::from_value(object.clone()).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    pub async fn edit(&self, name: &str, patch: Value) {
        merge(&self.daemons(), name, patch).await;
    }

    pub async fn status(&self, name: &str) -> YurtAppDaemonStatus {
        self.daemons().get(name).await.unwrap().status.unwrap_or_default()
    }

    /// Waits until status is as `is` says.
    pub async fn until(
        &self,
        name: &str,
        seconds: u64,
        is: impl Fn(&YurtAppDaemonStatus) -> bool,
    ) -> YurtAppDaemonStatus {
        for _tenth in 0..seconds * 10 {
            let status = self.status(name).await;
            if is(&status) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("not within {seconds} s: {:#?}", self.status(name).await);
    }

    pub async fn until_completed(&self, name: &str) -> YurtAppDaemonStatus {
        for _second in 0..60 {
            self.roll_out().await;
            let daemon = self.daemons().get(name).await.unwrap();
            let status = daemon.status.unwrap_or_default();
            let is_of_now = status.observed_generation == daemon.metadata.generation;
            if is_of_now && condition(&status, "Ready") == "True" {
                return status;
            }
            self.pass(1).await;
        }
        panic!("not completed: {:#?}", self.status(name).await);
    }

    // -- workloads

    pub fn workloads(&self, kind: TemplateType) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource("apps", "v1", kind.kind()))
    }

    pub async fn views(&self, kind: TemplateType) -> Vec<WorkloadView> {
        let api: Api<WorkloadView> = Api::namespaced_with(self.client.clone(), NAMESPACE, &kind);
        api.list(&ListParams::default()).await.unwrap().items
    }

    /// The Deployments by their pools.
    pub async fn deployments(&self) -> BTreeMap<String, WorkloadView> {
        let all = self.views(TemplateType::Deployment).await;
        let of_pools = all.into_iter().filter_map(|view| {
            let pool = view.annotations().get("apps.openyurt.io/ref-nodepool")?.clone();
            Some((pool, view))
        });
        of_pools.collect()
    }

    pub async fn deployment(&self, pool: &str) -> Value {
        let name = self.deployments().await[pool].name_any();
        let found = self.workloads(TemplateType::Deployment).get(&name).await.unwrap();
        serde_json::to_value(found).unwrap()
    }

    pub async fn edit_workload(&self, name: &str, patch: Value) {
        merge(&self.workloads(TemplateType::Deployment), name, patch).await;
    }

    /// What the controllers of Deployments and StatefulSets would report once everything runs.
    pub async fn roll_out(&self) {
        for kind in TemplateType::ALL {
            for view in self.views(kind).await {
                self.report(kind, &view, view.spec.replicas.unwrap_or(1)).await;
            }
        }
    }

    /// Its controller has seen this generation, and so many replicas are updated and available.
    pub async fn report(&self, kind: TemplateType, view: &WorkloadView, available: i64) {
        let wanted = view.spec.replicas.unwrap_or(1);
        let is_done = available >= wanted;
        let status = json!({
            "observedGeneration": view.metadata.generation, "replicas": wanted, "updatedReplicas": available, "readyReplicas": available,
            "availableReplicas": available,
            "conditions": [
                {"type": "Available", "status": if is_done { "True" } else { "False" }},
                {"type": "Progressing", "status": "True", "reason": if is_done { "NewReplicaSetAvailable" } else { "ReplicaSetUpdated" }},
            ],
        });
        let patch = Patch::Merge(json!({"status": status}));
        let api = self.workloads(kind);
        api.patch_status(&view.name_any(), &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub async fn revisions(&self) -> Vec<ControllerRevision> {
        let api: Api<ControllerRevision> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut all = api.list(&ListParams::default()).await.unwrap().items;
        all.sort_by_key(|revision| revision.revision);
        all
    }

    // -- what was told

    /// The reasons of the Events about the daemon.
    pub async fn events(&self, name: &str) -> BTreeSet<String> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), NAMESPACE);
        let all = api.list(&ListParams::default()).await.unwrap().items;
        let of_daemon = all
            .into_iter()
            .filter(|event| event.regarding.as_ref().and_then(|about| about.name.as_deref()) == Some(name));
        of_daemon.filter_map(|event| event.reason).collect()
    }

    /// What the Events about the daemon say.
    pub async fn notes(&self, name: &str) -> Vec<String> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), NAMESPACE);
        let all = api.list(&ListParams::default()).await.unwrap().items.into_iter();
        let of_daemon = all.filter(|event| {
            let about = event.regarding.as_ref();
            about.and_then(|about| about.name.as_deref()) == Some(name)
        });
        of_daemon.filter_map(|event| event.note).collect()
    }

    /// The writes of the controller while nothing happens for so long.
    pub async fn writes_in(&self, seconds: u64) -> u64 {
        let before = self.tap.writes();
        self.pass(seconds).await;
        self.tap.writes() - before
    }
}

pub fn condition<'a>(status: &'a YurtAppDaemonStatus, type_: &str) -> &'a str {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_);
    found.map_or("absent", |condition| &condition.status)
}

pub fn message<'a>(status: &'a YurtAppDaemonStatus, type_: &str) -> &'a str {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_);
    found.map_or("", |condition| &condition.message)
}

async fn merge<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

pub async fn delete<K>(api: &Api<K>, name: &str)
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, kind))
}

/// A daemon with a Deployment of two replicas in every pool that has the label `tier: edge`.
pub fn daemon(name: &str) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps.openyurt.io/v1alpha1", "kind": "YurtAppDaemon",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "nodepoolSelector": {"matchLabels": {"tier": "edge"}},
            "workloadTemplate": {"deploymentTemplate": {
                "metadata": {"labels": labels},
                "spec": {"replicas": 2, "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": "web:1"}]},
                }},
            }},
        },
    })
}

/// The same with a StatefulSet.
pub fn stateful(name: &str) -> Value {
    let mut daemon = daemon(name);
    let mut template = daemon["spec"]["workloadTemplate"]["deploymentTemplate"].take();
    template["spec"]["serviceName"] = json!("headless");
    template["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }]);
    daemon["spec"]["workloadTemplate"] = json!({"statefulSetTemplate": template});
    daemon
}

/// A patch of the template's image.
pub fn image(tag: u32) -> Value {
    let containers = json!([{"name": "main", "image": format!("web:{tag}")}]);
    json!({"spec": {"workloadTemplate": {"deploymentTemplate": {"spec": {"template": {"spec": {"containers": containers}}}}}}})
}

pub fn edge() -> Value {
    json!({"tier": "edge"})
}
