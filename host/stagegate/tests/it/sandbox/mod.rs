//! The sandbox with its real children, from outside.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use stagegate_decide::names::Digest;
use stagegate_evaluate::gate::wire::Decision;
use stagegate_evaluate::gate::{Evaluation, Failure, FailureKind, Limits};
use stagegate_sandbox::{Cache, Sandbox, SandboxOptions};

use crate::guests;

mod cache;
mod confined;
mod hostile;
mod life;
mod loading;

fn options() -> SandboxOptions {
    SandboxOptions {
        program: PathBuf::from(env!("CARGO_BIN_EXE_stagegate")),
        ..SandboxOptions::default()
    }
}

/// A module, and a directory that has its artifact: compiled once for all tests.
struct Compiled {
    digest: Digest,
    directory: PathBuf,
}

static HOSTILE: LazyLock<Compiled> = LazyLock::new(|| compiled("gate_hostile"));
static SAMPLE: LazyLock<Compiled> = LazyLock::new(|| compiled("gate_min_available"));

fn compiled(name: &str) -> Compiled {
    let component = guests::wasm(name);
    let digest = Digest::of_bytes(&component);
    let directory = folder(&format!("artifacts-{name}"));
    let cache = Some(Cache::open(&directory).unwrap());
    let sandbox = Sandbox::new(SandboxOptions { cache, ..options() });
    sandbox.load(&digest, &component).unwrap();
    Compiled { digest, directory }
}

/// A folder of this run of the tests alone, empty at first.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    drop(std::fs::remove_dir_all(&path));
    path
}

/// A new sandbox that need not compile this module.
fn having(module: &Compiled) -> Arc<Sandbox> {
    let cache = Some(Cache::open(&module.directory).unwrap());
    Sandbox::new(SandboxOptions { cache, ..options() })
}

/// What the hostile guest answers when it is told to do something.
fn told(sandbox: &Sandbox, mode: &str, limits: Limits) -> Result<Evaluation, Failure> {
    sandbox.evaluate(&HOSTILE.digest, &guests::telling(mode), limits)
}

fn holds(sandbox: &Sandbox) -> bool {
    let evaluation = told(sandbox, "hold", Limits::default());
    matches!(evaluation, Ok(Evaluation { verdict, .. }) if matches!(verdict.decision, Decision::Hold(_)))
}

fn process_of(sandbox: &Sandbox, module: &Digest) -> u32 {
    let processes = sandbox.processes();
    processes
        .iter()
        .find(|(digest, _)| digest == module)
        .expect("the module has a child")
        .1
}

/// Whether the process is there, be it as a zombie.
fn exists(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

fn signal(process: u32, signal: rustix::process::Signal) {
    let process = rustix::process::Pid::from_raw(process.cast_signed()).unwrap();
    rustix::process::kill_process(process, signal).unwrap();
}

/// Waits for something that another process does.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "waited for ten seconds until {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kind<T: std::fmt::Debug>(result: Result<T, Failure>) -> FailureKind {
    result.unwrap_err().kind
}
