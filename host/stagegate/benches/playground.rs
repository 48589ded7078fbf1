//! How long the playground takes: from its start until its API server answers, and until the three-stage sample is
//! completed. Prints medians and the bars; it judges nothing.

#![allow(clippy::print_stdout, reason = "figures are what a benchmark is for")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const RUNS: usize = 5;
const READY_BAR_S: f64 = 1.0;
const COMPLETED_BAR_S: f64 = 10.0;

fn main() {
    let sample = [repository().join("deploy/examples/three-stages"), gate()];
    let (mut ready, mut completed) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (first, last) = run(&sample);
        ready.push(first);
        completed.push(last);
    }
    println!(
        "playground/ready {:.2} s (bar {READY_BAR_S} s)",
        median(ready).as_secs_f64()
    );
    println!(
        "playground/three stages completed {:.2} s (bar {COMPLETED_BAR_S} s)",
        median(completed).as_secs_f64()
    );
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A manifest of the ConfigMap that the sample's gate needs.
fn gate() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
    let built = Command::new(env!("CARGO"))
        .current_dir(repository())
        .args(["build", "--quiet", "--target", "wasm32-wasip2", "--profile", "gate"])
        .args(["--package", "gate-min-available", "--target-dir"])
        .arg(&target)
        .status()
        .expect("cargo starts");
    assert!(built.success(), "building the gate: {built}");
    let made = Command::new(env!("CARGO_BIN_EXE_stagegate"))
        .args(["gate", "configmap", "min-available"])
        .arg(target.join("wasm32-wasip2/gate/gate_min_available.wasm"))
        .output()
        .expect("cargo has built the binary");
    assert!(made.status.success(), "packing the gate: {}", made.status);
    let manifest = Path::new(env!("CARGO_TARGET_TMPDIR")).join("min-available.yaml");
    std::fs::write(&manifest, made.stdout).expect("the target directory is writable");
    manifest
}

/// From the start of the process until it says that its server is ready, and until it ends.
fn run(sample: &[PathBuf]) -> (Duration, Duration) {
    let start = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_stagegate"))
        .arg("playground")
        .args(sample)
        .args(["--until", "Completed"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cargo has built the binary");
    let lines = BufReader::new(child.stderr.take().expect("the pipe was asked for")).lines();
    let mut ready = None;
    for line in lines.map_while(Result::ok) {
        if line.starts_with("API server ready") {
            ready.get_or_insert_with(|| start.elapsed());
        }
    }
    let status = child.wait().expect("the process was started");
    assert!(status.success(), "the sample was not completed: {status}");
    (ready.expect("the playground says when it is ready"), start.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
