//! The shipped manifests in a namespace that enforces the *restricted* pod security profile: a real server takes them without a word, and
//! takes none with a weaker pod. Must not run anything: all is asked for in dry run.

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use json_patch::Patch;
use serde_json::{Value, json};
use stagegate_cluster_tests::control_plane::ControlPlane;
use stagegate_cluster_tests::installation::{helm, kubectl};

/// Everything that deploy/README.md has applied.
const FOLDERS: [&str; 8] = [
    "deploy/kustomize/base",
    "deploy/kustomize/overlays/beside-kubestellar/hosting",
    "deploy/kustomize/overlays/beside-kubestellar/wds",
    "deploy/kustomize/overlays/plain-cluster",
    "deploy/kustomize/kubestellar-crds",
    "deploy/kustomize/inventory-crds",
    "deploy/kustomize/staged-updates",
    "deploy/kustomize/monitoring",
];
/// What monitoring has objects of.
const DEFINITIONS: &str = "tests/cluster/definitions/monitoring.yaml";
/// A chart and its settings, as deploy/README.md has them.
const CHARTS: [(&str, &[&str]); 7] = [
    ("stagegate-crds", &[]),
    ("stagegate", &[]),
    ("stagegate", &["install=rights"]),
    ("stagegate", &["install=rights,stagedUpdates=true"]),
    ("stagegate", &["install=program,kubeconfig.secret=stagegate-wds"]),
    ("stagegate", &["controllers={staging,binding,combine}"]),
    (
        "stagegate",
        &["monitoring.podMonitor.create=true,monitoring.prometheusRule.create=true,monitoring.dashboard.create=true"],
    ),
];
const NAMESPACES: [&str; 2] = ["stagegate-system", "stagegate-gates"];
/// A warning is a failure: whoever installs would see it.
const APPLY: [&str; 5] = [
    "apply",
    "--server-side",
    "--dry-run=server",
    "--warnings-as-errors",
    "-f",
];

/// What of a pod is broken, as a JSON patch of the Deployment, and what the server says of it.
fn broken() -> [(Value, &'static str); 6] {
    let pod = |path: &str| format!("/spec/template/spec/{path}");
    let container = |path: &str| pod(&format!("containers/0/securityContext/{path}"));
    [
        (
            json!([{"op": "remove", "path": pod("securityContext/runAsNonRoot")}]),
            "runAsNonRoot",
        ),
        (
            json!([{"op": "remove", "path": pod("securityContext/seccompProfile")}]),
            "seccompProfile",
        ),
        (
            json!([{"op": "replace", "path": pod("securityContext/runAsUser"), "value": 0}]),
            "runAsUser=0",
        ),
        (
            json!([{"op": "replace", "path": container("allowPrivilegeEscalation"), "value": true}]),
            "allowPrivilegeEscalation",
        ),
        (
            json!([{"op": "remove", "path": container("capabilities")}]),
            "unrestricted capabilities",
        ),
        (json!([{"op": "add", "path": pod("hostPID"), "value": true}]), "hostPID"),
    ]
}

/// # Errors
/// What the server refuses or warns of, and a weaker pod that it takes.
pub async fn manifests_are_taken(folder: &Path) -> anyhow::Result<()> {
    let plane = ControlPlane::start(&folder.join("server")).await?;
    let server = Server { plane, folder };
    kubectl(Some(&server.plane), &["apply", "--server-side", "-f", DEFINITIONS])?;
    for namespace in NAMESPACES {
        let labels: serde_json::Map<String, Value> = ["enforce", "audit", "warn"]
            .map(|mode| (format!("pod-security.kubernetes.io/{mode}"), json!("restricted")))
            .into_iter()
            .collect();
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}});
        let file = server.file("namespace", &[namespace])?;
        kubectl(Some(&server.plane), &["apply", "--server-side", "-f", &file])?;
    }
    kubectl(Some(&server.plane), &[&APPLY[..], &["deploy/crds"]].concat())?;
    let mut deployments = Vec::new();
    for (name, text) in installations()? {
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).with_context(|| name.clone())?;
        server.apply("all", &objects).with_context(|| name.clone())?;
        for deployment in objects.iter().filter(|object| object["kind"] == "Deployment") {
            // Admission refuses pods; of what makes pods it only warns.
            server
                .apply("pod", &[pod_of(deployment)])
                .with_context(|| name.clone())?;
            deployments.push(deployment.clone());
        }
    }
    ensure!(deployments.len() == 7, "{} Deployments in all", deployments.len());
    server.takes_nothing_weaker_than(&deployments[0])
}

/// What is applied, by what it is called.
fn installations() -> anyhow::Result<Vec<(String, String)>> {
    let mut all = Vec::new();
    for folder in FOLDERS {
        all.push((folder.to_owned(), kubectl(None, &["kustomize", folder])?));
    }
    for (chart, settings) in CHARTS {
        let path = format!("deploy/helm/{chart}");
        let mut arguments = vec!["template", "stagegate", &path, "--namespace=stagegate-system"];
        arguments.extend(settings.iter().flat_map(|setting| ["--set", setting]));
        all.push((format!("{chart} {settings:?}"), helm(&arguments)?));
    }
    Ok(all)
}

struct Server<'a> {
    plane: ControlPlane,
    folder: &'a Path,
}

impl Server<'_> {
    fn takes_nothing_weaker_than(&self, deployment: &Value) -> anyhow::Result<()> {
        for (patch, words) in broken() {
            let mut weaker = deployment.clone();
            let patch: Patch = serde_json::from_value(patch)?;
            json_patch::patch(&mut weaker, &patch)?;
            self.refuses(&[pod_of(&weaker)], words)?;
            self.refuses(&[weaker], words)?;
        }
        Ok(())
    }

    fn refuses(&self, objects: &[Value], words: &str) -> anyhow::Result<()> {
        match self.apply("weaker", objects) {
            Err(error) if error.to_string().contains(words) => Ok(()),
            Err(error) => Err(error.context(format!("refused, but not for {words}"))),
            Ok(()) => bail!("a {} with {words} is taken", objects[0]["kind"]),
        }
    }

    fn apply(&self, name: &str, objects: &[Value]) -> anyhow::Result<()> {
        let file = self.file(name, objects)?;
        kubectl(Some(&self.plane), &[&APPLY[..], &[&file]].concat()).map(drop)
    }

    fn file(&self, name: &str, objects: &[Value]) -> anyhow::Result<String> {
        let path = self.folder.join(format!("{name}.json"));
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        std::fs::write(&path, list.to_string()).with_context(|| format!("writing {}", path.display()))?;
        Ok(path.display().to_string())
    }
}

fn pod_of(deployment: &Value) -> Value {
    let mut pod = deployment["spec"]["template"].clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!("one");
    pod["metadata"]["namespace"] = deployment["metadata"]["namespace"].clone();
    pod
}
