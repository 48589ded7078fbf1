//! Two replicas, of which one leads; the leader is killed at random moments of a rollout.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use stagegate_api::{Binding, BindingPolicy, Phase, StagedBindingPolicy, annotation};
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
/// Names a rollout during which nobody is killed.
const UNDISTURBED: &str = "undisturbed";
/// After `Completed` nothing more happens to one.
const AFTERWARDS: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);
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
    roll_out(&world, UNDISTURBED).await?;
    completed(&world, UNDISTURBED).await?;
    tokio::time::sleep(AFTERWARDS).await;
    let undisturbed = outcome(&world, UNDISTURBED).await?;
    ensure!(
        undisturbed["placements"] == json!({"stage.prod": {"attempt": "1", "is_open": true}}),
        "what ends so is no measure: {undisturbed}"
    );
    let mut slowest = Duration::ZERO;
    // The next one begins before the last one has ended: a leader dies with several under way.
    for kill in 0..kills {
        let name = name_of(kill);
        roll_out(&world, &name).await?;
        let pause_ms = random.random_range(0..ROLLOUT_MS);
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        let took = replicas
            .kill_leader()
            .await
            .with_context(|| format!("killed {pause_ms} ms into {name}"))?;
        slowest = slowest.max(took);
        replicas.start()?;
        world.judge()?;
    }
    for kill in 0..kills {
        let name = name_of(kill);
        completed(&world, &name).await?;
        ends_as(&world, &name, &undisturbed).await?;
    }
    world.judge()?;
    crate::note_rights(&world, &BTreeSet::new()).await?;
    eprintln!(
        "{kills} leaders killed: taken over after at most {} ms",
        slowest.as_millis()
    );
    Ok(())
}

fn name_of(kill: u32) -> String {
    format!("web-{kill}")
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
        let at = self.leader().await?;
        let killed = self.holder().await?;
        let Replica { host, number } = self.running.remove(at);
        let begun = Instant::now();
        host.kill().with_context(|| format!("killing replica {number}"))?;
        // Another one says that it leads, and the Lease says so, too.
        while !self.running.iter().any(leads) || self.holder().await? == killed {
            let waited = begun.elapsed();
            ensure!(
                waited <= LEASE + TAKEOVER_MAX,
                "nobody has led for {waited:?} after {killed}"
            );
            tokio::time::sleep(LOOK).await;
        }
        Ok(begun.elapsed())
    }

    /// On a machine that is busy a leader may lose the lease without being killed; then the other one takes over.
    async fn leader(&self) -> anyhow::Result<usize> {
        let begun = Instant::now();
        loop {
            if let Some(at) = self.running.iter().position(leads) {
                return Ok(at);
            }
            ensure!(
                begun.elapsed() <= LEASE + TAKEOVER_MAX,
                "nobody has led for {:?}",
                begun.elapsed()
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn holder(&self) -> anyhow::Result<String> {
        let leases: Api<Lease> = Api::namespaced(self.world.client(), "stagegate-system");
        let spec = leases.get("stagegate").await?.spec.unwrap_or_default();
        Ok(spec.holder_identity.unwrap_or_default())
    }
}

/// Whether the last thing that it said of its standing is that it leads. (Trouble with the lease alone ends no term.)
fn leads(replica: &Replica) -> bool {
    let said = replica.host.said();
    let of_standing = |line: &&str| line.contains("\"lease\":") && !line.contains("\"error\":");
    let last = said.lines().rfind(of_standing);
    last.is_some_and(|line| line.contains("\"leading\""))
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

/// What there is of a rollout, but for names, uids and times.
async fn outcome(world: &World, name: &str) -> anyhow::Result<Value> {
    let policies: Api<StagedBindingPolicy> = Api::all(world.client());
    let status = policies.get(name).await?.status.unwrap_or_default();
    let stages = status.stages.iter().map(|stage| {
        let checks = stage.checks.iter().map(|check| json!([check.name, check.outcome]));
        json!({
            "name": stage.name, "state": stage.state, "attempt": stage.attempt, "destinations": stage.destinations,
            "objects": stage.objects.len(), "checks": checks.collect::<Vec<_>>(),
        })
    });
    let bindings: Api<Binding> = Api::all(world.client());
    let placements: Api<BindingPolicy> = Api::all(world.client());
    let (mut placed, mut bound) = (BTreeMap::new(), BTreeMap::new());
    let prefix = format!("{name}.");
    for placement in placements.list(&ListParams::default()).await? {
        if let Some(of) = placement.name_any().strip_prefix(&prefix) {
            let attempt = placement.annotations().get(annotation::ATTEMPT);
            let is_open = !placement.spec.cluster_selectors.is_empty();
            placed.insert(of.to_owned(), json!({"attempt": attempt, "is_open": is_open}));
        }
    }
    for binding in bindings.list(&ListParams::default()).await? {
        if let Some(of) = binding.name_any().strip_prefix(&prefix) {
            let destinations = binding.spec.destinations.iter().map(|to| to.cluster_id.clone());
            bound.insert(of.to_owned(), destinations.collect::<BTreeSet<_>>());
        }
    }
    Ok(json!({
        "phase": status.phase, "reason": status.reason, "stages": stages.collect::<Vec<_>>(),
        "placements": placed, "bindings": bound, "clusters": world.clusters_with("deployments", name),
    }))
}

/// The last of it may come a moment after `Completed`.
async fn ends_as(world: &World, name: &str, wanted: &Value) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let found = outcome(world, name).await?;
        if found == *wanted {
            return Ok(());
        }
        ensure!(
            begun.elapsed() < 2 * AFTERWARDS,
            "{name} ends as\n{found}\nand an undisturbed one as\n{wanted}"
        );
        tokio::time::sleep(LOOK).await;
    }
}

fn number<T: std::str::FromStr>(variable: &str) -> anyhow::Result<Option<T>> {
    let Ok(given) = std::env::var(variable) else {
        return Ok(None);
    };
    let parsed = given.parse().ok();
    Ok(Some(parsed.with_context(|| format!("{variable} is a whole number"))?))
}
