//! The two API servers that are compared, each with who translates on it. Must not put objects of fixtures there.

use std::path::Path;

use kube::Client;
use stagegate_api::crd;
use stagegate_cluster_tests::control_plane::ControlPlane;
use stagegate_cluster_tests::controller::Pace;
use stagegate_cluster_tests::definitions::{definitions, install};
use stagegate_cluster_tests::host::Host;
use stagegate_cluster_tests::kubestellar::KubeStellar;

/// With KubeStellar's controller-manager.
pub struct KubeStellarSide {
    kubestellar: KubeStellar,
    server: Server,
}

/// With the program in KubeStellar's place.
pub struct OurSide {
    host: Host,
    server: Server,
}

struct Server {
    client: Client,
    // Held: it ends with the side, after who works on it.
    _plane: ControlPlane,
}

impl KubeStellarSide {
    /// # Errors
    /// With the log of what did not start.
    pub async fn start(folder: &Path) -> anyhow::Result<Self> {
        let plane = ControlPlane::start(folder).await?;
        let client = plane.client().await?;
        for definition in definitions(true) {
            install(&client, &definition).await?;
        }
        let kubestellar = KubeStellar::start(&plane, Pace::Raised).await?;
        let server = Server { client, _plane: plane };
        Ok(Self { kubestellar, server })
    }

    pub fn client(&self) -> Client {
        self.server.client.clone()
    }

    /// # Errors
    /// When it has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.kubestellar.check()
    }
}

impl OurSide {
    /// # Errors
    /// With the log of what did not start.
    pub async fn start(folder: &Path) -> anyhow::Result<Self> {
        let plane = ControlPlane::start(folder).await?;
        let client = plane.client().await?;
        for definition in crd::all_for_playground() {
            install(&client, &definition).await?;
        }
        let kubeconfig = format!("--kubeconfig={}", plane.kubeconfig().display());
        let arguments = ["run".to_owned(), kubeconfig, "--controllers=binding,combine".to_owned()];
        let host = Host::start(&arguments, &[], &folder.join("host.log"))?;
        let server = Server { client, _plane: plane };
        Ok(Self { host, server })
    }

    pub fn client(&self) -> Client {
        self.server.client.clone()
    }

    /// # Errors
    /// When it has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.host.process().check()
    }
}
