//! What a benchmark writes: the workload, policies, and what clusters report. Must not do anything on its own.

use std::time::Instant;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::{Value, json};
use stagegate_api::StatusCollector;

use super::objects::{self, Answer, NAMESPACE, Stored};

/// Writes of the benchmark under way at once.
pub const CONCURRENCY: usize = 24;

/// Makes the namespace, the collector and so many Deployments; gives the latter by number.
///
/// # Errors
/// What the API server says.
pub async fn workload(client: &Client, count: usize) -> anyhow::Result<Vec<Stored>> {
    let namespaces = Api::<Namespace>::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
    namespaces.create(&PostParams::default(), &namespace).await?;
    let collectors = Api::<StatusCollector>::all(client.clone());
    collectors
        .create(&PostParams::default(), &serde_json::from_value(objects::collector())?)
        .await?;
    let api: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let writes = (0..count).map(|number| {
        let api = api.clone();
        async move {
            let deployment = serde_json::from_value(objects::deployment(number))?;
            let created = api.create(&PostParams::default(), &deployment).await?.metadata;
            anyhow::Ok(Stored {
                uid: created.uid.unwrap_or_default(),
                resource_version: created.resource_version.unwrap_or_default(),
            })
        }
    });
    stream::iter(writes).buffered(CONCURRENCY).try_collect().await
}

/// # Errors
/// What the API server says.
pub async fn create_all(api: &Api<DynamicObject>, objects: impl Iterator<Item = Value>) -> anyhow::Result<()> {
    stream::iter(objects.map(|object| create(api, object)))
        .buffer_unordered(CONCURRENCY)
        .try_collect::<Vec<_>>()
        .await?;
    Ok(())
}

/// One change of evidence.
pub struct Reported {
    pub sent_at: Instant,
    pub combined: String,
    pub version: String,
}

/// The cluster of the first stage reports anew, into the CombinedStatus of this name.
///
/// # Errors
/// What the API server says.
pub async fn report(api: &Api<DynamicObject>, combined: String, answer: Answer) -> anyhow::Result<Reported> {
    let body = json!({"results": objects::results(0, answer)});
    let sent_at = Instant::now();
    let written = api
        .patch_metadata(&combined, &PatchParams::default(), &Patch::Merge(body))
        .await?;
    let version = written.metadata.resource_version.unwrap_or_default();
    Ok(Reported {
        sent_at,
        combined,
        version,
    })
}

/// # Errors
/// What the API server says.
pub async fn create(api: &Api<DynamicObject>, object: Value) -> anyhow::Result<()> {
    let object: DynamicObject = serde_json::from_value(object)?;
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}
