//! The rollouts that are recorded, each in the middle of something. Must not know what is made of them.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use stagegate_cluster_tests::installation::Kind;

use super::reports::{NAMESPACE, REPLICAS, Reports};
use super::rollouts::{Rollouts, has_ended, stands};
use crate::scenario::apply;

/// Nothing is written any more by then.
const SETTLED: Duration = Duration::from_secs(45);

/// # Errors
/// When it does not come about.
pub async fn bring_about(
    client: &Client,
    kind: Kind,
    (rollouts, reports): (&mut Rollouts, &mut Reports),
) -> anyhow::Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    apply(client, &namespace).await?;
    match kind {
        Kind::NodePools => pools(client, (rollouts, reports)).await?,
        Kind::PlainCluster | Kind::BesideKubeStellar => policies(client, (rollouts, reports)).await?,
    }
    let begun = std::time::Instant::now();
    let is_over = |_: &_| begun.elapsed() > SETTLED;
    rollouts.until(reports, ("nothing moves", is_over)).await
}

async fn policies(client: &Client, (rollouts, reports): (&mut Rollouts, &mut Reports)) -> anyhow::Result<()> {
    for stage in ["dev", "test", "prod"] {
        let name = format!("{stage}-1");
        let mailbox = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let cluster = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": name, "labels": {"env": stage}}, "spec": {"hubAcceptsClient": true},
        });
        for object in [mailbox, cluster] {
            apply(client, &object).await?;
        }
    }
    reports.short.extend([("test-1", "second"), ("dev-1", "gated")]);
    let gate = json!({
        "name": "enough", "config": {"atLeast": REPLICAS},
        "module": {"configMap": {"namespace": "stagegate-gates", "name": "min-available", "key": "gate.wasm"}},
    });
    let plain = |names: &[&str]| names.iter().map(|name| stage(name, &json!({}))).collect::<Vec<_>>();
    let first = stage("dev", &json!({"health": "Ignored", "soak": "5s", "gates": [gate]}));
    for (name, spec) in [
        ("completed", json!({"stages": plain(&["dev", "prod"])})),
        ("second", json!({"stages": plain(&["dev", "test", "prod"])})),
        ("gated", json!({"stages": [first, stage("prod", &json!({}))]})),
        (
            "held",
            json!({"updates": "Staged", "previousStages": "Keep", "stages": plain(&["dev", "test", "prod"])}),
        ),
    ] {
        apply(client, &deployment(name)).await?;
        apply(client, &policy(name, spec)).await?;
    }
    let first_versions = ("the first version of what is held", |seen: &Seen| {
        has_ended(&seen["held"])
    });
    rollouts.until(reports, first_versions).await?;
    reports.short.insert(("dev-1", "held"));
    let deployments: Api<k8s_openapi::api::apps::v1::Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let edit = Patch::Strategic(
        json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "held:2"}]}}}}),
    );
    deployments.patch("held", &PatchParams::default(), &edit).await?;
    let middle = ("the middle of each", |seen: &Seen| {
        has_ended(&seen["completed"])
            && stands(&seen["second"], "test", "Unhealthy")
            && stands(&seen["gated"], "dev", "GateHolds")
            && stands(&seen["held"], "dev", "Unhealthy")
    });
    rollouts.until(reports, middle).await
}

type Seen = std::collections::BTreeMap<String, Value>;

fn stage(name: &str, more: &Value) -> Value {
    let mut stage = json!({"name": name, "clusterSelectors": [{"matchLabels": {"env": name}}]});
    for (member, value) in more.as_object().into_iter().flatten() {
        stage[member] = value.clone();
    }
    stage
}

fn policy(name: &str, mut spec: Value) -> Value {
    spec["downsync"] = json!([{
        "apiGroup": "apps", "resources": ["deployments"], "namespaces": [NAMESPACE], "objectNames": [name],
    }]);
    json!({
        "apiVersion": "community.kubestellar.io/v1alpha1", "kind": "StagedBindingPolicy",
        "metadata": {"name": name}, "spec": spec,
    })
}

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": REPLICAS, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": format!("{name}:1")}]},
            },
        },
    })
}

/// The first version is everywhere, and the second one in stages canary and, as far as its one pool at a time has it, rest.
async fn pools(client: &Client, (rollouts, reports): (&mut Rollouts, &mut Reports)) -> anyhow::Result<()> {
    for (name, canary) in [("canary", "yes"), ("east", "no"), ("west", "no")] {
        let pool = json!({
            "apiVersion": "apps.openyurt.io/v1beta2", "kind": "NodePool",
            "metadata": {"name": name, "labels": {"canary": canary, "tier": "edge"}}, "spec": {},
        });
        apply(client, &pool).await?;
    }
    apply(client, &daemon("web:1")).await?;
    let first_version = ("the first version", |seen: &Seen| {
        seen.get("web").is_some_and(has_ended)
    });
    rollouts.until(reports, first_version).await?;
    reports.short.insert(("east", "web"));
    apply(client, &daemon("web:2")).await?;
    let second_stage = ("the second stage", |seen: &Seen| {
        seen["web"]["status"]["activeStage"] == "rest"
    });
    rollouts.until(reports, second_stage).await
}

fn daemon(image: &str) -> Value {
    let labels = json!({"app": "web"});
    json!({
        "apiVersion": "apps.openyurt.io/v1alpha1", "kind": "YurtAppDaemon",
        "metadata": {"name": "web", "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "nodepoolSelector": {"matchLabels": {"tier": "edge"}},
            "workloadTemplate": {"deploymentTemplate": {
                "metadata": {"labels": labels},
                "spec": {"replicas": REPLICAS, "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": image}]},
                }},
            }},
            "updateStrategy": {"stages": [
                {"name": "canary", "nodepoolSelector": {"matchLabels": {"canary": "yes"}}, "soak": "2s"},
                {"name": "rest", "nodepoolSelector": {}, "maxConcurrent": 1},
            ]},
        },
    })
}
