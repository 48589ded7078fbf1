//! One YurtAppDaemon with a Deployment in each of many NodePools, on a real API server: what it costs to create them, what an event costs,
//! and what is asked while nothing happens. Before Stagegate, a *floor* (`floor.rs`) creates the same Deployments by the same requests
//! without any rule. Each runs alone, on a server of its own. The benchmark itself plays the controller of Deployments.
//!
//! Prints a table with the goals; it judges nothing. `STAGEGATE_POOLS` says how many pools, 1000 if it is not set.

#![allow(clippy::print_stdout, reason = "figures are what a benchmark is for")]

mod floor;
mod trial;
mod world;

use std::path::Path;

use anyhow::Context as _;
use stagegate_cluster_tests::bench;
use stagegate_cluster_tests::bench::figures::{counts, ms, number, optional, verdict};

use self::trial::Figures;

const POOLS: &str = "STAGEGATE_POOLS";
const POOLS_DEFAULT: usize = 1_000;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match arguments.as_slice() {
        [command, kubeconfig] if command == "floor" => runtime.block_on(floor::run(Path::new(kubeconfig))),
        // cargo's own flags
        _ => runtime.block_on(measure()),
    }
}

async fn measure() -> anyhow::Result<()> {
    let pools = match std::env::var(POOLS) {
        Ok(text) => text
            .parse()
            .with_context(|| format!("{POOLS}: {text:?} is no number"))?,
        Err(_) => POOLS_DEFAULT,
    };
    let folder = bench::folder(Path::new(env!("CARGO_TARGET_TMPDIR")), "pools")?;
    let measured = async {
        let floor = trial::floor(pools, &folder.join("floor")).await?;
        let ours = trial::stagegate(pools, &folder.join("stagegate")).await?;
        anyhow::Ok((floor, ours))
    };
    let measured = measured.await;
    let (floor, ours) = measured.with_context(|| format!("{pools} pools; the logs are in {}", folder.display()))?;
    print(pools, floor.as_secs_f64(), &ours);
    // It is large, and of use only after a failure.
    std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))
}

fn print(pools: usize, floor_s: f64, ours: &Figures) {
    println!("\none YurtAppDaemon in {pools} NodePools");
    println!("{:<66} {:>10} {:>10} {:>10}", "", "stagegate", "floor", "goal");
    let row = |what: &str, figure: f64, floor: Option<f64>, goal: Option<f64>| {
        println!(
            "{what:<66} {:>10} {:>10} {:>10} {}",
            number(figure),
            floor.map_or(String::new(), number),
            optional(goal),
            verdict(figure, goal)
        );
    };
    let created_s = ours.created.as_secs_f64();
    row(
        "from the start until every Deployment is there, s",
        created_s,
        Some(floor_s),
        None,
    );
    row("… as a multiple of the floor", created_s / floor_s, None, Some(1.5));
    row(
        "CPU of a status of a Deployment that changes, ms",
        ours.status_cpu_ms,
        None,
        Some(2.0),
    );
    row(
        "CPU of a heartbeat of a NodePool, ms",
        ours.heartbeat_cpu_ms,
        None,
        None,
    );
    row(
        "requests for a heartbeat of a NodePool",
        ours.heartbeat_requests,
        None,
        Some(0.0),
    );
    row("CPU without events, ms each second", ms(ours.idle_cpu), None, None);
    row("writes in a minute without events", ours.idle_writes, None, Some(0.0));
    row("writes after a restart", ours.restart_writes, None, Some(0.0));
    row("resident, MiB", ours.resident_mib, None, Some(60.0));
    println!(
        "requests until every Deployment was there: {}",
        counts(&ours.created_requests)
    );
    println!("requests for a status that changes: {}", counts(&ours.status_requests));
}
