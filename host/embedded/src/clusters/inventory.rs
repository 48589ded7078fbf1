//! The inventory entry and the mailbox namespace of each simulated cluster. Must not know what runs in it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use kube::Resource;
use kube::api::{Api, Patch, PatchParams, ResourceExt as _};
use serde_json::json;
use stagegate_api::{ManagedCluster, ManagedClusterSpec, SimulatedCluster};

use crate::client_errors::gone_is_fine;

const FIELD_MANAGER: &str = "simulated-clusters";

/// Writes the entries that differ from what was last written.
#[derive(Default)]
pub(super) struct Inventory {
    written: BTreeMap<String, (Option<String>, BTreeMap<String, String>)>,
}

impl Inventory {
    /// Both are owned by the SimulatedCluster, so they go with it even when nobody runs here.
    pub(super) async fn keep(&mut self, client: &kube::Client, cluster: &SimulatedCluster) -> kube::Result<()> {
        let name = cluster.name_any();
        let entry = (cluster.uid(), cluster.labels().clone());
        if self.written.get(&name) == Some(&entry) {
            return Ok(());
        }
        let owners: Vec<_> = cluster.owner_ref(&()).into_iter().collect();
        let metadata = json!({"name": name, "labels": cluster.labels(), "ownerReferences": owners});
        let apply = PatchParams::apply(FIELD_MANAGER).force();
        let managed = json!({
            "apiVersion": ManagedCluster::api_version(&()),
            "kind": ManagedCluster::kind(&()),
            "metadata": metadata,
            "spec": ManagedClusterSpec { hub_accepts_client: true },
        });
        Api::<ManagedCluster>::all(client.clone())
            .patch(&name, &apply, &Patch::Apply(managed))
            .await?;
        let mailbox = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "ownerReferences": owners},
        });
        Api::<Namespace>::all(client.clone())
            .patch(&name, &apply, &Patch::Apply(mailbox))
            .await?;
        self.written.insert(name, entry);
        Ok(())
    }

    /// Removes both now; where a garbage collector was faster, all the better.
    pub(super) async fn drop(&mut self, client: &kube::Client, name: &str) -> kube::Result<()> {
        self.written.remove(name);
        let managed = Api::<ManagedCluster>::all(client.clone())
            .delete(name, &Default::default())
            .await
            .map(|_| ());
        gone_is_fine(managed)?;
        gone_is_fine(
            Api::<Namespace>::all(client.clone())
                .delete(name, &Default::default())
                .await
                .map(|_| ()),
        )
    }
}
