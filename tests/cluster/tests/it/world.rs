//! A back end with everything that runs on it. Must not know what a scenario is about.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use serde::Deserialize;
use serde_json::{Value, json};
use stagegate_cluster_tests::assets::Assets;
use stagegate_cluster_tests::audit::{self, Used};
use stagegate_cluster_tests::control_plane::{self, ControlPlane};
use stagegate_cluster_tests::controller::{Controller, Pace};
use stagegate_cluster_tests::host::{self, Host};
use stagegate_cluster_tests::installation::{Kind, USER};
use stagegate_cluster_tests::kubestellar::KubeStellar;
use stagegate_cluster_tests::servers::{Beside, Servers};
use stagegate_embedded::clusters::{ObjectRef, Presence, RunningClusters};

use crate::scenario::apply;
use crate::story::Story;

/// What a scenario can run on.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// `stagegate playground --serve`.
    Playground,
    /// A real API server; all three controllers are ours.
    Kubernetes,
    /// A real API server and KubeStellar's controller-manager; staging is ours.
    KubeStellar,
    /// The same, and KubeStellar's transport: the clusters take what its ManifestWorks bring.
    Transport,
}

/// What can be killed and started again.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    Host,
    KubeStellar,
    Transport,
    ApiServer,
    Etcd,
}

impl Backend {
    /// Those that every scenario is run on: the transport makes no difference to most.
    pub fn all() -> Vec<Backend> {
        vec![Backend::Playground, Backend::Kubernetes, Backend::KubeStellar]
    }

    pub fn name(self) -> &'static str {
        match self {
            Backend::Playground => "playground",
            Backend::Kubernetes => "kubernetes",
            Backend::KubeStellar => "kubestellar",
            Backend::Transport => "transport",
        }
    }
}

pub struct World {
    backend: Backend,
    folder: PathBuf,
    client: Client,
    story: Arc<Story>,
    // In this order they end: nothing complains about a server that is gone.
    host: Option<Host>,
    /// None in the playground.
    servers: Option<Servers>,
}

impl World {
    /// # Errors
    /// With the log of what did not start.
    pub async fn start(backend: Backend, folder: &Path) -> anyhow::Result<World> {
        std::fs::create_dir_all(folder)?;
        match backend {
            Backend::Playground => Self::playground(folder).await,
            Backend::Kubernetes | Backend::KubeStellar | Backend::Transport => Self::real(backend, folder).await,
        }
    }

    async fn playground(folder: &Path) -> anyhow::Result<World> {
        let (first, kubeconfig) = (folder.join("first.yaml"), folder.join("kubeconfig"));
        // It wants something to apply.
        std::fs::write(
            &first,
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "first"}}).to_string(),
        )?;
        let arguments = [
            "playground".to_owned(),
            first.display().to_string(),
            "--serve".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
        ];
        let mut host = Host::start(&arguments, &[], &folder.join("playground.log"))?;
        let begun = std::time::Instant::now();
        let client = loop {
            host.process().check()?;
            if let Ok(client) = control_plane::client(&kubeconfig).await
                && client.apiserver_version().await.is_ok()
            {
                break client;
            }
            ensure!(
                begun.elapsed() < Duration::from_secs(30),
                "the playground does not get ready"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        Ok(World {
            backend: Backend::Playground,
            folder: folder.to_owned(),
            story: Story::follow(&client),
            client,
            host: Some(host),
            servers: None,
        })
    }

    async fn real(backend: Backend, folder: &Path) -> anyhow::Result<World> {
        let kind = kind_of(backend).context("not the playground")?;
        let beside = Beside {
            kubestellar: (kind == Kind::BesideKubeStellar).then_some(Pace::Raised),
            transport: (backend == Backend::Transport).then_some(Pace::Shipped),
        };
        let servers = Servers::start(folder, beside).await?;
        let mut world = World {
            backend,
            folder: folder.to_owned(),
            story: Story::follow(&servers.client),
            client: servers.client.clone(),
            host: None,
            servers: Some(servers),
        };
        world.start_again(Part::Host).await?;
        Ok(world)
    }

    pub fn client(&self) -> Client {
        self.client.clone()
    }

    pub fn story(&self) -> &Story {
        &self.story
    }

    /// A file or folder of the repository.
    pub async fn apply_file(&self, name: &str) -> anyhow::Result<()> {
        for object in objects_of(&repository(name))? {
            apply(&self.client, &object).await?;
        }
        Ok(())
    }

    /// What `kubectl stagegate` prints: kubectl finds the program by its other name, and hands on nothing but the environment.
    ///
    /// # Errors
    /// With what it wrote to standard error, where its exit code is not 0.
    pub fn plugin(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let kubeconfig = match &self.servers {
            Some(servers) => servers.plane.kubeconfig(),
            None => self.folder.join("kubeconfig"),
        };
        let path = self.folder.join("path");
        std::fs::create_dir_all(&path)?;
        let plugin = path.join("kubectl-stagegate");
        if !plugin.exists() {
            std::os::unix::fs::symlink(host::program(), plugin)?;
        }
        let mut command = Command::new(&Assets::get()?.kubectl);
        command.arg("stagegate").args(arguments);
        let output = command.env("KUBECONFIG", kubeconfig).env("PATH", path).output()?;
        let (printed, said) = (
            String::from_utf8(output.stdout)?,
            String::from_utf8_lossy(&output.stderr),
        );
        ensure!(output.status.success(), "{}: {printed}{said}", output.status);
        Ok(printed)
    }

    /// # Errors
    /// When something has ended that must not.
    pub fn check(&mut self) -> anyhow::Result<()> {
        let transport = self.servers.as_mut().and_then(|servers| servers.transport.as_mut());
        transport.map_or(Ok(()), Controller::check)?;
        self.host.as_mut().map_or(Ok(()), |host| host.process().check())
    }

    /// What holds of every scenario at its end.
    ///
    /// # Errors
    /// What does not.
    pub fn judge(&self) -> anyhow::Result<()> {
        let faults = self.story.faults();
        ensure!(faults.is_empty(), "{}", faults.join("\n"));
        Ok(())
    }

    /// Whether KubeStellar has locked itself out. It is ended then or now.
    ///
    /// # Errors
    /// When it does not end.
    pub fn is_kubestellar_locked(&mut self) -> anyhow::Result<bool> {
        self.kubestellar()
            .map_or(Ok(false), KubeStellar::end_and_tell_whether_locked)
    }

    pub fn kill(&mut self, part: Part) -> anyhow::Result<()> {
        match part {
            Part::Host => self.host.take().context("the host is not running")?.kill(),
            Part::KubeStellar => self.kubestellar().context("no KubeStellar here")?.kill(),
            Part::Transport => self.transport().context("no transport here")?.kill(),
            Part::ApiServer => self.plane()?.kill(control_plane::Part::ApiServer),
            Part::Etcd => self.plane()?.kill(control_plane::Part::Etcd),
        }
    }

    pub async fn start_again(&mut self, part: Part) -> anyhow::Result<()> {
        match part {
            Part::Host => {
                self.host = Some(self.another_host("host")?);
                Ok(())
            }
            Part::KubeStellar => {
                let kubestellar = self.kubestellar().context("no KubeStellar here")?;
                kubestellar.start_again().await.map(drop)
            }
            Part::Transport => {
                let transport = self.transport().context("no transport here")?;
                transport.start_again().await.map(drop)
            }
            Part::ApiServer => self.plane()?.start_again(control_plane::Part::ApiServer).await,
            Part::Etcd => self.plane()?.start_again(control_plane::Part::Etcd).await,
        }
    }

    /// A replica of the caller's own.
    ///
    /// # Errors
    /// On the playground, which is one itself.
    pub fn another_host(&self, name: &str) -> anyhow::Result<Host> {
        let servers = self.servers.as_ref();
        let installation = &servers.context("the playground is not started again")?.installation;
        Host::start(
            &installation.arguments()?,
            installation.environment(),
            &self.folder.join(format!("{name}.log")),
        )
    }

    /// How the hosts are installed; not at all in the playground.
    pub fn kind(&self) -> Option<Kind> {
        kind_of(self.backend)
    }

    /// What the hosts have asked of the API server so far; nothing of the playground, which knows no users.
    ///
    /// # Errors
    /// An audit log that cannot be read.
    pub fn used(&self) -> anyhow::Result<Used> {
        self.servers.as_ref().map_or(Ok(Used::default()), |servers| {
            let plane = &servers.plane;
            audit::used_by(USER, &plane.audit_log(), plane.unready())
        })
    }

    /// What a user has added to the rights over workloads, as deploy/README.md shows it.
    ///
    /// # Errors
    /// A server that does not answer.
    pub async fn added_rules(&self) -> anyhow::Result<Vec<PolicyRule>> {
        let roles: Api<ClusterRole> = Api::all(self.client.clone());
        let parts = ListParams::default().labels("community.kubestellar.io/aggregate-to-stagegate-workloads=true");
        let parts = roles.list(&parts).await?.items.into_iter();
        // Those that are shipped have the label of the installation.
        let added = parts.filter(|role| !role.labels().contains_key("app.kubernetes.io/part-of"));
        Ok(added.flat_map(|role| role.rules.unwrap_or_default()).collect())
    }

    fn plane(&mut self) -> anyhow::Result<&mut ControlPlane> {
        let servers = self.servers.as_mut();
        Ok(&mut servers.context("the playground has no server of its own")?.plane)
    }

    fn kubestellar(&mut self) -> Option<&mut KubeStellar> {
        self.servers.as_mut()?.kubestellar.as_mut()
    }

    fn transport(&mut self) -> Option<&mut Controller> {
        self.servers.as_mut()?.transport.as_mut()
    }

    fn clusters(&self) -> Option<&RunningClusters> {
        self.servers.as_ref().map(|servers| &servers.clusters)
    }

    /// Where the workload is now.
    pub fn clusters_with(&self, resource: &str, name: &str) -> BTreeSet<String> {
        self.contents(resource, name).unwrap_or_default().into_keys().collect()
    }

    /// By cluster that has the object: the digest of its contents. `None`: the playground does not show it.
    pub fn contents(&self, resource: &str, name: &str) -> Option<BTreeMap<String, String>> {
        let truth = self.clusters()?.truth();
        let is_it = |object: &ObjectRef| object.resource == resource && object.name == name;
        let within = truth.clusters.into_iter().filter_map(|(cluster, objects)| {
            let (_, present) = objects.into_iter().find(|(object, _)| is_it(object))?;
            Some((cluster, present.digest))
        });
        Some(within.collect())
    }

    /// The images of the Deployment that the cluster has run, from the beginning; `None`: nobody here knows.
    pub fn images(&self, cluster: &str, name: &str) -> Option<Vec<String>> {
        let truth = self.clusters()?.truth();
        let of_it = truth.fared.iter().filter(|fared| {
            fared.cluster == cluster && fared.object.resource == "deployments" && fared.object.name == name
        });
        let images = of_it.map(|fared| fared.spec["template"]["spec"]["containers"][0]["image"].clone());
        let mut images: Vec<String> = images.filter_map(|image| image.as_str().map(str::to_owned)).collect();
        images.dedup();
        Some(images)
    }

    /// # Errors
    /// When at some moment the workload was in no cluster, after it had been in one.
    pub fn never_missing(&self, resource: &str, name: &str) -> anyhow::Result<()> {
        let Some(clusters) = self.clusters() else {
            // The playground keeps its truth to itself; its own tests ask it.
            return Ok(());
        };
        let mut within = BTreeSet::new();
        for change in clusters.truth().history {
            if change.object.resource != resource || change.object.name != name {
                continue;
            }
            match change.presence {
                Presence::Present => within.insert(change.cluster),
                Presence::Absent => within.remove(&change.cluster),
            };
            ensure!(!within.is_empty(), "{name} was in no cluster at {}", change.at);
        }
        ensure!(!within.is_empty(), "{name} was never in a cluster");
        Ok(())
    }
}

fn kind_of(backend: Backend) -> Option<Kind> {
    match backend {
        Backend::Playground => None,
        Backend::Kubernetes => Some(Kind::PlainCluster),
        Backend::KubeStellar | Backend::Transport => Some(Kind::BesideKubeStellar),
    }
}

pub fn repository(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

pub fn objects_of(path: &Path) -> anyhow::Result<Vec<Value>> {
    if path.is_dir() {
        let mut files: Vec<PathBuf> = std::fs::read_dir(path)?
            .map(|entry| Ok(entry?.path()))
            .collect::<std::io::Result<_>>()?;
        files.sort();
        let mut objects = Vec::new();
        for file in files {
            objects.extend(objects_of(&file)?);
        }
        return Ok(objects);
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    serde_saphyr::from_multiple(&text).with_context(|| format!("reading {}", path.display()))
}
