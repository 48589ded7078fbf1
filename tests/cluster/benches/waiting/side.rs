//! One of the two controllers, Stagegate or the floor: its process, its kinds, what it has asked of the API server and what it has used.
//! Must not know what is measured.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use stagegate_cluster_tests::audit::{self, Answered};
use stagegate_cluster_tests::bench::kinds::Kinds;
use stagegate_cluster_tests::bench::measured::{Measured, Started};
use stagegate_cluster_tests::bench::objects::{self, Answer, Placed, Stored, placement};
use stagegate_cluster_tests::bench::writes::{self, CONCURRENCY, Reported, create};
use stagegate_cluster_tests::usage::Usage;

use crate::follow::Followed;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Stagegate,
    Floor,
}

pub struct Side {
    pub who: Who,
    /// As the audit log names it.
    pub user: String,
    pub kinds: Kinds,
    pub followed: Followed,
    client: Client,
    process: Measured,
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
            process: Measured::new(started),
            placed: Vec::new(),
        }
    }

    /// # Errors
    /// A program that cannot be started.
    pub fn start(&mut self) -> anyhow::Result<Instant> {
        self.process.start()
    }

    /// # Errors
    /// When it does not exit.
    pub fn stop(&mut self) -> anyhow::Result<Duration> {
        self.process.stop()
    }

    /// # Errors
    /// When it is not running.
    pub fn usage(&mut self) -> anyhow::Result<Usage> {
        self.process.usage()
    }

    /// # Errors
    /// When it is still busy after minutes.
    pub async fn quiet(&mut self) -> anyhow::Result<()> {
        self.process.quiet().await
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
        let policies = (0..count).map(|number| objects::policy(number, &self.kinds.policies.api_version));
        writes::create_all(&api, policies).await
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
            create(&side.kinds.combined(&side.client), combined).await
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
        writes::report(&self.kinds.combined(&self.client), combined, answer).await
    }
}
