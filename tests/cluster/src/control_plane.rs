//! etcd, kube-apiserver and those controllers of kube-controller-manager that rollouts and rights rest on (garbage collection, end
//! of namespaces, sums of roles), on loopback, with RBAC and an audit log; where they are wanted, also kube-scheduler and the controllers of
//! workloads. Must not put anything into the API server.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use base64::Engine as _;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::json;

use crate::assets::Assets;
use crate::certificates::Certificates;
use crate::etcd::{Etcd, Stored};
use crate::ports;
use crate::process::{Process, Signal};

/// An API server is ready after 2 to 3 s on two cores; several that start at once take longer.
const READY_MAX: Duration = Duration::from_secs(90);

/// Everything but the server's requests to itself; who asked what, without bodies.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, users: [\"system:apiserver\"]}
- {level: Metadata}
";

/// Flags of a component that serves no port.
const WITHOUT_ADDRESS: [&str; 4] = [
    "--kubeconfig=admin.kubeconfig",
    "--leader-elect=false",
    "--bind-address=127.0.0.1",
    "--secure-port=0",
];

/// Controllers that rollouts and rights rest on.
const CONTROLLERS: &str = "garbage-collector-controller,namespace-controller,clusterrole-aggregation-controller";

/// Controllers that make Pods of workloads.
const WORKLOAD_CONTROLLERS: &str = "deployment-controller,replicaset-controller,statefulset-controller";

/// One control plane, in a folder of its own.
pub struct ControlPlane {
    folder: PathBuf,
    certificates: Certificates,
    ports: Ports,
    storage: Storage,
    etcd: Option<Process>,
    apiserver: Option<Process>,
    controller_manager: Option<Process>,
    scheduler: Option<Process>,
    /// From when a part was killed to when the server was ready again.
    unready: Vec<Range<Timestamp>>,
    killed_at: Option<Timestamp>,
}

#[derive(Clone, Copy)]
struct Ports {
    etcd: u16,
    peers: u16,
    apiserver: u16,
}

/// How the API server stores the kinds of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Storage {
    /// As it does by itself.
    Protobuf,
    /// So that people can read and compare what is stored.
    Json,
}

/// Who can be killed and started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Etcd,
    ApiServer,
}

impl ControlPlane {
    /// Starts everything and waits until the API server is ready.
    ///
    /// # Errors
    /// With the end of the log of what did not come up.
    pub async fn start(folder: &Path) -> anyhow::Result<ControlPlane> {
        let mut plane = Self::start_servers(folder).await?;
        plane.start_controller_manager(CONTROLLERS)?;
        Ok(plane)
    }

    /// With what another one has stored. All that this one stores can be read by [`ControlPlane::stored`].
    ///
    /// # Errors
    /// See [`ControlPlane::start`].
    pub async fn start_with(folder: &Path, stored: &[Stored]) -> anyhow::Result<ControlPlane> {
        let mut plane = Self::prepare(folder, Storage::Json)?;
        plane.start_part(Part::Etcd)?;
        Etcd::at(plane.ports.etcd).await?.put_back(stored).await?;
        plane.start_part(Part::ApiServer)?;
        plane.ready().await?;
        plane.start_controller_manager(CONTROLLERS)?;
        Ok(plane)
    }

    /// All objects, as they are stored.
    ///
    /// # Errors
    /// When it was not started by [`ControlPlane::start_with`].
    pub async fn stored(&self) -> anyhow::Result<Vec<Stored>> {
        Etcd::at(self.ports.etcd).await?.stored().await
    }

    /// With the controllers that make Pods of Deployments and StatefulSets, and the scheduler that binds them.
    ///
    /// # Errors
    /// See [`ControlPlane::start`].
    pub async fn start_with_workloads(folder: &Path) -> anyhow::Result<ControlPlane> {
        let mut plane = Self::start_servers(folder).await?;
        plane.start_controller_manager(&format!("{CONTROLLERS},{WORKLOAD_CONTROLLERS}"))?;
        plane.start_scheduler()?;
        Ok(plane)
    }

    async fn start_servers(folder: &Path) -> anyhow::Result<ControlPlane> {
        let mut plane = Self::prepare(folder, Storage::Protobuf)?;
        plane.start_part(Part::Etcd)?;
        plane.start_part(Part::ApiServer)?;
        plane.ready().await?;
        Ok(plane)
    }

    fn prepare(folder: &Path, storage: Storage) -> anyhow::Result<ControlPlane> {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        std::fs::write(folder.join("audit-policy.yaml"), AUDIT_POLICY)?;
        let plane = ControlPlane {
            certificates: Certificates::make(folder)?,
            folder: folder.to_owned(),
            ports: Ports::free()?,
            storage,
            etcd: None,
            apiserver: None,
            controller_manager: None,
            scheduler: None,
            unready: Vec::new(),
            killed_at: None,
        };
        std::fs::write(plane.kubeconfig(), plane.kubeconfig_of(&plane.admin()))?;
        Ok(plane)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Of the administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("admin.kubeconfig")
    }

    /// Writes a kubeconfig of whoever has this bearer token.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn kubeconfig_for(&self, name: &str, token: &str) -> anyhow::Result<PathBuf> {
        let path = self.folder.join(format!("{name}.kubeconfig"));
        std::fs::write(&path, self.kubeconfig_of(&json!({ "token": token })))?;
        Ok(path)
    }

    /// The administrator's client.
    ///
    /// # Errors
    /// None that a started control plane brings about.
    pub async fn client(&self) -> anyhow::Result<Client> {
        client(&self.kubeconfig()).await
    }

    /// What was asked of the API server, by whom, as lines of JSON.
    pub fn audit_log(&self) -> PathBuf {
        self.folder.join("audit.log")
    }

    /// # Errors
    /// When it was not running.
    pub fn kill(&mut self, part: Part) -> anyhow::Result<()> {
        let slot = match part {
            Part::Etcd => &mut self.etcd,
            Part::ApiServer => &mut self.apiserver,
        };
        let mut process = slot.take().with_context(|| format!("{part:?} is not running"))?;
        self.killed_at.get_or_insert_with(Timestamp::now);
        process.signal(Signal::Kill);
        process.ended(Duration::from_secs(10))?;
        Ok(())
    }

    /// Starts again what was killed, with the same ports and data.
    ///
    /// # Errors
    /// See [`ControlPlane::start`].
    pub async fn start_again(&mut self, part: Part) -> anyhow::Result<()> {
        self.start_part(part)?;
        self.ready().await?;
        self.unready
            .extend(self.killed_at.take().map(|at| at..Timestamp::now()));
        Ok(())
    }

    /// When the server had been ready before and was not.
    pub fn unready(&self) -> &[Range<Timestamp>] {
        &self.unready
    }

    fn start_part(&mut self, part: Part) -> anyhow::Result<()> {
        let assets = Assets::get()?;
        match part {
            Part::Etcd => {
                let mut command = Command::new(&assets.etcd);
                command.args(self.etcd_flags()).current_dir(&self.folder);
                self.etcd = Some(Process::start("etcd", command, &self.folder.join("etcd.log"))?);
            }
            Part::ApiServer => {
                let mut command = Command::new(&assets.apiserver);
                command.args(self.apiserver_flags()).current_dir(&self.folder);
                let log = self.folder.join("apiserver.log");
                self.apiserver = Some(Process::start("kube-apiserver", command, &log)?);
            }
        }
        Ok(())
    }

    fn start_controller_manager(&mut self, controllers: &str) -> anyhow::Result<()> {
        let mut command = Command::new(&Assets::get()?.controller_manager);
        command
            .current_dir(&self.folder)
            .arg(format!("--controllers={controllers}"))
            .args(WITHOUT_ADDRESS);
        let log = self.folder.join("controller-manager.log");
        self.controller_manager = Some(Process::start("kube-controller-manager", command, &log)?);
        Ok(())
    }

    fn start_scheduler(&mut self) -> anyhow::Result<()> {
        let mut command = Command::new(&Assets::get()?.scheduler);
        command.current_dir(&self.folder).args(WITHOUT_ADDRESS);
        let log = self.folder.join("scheduler.log");
        self.scheduler = Some(Process::start("kube-scheduler", command, &log)?);
        Ok(())
    }

    fn etcd_flags(&self) -> Vec<String> {
        let clients = format!("http://127.0.0.1:{}", self.ports.etcd);
        let peers = format!("http://127.0.0.1:{}", self.ports.peers);
        vec![
            "--name=test".to_owned(),
            "--data-dir=etcd".to_owned(),
            format!("--listen-client-urls={clients}"),
            format!("--advertise-client-urls={clients}"),
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={peers}"),
            format!("--initial-cluster=test={peers}"),
            "--log-level=warn".to_owned(),
            "--quota-backend-bytes=2147483648".to_owned(),
        ]
    }

    fn apiserver_flags(&self) -> Vec<String> {
        let certificates = &self.certificates;
        let file = |flag: &str, path: &Path| format!("{flag}={}", path.display());
        let storage = match self.storage {
            Storage::Protobuf => "application/vnd.kubernetes.protobuf",
            Storage::Json => "application/json",
        };
        vec![
            format!("--storage-media-type={storage}"),
            format!("--etcd-servers=http://127.0.0.1:{}", self.ports.etcd),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.ports.apiserver),
            file("--tls-cert-file", &certificates.server),
            file("--tls-private-key-file", &certificates.server_key),
            file("--client-ca-file", &certificates.authority),
            file("--service-account-key-file", &certificates.verifying_key),
            file("--service-account-signing-key-file", &certificates.signing_key),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/24".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--audit-policy-file=audit-policy.yaml".to_owned(),
            "--audit-log-path=audit.log".to_owned(),
            "--audit-log-maxsize=2000".to_owned(),
        ]
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        let client = self.client().await?;
        let begun = Instant::now();
        loop {
            for process in [&mut self.etcd, &mut self.apiserver].into_iter().flatten() {
                process.check()?;
            }
            let request = http::Request::get("/readyz").body(Vec::new())?;
            let answer = tokio::time::timeout(Duration::from_secs(5), client.request_text(request)).await;
            if answer.is_ok_and(|answer| answer.is_ok()) {
                return Ok(());
            }
            if begun.elapsed() > READY_MAX {
                let tail = self.apiserver.as_ref().map(Process::tail).unwrap_or_default();
                bail!("the API server is not ready within {READY_MAX:?}:\n{tail}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn admin(&self) -> serde_json::Value {
        let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        json!({
            "client-certificate-data": base64(&self.certificates.admin_pem),
            "client-key-data": base64(&self.certificates.admin_key_pem),
        })
    }

    fn kubeconfig_of(&self, user: &serde_json::Value) -> String {
        let authority = base64::engine::general_purpose::STANDARD.encode(&self.certificates.authority_pem);
        let server = format!("https://127.0.0.1:{}", self.ports.apiserver);
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority-data": authority}}],
            "users": [{"name": "test", "user": user}],
        })
        .to_string()
    }
}

impl Ports {
    fn free() -> anyhow::Result<Ports> {
        Ok(Ports {
            etcd: ports::free()?,
            peers: ports::free()?,
            apiserver: ports::free()?,
        })
    }
}

/// # Errors
/// A kubeconfig that cannot be used.
pub async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    let read = Kubeconfig::read_from(kubeconfig).with_context(|| format!("reading {}", kubeconfig.display()))?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
