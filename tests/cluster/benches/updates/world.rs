//! The program beside the real KubeStellar, its transport and simulated clusters, with policies whose updates are staged. Must not measure.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};
use stagegate_api::{Phase, SimulatedCluster, StagedBindingPolicy, parse_duration};
use stagegate_cluster_tests::bench::kinds::Kinds;
use stagegate_cluster_tests::bench::objects::NAMESPACE;
use stagegate_cluster_tests::bench::writes;
use stagegate_cluster_tests::controller::Pace;
use stagegate_cluster_tests::host::Host;
use stagegate_cluster_tests::servers::{Beside, Servers};

const LOOK: Duration = Duration::from_secs(2);

pub struct World {
    // It ends before its servers do.
    host: Host,
    pub servers: Servers,
    /// What the program was told to.
    pub settle: Duration,
}

/// What there is before the program starts.
pub struct Shape<'a> {
    pub pace: Pace,
    /// By name, each with how many clusters it has.
    pub stages: &'a [(&'a str, usize)],
    pub deployments: usize,
}

impl World {
    /// # Errors
    /// With the log of what did not start.
    pub async fn start(folder: &Path, shape: &Shape<'_>) -> anyhow::Result<World> {
        let beside = Beside {
            kubestellar: Some(shape.pace),
            transport: Some(shape.pace),
        };
        let servers = Servers::start(folder, beside).await?;
        let clusters: Api<SimulatedCluster> = Api::all(servers.client.clone());
        for (stage, count) in shape.stages {
            for number in 1..=*count {
                let cluster = json!({
                    "metadata": {"name": cluster(stage, number), "labels": {"env": stage}},
                    "spec": {"readyAfter": "500ms"},
                });
                clusters
                    .create(&PostParams::default(), &serde_json::from_value(cluster)?)
                    .await?;
            }
        }
        writes::workload(&servers.client, shape.deployments).await?;
        let arguments = servers.installation.arguments()?;
        let settle = arguments.iter().find_map(|argument| argument.strip_prefix("--settle="));
        let settle = settle.and_then(parse_duration).context("no --settle is shipped")?;
        let environment = servers.installation.environment();
        let host = Host::start(&arguments, environment, &folder.join("stagegate.log"))?;
        Ok(World { host, servers, settle })
    }

    /// # Errors
    /// What the API server says.
    pub async fn place(&self, policies: impl Iterator<Item = Value>) -> anyhow::Result<()> {
        let api = Kinds::all().policies(&self.servers.client);
        writes::create_all(&api, policies).await
    }

    /// Waits until all policies are.
    ///
    /// # Errors
    /// When they are not in time, or something has ended.
    pub async fn completed(&mut self, within: Duration) -> anyhow::Result<()> {
        let api: Api<StagedBindingPolicy> = Api::all(self.servers.client.clone());
        let is_completed = |policy: &&StagedBindingPolicy| {
            policy.status.as_ref().and_then(|status| status.phase) == Some(Phase::Completed)
        };
        let begun = std::time::Instant::now();
        loop {
            self.check()?;
            let all = api.list(&ListParams::default()).await?;
            let Some(other) = all.iter().find(|policy| !is_completed(policy)) else {
                return Ok(());
            };
            anyhow::ensure!(
                begun.elapsed() < within,
                "{} of {} are completed; another one: {:?}",
                all.iter().filter(is_completed).count(),
                all.items.len(),
                other.status
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    /// # Errors
    /// When something has ended: with the end of its log.
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.servers.check()?;
        self.host.process().check()
    }
}

/// The clusters of a stage are numbered from 1.
pub fn cluster(stage: &str, number: usize) -> String {
    format!("{stage}{number}")
}

/// Of the Deployments that the selector matches, through these stages.
pub fn policy(name: &str, selector: &Value, stages: &[(&str, usize)]) -> Value {
    let stage = |name: &&str| json!({"name": name, "clusterSelectors": [{"matchLabels": {"env": name}}]});
    let stages: Vec<Value> = stages.iter().map(|(name, _)| stage(name)).collect();
    json!({
        "apiVersion": Kinds::all().policies.api_version,
        "kind": "StagedBindingPolicy",
        "metadata": {"name": name},
        "spec": {
            "updates": "Staged",
            "previousStages": "Keep",
            "downsync": [{
                "apiGroup": "apps",
                "resources": ["deployments"],
                "namespaces": [NAMESPACE],
                "objectSelectors": [selector],
            }],
            "stages": stages,
        },
    })
}
