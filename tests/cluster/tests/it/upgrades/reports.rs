//! What clusters and nodes report, each time that is looked. All that is known of a cluster stands in its WorkStatus, so that reports go on where a
//! recording has ended. Must not know what a rollout waits for.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use stagegate_api::{Binding, BoundObject, SourceRef, WorkStatus};
use stagegate_cluster_tests::installation::Kind;

use crate::scenario::apply;

pub const NAMESPACE: &str = "shop";
/// All Deployments have as many.
pub const REPLICAS: i64 = 2;
/// On a WorkStatus: the Binding that has brought the object, and which generation of it.
const BROUGHT_BY: &str = "tests/brought-by";
/// On a WorkStatus: the generation of the object that was brought.
const BROUGHT: &str = "tests/brought";

pub struct Reports {
    client: Client,
    kind: Kind,
    /// Clusters and names of Deployments, or pools and names, with a replica that is not available.
    pub short: BTreeSet<(&'static str, &'static str)>,
}

impl Reports {
    pub fn of(client: &Client, kind: Kind) -> Reports {
        Reports {
            client: client.clone(),
            kind,
            short: BTreeSet::new(),
        }
    }

    /// Writes what is new.
    ///
    /// # Errors
    /// Of the API server.
    pub async fn look(&self) -> anyhow::Result<()> {
        match self.kind {
            Kind::NodePools => self.look_at_pools().await,
            Kind::PlainCluster | Kind::BesideKubeStellar => self.look_at_clusters().await,
        }
    }

    fn is_short(&self, place: &str, name: &str) -> bool {
        self.short.contains(&(place, name))
    }

    async fn look_at_pools(&self) -> anyhow::Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        for deployment in deployments.list(&ListParams::default()).await? {
            let name = deployment.name_any();
            let pool = deployment.annotations().get("apps.openyurt.io/ref-nodepool");
            let owner = deployment.owner_references().first().map(|owner| owner.name.clone());
            let (pool, owner) = pool.zip(owner).context("a Deployment of no YurtAppDaemon")?;
            let generation = deployment.metadata.generation.unwrap_or_default();
            let status = status(generation, self.is_short(pool, &owner));
            if serde_json::to_value(&deployment.status)? != status {
                let patch = Patch::Merge(json!({ "status": status }));
                deployments.patch_status(&name, &PatchParams::default(), &patch).await?;
            }
        }
        Ok(())
    }

    async fn look_at_clusters(&self) -> anyhow::Result<()> {
        let all: Api<WorkStatus> = Api::all(self.client.clone());
        let key = |report: &WorkStatus| (report.namespace().unwrap_or_default(), report.name_any());
        let mut known: BTreeMap<(String, String), WorkStatus> = BTreeMap::new();
        for report in all.list(&ListParams::default()).await? {
            known.insert(key(&report), report);
        }
        let bindings: Api<Binding> = Api::all(self.client.clone());
        for binding in bindings.list(&ListParams::default()).await? {
            for bound in binding.spec.workload.objects() {
                for to in &binding.spec.destinations {
                    let place = (to.cluster_id.clone(), bound.name.clone());
                    let report = known.remove(&place);
                    self.report(&binding, bound, (place, report)).await?;
                }
            }
            let observed = binding.status.as_ref().map(|status| status.observed_generation);
            if observed != binding.metadata.generation {
                let patch = Patch::Merge(json!({"status": {"observedGeneration": binding.metadata.generation}}));
                let name = binding.name_any();
                bindings.patch_status(&name, &PatchParams::default(), &patch).await?;
            }
        }
        for (cluster, name) in known.into_keys() {
            let mailbox: Api<WorkStatus> = Api::namespaced(self.client.clone(), &cluster);
            mailbox.delete(&name, &DeleteParams::default()).await?;
        }
        Ok(())
    }

    /// As KubeStellar's transport does it, the object is read when the generation of its Binding moves.
    async fn report(
        &self,
        binding: &Binding,
        bound: &BoundObject,
        ((cluster, name), known): ((String, String), Option<WorkStatus>),
    ) -> anyhow::Result<()> {
        let generation = binding.metadata.generation.unwrap_or_default();
        let brought_by = format!("{}/{generation}", binding.uid().unwrap_or_default());
        let noted = |name: &str| known.as_ref().and_then(|known| known.annotations().get(name).cloned());
        let known = known
            .as_ref()
            .map(serde_json::to_value)
            .transpose()?
            .unwrap_or_default();
        let brought = match noted(BROUGHT).filter(|_| noted(BROUGHT_BY).as_ref() == Some(&brought_by)) {
            Some(brought) => brought,
            None => {
                let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
                let found = deployments.get(&name).await?;
                found.metadata.generation.unwrap_or_default().to_string()
            }
        };
        let of_cluster = known["status"]["observedGeneration"].as_i64().unwrap_or_default();
        let is_new = noted(BROUGHT).as_ref() != Some(&brought);
        let status = status(of_cluster + i64::from(is_new), self.is_short(&cluster, &name));
        if noted(BROUGHT_BY).as_ref() != Some(&brought_by) {
            let source = SourceRef {
                group: bound.group.clone(),
                version: bound.version.clone(),
                resource: bound.resource.clone(),
                kind: "Deployment".to_owned(),
                namespace: NAMESPACE.to_owned(),
                name: name.clone(),
            };
            let report = json!({
                "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "WorkStatus",
                "metadata": {
                    "name": name, "namespace": cluster,
                    "annotations": {BROUGHT_BY: brought_by, BROUGHT: brought},
                },
                "spec": {"sourceRef": source},
            });
            apply(&self.client, &report).await?;
        }
        if known["status"] != status {
            let mailbox: Api<WorkStatus> = Api::namespaced(self.client.clone(), &cluster);
            let patch = json!([{"op": "add", "path": "/status", "value": status}]);
            let patch = Patch::<()>::Json(serde_json::from_value(patch)?);
            mailbox.patch_status(&name, &PatchParams::default(), &patch).await?;
        }
        Ok(())
    }
}

/// Of a Deployment that is rolled out, or has a replica that is not available.
fn status(generation: i64, is_short: bool) -> Value {
    let (ready, reason) = match is_short {
        true => (REPLICAS - 1, "ReplicaSetUpdated"),
        false => (REPLICAS, "NewReplicaSetAvailable"),
    };
    let mut status = json!({
        "observedGeneration": generation,
        "replicas": REPLICAS, "updatedReplicas": REPLICAS, "readyReplicas": ready, "availableReplicas": ready,
        "conditions": [
            {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
            {"type": "Progressing", "status": "True", "reason": reason},
        ],
    });
    if is_short {
        status["unavailableReplicas"] = json!(REPLICAS - ready);
    }
    status
}
