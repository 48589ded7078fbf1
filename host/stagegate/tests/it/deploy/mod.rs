//! What `deploy/` installs, rendered by the real kustomize (kubectl's) and the real Helm, and held field by field. Must not
//! reach a cluster: that one accepts these objects is for the tests that have one.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

mod alerts;
mod chart;
mod definitions;
mod every_value;
mod fields;
mod health;
mod image;
mod monitoring;
mod pods;
mod requests;
mod rights;
mod sbom;
mod staged_updates;
mod values;
mod values_text;

/// All in one API server.
const BASE: &str = "deploy/kustomize/base";
/// Beside KubeStellar: the pods, and the rights that go into the WDS.
const HOSTING: &str = "deploy/kustomize/overlays/beside-kubestellar/hosting";
const WDS: &str = "deploy/kustomize/overlays/beside-kubestellar/wds";
const PLAIN: &str = "deploy/kustomize/overlays/plain-cluster";
/// Where workloads run: the YurtAppDaemon controller alone.
const NODE_POOLS: &str = "deploy/kustomize/overlays/node-pools";
const KUSTOMIZATIONS: [&str; 5] = [BASE, HOSTING, WDS, PLAIN, NODE_POOLS];
/// The component that switches staged updates on, and what it may be added to: whatever goes where the Bindings are.
const STAGED_UPDATES: &str = "deploy/kustomize/staged-updates";
const WITH_BINDINGS: [&str; 3] = [BASE, WDS, PLAIN];
/// The component that has the pods monitored, and what it may be added to: whatever has pods.
const MONITORING: &str = "deploy/kustomize/monitoring";
const WITH_PODS: [&str; 4] = [BASE, HOSTING, PLAIN, NODE_POOLS];

/// Objects as a tool printed them.
pub struct Rendered {
    /// For messages.
    from: String,
    objects: Vec<Value>,
}

impl Rendered {
    /// `None` where kubectl is absent, and says so.
    fn by_kustomize(folder: &str) -> Option<Self> {
        Self::kustomized(folder.to_owned(), &root().join(folder))
    }

    fn with_staged_updates(folder: &str) -> Option<Self> {
        Self::with_component(folder, STAGED_UPDATES)
    }

    fn with_monitoring(folder: &str) -> Option<Self> {
        Self::with_component(folder, MONITORING)
    }

    /// With a component, as a kustomization of the user's own adds it.
    fn with_component(folder: &str, component: &str) -> Option<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let own = std::env::temp_dir().join(format!("stagegate-test-{process}-component-{count}"));
        std::fs::create_dir_all(&own).expect("the temporary directory is writable");
        let own = own.canonicalize().expect("it was just made");
        // kustomize takes no path from the root of the file system.
        let up = "../".repeat(own.components().count() - 1);
        let top = root().canonicalize().expect("the repository is there");
        let of = |folder: &str| format!("{up}{}", top.join(folder).display().to_string().trim_start_matches('/'));
        let kustomization = serde_json::json!({
            "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
            "resources": [of(folder)], "components": [of(component)],
        });
        std::fs::write(own.join("kustomization.yaml"), kustomization.to_string())
            .expect("the temporary directory is writable");
        let rendered = Self::kustomized(format!("{folder} with {component}"), &own);
        drop(std::fs::remove_dir_all(own));
        rendered
    }

    /// All that is shipped: each kustomization, and with each component those that it may be added to.
    fn everything() -> Option<Vec<Self>> {
        let plain = KUSTOMIZATIONS.into_iter().map(Self::by_kustomize);
        plain
            .chain(WITH_BINDINGS.into_iter().map(Self::with_staged_updates))
            .chain(WITH_PODS.into_iter().map(Self::with_monitoring))
            .collect()
    }

    fn kustomized(from: String, folder: &Path) -> Option<Self> {
        match Command::new("kubectl").arg("kustomize").arg(folder).output() {
            Ok(output) => {
                let text = printed(&output, &from);
                Some(Self::new(from, &text))
            }
            Err(_absent) => {
                crate::tell(&format!("SKIPPED: kubectl is not on PATH; {from} was not rendered"));
                None
            }
        }
    }

    fn new(from: String, text: &str) -> Self {
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{from}: not YAML: {error}"));
        let objects: Vec<Value> = objects.into_iter().filter(|object| !object.is_null()).collect();
        assert!(!objects.is_empty(), "{from} renders nothing");
        Self { from, objects }
    }

    fn all(&self) -> impl Iterator<Item = &Value> {
        self.objects.iter()
    }

    fn of_kind(&self, kind: &str) -> Vec<&Value> {
        self.all().filter(|object| object["kind"] == *kind).collect()
    }

    fn find(&self, kind: &str, name: &str) -> Option<&Value> {
        self.of_kind(kind)
            .into_iter()
            .find(|object| object["metadata"]["name"] == *name)
    }

    /// The Deployment, where there is one.
    fn deployment(&self) -> Option<&Value> {
        self.find("Deployment", "stagegate")
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn printed(output: &Output, what: &str) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {errors}");
    String::from_utf8(output.stdout.clone()).expect("manifests are text")
}

/// Texts of a list, in order; of anything else none.
fn texts(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// `Kind namespace/name`.
fn identity(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    format!(
        "{} {}/{}",
        text(&object["kind"]),
        text(&metadata["namespace"]),
        text(&metadata["name"])
    )
}

/// YAML files below a folder, links followed.
fn manifests(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = Vec::new();
    for path in entries.map(|entry| entry.expect("a readable entry").path()) {
        match path.extension() {
            _ if path.is_dir() => files.extend(manifests(&path)),
            Some(extension) if extension == "yaml" || extension == "tpl" => files.push(path),
            _ => {}
        }
    }
    files
}

#[test]
fn every_manifest_opens_by_saying_what_it_is_for() {
    let files = manifests(&root().join("deploy"));
    assert!(files.len() > 40, "only {} files found", files.len());
    for path in files {
        // Samples are shown in the README as they are.
        if path.components().any(|part| part.as_os_str() == "examples") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a readable file");
        // A template may begin with the condition under which it is anything.
        let mut lines = text
            .lines()
            .skip_while(|line| line.starts_with("{{- if") || line.starts_with("{{- range") || *line == "---");
        let opening = lines.next().unwrap_or_default();
        assert!(
            opening.starts_with("# ") || opening.starts_with("{{- /* "),
            "{} opens with {opening:?}",
            path.display()
        );
    }
}
