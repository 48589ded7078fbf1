//! Sample gates as a cluster's users install them: built from this repository, and made a ConfigMap by the program. Must not apply
//! anything.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use stagegate_cluster_tests::host::program;

use crate::world::repository;

const TARGET: &str = "wasm32-wasip2";

/// The ConfigMap of a gate's own name, in the namespace that the manifests take gates from.
///
/// # Errors
/// A gate that does not build, or that the program does not take.
pub fn config_map(gate: &str) -> anyhow::Result<Value> {
    let file = built()?.join(format!("gate_{}.wasm", gate.replace('-', "_")));
    let output = Command::new(program())
        .args(["gate", "configmap", gate])
        .arg(&file)
        .output()
        .context("starting the program")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{gate} makes no ConfigMap: {said}");
    let text = String::from_utf8(output.stdout)?;
    serde_saphyr::from_str(&text).with_context(|| format!("the ConfigMap of {gate}"))
}

/// The folder of the components, built once for each run.
fn built() -> anyhow::Result<&'static Path> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    built.as_deref().map_err(|error| anyhow::anyhow!("{error}"))
}

fn build() -> anyhow::Result<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
    let status = Command::new(env!("CARGO"))
        // Where the linker's flags for gates are found.
        .current_dir(repository("."))
        .args(["build", "--quiet", "--target", TARGET, "--profile", "gate"])
        .args(["--package", "gate-min-available", "--target-dir"])
        .arg(&target)
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "building the sample gates: {status}");
    Ok(target.join(TARGET).join("gate"))
}
