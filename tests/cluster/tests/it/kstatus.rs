//! The verdict of kstatus, which Flux and others wait with, on policies in every phase. Must not need a server.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value;
use stagegate_cluster_tests::assets::Assets;

/// Each recorded policy has the verdict that goes with its conditions.
///
/// # Errors
/// When one has another, and when kstatus cannot be built or run.
pub fn agrees() -> anyhow::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/policies-in-every-phase.json");
    let recorded: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
    let policies: Vec<&Value> = recorded.iter().map(|entry| &entry["policy"]).collect();
    let mut child = Command::new(&Assets::get()?.kstatus)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting kstatus")?;
    let input = child.stdin.take().context("kstatus has no standard input")?;
    serde_json::to_writer(input, &policies)?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "kstatus ended with {}", output.status);
    let verdicts = String::from_utf8(output.stdout)?;
    let verdicts: Vec<&str> = verdicts.lines().collect();
    ensure!(
        verdicts.len() == recorded.len() && !recorded.is_empty(),
        "kstatus gave {} verdicts of {} policies",
        verdicts.len(),
        recorded.len()
    );
    for (entry, verdict) in recorded.iter().zip(verdicts) {
        ensure!(
            entry["verdict"] == verdict,
            "{}: kstatus says {verdict}, not {}",
            entry["case"],
            entry["verdict"]
        );
    }
    Ok(())
}
