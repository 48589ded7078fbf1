//! An installation by the manifests that are shipped: applied by kubectl, and read for the flags that the pods get. Must not grant or
//! set anything that they do not, but for what a test machine has otherwise: where the kubeconfig is, ports, and a short lease.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::Value;

use crate::assets::Assets;
use crate::control_plane::ControlPlane;
use crate::ports;

/// As the API server calls whoever has the token of the pods.
pub const USER: &str = "system:serviceaccount:stagegate-system:stagegate";
const NAMESPACE: &str = "stagegate-system";
const NAME: &str = "stagegate";
/// What takes 15 s on a cluster where nobody waits for it.
const LEASE: &str = "--lease-duration=2s";

/// A component that holds Bindings; on its own, kubectl applies it, too.
const STAGED_UPDATES: &str = "deploy/kustomize/staged-updates";

/// Which overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    PlainCluster,
    BesideKubeStellar,
    /// For YurtAppDaemons alone.
    NodePools,
}

impl Kind {
    /// Folders that are applied, in this order; the last one has the Deployment.
    pub fn folders(self) -> &'static [&'static str] {
        match self {
            Kind::PlainCluster => &[
                "deploy/kustomize/inventory-crds",
                STAGED_UPDATES,
                "deploy/kustomize/overlays/plain-cluster",
            ],
            Kind::BesideKubeStellar => &[
                "deploy/kustomize/overlays/beside-kubestellar/wds",
                STAGED_UPDATES,
                "deploy/kustomize/overlays/beside-kubestellar/hosting",
            ],
            Kind::NodePools => &["deploy/kustomize/overlays/node-pools"],
        }
    }
}

pub struct Installation {
    kubeconfig: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct Variable {
    name: String,
    value: String,
}

impl Installation {
    /// Applies everything.
    ///
    /// # Errors
    /// What kubectl says.
    pub async fn install(plane: &ControlPlane, kind: Kind) -> anyhow::Result<Installation> {
        let definitions = match kind {
            Kind::NodePools => "deploy/crds/workloads",
            Kind::PlainCluster | Kind::BesideKubeStellar => "deploy/crds",
        };
        apply(plane, &["-f", definitions])?;
        for folder in kind.folders() {
            apply(plane, &["-k", folder])?;
        }
        let deployment = rendered(kind)?
            .into_iter()
            .find(|object| object["kind"] == "Deployment")
            .context("the manifests have no Deployment")?;
        Self::of(plane, &deployment).await
    }

    /// One that is there, with the flags and variables of this Deployment.
    ///
    /// # Errors
    /// A Deployment of another form, and a service account that is not there.
    pub async fn of(plane: &ControlPlane, deployment: &Value) -> anyhow::Result<Installation> {
        let token = token(&plane.client().await?).await?;
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let environment: Vec<Variable> =
            serde_json::from_value(container["env"].clone()).context("the container's environment")?;
        Ok(Installation {
            kubeconfig: plane.kubeconfig_for("stagegate", &token)?,
            arguments: serde_json::from_value(container["args"].clone()).context("the container's arguments")?,
            environment: environment
                .into_iter()
                .map(|Variable { name, value }| (name, value))
                .collect(),
        })
    }

    /// Of the pods' service account.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Of the container.
    pub fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    /// What a replica of its own is started with.
    ///
    /// # Errors
    /// No free port.
    pub fn arguments(&self) -> anyhow::Result<Vec<String>> {
        let port = ports::free()?;
        let ours = |argument: &String| {
            let flag = argument.split('=').next().unwrap_or_default();
            !["--kubeconfig", "--admin-address", "--lease-duration"].contains(&flag)
        };
        let mut arguments: Vec<String> = self
            .arguments
            .iter()
            .filter(|argument| ours(argument))
            .cloned()
            .collect();
        arguments.push(format!("--kubeconfig={}", self.kubeconfig.display()));
        arguments.push(format!("--admin-address=127.0.0.1:{port}"));
        arguments.push(LEASE.to_owned());
        Ok(arguments)
    }
}

/// The objects of all folders.
///
/// # Errors
/// What kustomize says.
pub fn rendered(kind: Kind) -> anyhow::Result<Vec<Value>> {
    let mut objects = Vec::new();
    for folder in kind.folders() {
        let text = kubectl(None, &["kustomize", folder])?;
        let of_folder: Vec<Value> =
            serde_saphyr::from_multiple(&text).with_context(|| format!("rendering {folder}"))?;
        objects.extend(of_folder);
    }
    Ok(objects)
}

/// As a server-side apply.
///
/// # Errors
/// What kubectl says, when it has refused for 20 s.
pub fn apply(plane: &ControlPlane, what: &[&str]) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        // A definition in the same folder is served a moment after it is applied.
        match kubectl(Some(plane), &[&["apply", "--server-side"], what].concat()) {
            Ok(_) => return Ok(()),
            Err(error) if begun.elapsed() > Duration::from_secs(20) => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(500)),
        }
    }
}

/// Runs in the repository's root.
///
/// # Errors
/// With what it wrote to standard error.
pub fn kubectl(plane: Option<&ControlPlane>, arguments: &[&str]) -> anyhow::Result<String> {
    let kubeconfig = plane.map(|plane| format!("--kubeconfig={}", plane.kubeconfig().display()));
    let arguments: Vec<&str> = arguments.iter().copied().chain(kubeconfig.as_deref()).collect();
    printed(&Assets::get()?.kubectl, &arguments)
}

/// The same, of Helm.
///
/// # Errors
/// With what it wrote to standard error.
pub fn helm(arguments: &[&str]) -> anyhow::Result<String> {
    printed(&Assets::get()?.helm, arguments)
}

/// Helm on this API server.
///
/// # Errors
/// With what it wrote to standard error.
pub fn helm_on(plane: &ControlPlane, arguments: &[&str]) -> anyhow::Result<String> {
    let kubeconfig = format!("--kubeconfig={}", plane.kubeconfig().display());
    helm(&[arguments, &[&kubeconfig]].concat())
}

fn printed(program: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env_remove("KUBECONFIG")
        .args(arguments);
    let output = command
        .output()
        .with_context(|| format!("starting {}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{} {}: {said}",
        program.display(),
        arguments.join(" ")
    );
    Ok(String::from_utf8(output.stdout)?)
}

async fn token(client: &Client) -> anyhow::Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    let request = TokenRequest {
        spec: TokenRequestSpec::default(),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(NAME, &PostParams::default(), &request)
        .await?;
    Ok(answer.status.context("a TokenRequest without an answer")?.token)
}
