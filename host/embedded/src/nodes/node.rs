//! The Node of a SimulatedNode. Must not know what runs on it.

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams, ResourceExt as _};
use kube::{Client, Resource as _};
use serde_json::{Value, json};
use stagegate_api::SimulatedNode;

use crate::client_errors::gone_is_fine;

const FIELD_MANAGER: &str = "simulated-nodes";

/// Taints of a node that the control plane has lost, as its lifecycle controller sets them.
const UNREACHABLE: [(&str, &str); 2] = [
    ("node.kubernetes.io/unreachable", "NoSchedule"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
];

/// Writes the Node as the SimulatedNode says. The SimulatedNode owns the Node, so garbage collection deletes it even
/// if this process does not run.
pub(super) async fn keep(client: &Client, of: &SimulatedNode) -> kube::Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    let name = of.name_any();
    let owners: Vec<_> = of.owner_ref(&()).into_iter().collect();
    let mut taints = serde_json::to_value(&of.spec.taints).map_err(kube::Error::SerdeError)?;
    let unreachable = UNREACHABLE.map(|(key, effect)| json!({"key": key, "effect": effect}));
    if let Some(taints) = taints.as_array_mut().filter(|_| of.spec.unreachable) {
        taints.extend(unreachable);
    }
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": of.labels(), "ownerReferences": owners},
        "spec": {"taints": taints},
    });
    let apply = PatchParams::apply(FIELD_MANAGER).force();
    let written = api.patch(&name, &apply, &Patch::Apply(&node)).await?;
    let found = written.spec.and_then(|spec| spec.taints).unwrap_or_default();
    // Admission gives a Node that is created the taint of one that is not ready.
    if found.len() != taints.as_array().map_or(0, Vec::len) {
        api.patch(&name, &apply, &Patch::Apply(&node)).await?;
    }
    let status = Patch::Merge(json!({"status": status(of.spec.unreachable)}));
    api.patch_status(&name, &PatchParams::default(), &status)
        .await
        .map(drop)
}

fn status(unreachable: bool) -> Value {
    let size = json!({"cpu": "64", "memory": "256Gi", "pods": "250"});
    let ready = match unreachable {
        true => json!({"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}),
        false => json!({"type": "Ready", "status": "True", "reason": "KubeletReady"}),
    };
    json!({"capacity": size, "allocatable": size, "conditions": [ready]})
}

pub(super) async fn drop_node(client: &Client, name: &str) -> kube::Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    gone_is_fine(api.delete(name, &Default::default()).await.map(drop))
}
