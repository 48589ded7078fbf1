//! A control plane with an installation and simulated clusters, and beside it KubeStellar and its transport where they are wanted. Must not
//! start the program under test.

use std::path::Path;

use kube::Client;
use stagegate_clock::TokioClock;
use stagegate_embedded::clusters::{Clusters, RunningClusters, Settings, Source};

use crate::control_plane::ControlPlane;
use crate::controller::{Controller, Pace};
use crate::definitions::{definitions, install};
use crate::installation::{Installation, Kind};
use crate::kubestellar::KubeStellar;
use crate::transport;

/// What runs beside the API server, and how fast.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside {
    /// Without, all three controllers are ours.
    pub kubestellar: Option<Pace>,
    /// With it, the clusters take what its ManifestWorks bring.
    pub transport: Option<Pace>,
}

pub struct Servers {
    // In this order they end: nothing complains about a server that is gone.
    pub clusters: RunningClusters,
    pub transport: Option<Controller>,
    pub kubestellar: Option<KubeStellar>,
    pub plane: ControlPlane,
    pub client: Client,
    pub installation: Installation,
}

impl Servers {
    /// # Errors
    /// With the log of what did not start.
    pub async fn start(folder: &Path, beside: Beside) -> anyhow::Result<Servers> {
        let plane = ControlPlane::start(&folder.join("server")).await?;
        let client = plane.client().await?;
        for definition in definitions(beside.kubestellar.is_some()) {
            install(&client, &definition).await?;
        }
        // It installs its own definitions, and so is there first.
        let (kubestellar, kind) = match beside.kubestellar {
            Some(pace) => (Some(KubeStellar::start(&plane, pace).await?), Kind::BesideKubeStellar),
            None => (None, Kind::PlainCluster),
        };
        let mut settings = Settings::default();
        let transport = match beside.transport {
            Some(pace) => {
                settings.source = Source::ManifestWorks;
                install(&client, &transport::definition()?).await?;
                Some(transport::start(&plane, pace).await?)
            }
            None => None,
        };
        let installation = Installation::install(&plane, kind).await?;
        Ok(Servers {
            clusters: Clusters::start(client.clone(), TokioClock::shared(), settings),
            transport,
            kubestellar,
            plane,
            client,
            installation,
        })
    }

    /// # Errors
    /// When one of KubeStellar's controllers has ended: with the end of its log.
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.kubestellar.as_mut().map_or(Ok(()), KubeStellar::check)?;
        self.transport.as_mut().map_or(Ok(()), Controller::check)
    }
}
