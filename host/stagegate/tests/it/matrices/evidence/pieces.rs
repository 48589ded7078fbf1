//! The pieces: where each is on the control plane, how it is tampered with, and how it is put back. Must not know what
//! comes of it.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Resource, ResourceExt as _};
use serde_json::{Value, json};
use stagegate_api::{
    Binding, BindingPolicy, CombinedStatus, ManagedCluster, StagedBindingPolicy, StatusCollector, WorkStatus,
    annotation, evidence,
};

use super::Tampering;
use crate::harness::{GATES, NAMESPACE, World};

/// A piece of what stage dev of `web` rests on.
#[derive(Clone, Copy, PartialEq)]
pub enum Piece {
    /// What is combined about `web` under dev.
    Combined,
    /// The same where the server takes anything for one.
    LooseCombined,
    /// What dev-2 says about `web`.
    Report,
    Binding,
    LooseBinding,
    Placement,
    /// The user's, by name.
    Collector(&'static str),
    OurCollector,
    /// The gate's ConfigMap.
    Component,
    Policy,
    Workload,
    /// dev-1 in the inventory: where a cluster is sick, it is the other one.
    Cluster,
}

impl Piece {
    /// The kind that the server takes without a schema.
    pub fn is_loose(self) -> Option<&'static str> {
        match self {
            Self::LooseCombined => Some("combinedstatuses"),
            Self::LooseBinding => Some("bindings"),
            _ => None,
        }
    }

    fn api(self, world: &World) -> Api<DynamicObject> {
        let client = world.client.clone();
        match self {
            Self::Combined | Self::LooseCombined => {
                Api::namespaced_with(client, NAMESPACE, &erased::<CombinedStatus>())
            }
            Self::Report => Api::namespaced_with(client, "dev-2", &erased::<WorkStatus>()),
            Self::Binding | Self::LooseBinding => Api::all_with(client, &erased::<Binding>()),
            Self::Placement => Api::all_with(client, &erased::<BindingPolicy>()),
            Self::Collector(_) | Self::OurCollector => Api::all_with(client, &erased::<StatusCollector>()),
            Self::Component => Api::namespaced_with(client, GATES, &erased::<ConfigMap>()),
            Self::Policy => Api::all_with(client, &erased::<StagedBindingPolicy>()),
            Self::Workload => Api::namespaced_with(client, NAMESPACE, &erased::<Deployment>()),
            Self::Cluster => Api::all_with(client, &erased::<ManagedCluster>()),
        }
    }

    fn has_status(self) -> bool {
        matches!(
            self,
            Self::Report | Self::Placement | Self::Collector(_) | Self::OurCollector
        )
    }

    fn is_put_back_by_others(self) -> bool {
        matches!(
            self,
            Self::Combined | Self::LooseCombined | Self::Binding | Self::Placement
        )
    }

    async fn name(self, world: &World) -> String {
        match self {
            Self::Combined | Self::LooseCombined => {
                let object = world.deployments().get("web").await.unwrap();
                let placement = world.binding_policies().get("web.stage.dev").await.unwrap();
                CombinedStatus::name_of(&object.uid().unwrap(), &placement.uid().unwrap())
            }
            Self::Report => "simulated-appsv1-deployment-shop-web".to_owned(),
            Self::Binding | Self::LooseBinding | Self::Placement => "web.stage.dev".to_owned(),
            Self::Collector(name) => name.to_owned(),
            Self::OurCollector => evidence::collector_name(),
            Self::Component => "min-available".to_owned(),
            Self::Policy | Self::Workload => "web".to_owned(),
            Self::Cluster => "dev-1".to_owned(),
        }
    }
}

fn erased<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

/// A piece as it was, and what tampering with it needs to know.
pub struct Scene {
    piece: Piece,
    name: String,
    original: Value,
    first: Value,
    /// What stands for a uid in texts, and the uid.
    uids: BTreeMap<&'static str, String>,
}

impl Scene {
    /// The piece as soon as it is there.
    pub async fn first(world: &World, piece: Piece) -> Value {
        world
            .until_so("dev is opened", 30, async || !world.open("web").await.is_empty())
            .await;
        let (api, name) = (piece.api(world), piece.name(world).await);
        for _ in 0..200 {
            if let Some(found) = api.get_opt(&name).await.unwrap() {
                return serde_json::to_value(found).unwrap();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("there is no {name}");
    }

    pub async fn of(world: &World, piece: Piece, first: Value) -> Self {
        let name = piece.name(world).await;
        let original = piece.api(world).get(&name).await.unwrap();
        let other = world.create(&other_object()).await.unwrap();
        let placement = async |name: &str| world.binding_policies().get(name).await.unwrap().uid().unwrap();
        let uids = BTreeMap::from([
            ("$dev", placement("web.stage.dev").await),
            ("$test", placement("web.stage.test").await),
            ("$other", other.uid().unwrap()),
        ]);
        Self {
            piece,
            name,
            original: serde_json::to_value(original).unwrap(),
            first,
            uids,
        }
    }

    pub async fn tamper(&self, world: &World, tampering: Tampering) {
        let api = self.piece.api(world);
        match tampering {
            Tampering::Deleted => self.delete(&api).await,
            Tampering::BeingDeleted => {
                self.patch(&api, json!({"metadata": {"finalizers": ["example.org/keep"]}}))
                    .await;
                api.delete(&self.name, &DeleteParams::default()).await.unwrap();
            }
            Tampering::Edited(edit) => self.replace(&api, &self.edited(edit)).await,
            Tampering::StatusEdited(edit) => self.replace_status(&api, &self.edited(edit)).await,
            Tampering::MadeAnew(edit) => {
                self.delete(&api).await;
                self.create(world, self.edited(edit)).await;
            }
            Tampering::Doubled(edit) => self.create(world, self.edited(edit)).await,
            Tampering::AsAtFirst => self.replace(&api, &self.first).await,
        }
    }

    /// Puts back what nobody else does.
    pub async fn put_back(&self, world: &World, tampering: Tampering) {
        let api = self.piece.api(world);
        if let Tampering::Doubled(edit) = tampering {
            let second = self.edited(edit)["metadata"]["name"].as_str().unwrap().to_owned();
            api.delete(&second, &DeleteParams::default()).await.unwrap();
        }
        let mut now = api.get_opt(&self.name).await.unwrap();
        if self.piece != Piece::Placement && now.as_ref().is_some_and(is_leaving) {
            self.patch(&api, json!({"metadata": {"finalizers": null}})).await;
            now = None;
        }
        let owners = json!({"metadata": {"ownerReferences": self.original["metadata"]["ownerReferences"]}});
        match (self.piece, now) {
            (Piece::Placement, Some(now)) if !is_leaving(&now) => self.patch(&api, owners).await,
            // Of a Binding's status the parts write only what they know.
            (Piece::Binding, Some(_)) if matches!(tampering, Tampering::StatusEdited(_)) => {
                self.replace_status(&api, &self.original).await;
            }
            (piece, _) if piece.is_put_back_by_others() => {}
            // What was made anew just as it was reaches no cluster as an edit: another edit does.
            (Piece::Workload, None) => self.create(world, self.edited(another_image)).await,
            (Piece::Workload, Some(_)) => self.replace(&api, &self.edited(another_image)).await,
            (_, None) => self.create(world, self.original.clone()).await,
            (piece, Some(_)) => {
                self.replace(&api, &self.original).await;
                if piece.has_status() {
                    self.replace_status(&api, &self.original).await;
                }
            }
        }
    }

    /// The host's own piece says what it said, whatever its identity and its attempt.
    pub async fn is_put_back(&self, world: &World) {
        let now = self.piece.api(world).get_opt(&self.name).await.unwrap();
        let now = serde_json::to_value(now.expect("it is there again")).unwrap();
        let content = |object: &Value| {
            let metadata = &object["metadata"];
            let plan = metadata["annotations"][annotation::REVISION].clone();
            let is_proven_against = metadata["annotations"][annotation::BASELINE_VERSION].is_string();
            (
                object["spec"].clone(),
                plan,
                is_proven_against,
                metadata["labels"].clone(),
            )
        };
        assert_eq!(content(&now), content(&self.original), "it is put back");
    }

    fn edited(&self, edit: fn(&mut Value)) -> Value {
        let mut object = self.original.clone();
        edit(&mut object);
        let mut text = object.to_string();
        for (stand_in, uid) in &self.uids {
            text = text.replace(stand_in, uid);
        }
        serde_json::from_str(&text).unwrap()
    }

    async fn delete(&self, api: &Api<DynamicObject>) {
        api.delete(&self.name, &DeleteParams::default()).await.unwrap();
    }

    async fn create(&self, world: &World, mut object: Value) {
        for member in [
            "uid",
            "resourceVersion",
            "managedFields",
            "creationTimestamp",
            "generation",
        ] {
            object["metadata"].as_object_mut().unwrap().remove(member);
        }
        let made = world.create(&object).await.unwrap();
        if self.piece.has_status() && !object["status"].is_null() {
            object["metadata"]["resourceVersion"] = json!(made.metadata.resource_version);
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            let api = match (self.piece, object.namespace()) {
                (Piece::Report, Some(cluster)) => {
                    Api::namespaced_with(world.client.clone(), &cluster, &erased::<WorkStatus>())
                }
                _ => self.piece.api(world),
            };
            replace_status(&api, &object).await;
        }
    }

    async fn patch(&self, api: &Api<DynamicObject>, patch: Value) {
        let patch = Patch::Merge(patch);
        api.patch(&self.name, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn replace(&self, api: &Api<DynamicObject>, object: &Value) {
        let object = self.at_its_version(api, object).await;
        api.replace(&self.name, &PostParams::default(), &object).await.unwrap();
    }

    async fn replace_status(&self, api: &Api<DynamicObject>, object: &Value) {
        let object = self.at_its_version(api, object).await;
        replace_status(api, &object).await;
    }

    async fn at_its_version(&self, api: &Api<DynamicObject>, object: &Value) -> DynamicObject {
        let mut object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let now = api.get(&self.name).await.unwrap().metadata;
        (object.metadata.uid, object.metadata.resource_version) = (now.uid, now.resource_version);
        object
    }
}

fn is_leaving(object: &DynamicObject) -> bool {
    object.metadata.deletion_timestamp.is_some()
}

async fn replace_status(api: &Api<DynamicObject>, object: &DynamicObject) {
    let name = object.name_any();
    api.replace_status(&name, &PostParams::default(), object).await.unwrap();
}

/// An object of the workload's kind that no policy selects.
fn other_object() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "other", "namespace": NAMESPACE},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "other"}},
            "template": {
                "metadata": {"labels": {"app": "other"}},
                "spec": {"containers": [{"name": "other", "image": "registry.example/other:1"}]},
            },
        },
    })
}

fn another_image(workload: &mut Value) {
    workload["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.example/web:9");
}
