//! One number of policies, from an empty server to the last figure. Must not print.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use stagegate_api::{Phase, StagedBindingPolicy};
use stagegate_cluster_tests::audit::Answered;
use stagegate_cluster_tests::bench::measured::Started;
use stagegate_cluster_tests::bench::objects::{Answer, NAMESPACE, PASSING, STAGES, Stored, placement};
use stagegate_cluster_tests::bench::requests::{is_failing, is_write, mark, per};
use stagegate_cluster_tests::bench::writes;
use stagegate_cluster_tests::control_plane::ControlPlane;
use stagegate_cluster_tests::installation::{Installation, Kind, USER};

use crate::figures::{Figures, Flip};
use crate::side::{Side, Who};

/// Changes that decide nothing.
const CHANGES: usize = 500;
/// Policies that are moved one at a time, at most.
const FLIPS_MAX: usize = 300;
/// Between two of them.
const FLIP_PAUSE: Duration = Duration::from_millis(100);
const BURST: usize = 90;
/// Moved after a restart.
const LAST: usize = 5;
const PLACED_MAX: Duration = Duration::from_secs(1_200);
const OPENED_MAX: Duration = Duration::from_secs(60);
/// After a start the evidence collector has to stand for 10 s, and a Binding for 3 s, before anything counts.
const TRUST: Duration = Duration::from_secs(14);
const IDLE: Duration = Duration::from_secs(10);
/// A second more than Stagegate delays a status that would change in words alone.
const PUT_OFF: Duration = Duration::from_secs(11);

/// A server and one controller.
struct Trial {
    // It ends before its server does.
    side: Side,
    plane: ControlPlane,
    client: Client,
    policies: usize,
    deployments: Vec<Stored>,
    figures: Figures,
    /// How long the audit log was when the controller started.
    placing_from: u64,
    /// The next policy that has not been moved.
    next: usize,
}

/// The figures of Stagegate and of the floor, in this order.
///
/// # Errors
/// Whatever does not come up or does not get done.
pub async fn run(policies: usize, folder: &Path) -> anyhow::Result<[Figures; 2]> {
    let floor = of_one(policies, Who::Floor, &folder.join("floor")).await?;
    let stagegate = of_one(policies, Who::Stagegate, &folder.join("stagegate")).await?;
    Ok([stagegate, floor])
}

async fn of_one(policies: usize, who: Who, folder: &Path) -> anyhow::Result<Figures> {
    std::fs::create_dir_all(folder)?;
    let mut trial = Trial::prepare(policies, who, folder).await?;
    trial.place().await?;
    trial.deliver().await?;
    trial.idle().await?;
    trial.change(false).await?;
    trial.change(true).await?;
    trial.flip().await?;
    trial.burst().await?;
    // The floor keeps no state, so it cannot go on after a restart.
    if who == Who::Stagegate {
        trial.restart().await?;
    }
    Ok(trial.figures)
}

impl Trial {
    async fn prepare(policies: usize, who: Who, folder: &Path) -> anyhow::Result<Trial> {
        let plane = ControlPlane::start(&folder.join("server")).await?;
        let client = plane.client().await?;
        let installation = Installation::install(&plane, Kind::PlainCluster).await?;
        let deployments = writes::workload(&client, policies).await?;
        let side = match who {
            Who::Stagegate => Side::new(
                &client,
                (who, USER.to_owned()),
                Started::stagegate(&installation, folder),
            ),
            Who::Floor => floor(&plane, &client, folder).await?,
        };
        side.create_policies(policies).await?;
        Ok(Trial {
            side,
            plane,
            client,
            policies,
            deployments,
            figures: Figures::default(),
            placing_from: 0,
            next: 0,
        })
    }

    /// From the start of the controller until all first stages are open and, with Stagegate, the BindingPolicies of the next ones exist.
    async fn place(&mut self) -> anyhow::Result<()> {
        let (policies, side) = (self.policies, &mut self.side);
        let placements = match side.who {
            Who::Stagegate => STAGES.len() * policies,
            Who::Floor => policies,
        };
        let from = mark(&self.plane)?;
        let begun = side.start()?;
        let all = |followed: &crate::follow::Followed| followed.has(placements, policies).then_some(());
        let placed = side.followed.wait(PLACED_MAX, all).await;
        self.figures.placed = begun.elapsed();
        placed.with_context(|| format!("{:?} has not placed all within {PLACED_MAX:?}", side.who))?;
        side.quiet().await?;
        self.figures.placing_cpu = side.usage()?.cpu;
        self.placing_from = from;
        Ok(())
    }

    /// KubeStellar's part, until every policy holds at its first stage.
    async fn deliver(&mut self) -> anyhow::Result<()> {
        let numbers: Vec<usize> = (0..self.policies).collect();
        self.side.deliver(&numbers, 0, &self.deployments).await?;
        tokio::time::sleep(TRUST).await;
        self.side.quiet().await?;
        self.figures.placing_requests = per(&self.answered(self.placing_from)?, self.policies);
        if self.side.who == Who::Floor {
            return Ok(());
        }
        let api: Api<StagedBindingPolicy> = Api::all(self.client.clone());
        let all = api.list(&ListParams::default()).await?;
        let holds = |policy: &&StagedBindingPolicy| {
            policy.status.as_ref().and_then(|status| status.phase) == Some(Phase::Holding)
        };
        let holding = all.iter().filter(holds).count();
        let other = all.iter().find(|policy| !holds(policy));
        ensure!(
            holding == self.policies,
            "{holding} of {} hold; another one: {:?}",
            self.policies,
            other.map(|other| &other.status)
        );
        Ok(())
    }

    async fn idle(&mut self) -> anyhow::Result<()> {
        let from = mark(&self.plane)?;
        let before = self.side.usage()?;
        tokio::time::sleep(IDLE).await;
        let usage = self.side.usage()?;
        self.figures.idle_cpu = usage.cpu - before.cpu;
        self.figures.resident_mib = usage.resident_mib;
        self.figures.idle_requests = self.answered(from)?.len();
        Ok(())
    }

    /// Evidence that changes and leaves the condition false. First what the condition asks for changes and the replicas that status
    /// reports stay the same; then these change, too, and status has something new to report.
    async fn change(&mut self, is_told: bool) -> anyhow::Result<()> {
        let from = mark(&self.plane)?;
        let before = self.side.usage()?;
        for change in 0..CHANGES {
            // A value that was not there before, and never the passing one.
            let asked = PASSING + 1 + u32::try_from(change)?;
            let available = if is_told { asked } else { 0 };
            let answer = Answer { asked, available };
            self.side.report(change % self.policies, answer).await?;
        }
        tokio::time::sleep(PUT_OFF).await;
        self.side.quiet().await?;
        let usage = self.side.usage()?;
        let requests = per(&self.answered(from)?, CHANGES);
        let figures = &mut self.figures.changes[usize::from(is_told)];
        figures.cpu = (usage.cpu - before.cpu) / u32::try_from(CHANGES)?;
        figures.requests = requests;
        Ok(())
    }

    /// One policy at a time.
    async fn flip(&mut self) -> anyhow::Result<()> {
        let flips = FLIPS_MAX.min(self.policies.saturating_sub(BURST + LAST));
        let from = mark(&self.plane)?;
        let before = self.side.usage()?;
        let numbers = self.take(flips);
        for &number in &numbers {
            match flip(&self.side, number).await? {
                Some(flip) => self.figures.flips.push(flip),
                None => self.figures.missed += 1,
            }
            tokio::time::sleep(FLIP_PAUSE).await;
            // As soon after its placement as KubeStellar would.
            self.side.deliver(&[number], 1, &self.deployments).await?;
        }
        tokio::time::sleep(TRUST).await;
        self.side.quiet().await?;
        let usage = self.side.usage()?;
        let answered = self.answered(from)?;
        let removed = answered
            .iter()
            .filter(|answered| answered.right.verb == "delete" && is_write(answered))
            .count();
        ensure!(
            removed >= flips - self.figures.missed,
            "{removed} of {flips} previous placements were removed"
        );
        let figures = &mut self.figures;
        figures.flip_cpu = (usage.cpu - before.cpu) / u32::try_from(flips.max(1))?;
        figures.flip_requests = per(&answered, flips);
        Ok(())
    }

    /// Many at once: from the first write to the last stage that opens.
    async fn burst(&mut self) -> anyhow::Result<()> {
        // Up to four bursts, if enough policies are left.
        let rounds = ((self.policies - self.next).saturating_sub(LAST) / BURST).min(4);
        for _round in 0..rounds {
            let numbers = self.take(BURST);
            let side = &mut self.side;
            let begun = Instant::now();
            let reports = numbers.iter().map(|&number| side.report(number, Answer::PASSING));
            stream::iter(reports)
                .buffer_unordered(BURST)
                .try_collect::<Vec<_>>()
                .await?;
            let last = |followed: &crate::follow::Followed| {
                let opened = numbers.iter().map(|&number| followed.opened_at(&placement(number, 1)));
                opened.collect::<Option<Vec<Instant>>>()?.into_iter().max()
            };
            let last = side.followed.wait(OPENED_MAX, last).await;
            let last = last.with_context(|| format!("{:?} has not opened all of a burst", side.who))?;
            self.figures.bursts.push(last - begun);
            side.quiet().await?;
        }
        let usage = self.side.usage()?;
        self.figures.end_mib = usage.resident_mib;
        self.figures.peak_mib = usage.peak_mib;
        Ok(())
    }

    async fn restart(&mut self) -> anyhow::Result<()> {
        let numbers = self.take(LAST);
        self.figures.stopped_in = self.side.stop()?;
        let from = mark(&self.plane)?;
        self.side.start()?;
        tokio::time::sleep(TRUST).await;
        self.side.quiet().await?;
        let answered = self.answered(from)?;
        self.figures.restart_writes = answered.iter().filter(|answered| is_write(answered)).count();
        for number in numbers {
            self.figures.restart_worked += usize::from(flip(&self.side, number).await?.is_some());
        }
        self.side.quiet().await?;
        let usage = self.side.usage()?;
        let answered = self.answered(from)?;
        let figures = &mut self.figures;
        figures.restart_cpu = usage.cpu;
        figures.restart_mib = usage.resident_mib;
        figures.restart_failing = answered.iter().filter(|answered| is_failing(answered)).count();
        self.side.stop()?;
        Ok(())
    }

    /// The answers that the controller got since the audit log had `from` bytes.
    fn answered(&self, from: u64) -> anyhow::Result<Vec<Answered>> {
        self.side.answered(&self.plane.audit_log(), from)
    }

    fn take(&mut self, count: usize) -> Vec<usize> {
        let first = self.next;
        self.next += count;
        (first..self.next).collect()
    }
}

/// `None`: the next stage did not open.
async fn flip(side: &Side, number: usize) -> anyhow::Result<Option<Flip>> {
    let reported = side.report(number, Answer::PASSING).await?;
    let next = placement(number, 1);
    let opened = side.followed.wait(OPENED_MAX, |followed| {
        let seen_at = followed.evidence_at(&reported.combined, &reported.version)?;
        Some((seen_at, followed.opened_at(&next)?))
    });
    Ok(opened.await.map(|(seen_at, opened_at)| Flip {
        from_write: opened_at.saturating_duration_since(reported.sent_at),
        from_event: opened_at.saturating_duration_since(seen_at),
    }))
}

async fn floor(plane: &ControlPlane, client: &Client, folder: &Path) -> anyhow::Result<Side> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    let account = serde_json::from_value(json!({"metadata": {"name": "floor"}}))?;
    accounts.create(&PostParams::default(), &account).await?;
    let user = format!("system:serviceaccount:{NAMESPACE}:floor");
    let binding = json!({
        "metadata": {"name": "floor"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "floor", "namespace": NAMESPACE}],
    });
    let bindings: Api<k8s_openapi::api::rbac::v1::ClusterRoleBinding> = Api::all(client.clone());
    bindings
        .create(&PostParams::default(), &serde_json::from_value(binding)?)
        .await?;
    let request = TokenRequest {
        spec: TokenRequestSpec::default(),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request("floor", &PostParams::default(), &request)
        .await?;
    let token = answer.status.context("a TokenRequest without an answer")?.token;
    let kubeconfig: PathBuf = plane.kubeconfig_for("floor", &token)?;
    let started = Started {
        program: std::env::current_exe()?,
        arguments: vec!["floor".to_owned(), kubeconfig.display().to_string()],
        environment: Vec::new(),
        log: folder.join("floor.log"),
    };
    Ok(Side::new(client, (Who::Floor, user), started))
}
