//! From a Binding to what the clusters are to hold: the objects as they are now, without what does not travel. Does what KubeStellar's
//! transport (v0.30) does in one look at a Binding. Must not touch a cluster.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DynamicObject, ObjectMeta, Patch, PatchParams};
use serde_json::{Map, Value, json};
use stagegate_api::{Binding, BoundObject};

use super::truth::ObjectRef;

/// Which Binding, or ManifestWork, told apart from a later one of the same name, and which generation of it: metadata and status move none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BringerVersion {
    uid: Option<String>,
    generation: Option<i64>,
}

impl BringerVersion {
    pub(super) fn of(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.clone(),
            generation: metadata.generation,
        }
    }

    pub(super) fn is_same_bringer(&self, other: &Self) -> bool {
        self.uid == other.uid
    }
}

/// What one Binding brings to each of its clusters, or one ManifestWork to its own.
pub(super) struct Work {
    pub(super) bringer: BringerVersion,
    pub(super) destinations: BTreeSet<String>,
    pub(super) items: Vec<Item>,
}

pub(super) struct Item {
    pub(super) object: ObjectRef,
    /// Of the object that was read, if it was.
    pub(super) uid: Option<String>,
    pub(super) create_only: bool,
    pub(super) cargo: Cargo,
}

/// An object as it travels.
#[derive(Clone)]
pub(super) struct Cargo {
    pub(super) version: String,
    pub(super) kind: String,
    /// Whether its kind counts generations.
    pub(super) counts: bool,
    pub(super) manifest: Value,
}

/// Reads the objects live: a clause's resourceVersion is only a trigger. One that is not there ends the look, before anything of the
/// Binding is written or taken away.
pub(super) async fn pack(client: &kube::Client, binding: &Binding) -> kube::Result<Result<Work, ObjectRef>> {
    let mut items = Vec::new();
    for bound in binding.spec.workload.objects() {
        let object = object_ref(bound);
        let Some(found) = fetch(client, bound).await? else {
            return Ok(Err(object));
        };
        items.push(Item {
            object,
            uid: found.uid(),
            create_only: bound.create_only,
            cargo: cargo(bound, found),
        });
    }
    let destinations = binding.spec.destinations.iter();
    Ok(Ok(Work {
        bringer: BringerVersion::of(&binding.metadata),
        destinations: destinations.map(|destination| destination.cluster_id.clone()).collect(),
        items,
    }))
}

/// Says which generation of the Binding is handed over; the conditions are somebody else's and stay.
pub(super) async fn acknowledge(client: &kube::Client, binding: &Binding) -> kube::Result<()> {
    let generation = binding.metadata.generation;
    let observed = binding.status.as_ref().map(|status| status.observed_generation);
    if generation == observed {
        return Ok(());
    }
    let patch = json!({"status": {"observedGeneration": generation}});
    let bindings: Api<Binding> = Api::all(client.clone());
    match bindings
        .patch_status(&binding.name_any(), &PatchParams::default(), &Patch::Merge(patch))
        .await
    {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other.map(drop),
    }
}

async fn fetch(client: &kube::Client, bound: &BoundObject) -> kube::Result<Option<DynamicObject>> {
    // Only the path counts for a read; the kind comes with the answer.
    let resource = ApiResource {
        group: bound.group.clone(),
        version: bound.version.clone(),
        api_version: if bound.group.is_empty() {
            bound.version.clone()
        } else {
            format!("{}/{}", bound.group, bound.version)
        },
        kind: String::new(),
        plural: bound.resource.clone(),
    };
    let api: Api<DynamicObject> = match &bound.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    api.get_opt(&bound.name).await
}

fn object_ref(bound: &BoundObject) -> ObjectRef {
    ObjectRef {
        group: bound.group.clone(),
        resource: bound.resource.clone(),
        namespace: bound.namespace.clone(),
        name: bound.name.clone(),
    }
}

fn cargo(bound: &BoundObject, object: DynamicObject) -> Cargo {
    let kind = object
        .types
        .as_ref()
        .map(|types| types.kind.clone())
        .unwrap_or_default();
    let counts = object.metadata.generation.is_some();
    let mut manifest = object.data;
    if let Value::Object(members) = &mut manifest {
        let mut metadata = Map::new();
        metadata.insert("labels".to_owned(), json!(object.metadata.labels));
        let annotations = object.metadata.annotations.map(|mut annotations| {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
            annotations
        });
        metadata.insert("annotations".to_owned(), json!(annotations));
        members.insert("metadata".to_owned(), Value::Object(metadata));
        members.remove("status");
    }
    strip_by_kind(&kind, &mut manifest);
    Cargo {
        version: bound.version.clone(),
        kind,
        counts,
        manifest,
    }
}

/// What the cluster decides for itself.
fn strip_by_kind(kind: &str, manifest: &mut Value) {
    let members: &[&str] = match kind {
        "Service" => &[
            "ipFamilies",
            "externalTrafficPolicy",
            "internalTrafficPolicy",
            "ipFamilyPolicy",
            "sessionAffinity",
            "clusterIPs",
        ],
        "Job" => &["selector", "suspend"],
        _ => return,
    };
    let Some(spec) = manifest.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    for member in members {
        spec.remove(*member);
    }
    if spec.get("clusterIP").is_some_and(|address| address != "None") {
        spec.remove("clusterIP");
    }
}
