//! Many policies that wait at their first stage, on a real API server: what it costs to place them, to have them wait, and to move one.
//! Before Stagegate, a *floor* (`floor.rs`) does the same: a controller without rules that makes only the writes that no controller could
//! do without. Each runs alone, on a server of its own. The benchmark itself does KubeStellar's part, without its delays: it writes
//! Bindings and CombinedStatuses.
//!
//! Prints a table with the goals; it judges nothing. `STAGEGATE_POLICIES` says how many policies, as `200,1000`.

#![allow(clippy::print_stdout, reason = "figures are what a benchmark is for")]

mod figures;
mod floor;
mod follow;
mod side;
mod table;
mod trial;

use std::path::Path;

use anyhow::Context as _;
use stagegate_cluster_tests::bench;

const SIZES_DEFAULT: &str = "200,1000,10000";
/// For the moves that are measured.
const SIZE_LEAST: usize = 200;

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
    bench::objects::check_evidence()?;
    for policies in bench::sizes(SIZES_DEFAULT, SIZE_LEAST)? {
        let folder = bench::folder(Path::new(env!("CARGO_TARGET_TMPDIR")), &format!("waiting-{policies}"))?;
        let figures = trial::run(policies, &folder).await;
        let figures = figures.with_context(|| format!("{policies} policies; the logs are in {}", folder.display()))?;
        table::print(policies, &figures);
        // It is large, and of use only after a failure.
        std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    Ok(())
}
