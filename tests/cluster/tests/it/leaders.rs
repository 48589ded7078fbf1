//! Two replicas, of which one leads; the leader is killed at random moments of a rollout.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use stagegate_api::{Phase, StagedBindingPolicy};
use stagegate_cluster_tests::host::Host;

use crate::scenario::apply;
use crate::world::{Backend, Part, World, objects_of, repository};

/// How many leaders are killed: 10, or as many as are asked for.
const KILLS: &str = "STAGEGATE_KILLS";
const SEED: &str = "STAGEGATE_SEED";
const LEASE: Duration = Duration::from_secs(2);
/// What a takeover may take beyond the lease.
const TAKEOVER_MAX: Duration = Duration::from_secs(5);
const COMPLETED_MAX: Duration = Duration::from_secs(90);
/// A rollout of three stages takes about so long.
const ROLLOUT_MS: u64 = 25_000;

struct Replica {
    host: Host,
    number: u32,
}

struct Replicas<'w> {
    world: &'w World,
    running: Vec<Replica>,
    started: u32,
}

/// # Errors
/// A takeover that takes too long, a placement made twice, a rollout that ends otherwise than an undisturbed one.
pub async fn leaders_are_killed(folder: &Path) -> anyhow::Result<()> {
    let kills: u32 = number(KILLS)?.unwrap_or(10);
    let seed = number(SEED)?.unwrap_or_else(rand::random);
    let outcome = kill_leaders(folder, (kills, seed)).await;
    outcome.with_context(|| format!("{SEED}={seed} {KILLS}={kills}"))
}

async fn kill_leaders(folder: &Path, (kills, seed): (u32, u64)) -> anyhow::Result<()> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut world = World::start(Backend::Kubernetes, folder).await?;
    world.kill(Part::Host)?;
    world.apply_file("tests/cluster/worlds/shop.yaml").await?;
    let mut replicas = Replicas {
        world: &world,
        running: Vec::new(),
        started: 0,
    };
    replicas.start()?;
    replicas.start()?;
    let mut slowest = Duration::ZERO;
    for kill in 0..kills {
        let name = format!("web-{kill}");
        roll_out(&world, &name).await?;
        let pause_ms = random.random_range(0..ROLLOUT_MS);
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        let took = replicas.kill_leader().await.with_context(|| format!("killed {pause_ms} ms into {name}"))?;
        slowest = slowest.max(took);
        replicas.start()?;
        completed(&world, &name).await?;
        world.judge()?;
    }
    eprintln!("{kills} leaders killed: taken over after at most {} ms", slowest.as_millis());
    Ok(())
}

impl Replicas<'_> {
    fn start(&mut self) -> anyhow::Result<()> {
        self.started += 1;
        let host = self.world.another_host(&format!("replica-{}", self.started))?;
        let number = self.started;
        self.running.push(Replica { host, number });
        Ok(())
    }

    /// Says how long nobody led.
    async fn kill_leader(&mut self) -> anyhow::Result<Duration> {
        let holder = self.holder_other_than("").await?;
        let at = self.running.iter().position(leads);
        let at = at.with_context(|| format!("nobody here leads as {holder}"))?;
        let leader = self.running.remove(at);
        let number = leader.number;
        leader.host.kill().with_context(|| format!("killing replica {number}"))?;
        let begun = Instant::now();
        self.holder_other_than(&holder).await?;
        let took = begun.elapsed();
        ensure!(took <= LEASE + TAKEOVER_MAX, "nobody led for {took:?}");
        Ok(took)
    }

    async fn holder_other_than(&self, known: &str) -> anyhow::Result<String> {
        let leases: Api<Lease> = Api::namespaced(self.world.client(), "stagegate-system");
        let begun = Instant::now();
        loop {
            let lease = leases.get_opt("stagegate").await?;
            let holder = lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
            if !holder.is_empty() && holder != known {
                return Ok(holder);
            }
            ensure!(begun.elapsed() < 4 * (LEASE + TAKEOVER_MAX), "the lease has no new holder");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Whether the last thing that it said of the lease is that it leads.
fn leads(replica: &Replica) -> bool {
    let said = replica.host.said();
    let of_lease = |line: &&str| line.contains("\"lease\":");
    said.lines()
        .rfind(of_lease)
        .is_some_and(|line| line.contains("\"leading\""))
}

/// A Deployment and a policy of that name, as in the scenario of three stages.
async fn roll_out(world: &World, name: &str) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(repository("tests/cluster/scenarios/three-stages.yaml"))?;
    let scenario: crate::scenario::Scenario = serde_saphyr::from_str(&text)?;
    let shop = objects_of(&repository("tests/cluster/worlds/shop.yaml"))?;
    let workloads = shop.into_iter().filter(|object| object["kind"] == "Deployment");
    for object in workloads.chain(scenario.objects) {
        let renamed = object.to_string().replace("\"web\"", &format!("\"{name}\""));
        apply(&world.client(), &serde_json::from_str(&renamed)?).await?;
    }
    Ok(())
}

async fn completed(world: &World, name: &str) -> anyhow::Result<()> {
    let policies: Api<StagedBindingPolicy> = Api::all(world.client());
    let begun = Instant::now();
    loop {
        let status = policies.get(name).await?.status.unwrap_or_default();
        if status.phase == Some(Phase::Completed) && status.active_stage.as_deref() == Some("prod") {
            break;
        }
        ensure!(begun.elapsed() < COMPLETED_MAX, "{name} does not complete: {status:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let went = world.story().stages_of(name);
    ensure!(went == ["dev", "test", "prod"], "{name} went through {went:?}");
    world.never_missing("deployments", name)
}

fn number<T: std::str::FromStr>(variable: &str) -> anyhow::Result<Option<T>> {
    let Ok(given) = std::env::var(variable) else {
        return Ok(None);
    };
    let parsed = given.parse().ok();
    Ok(Some(parsed.with_context(|| format!("{variable} is a whole number"))?))
}
