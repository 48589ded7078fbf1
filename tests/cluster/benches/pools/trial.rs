//! One controller from its start until nothing happens any more. Must not know how figures are printed.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use stagegate_cluster_tests::audit::{self, Answered};
use stagegate_cluster_tests::bench::figures::{count, ms};
use stagegate_cluster_tests::bench::measured::{Measured, Started};
use stagegate_cluster_tests::bench::requests::{Counts, is_write, mark, per};
use stagegate_cluster_tests::control_plane::ControlPlane;
use stagegate_cluster_tests::installation::{Installation, Kind, USER};

use crate::world::{self, Created, REPLICAS};

/// Deployments whose status changes, and NodePools with a heartbeat, one after the other.
const EVENTS: usize = 100;
/// Longer than changes of one YurtAppDaemon are collected, so that each is a decision of its own.
const APART: Duration = Duration::from_millis(250);
const MINUTE: Duration = Duration::from_secs(60);

/// What was measured of Stagegate.
#[derive(Default)]
pub struct Figures {
    pub created: Duration,
    pub created_requests: Counts,
    /// Of each, beside what it uses without events.
    pub status_cpu_ms: f64,
    pub status_requests: Counts,
    pub heartbeat_cpu_ms: f64,
    pub heartbeat_requests: f64,
    /// Within a second.
    pub idle_cpu: Duration,
    pub idle_writes: f64,
    pub restart_writes: f64,
    pub resident_mib: f64,
}

/// How long the floor takes.
///
/// # Errors
/// Whatever does not come up or does not get done.
pub async fn floor(pools: usize, folder: &Path) -> anyhow::Result<Duration> {
    let (plane, installation) = prepared(pools, folder).await?;
    let created = Created::follow(&plane.client().await?);
    let mut controller = Measured::new(Started {
        program: std::env::current_exe().context("finding this program")?,
        arguments: vec!["floor".to_owned(), installation.kubeconfig().display().to_string()],
        environment: Vec::new(),
        log: folder.join("floor.log"),
    });
    let begun = controller.start()?;
    Ok(created.all(pools).await? - begun)
}

/// # Errors
/// Whatever does not come up or does not get done.
pub async fn stagegate(pools: usize, folder: &Path) -> anyhow::Result<Figures> {
    let (plane, installation) = prepared(pools, folder).await?;
    let client = plane.client().await?;
    let started = Started {
        arguments: vec![
            "run".to_owned(),
            "--controllers=yurtappdaemon".to_owned(),
            format!("--kubeconfig={}", installation.kubeconfig().display()),
        ],
        ..Started::stagegate(&installation, folder)
    };
    let mut trial = Trial {
        controller: Measured::new(started),
        plane,
    };
    let created = Created::follow(&client);
    let from = mark(&trial.plane)?;
    let begun = trial.controller.start()?;
    let mut figures = Figures {
        created: created.all(pools).await? - begun,
        created_requests: per(&trial.answered(from)?, 1),
        ..Figures::default()
    };
    let all = world::all(&client).await?;
    world::report(&client, &all, REPLICAS).await?;
    world::completed(&client).await?;
    trial.controller.quiet().await?;
    trial.idle(&mut figures).await?;
    let touched = all.iter().take(EVENTS);
    let began = trial.begin()?;
    for metadata in touched {
        world::report(&client, std::slice::from_ref(metadata), REPLICAS - 1).await?;
        tokio::time::sleep(APART).await;
    }
    (figures.status_cpu_ms, figures.status_requests) = trial.cost(&began, figures.idle_cpu).await?;
    world::report(&client, &all, REPLICAS).await?;
    world::completed(&client).await?;
    trial.controller.quiet().await?;
    let began = trial.begin()?;
    let api = world::pools(&client);
    for number in 0..EVENTS.min(pools) {
        let heartbeat = Patch::Merge(json!({"metadata": {"annotations": {"heartbeat": number.to_string()}}}));
        api.patch(&world::pool_name(number), &PatchParams::default(), &heartbeat)
            .await?;
        tokio::time::sleep(APART).await;
    }
    let requests;
    (figures.heartbeat_cpu_ms, requests) = trial.cost(&began, figures.idle_cpu).await?;
    figures.heartbeat_requests = requests.values().sum();
    trial.restart(&mut figures).await?;
    Ok(figures)
}

async fn prepared(pools: usize, folder: &Path) -> anyhow::Result<(ControlPlane, Installation)> {
    let plane = ControlPlane::start(&folder.join("server")).await?;
    let installation = Installation::install(&plane, Kind::NodePools).await?;
    world::prepare(&plane.client().await?, pools).await?;
    Ok((plane, installation))
}

struct Trial {
    // It ends before its server does.
    controller: Measured,
    plane: ControlPlane,
}

/// Where a measurement begins.
struct Begun {
    at: Instant,
    cpu: Duration,
    log: u64,
}

impl Trial {
    fn answered(&self, from: u64) -> anyhow::Result<Vec<Answered>> {
        let mut answered = audit::answered(&self.plane.audit_log(), from)?;
        answered.retain(|answered| answered.user == USER);
        Ok(answered)
    }

    fn begin(&mut self) -> anyhow::Result<Begun> {
        Ok(Begun {
            at: Instant::now(),
            cpu: self.controller.usage()?.cpu,
            log: mark(&self.plane)?,
        })
    }

    /// Of each of the events since then, when all that they bring about is done.
    async fn cost(&mut self, begun: &Begun, idle: Duration) -> anyhow::Result<(f64, Counts)> {
        self.controller.quiet().await?;
        let cpu = self.controller.usage()?.cpu - begun.cpu;
        let without = idle.mul_f64(begun.at.elapsed().as_secs_f64());
        let answered = self.answered(begun.log)?;
        Ok((ms(cpu.saturating_sub(without)) / count(EVENTS), per(&answered, EVENTS)))
    }

    async fn idle(&mut self, figures: &mut Figures) -> anyhow::Result<()> {
        let begun = self.begin()?;
        tokio::time::sleep(MINUTE).await;
        let usage = self.controller.usage()?;
        figures.idle_cpu = (usage.cpu - begun.cpu) / u32::try_from(MINUTE.as_secs())?;
        figures.resident_mib = usage.resident_mib;
        figures.idle_writes = count(
            self.answered(begun.log)?
                .iter()
                .filter(|answered| is_write(answered))
                .count(),
        );
        Ok(())
    }

    async fn restart(&mut self, figures: &mut Figures) -> anyhow::Result<()> {
        let from = mark(&self.plane)?;
        self.controller.stop()?;
        self.controller.start()?;
        tokio::time::sleep(MINUTE / 4).await;
        self.controller.quiet().await?;
        figures.restart_writes = count(
            self.answered(from)?
                .iter()
                .filter(|answered| is_write(answered))
                .count(),
        );
        Ok(())
    }
}
