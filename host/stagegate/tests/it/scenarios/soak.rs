//! `stagegate run` as a process of its own, with gates that loop and eat memory beside honest ones, in real time: what
//! the honest ones say, that the host lives, and that it gives back the memory.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use stagegate_api::{Outcome, Phase};
use tokio::net::TcpListener;

use crate::guests;
use crate::harness::{GATES, Pace, World, deployment_of, gate, gated, said, shop, workload};

/// How far the memory may be from where it was.
const MEMORY_SLACK_PERCENT: u64 = 10;
/// After the hostile gates are gone, until the memory is looked at: some of their last calls.
const REST: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_beside_gates_that_loop_and_eat_memory_judges_ten_honest_policies_and_gives_back_the_memory() {
    let mut world = World::start(Pace::Fast).await;
    world.stop_host().await;
    let mut host = Host::start(&world).await;
    world.apply(&shop()).await;
    world.apply_gates_namespace().await;
    world
        .put_gate("min-available", &guests::wasm("gate_min_available"))
        .await;
    round(&world, 0).await;
    let before = host.resident_kib();

    world.put_gate("hostile", &guests::wasm("gate_hostile")).await;
    let hostile = ["loop", "grow"];
    for app in hostile {
        world.apply(&workload(app)).await;
        world.apply(&gated(app, &gate("hostile", &json!({"do": app})))).await;
    }
    let (began, mut rounds) = (Instant::now(), 0);
    let mut during = Vec::new();
    while rounds == 0 || began.elapsed() < duration() {
        rounds += 1;
        round(&world, rounds).await;
        during.push(host.resident_kib());
    }
    for app in hostile {
        world
            .until(app, 60, |status| status.reason.as_deref() == Some("GateError"))
            .await;
        assert!(!world.is_in("test-1", &deployment_of(app)));
        world.delete(&world.policies(), app).await;
        world.delete(&world.deployments(), app).await;
    }
    world.delete(&world.config_maps(), "hostile").await;
    tokio::time::sleep(REST).await;

    let after = host.resident_kib();
    println!(
        "{rounds} round(s) of ten honest policies in {:.1} s; KiB resident before: {before}, after each: {during:?}, \
         in the end: {after}",
        began.elapsed().as_secs_f64()
    );
    assert!(host.lives(), "the host has ended");
    assert!(
        before.abs_diff(after) * 100 <= before * MEMORY_SLACK_PERCENT,
        "{before} KiB were resident before, {after} are now"
    );
}

/// How long hostile gates run beside honest policies; `STAGEGATE_SOAK_S` sets it.
fn duration() -> Duration {
    let seconds = std::env::var("STAGEGATE_SOAK_S")
        .ok()
        .and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(3))
}

/// Ten policies with honest gates, of which every other asks for more than there is; gone again afterwards.
async fn round(world: &World, nth: u32) {
    let apps: Vec<String> = (0..10).map(|n| format!("honest-{nth}-{n}")).collect();
    let passes = |n: usize| n.is_multiple_of(2);
    for (n, app) in apps.iter().enumerate() {
        world.apply(&workload(app)).await;
        let least = if passes(n) { 2 } else { 3 };
        world
            .apply(&gated(app, &gate("min-available", &json!({"atLeast": least}))))
            .await;
    }
    for (n, app) in apps.iter().enumerate() {
        if passes(n) {
            world.until_phase(app, Phase::Completed, 120).await;
        } else {
            let holds = |status: &_| outcome(status) == Some(Outcome::Hold);
            world.until(app, 120, holds).await;
        }
        let status = world.status(app).await;
        let right = if passes(n) { Outcome::Pass } else { Outcome::Hold };
        assert_eq!(outcome(&status), Some(right), "{app}: {}", said(&status));
        assert_eq!(passes(n), world.is_in("prod-1", &deployment_of(app)), "{app}");
    }
    for app in &apps {
        world.delete(&world.policies(), app).await;
        world.delete(&world.deployments(), app).await;
    }
}

/// What the gate of the first stage said.
fn outcome(status: &stagegate_api::StagedBindingPolicyStatus) -> Option<Outcome> {
    let stage = status.stages.iter().find(|record| record.name == "dev")?;
    let check = stage.checks.iter().find(|check| check.name == "gate/min-available")?;
    Some(check.outcome)
}

/// `stagegate run` against the world's API server over a socket. Its process ends with this value.
struct Host {
    process: Child,
    kubeconfig: PathBuf,
}

impl Host {
    async fn start(world: &World) -> Host {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let kubeconfig = std::env::temp_dir().join(format!("stagegate-test-{}-soak.kubeconfig", std::process::id()));
        std::fs::write(&kubeconfig, world.server.kubeconfig(listener.local_addr().unwrap())).unwrap();
        let server = world.server.clone();
        tokio::spawn(async move { server.serve(listener, std::future::pending::<()>()).await });
        let process = Command::new(env!("CARGO_BIN_EXE_stagegate"))
            .args(["run", "--settle", "200ms", "--gate-namespaces", GATES])
            .args(["--kubeconfig".as_ref(), kubeconfig.as_os_str()])
            .env("RUST_LOG", "error")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Host { process, kubeconfig }
    }

    fn lives(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }

    /// Without its children; 0 where `/proc` does not say.
    fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
            .unwrap_or_default()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended; neither can be helped here.
        drop(self.process.kill());
        drop(self.process.wait());
        drop(std::fs::remove_file(&self.kubeconfig));
    }
}
