//! Staged updates on real servers. Beside the real KubeStellar and its transport: how soon an edit is delivered to each stage's clusters, and
//! what is asked and refused while nothing is pending. Alone, with many policies that wait at their first stage: what an event costs that
//! decides nothing, and what a policy takes of memory; the benchmark itself does KubeStellar's part there, without its delays.
//!
//! Prints tables with the goals; it judges nothing. Arguments choose among `delivery`, `limits`, `events` and `idle`; none is all of them.
//! `STAGEGATE_POLICIES` says how many policies wait, as `100,1000`; `STAGEGATE_IDLE_S` for how many seconds nothing is pending.

#![allow(clippy::print_stdout, reason = "figures are what a benchmark is for")]

mod delivery;
mod events;
mod idle;
mod player;
mod table;
mod watched;
mod world;

use std::path::Path;

use anyhow::{Context as _, ensure};
use stagegate_cluster_tests::bench;

const FIGURES: [&str; 4] = ["delivery", "limits", "events", "idle"];

fn main() -> anyhow::Result<()> {
    // The others are cargo's own flags.
    let chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    for name in &chosen {
        ensure!(
            FIGURES.contains(&name.as_str()),
            "{name:?} is none of {}",
            FIGURES.join(", ")
        );
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for figure in FIGURES {
        if chosen.is_empty() || chosen.iter().any(|name| name == figure) {
            runtime.block_on(measure(figure))?;
        }
    }
    Ok(())
}

async fn measure(figure: &str) -> anyhow::Result<()> {
    let folder = bench::folder(Path::new(env!("CARGO_TARGET_TMPDIR")), &format!("updates-{figure}"))?;
    let measured = match figure {
        "delivery" => delivery::measure(&folder, &[delivery::ALONE]).await,
        "limits" => delivery::measure(&folder, &[delivery::MANY, delivery::MANY_TO_THREE]).await,
        "events" => events::measure(&folder).await,
        _ => idle::measure(&folder).await,
    };
    measured.with_context(|| format!("{figure}; the logs are in {}", folder.display()))?;
    // It is large, and of use only after a failure.
    std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))
}
