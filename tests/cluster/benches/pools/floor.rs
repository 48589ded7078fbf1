//! The floor: it lists the NodePools once, and makes the writes that no controller could do without: a ControllerRevision, a Deployment for
//! each pool by server-side apply, as many at once as Stagegate, and status once before and once after. Must not watch anything.

use std::path::Path;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, PartialObjectMeta};
use serde_json::json;
use stagegate_api::workloads::{TemplateType, YurtAppDaemon};
use stagegate_cluster_tests::control_plane;

use crate::world::{NAME, NAMESPACE, REPLICAS, daemons, pools};

const CONCURRENCY: usize = 8;
const REVISION: &str = "web-floor";

/// Runs until it is killed.
pub async fn run(kubeconfig: &Path) -> anyhow::Result<()> {
    let client = control_plane::client(kubeconfig).await?;
    let daemon = daemons(&client).get(NAME).await?;
    let uid = daemon.metadata.uid.clone().unwrap_or_default();
    let listed: Vec<PartialObjectMeta<DynamicObject>> =
        pools(&client).list_metadata(&ListParams::default()).await?.items;
    let revisions: Api<ControllerRevision> = Api::namespaced(client.clone(), NAMESPACE);
    let owner = json!([{
        "apiVersion": "apps.openyurt.io/v1alpha1", "kind": "YurtAppDaemon", "name": NAME, "uid": uid, "controller": true,
        "blockOwnerDeletion": true,
    }]);
    let revision = json!({
        "metadata": {"name": REVISION, "namespace": NAMESPACE, "labels": {"app": NAME}, "ownerReferences": owner}, "revision": 1,
        "data": {"spec": {"workloadTemplate": daemon.spec.workload_template}},
    });
    revisions
        .create(&PostParams::default(), &serde_json::from_value(revision)?)
        .await?;
    status(&daemons(&client), 0).await?;
    let workloads: Api<PartialObjectMeta<DynamicObject>> =
        Api::namespaced_with(client.clone(), NAMESPACE, &deployment_resource());
    let applied = listed.iter().filter_map(|pool| pool.metadata.name.clone()).map(|pool| {
        let (workloads, owner) = (workloads.clone(), owner.clone());
        async move {
            let name = format!("{NAME}-{pool}-floor");
            let labels = json!({"app": NAME, "apps.openyurt.io/pool-name": pool, "apps.openyurt.io/controller-revision-hash": REVISION});
            let object = json!({
                "apiVersion": "apps/v1", "kind": TemplateType::Deployment.kind(),
                "metadata": {
                    "name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": owner, "resourceVersion": "1",
                    "annotations": {
                        "apps.openyurt.io/ref-nodepool": pool, "community.kubestellar.io/revision-number": "1",
                        "community.kubestellar.io/applied-digest": "0".repeat(64),
                    },
                },
                "spec": {
                    "replicas": REPLICAS,
                    "selector": {"matchLabels": {"app": NAME, "apps.openyurt.io/pool-name": pool}},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {
                            "containers": [{"name": "main", "image": "web:1"}],
                            "nodeSelector": {"apps.openyurt.io/nodepool": pool},
                            "tolerations": [{"key": "edge", "operator": "Exists", "effect": "NoSchedule"}],
                        },
                    },
                },
            });
            let params = PatchParams::apply("floor").force();
            workloads.patch_metadata(&name, &params, &Patch::Apply(object)).await?;
            anyhow::Ok(())
        }
    });
    stream::iter(applied)
        .buffer_unordered(CONCURRENCY)
        .try_collect::<()>()
        .await?;
    status(&daemons(&client), listed.len()).await?;
    std::future::pending().await
}

async fn status(api: &Api<YurtAppDaemon>, updated: usize) -> anyhow::Result<()> {
    let body = Patch::Merge(json!({"status": {"currentRevision": REVISION, "totalWorkloads": updated}}));
    api.patch_status(NAME, &PatchParams::default(), &body).await?;
    Ok(())
}

fn deployment_resource() -> kube::core::ApiResource {
    kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("apps", "v1", "Deployment"))
}
