//! Inputs as requests to the API server. Must not wait for what comes of them.

use std::collections::BTreeMap;

use anyhow::Context as _;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Map, Value, json};
use stagegate_api::evidence;

use super::format::{Input, Labels, Numbers, Roles};
use crate::scenario::apply;

const USER: &str = "user";
/// Who writes WorkStatuses in the status agent's place.
const AGENT: &str = "agent";

/// The namespace of the recording and its clusters.
pub async fn begin(client: &Client, own: &str, clusters: &BTreeMap<String, Labels>) -> anyhow::Result<()> {
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    apply(client, &namespace(own)).await?;
    for (name, labels) in clusters {
        apply(client, &namespace(name)).await?;
        let cluster = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": name, "labels": labels}, "spec": {"hubAcceptsClient": true},
        });
        apply(client, &cluster).await?;
    }
    Ok(())
}

pub async fn carry_out(client: &Client, (own, input): (&str, &Input), roles: &mut Roles) -> anyhow::Result<()> {
    let policies = Objects::of(client, ("control.kubestellar.io/v1alpha1", "BindingPolicy"), None);
    let collectors = Objects::of(client, ("control.kubestellar.io/v1alpha1", "StatusCollector"), None);
    let deployments = Objects::of(client, ("apps/v1", "Deployment"), Some(own));
    match input {
        Input::Place { name, spec } => {
            let placed = policies.put(name, json!({ "spec": spec })).await?;
            roles.note(name, &json!(placed.metadata));
        }
        Input::Displace(name) => policies.delete(name).await?,
        Input::Make { name, replicas, labels } => {
            let made = deployments.put(name, deployment(*replicas, labels)).await?;
            roles.note(name, &json!(made.metadata));
        }
        Input::Edit { name, replicas } => {
            let edit = Patch::Merge(json!({"spec": {"replicas": replicas}}));
            let edited = deployments.api.patch(name, &PatchParams::default(), &edit).await?;
            roles.note(name, &json!(edited.metadata));
        }
        Input::Remove(name) => deployments.delete(name).await?,
        Input::Label { cluster, key, value } => {
            let clusters = Objects::of(
                client,
                ("cluster.open-cluster-management.io/v1", "ManagedCluster"),
                None,
            );
            let label = Patch::Merge(json!({"metadata": {"labels": {key: value}}}));
            clusters.api.patch(cluster, &PatchParams::default(), &label).await?;
        }
        Input::Collect { name, spec } => {
            let spec = spec.clone().unwrap_or_else(|| evidence::collector_spec().clone());
            collectors.put(name, json!({ "spec": spec })).await?;
        }
        Input::Forget(name) => collectors.delete(name).await?,
        Input::Report { from, of, status } => report(client, (own, from, of), status, roles).await?,
        Input::Withdraw { from, of } => work_statuses(client, from).delete(&report_name(of)).await?,
        // Nothing that the API server is asked.
        Input::Restart { .. } => {}
    }
    Ok(())
}

/// A controller that is not there sets no status, so a Deployment here has none of its own.
fn deployment(replicas: i64, labels: &Labels) -> Value {
    let of = json!({"app": "web"});
    json!({
        "metadata": {"labels": labels},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": of},
            "template": {"metadata": {"labels": of}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}},
        },
    })
}

async fn report(
    client: &Client,
    (own, from, of): (&str, &str, &str),
    status: &Numbers,
    roles: &mut Roles,
) -> anyhow::Result<()> {
    let reports = work_statuses(client, from);
    let name = report_name(of);
    let source = json!({
        "group": "apps", "version": "v1", "resource": "deployments", "kind": "Deployment", "namespace": own, "name": of,
    });
    if reports.api.get_opt(&name).await?.is_none() {
        reports.put(&name, json!({"spec": {"sourceRef": source}})).await?;
    }
    let mut reported = json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "WorkStatus", "metadata": {"name": name, "namespace": from},
    });
    reported["status"] = status_of(status);
    let by_agent = PatchParams::apply(AGENT).force();
    let written = reports
        .api
        .patch_status(&name, &by_agent, &Patch::Apply(&reported))
        .await?;
    let entries = written.metadata.managed_fields.unwrap_or_default();
    let of_status = entries
        .iter()
        .filter(|entry| entry.subresource.as_deref() == Some("status"));
    let time = of_status
        .filter_map(|entry| entry.time.as_ref())
        .map(|time| time.0)
        .max();
    let time = time.context("a report without a time")?;
    roles.note_report(from, &time.to_string());
    Ok(())
}

fn status_of(numbers: &Numbers) -> Value {
    let counters = [
        ("observedGeneration", numbers.generation),
        ("replicas", numbers.total),
        ("updatedReplicas", numbers.updated),
        ("readyReplicas", numbers.ready),
        ("availableReplicas", numbers.available),
    ];
    let counters = counters.into_iter().filter(|(_, count)| *count != 0);
    let mut status: Map<String, Value> = counters.map(|(name, count)| (name.to_owned(), json!(count))).collect();
    let conditions = numbers.conditions.iter().map(|text| {
        let (type_, rest) = text.split_once('=').unwrap_or((text, "Unknown"));
        let (value, reason) = rest.split_once(':').unwrap_or((rest, "Other"));
        json!({"type": type_, "status": value, "reason": reason})
    });
    status.insert("conditions".to_owned(), conditions.collect());
    Value::Object(status)
}

fn report_name(of: &str) -> String {
    format!("deployment-{of}")
}

fn work_statuses(client: &Client, cluster: &str) -> Objects {
    Objects::of(client, ("control.kubestellar.io/v1alpha1", "WorkStatus"), Some(cluster))
}

struct Objects {
    api: Api<DynamicObject>,
    version: &'static str,
    kind: &'static str,
}

impl Objects {
    fn of(client: &Client, (version, kind): (&'static str, &'static str), namespace: Option<&str>) -> Self {
        let (group, number) = version.split_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, number, kind));
        let api = match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        Self { api, version, kind }
    }

    /// In one write, by server-side apply.
    async fn put(&self, name: &str, mut object: Value) -> anyhow::Result<DynamicObject> {
        object["apiVersion"] = json!(self.version);
        object["kind"] = json!(self.kind);
        object["metadata"]["name"] = json!(name);
        let by_user = PatchParams::apply(USER).force();
        Ok(self.api.patch(name, &by_user, &Patch::Apply(&object)).await?)
    }

    async fn delete(&self, name: &str) -> anyhow::Result<()> {
        self.api.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }
}
