//! One of the two controllers, Stagegate or the floor: its process, its kinds, what it has asked of the API server and what it has used.
//! Must not know what is measured.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use stagegate_cluster_tests::audit::{self, Answered};
use stagegate_cluster_tests::process::{Process, Signal};
use stagegate_cluster_tests::usage::Usage;

use crate::follow::Followed;
use crate::kinds::Kinds;
use crate::objects::{self, Answer, Placed, Stored, placement};

/// Writes of the benchmark under way at once.
pub const CONCURRENCY: usize = 24;
/// A process that used no more than this for so long is quiet.
const QUIET_CPU: Duration = Duration::from_millis(10);
const QUIET_FOR: Duration = Duration::from_millis(1_500);
const QUIET_MAX: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Stagegate,
    Floor,
}

/// How a controller is started.
pub struct Started {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub log: PathBuf,
}

pub struct Side {
    pub who: Who,
    /// As the audit log names it.
    pub user: String,
    pub kinds: Kinds,
    pub followed: Followed,
    client: Client,
    started: Started,
    process: Option<Process>,
    /// By number of the policy.
    placed: Vec<Placed>,
}

impl Side {
    pub fn new(client: &Client, (who, user): (Who, String), started: Started) -> Side {
        let kinds = Kinds::all();
        Side {
            who,
            user,
            followed: Followed::start(client, &kinds),
            kinds,
            client: client.clone(),
            started,
            process: None,
            placed: Vec::new(),
        }
    }

    /// # Errors
    /// A program that cannot be started.
    pub fn start(&mut self) -> anyhow::Result<Instant> {
        let mut command = Command::new(&self.started.program);
        command
            .args(&self.started.arguments)
            .envs(self.started.environment.iter().cloned())
            .env_remove("KUBECONFIG");
        let begun = Instant::now();
        self.process = Some(Process::start("a controller", command, &self.started.log)?);
        Ok(begun)
    }

    /// SIGTERM, and how long it took to exit.
    ///
    /// # Errors
    /// When it does not exit.
    pub fn stop(&mut self) -> anyhow::Result<Duration> {
        let mut process = self.process.take().context("it is not running")?;
        let begun = Instant::now();
        process.signal(Signal::Terminate);
        process.ended(Duration::from_secs(20))?;
        Ok(begun.elapsed())
    }

    /// # Errors
    /// When it is not running.
    pub fn usage(&mut self) -> anyhow::Result<Usage> {
        let process = self.process.as_mut().context("it is not running")?;
        process.check()?;
        Usage::of(process.id())
    }

    /// Waits until it has nothing to do.
    ///
    /// # Errors
    /// When it is still busy after minutes.
    pub async fn quiet(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let mut before = self.usage()?.cpu;
        while begun.elapsed() < QUIET_MAX {
            tokio::time::sleep(QUIET_FOR).await;
            let now = self.usage()?.cpu;
            if now - before <= QUIET_CPU {
                return Ok(());
            }
            before = now;
        }
        anyhow::bail!("{:?} does not get quiet within {QUIET_MAX:?}", self.who)
    }

    /// What it was answered since the audit log had so many bytes.
    ///
    /// # Errors
    /// A log that cannot be read.
    pub fn answered(&self, log: &Path, from: u64) -> anyhow::Result<Vec<Answered>> {
        let mut answered = audit::answered(log, from)?;
        answered.retain(|answered| answered.user == self.user);
        Ok(answered)
    }

    /// # Errors
    /// What the API server says.
    pub async fn create_policies(&self, count: usize) -> anyhow::Result<()> {
        let api = self.kinds.policies(&self.client);
        let writes = (0..count).map(|number| {
            let policy = objects::policy(number, &self.kinds.policies.api_version);
            create(api.clone(), policy)
        });
        stream::iter(writes)
            .buffer_unordered(CONCURRENCY)
            .try_collect::<Vec<_>>()
            .await?;
        Ok(())
    }

    /// Does KubeStellar's part for the stage of these policies: takes note of the BindingPolicy, makes the Binding and, of what the
    /// clusters return, the CombinedStatus.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn deliver(&mut self, numbers: &[usize], stage: usize, deployments: &[Stored]) -> anyhow::Result<()> {
        let placed: Vec<(Placed, i64)> = numbers
            .iter()
            .map(|&number| {
                let name = placement(number, stage);
                let known = self
                    .followed
                    .placement(&name)
                    .with_context(|| format!("{name} is not there"))?;
                let deployment = deployments[number].clone();
                let placed = Placed {
                    number,
                    stage,
                    uid: known.uid,
                    deployment,
                };
                Ok((placed, known.generation))
            })
            .collect::<anyhow::Result<_>>()?;
        let side = &*self;
        let answer = if stage == 0 { Answer::default() } else { Answer::PASSING };
        let writes = placed.iter().map(|(placed, generation)| async move {
            let status = json!({"status": {"observedGeneration": generation}});
            let placements = side.kinds.placements(&side.client);
            placements
                .patch_status(&placed.name(), &PatchParams::default(), &Patch::Merge(status))
                .await?;
            let bindings = kube::Api::<stagegate_api::Binding>::all(side.client.clone());
            bindings
                .create(&PostParams::default(), &serde_json::from_value(placed.binding())?)
                .await?;
            let combined = placed.combined(&side.kinds.combined.api_version, answer);
            create(side.kinds.combined(&side.client), combined).await
        });
        stream::iter(writes)
            .buffer_unordered(CONCURRENCY)
            .try_collect::<Vec<_>>()
            .await?;
        if stage == 0 {
            self.placed.extend(placed.into_iter().map(|(placed, _)| placed));
            self.placed.sort_by_key(|placed| placed.number);
        }
        Ok(())
    }

    /// The cluster of the first stage reports anew.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn report(&self, number: usize, answer: Answer) -> anyhow::Result<Reported> {
        let combined = self.placed[number].combined_name();
        let body = json!({"results": objects::results(0, answer)});
        let sent_at = Instant::now();
        let api = self.kinds.combined(&self.client);
        let written = api
            .patch_metadata(&combined, &PatchParams::default(), &Patch::Merge(body))
            .await?;
        let version = written.metadata.resource_version.unwrap_or_default();
        Ok(Reported {
            sent_at,
            combined,
            version,
        })
    }
}

/// One change of evidence.
pub struct Reported {
    pub sent_at: Instant,
    pub combined: String,
    pub version: String,
}

/// # Errors
/// What the API server says.
pub async fn create(api: kube::Api<DynamicObject>, object: Value) -> anyhow::Result<Stored> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let created = api.create(&PostParams::default(), &object).await?;
    Ok(Stored {
        uid: created.metadata.uid.unwrap_or_default(),
        resource_version: created.metadata.resource_version.unwrap_or_default(),
    })
}
