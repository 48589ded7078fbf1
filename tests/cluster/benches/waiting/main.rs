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
mod kinds;
mod objects;
mod side;
mod table;
mod trial;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;

/// How many policies wait.
const SIZES: &str = "STAGEGATE_POLICIES";
const SIZES_DEFAULT: &str = "200,1000,10000";

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match arguments.as_slice() {
        [command, kubeconfig] if command == "floor" => runtime.block_on(floor::run(Path::new(kubeconfig))),
        // cargo's own flags
        _ => runtime.block_on(bench()),
    }
}

async fn bench() -> anyhow::Result<()> {
    objects::check_evidence()?;
    let sizes = std::env::var(SIZES).unwrap_or_else(|_| SIZES_DEFAULT.to_owned());
    for size in sizes.split(',') {
        let policies: usize = size
            .trim()
            .parse()
            .with_context(|| format!("{SIZES}: {size:?} is no number"))?;
        anyhow::ensure!(
            policies >= 200,
            "{SIZES}: at least 200 are needed for the moves that are measured"
        );
        let folder = folder(policies)?;
        let figures = trial::run(policies, &folder).await;
        let figures = figures.with_context(|| format!("{policies} policies; the logs are in {}", folder.display()))?;
        table::print(policies, &figures);
        // It is large, and of use only after a failure.
        std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    Ok(())
}

fn folder(policies: usize) -> anyhow::Result<PathBuf> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("waiting-{policies}-{now}"));
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}
