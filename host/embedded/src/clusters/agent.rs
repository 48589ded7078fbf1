//! From a ManifestWork to what its cluster is to hold, and what the ManifestWork says then: the part of Open Cluster Management's work agent.
//! Must not touch a cluster.
//!
//! The agent's finalizer is left out, so a ManifestWork is gone at once. What a cluster that cannot be reached still holds, its memory says.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{CustomResource, ResourceExt as _, discovery};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::transport::{BringerVersion, Cargo, Item, Work};
use super::truth::ObjectRef;
use crate::client_errors::gone_is_fine;

/// As far as it is read here.
#[derive(Clone, CustomResource, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "work.open-cluster-management.io",
    version = "v1",
    kind = "ManifestWork",
    plural = "manifestworks",
    namespaced,
    status = "ManifestWorkStatus",
    schema = "disabled"
)]
pub(super) struct ManifestWorkSpec {
    #[serde(default)]
    workload: Workload,
    #[serde(default)]
    manifest_configs: Vec<ManifestConfig>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Workload {
    #[serde(default)]
    manifests: Vec<Value>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ManifestConfig {
    resource_identifier: Identifier,
    #[serde(default)]
    update_strategy: UpdateStrategy,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Identifier {
    group: String,
    resource: String,
    namespace: String,
    name: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct UpdateStrategy {
    #[serde(default, rename = "type")]
    kind: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct ManifestWorkStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    observed_generation: Option<i64>,
}

/// The resources of kinds, as far as they were asked for: a manifest says only of which kind it is.
#[derive(Default)]
pub(super) struct Kinds {
    resources: HashMap<GroupVersionKind, String>,
}

impl Kinds {
    async fn resource(&mut self, client: &kube::Client, kind: &GroupVersionKind) -> kube::Result<String> {
        if let Some(known) = self.resources.get(kind) {
            return Ok(known.clone());
        }
        let (found, _) = discovery::pinned_kind(client, kind).await?;
        self.resources.insert(kind.clone(), found.plural.clone());
        Ok(found.plural)
    }
}

pub(super) async fn unpack(client: &kube::Client, work: &ManifestWork, kinds: &mut Kinds) -> kube::Result<Work> {
    let mut items = Vec::new();
    for manifest in &work.spec.workload.manifests {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = match text("/apiVersion").split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", text("/apiVersion")),
        };
        let kind = GroupVersionKind::gvk(group, version, text("/kind"));
        let namespace = Some(text("/metadata/namespace")).filter(|namespace| !namespace.is_empty());
        let object = ObjectRef {
            group: group.to_owned(),
            resource: kinds.resource(client, &kind).await?,
            namespace: namespace.map(str::to_owned),
            name: text("/metadata/name").to_owned(),
        };
        items.push(Item {
            create_only: work.spec.creates_only(&object),
            object,
            // A ManifestWork is named after the object that it was made of.
            uid: None,
            cargo: cargo(kind, manifest),
        });
    }
    Ok(Work {
        bringer: BringerVersion::of(&work.metadata),
        destinations: BTreeSet::from_iter(work.namespace()),
        items,
    })
}

impl ManifestWorkSpec {
    fn creates_only(&self, object: &ObjectRef) -> bool {
        self.manifest_configs.iter().any(|config| {
            let of = &config.resource_identifier;
            let namespace = object.namespace.as_deref().unwrap_or_default();
            config.update_strategy.kind == "CreateOnly"
                && (&of.group, &of.resource, &of.name) == (&object.group, &object.resource, &object.name)
                && of.namespace == namespace
        })
    }
}

fn cargo(kind: GroupVersionKind, manifest: &Value) -> Cargo {
    let mut manifest = manifest.clone();
    if let Value::Object(members) = &mut manifest {
        let metadata = members.remove("metadata").unwrap_or_default();
        let kept = ["labels", "annotations"].map(|member| (member.to_owned(), metadata[member].clone()));
        members.insert("metadata".to_owned(), Value::Object(Map::from_iter(kept)));
        members.retain(|member, _| member != "apiVersion" && member != "kind");
    }
    Cargo {
        version: kind.version,
        // The older groups have kinds whose objects count no generations.
        counts: !matches!(kind.group.as_str(), "" | "rbac.authorization.k8s.io"),
        kind: kind.kind,
        manifest,
    }
}

/// Says that the cluster holds this generation of the ManifestWork, once.
pub(super) async fn acknowledge(client: &kube::Client, work: &ManifestWork, now: Timestamp) -> kube::Result<()> {
    let generation = work.metadata.generation;
    let conditions = work.status.as_ref().map(|status| status.conditions.as_slice());
    let is_applied = |condition: &Condition| condition.kind == "Applied" && condition.observed_generation == generation;
    if conditions.unwrap_or_default().iter().any(is_applied) {
        return Ok(());
    }
    let conditions = [
        ("Applied", "AppliedManifestWorkComplete", "the manifests are applied"),
        ("Available", "ResourcesAvailable", "the objects are there"),
    ];
    let conditions = conditions.map(|(kind, reason, message)| {
        json!({
            "type": kind, "status": "True", "reason": reason, "message": message,
            "observedGeneration": generation, "lastTransitionTime": now.to_string(),
        })
    });
    let patch = json!({"status": {"conditions": conditions}});
    let works: Api<ManifestWork> = Api::namespaced(client.clone(), &work.namespace().unwrap_or_default());
    let told = works
        .patch_status(&work.name_any(), &PatchParams::default(), &Patch::Merge(patch))
        .await;
    gone_is_fine(told.map(drop))
}
