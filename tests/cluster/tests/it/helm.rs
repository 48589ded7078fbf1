//! Both charts on a real API server, installed, upgraded, rolled back, uninstalled and installed again by the real Helm, with the program
//! running under the rights that a release grants. What users have placed stays through all of it. Must not run Pods: no controller makes any
//! here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use stagegate_cluster_tests::audit;
use stagegate_cluster_tests::control_plane::ControlPlane;
use stagegate_cluster_tests::host::Host;
use stagegate_cluster_tests::installation::{Installation, USER, helm_on, kubectl};

const WITHIN: Duration = Duration::from_secs(30);
/// What is there before, as deploy/README.md has it; and what monitoring needs.
const BEFORE: [[&str; 2]; 3] = [
    ["-k", "deploy/kustomize/kubestellar-crds"],
    ["-k", "deploy/kustomize/inventory-crds"],
    ["-f", "tests/cluster/definitions/monitoring.yaml"],
];
const DEFINITIONS: [&str; 2] = ["stagegate-crds", "deploy/helm/stagegate-crds"];
const PROGRAM: [&str; 2] = ["stagegate", "deploy/helm/stagegate"];
const FIRST: &str = "controllers={staging,binding,combine}";
const CHANGED: &str = "controllers={staging},replicaCount=3,stagedUpdates=true,monitoring.podMonitor.create=true,\
                       monitoring.prometheusRule.create=true,monitoring.dashboard.create=true";
/// What tells of other objects: what happened to them, and what the API server itself derives from Services and definitions.
const OF_SERVER: [&str; 3] = ["events", "ipaddresses.", "apiservices."];
/// What only the changed values have.
const OPTIONAL: [&str; 5] = [
    "ClusterRole /stagegate-staged-updates",
    "ConfigMap stagegate-system/stagegate-dashboard",
    "PodMonitor stagegate-system/stagegate",
    "PrometheusRule stagegate-system/stagegate",
    "ValidatingAdmissionPolicy /stagegate-held-bindings",
];
/// What only the first ones have.
const REPLACED: [&str; 2] = ["ClusterRole /stagegate-binding", "ClusterRole /stagegate-combine"];
/// All that is left when both charts are gone; deploy/README.md says what it means. A name with a digest ends with the dash before it.
const STAYS: [&str; 11] = [
    "Binding /web.stage.dev",
    "BindingPolicy /web.stage.dev",
    "ConfigMap shop/web",
    "CustomResourceDefinition /stagedbindingpolicies.community.kubestellar.io",
    "Lease stagegate-system/stagegate",
    "ManagedCluster /dev-1",
    "Namespace /shop",
    "Namespace /stagegate-gates",
    "Namespace /stagegate-system",
    "StagedBindingPolicy /web",
    "StatusCollector /stagegate-evidence-",
];

/// # Errors
/// What is not as it should be.
pub async fn installs_and_takes_nothing_away(folder: &Path) -> anyhow::Result<()> {
    let plane = ControlPlane::start(&folder.join("server")).await?;
    for what in BEFORE {
        kubectl(Some(&plane), &[&["apply", "--server-side"], &what[..]].concat())?;
    }
    let cluster = Cluster { plane, folder };
    let before: BTreeSet<String> = cluster.objects()?.into_keys().collect();
    cluster.release("install", DEFINITIONS, &["--create-namespace"])?;
    cluster.release("install", PROGRAM, &["--set", FIRST])?;
    cluster.place()?;
    cluster
        .run("first", 1)
        .await
        .context("the program after the installation")?;
    let placed = cluster.of_users()?;

    cluster.release("upgrade", PROGRAM, &["--set", CHANGED])?;
    cluster.has(&OPTIONAL, &REPLACED, 3).context("after the upgrade")?;
    cluster.keeps(&placed).context("after the upgrade")?;

    helm_on(
        &cluster.plane,
        &["rollback", "stagegate", "1", "-n", "stagegate-system"],
    )?;
    cluster.has(&REPLACED, &OPTIONAL, 2).context("after the rollback")?;
    let paused = json!({"spec": {"paused": true}}).to_string();
    kubectl(
        Some(&cluster.plane),
        &["patch", "sbp", "web", "--type=merge", "-p", &paused],
    )?;
    cluster
        .run("second", 2)
        .await
        .context("the program after the rollback")?;
    cluster.keeps(&placed).context("after the rollback")?;

    for [name, _] in [PROGRAM, DEFINITIONS] {
        helm_on(&cluster.plane, &["uninstall", name, "-n", "stagegate-system"])?;
    }
    cluster.keeps(&placed).context("after both were uninstalled")?;
    let mut left = cluster.objects()?;
    left.retain(|name, _| !before.contains(name));
    // A definition that is deleted stays for some seconds, and its objects with it.
    let is_going = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
    let going: Vec<&String> = left
        .iter()
        .filter(|(_, it)| is_going(it))
        .map(|(name, _)| name)
        .collect();
    ensure!(
        going.is_empty(),
        "both charts are uninstalled, and with them go {going:?}"
    );
    let left: BTreeSet<String> = left.keys().map(|name| without_digest(name)).collect();
    ensure!(
        left.iter().map(String::as_str).eq(STAYS),
        "both charts are uninstalled, and what is left is {left:#?}"
    );

    cluster.release("install", DEFINITIONS, &[])?;
    cluster.release("install", PROGRAM, &["--set", FIRST])?;
    cluster.keeps(&placed).context("after both were installed again")?;
    let used = audit::used_by(USER, &cluster.plane.audit_log(), cluster.plane.unready())?;
    let refused: Vec<String> = used.refused.iter().map(ToString::to_string).collect();
    ensure!(refused.is_empty(), "the API server refused {refused:?}");
    Ok(())
}

fn without_digest(name: &str) -> String {
    let evidence = "StatusCollector /stagegate-evidence-";
    let is_evidence = name.starts_with(evidence);
    if is_evidence {
        evidence.to_owned()
    } else {
        name.to_owned()
    }
}

struct Cluster<'a> {
    plane: ControlPlane,
    folder: &'a Path,
}

impl Cluster<'_> {
    fn release(&self, verb: &str, [name, chart]: [&str; 2], more: &[&str]) -> anyhow::Result<()> {
        let arguments = [&[verb, name, chart, "-n", "stagegate-system"], more].concat();
        helm_on(&self.plane, &arguments).map(drop)
    }

    /// A workload of one ConfigMap, a cluster for it, and the policy.
    fn place(&self) -> anyhow::Result<()> {
        let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}}},
            {
                "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
                "metadata": {"name": "dev-1", "labels": {"env": "dev"}}, "spec": {},
            },
            {
                "apiVersion": "community.kubestellar.io/v1alpha1", "kind": "StagedBindingPolicy", "metadata": {"name": "web"},
                "spec": {
                    "downsync": [{"resources": ["configmaps"], "objectSelectors": [{"matchLabels": {"app": "web"}}]}],
                    "stages": [{"name": "dev", "clusterSelectors": [{"matchLabels": {"env": "dev"}}]}],
                },
            },
        ]});
        let file = self.folder.join("workload.json");
        std::fs::write(&file, objects.to_string()).with_context(|| format!("writing {}", file.display()))?;
        let file = file.display().to_string();
        kubectl(Some(&self.plane), &["apply", "--server-side", "-f", &file]).map(drop)
    }

    /// The program with the flags, variables and rights of the release, until it has looked at this generation of the policy and the
    /// workload is bound.
    async fn run(&self, name: &str, generation: u64) -> anyhow::Result<()> {
        let user = format!("--as={USER}");
        // A role takes effect a moment after it was written.
        until("the rights are in force", || {
            let may = kubectl(
                Some(&self.plane),
                &["auth", "can-i", "watch", "configmaps", "-A", &user],
            );
            Ok(may.is_ok())
        })
        .await?;
        let installation = Installation::of(&self.plane, &self.deployment()?).await?;
        let log = self.folder.join(format!("{name}.log"));
        let host = Host::start(&installation.arguments()?, installation.environment(), &log)?;
        until("the workload is bound", || {
            let all = self.get("stagedbindingpolicies,bindings.control.kubestellar.io")?;
            let is_seen = |object: &Value| object["status"]["observedGeneration"] == generation;
            let is_bound = |object: &Value| object["spec"]["destinations"][0]["clusterId"] == "dev-1";
            Ok(all.iter().any(is_seen) && all.iter().any(is_bound))
        })
        .await?;
        host.stop().map(drop)
    }

    fn deployment(&self) -> anyhow::Result<Value> {
        self.get("deployments")?.pop().context("the release has no Deployment")
    }

    fn get(&self, kinds: &str) -> anyhow::Result<Vec<Value>> {
        let text = kubectl(Some(&self.plane), &["get", "-A", "-o", "json", kinds])?;
        let mut list: Value = serde_json::from_str(&text)?;
        Ok(serde_json::from_value(list["items"].take())?)
    }

    /// Everything but [`OF_SERVER`] and what Helm keeps of its releases, as `Kind namespace/name`.
    fn objects(&self) -> anyhow::Result<BTreeMap<String, Value>> {
        let kinds = kubectl(
            Some(&self.plane),
            &["api-resources", "--verbs=list,delete", "-o", "name"],
        )?;
        let is_looked_at = |kind: &&str| !OF_SERVER.iter().any(|of_server| kind.starts_with(of_server));
        let kinds: Vec<&str> = kinds.lines().filter(is_looked_at).collect();
        let all = self.get(&kinds.join(","))?.into_iter();
        let is_kept = |object: &Value| object["metadata"]["labels"]["owner"] != "helm";
        let named = all.filter(is_kept).map(|object| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (kind, metadata) = (text(&object["kind"]), &object["metadata"]);
            let name = format!("{kind} {}/{}", text(&metadata["namespace"]), text(&metadata["name"]));
            (name, object)
        });
        Ok(named.collect())
    }

    /// Uids of what belongs to no release or is marked to stay.
    fn of_users(&self) -> anyhow::Result<BTreeMap<String, Value>> {
        let is_of_users = |object: &Value| {
            let metadata = &object["metadata"];
            let is_released = metadata["labels"]["app.kubernetes.io/managed-by"] == "Helm";
            !is_released || metadata["annotations"]["helm.sh/resource-policy"] == "keep"
        };
        let all = self.objects()?.into_iter().filter(|(_, object)| is_of_users(object));
        Ok(all
            .map(|(name, object)| (name, object["metadata"]["uid"].clone()))
            .collect())
    }

    /// The same objects, and none of them about to go.
    fn keeps(&self, placed: &BTreeMap<String, Value>) -> anyhow::Result<()> {
        let now = self.objects()?;
        for (name, uid) in placed {
            let metadata = &now.get(name).with_context(|| format!("{name} is gone"))?["metadata"];
            ensure!(metadata["uid"] == *uid, "{name} is another one than before");
            ensure!(metadata["deletionTimestamp"].is_null(), "{name} is being deleted");
        }
        Ok(())
    }

    fn has(&self, there: &[&str], gone: &[&str], replicas: u64) -> anyhow::Result<()> {
        let now = self.objects()?;
        let missing: Vec<_> = there.iter().filter(|name| !now.contains_key(**name)).collect();
        let left: Vec<_> = gone.iter().filter(|name| now.contains_key(**name)).collect();
        ensure!(
            missing.is_empty() && left.is_empty(),
            "without {missing:?}, and still with {left:?}"
        );
        let found = &now["Deployment stagegate-system/stagegate"]["spec"]["replicas"];
        ensure!(*found == replicas, "{found} replicas, not {replicas}");
        Ok(())
    }
}

async fn until(what: &str, mut is: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !is()? {
        ensure!(begun.elapsed() < WITHIN, "not within {WITHIN:?}: {what}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}
