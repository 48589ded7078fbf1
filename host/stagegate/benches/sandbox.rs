//! What the sandbox costs beside what it stands around: a call through a child beside the same call handed to another thread,
//! and a cached module beside the SHA-256 of its artifact, as ratios of the same run; and how long a gate takes to compile in
//! the child, and its size. Ends with 1 when a figure is over its bar.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use stagegate_decide::names::Digest;
use stagegate_evaluate::gate::wire::{
    Arena, Decision, Destinations, Evidence, Health, Integers, Object, Reported, Request,
};
use stagegate_evaluate::gate::{Engine, Evaluation, Failure, Gate, Limits, wire};
use stagegate_sandbox::{Cache, Sandbox, SandboxOptions};

/// Through the child, against a thread in process.
const CHILD_BAR: f64 = 3.0;
/// Found, checked, sealed and loaded, against the SHA-256 of the artifact.
const CACHED_BAR: f64 = 2.0;
const COMPILE_BAR_S: f64 = 1.0;
const BYTES_BAR: usize = 150_000;

const CALLS: usize = 3_000;
const LOADS: usize = 200;
const COMPILATIONS: usize = 5;

const GATES: [&str; 2] = ["min_available", "freeze_window"];

#[expect(clippy::print_stdout, reason = "the result of a benchmark is what it prints")]
fn main() -> ExitCode {
    let folder = build();
    let read = |name: &str| fs::read(folder.join(format!("gate_{name}.wasm"))).expect("the gate was built");
    let mut within = true;
    for name in GATES {
        let bytes = read(name).len();
        within &= bytes <= BYTES_BAR;
        println!("sandbox/size of {name} {bytes} bytes (bar {BYTES_BAR})");
    }

    let component = read("min_available");
    let compiled = compile(&component);
    within &= compiled.as_secs_f64() <= COMPILE_BAR_S;
    println!(
        "sandbox/compile in the child {:.3} s (bar {COMPILE_BAR_S} s): {} bytes, with its description",
        compiled.as_secs_f64(),
        component.len()
    );

    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-{}", std::process::id()));
    let digest = Digest::of_bytes(&component);
    let sandbox = Sandbox::new(SandboxOptions {
        cache: Some(Cache::open(&directory).expect("the folder is new")),
        ..options()
    });
    sandbox.load(&digest, &component).expect("the gate loads");

    let Cached { cached, found, hashed } = cached(&directory, &digest);
    let ratio = cached.as_secs_f64() / hashed.as_secs_f64();
    within &= ratio <= CACHED_BAR;
    println!(
        "sandbox/cached module ratio {ratio:.2} (bar {CACHED_BAR}): {:.0} us, of which {:.0} us until it is checked and sealed, SHA-256 {:.0} us",
        cached.as_secs_f64() * 1e6,
        found.as_secs_f64() * 1e6,
        hashed.as_secs_f64() * 1e6
    );

    let (child, thread) = calls(&sandbox, &directory, &digest);
    let ratio = child.as_secs_f64() / thread.as_secs_f64();
    within &= ratio <= CHILD_BAR;
    println!(
        "sandbox/through the child ratio {ratio:.2} (bar {CHILD_BAR}): {:.1} us, through a thread {:.1} us",
        child.as_secs_f64() * 1e6,
        thread.as_secs_f64() * 1e6
    );
    drop(fs::remove_dir_all(directory));
    ExitCode::from(u8::from(!within))
}

/// Builds the sample gates as their authors would; the folder that has them.
fn build() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
    let packages = GATES.map(|name| format!("--package=gate-{}", name.replace('_', "-")));
    let status = Command::new(env!("CARGO"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .args(["build", "--quiet", "--target", "wasm32-wasip2", "--profile", "gate"])
        .args(packages)
        .arg("--target-dir")
        .arg(&target)
        .status()
        .expect("cargo starts");
    assert!(status.success(), "building the gates: {status}");
    target.join("wasm32-wasip2/gate")
}

fn options() -> SandboxOptions {
    SandboxOptions {
        program: PathBuf::from(env!("CARGO_BIN_EXE_stagegate")),
        ..SandboxOptions::default()
    }
}

/// From the bytes to a description: both children are started for it.
fn compile(component: &[u8]) -> Duration {
    let digest = Digest::of_bytes(component);
    let times = (0..COMPILATIONS).map(|_| {
        let sandbox = Sandbox::new(options());
        let started = Instant::now();
        sandbox.load(&digest, component).expect("the gate loads");
        started.elapsed()
    });
    median(times.collect())
}

/// Medians of one way into the child.
struct Cached {
    /// From the directory to a gate that can be called; the engine is there already.
    cached: Duration,
    /// The first part of it: until the artifact is checked and sealed.
    found: Duration,
    /// The hash alone.
    hashed: Duration,
}

fn cached(directory: &Path, digest: &Digest) -> Cached {
    let cache = Cache::open(directory).expect("it was made above");
    let engine = Engine::new(1).expect("the engine starts");
    let mut artifact = Vec::new();
    let mut file = cache.get(digest).expect("it was loaded above");
    std::io::Read::read_to_end(&mut file, &mut artifact).expect("it is in memory");
    let (mut loads, mut finds, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..LOADS {
        let started = Instant::now();
        let file = cache.get(black_box(digest)).expect("it is there");
        finds.push(started.elapsed());
        let gate = Gate::load(&engine, file).expect("it is an artifact");
        loads.push(started.elapsed());
        drop(gate);
        let started = Instant::now();
        black_box(Sha256::digest(black_box(&artifact)));
        hashes.push(started.elapsed());
    }
    Cached {
        cached: median(loads),
        found: median(finds),
        hashed: median(hashes),
    }
}

/// The same call through the child and through a thread, in turns.
fn calls(sandbox: &Sandbox, directory: &Path, digest: &Digest) -> (Duration, Duration) {
    let request = request();
    let worker = Worker::start(directory, digest);
    let (mut child, mut thread) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        let started = Instant::now();
        let sandboxed = sandbox.evaluate(digest, black_box(&request), Limits::default());
        child.push(started.elapsed());
        let started = Instant::now();
        let in_process = worker.call(black_box(&request));
        thread.push(started.elapsed());
        let (sandboxed, in_process) = (sandboxed.expect("a verdict"), in_process.expect("a verdict"));
        assert!(matches!(sandboxed.verdict.decision, Decision::Pass(_)));
        assert_eq!(sandboxed, in_process);
    }
    worker.end();
    (median(child), median(thread))
}

/// A gate on a thread of its own, which takes requests over a channel.
struct Worker {
    requests: Sender<Request>,
    answers: Receiver<Result<Evaluation, Failure>>,
    thread: JoinHandle<()>,
}

impl Worker {
    fn start(directory: &Path, digest: &Digest) -> Self {
        let cache = Cache::open(directory).expect("it was made above");
        let engine = Engine::new(1).expect("the engine starts");
        let gate = Gate::load(&engine, cache.get(digest).expect("it is there")).expect("it is an artifact");
        let (requests, received) = channel::<Request>();
        let (sender, answers) = channel();
        let thread = thread::spawn(move || {
            for request in received {
                if sender.send(gate.evaluate(&request, Limits::default())).is_err() {
                    return;
                }
            }
        });
        Self {
            requests,
            answers,
            thread,
        }
    }

    fn call(&self, request: &Request) -> Result<Evaluation, Failure> {
        self.requests.send(request.clone()).expect("the thread listens");
        self.answers.recv().expect("the thread answers")
    }

    fn end(self) {
        drop(self.requests);
        self.thread.join().expect("the thread ends");
    }
}

/// About 1 kB of JSON: one object on eight clusters.
fn request() -> Request {
    let number = |value| Integers {
        nulls: Vec::new(),
        values: vec![value; 8],
    };
    let evidence = Evidence {
        reported: vec![Reported::WithStatus; 8],
        reported_at_ms: vec![1_795_276_799_000; 8],
        generation: number(4),
        ready: number(3),
        available: number(3),
        total: number(3),
        updated: number(3),
        health: vec![Health::Healthy; 8],
    };
    let mut names = Arena::default();
    (0..8).for_each(|number| names.push(&format!("cluster-{number:04}")));
    Request {
        policy: "nginx".to_owned(),
        stage: "prod".to_owned(),
        attempt: 1,
        now_ms: 1_795_276_800_000,
        config: "{\"atLeast\": 3}".to_owned(),
        objects: vec![Object {
            group: "apps".to_owned(),
            resource: "deployments".to_owned(),
            namespace: Some("default".to_owned()),
            name: "nginx".to_owned(),
            uid: "7b0d2a34-5d10-4b5e-9a39-000000000001".to_owned(),
            generation: Some(4),
            evidence,
            combined_status: wire::CombinedStatus::default(),
        }],
        destinations: Destinations { names, labels: None },
        earlier: Vec::new(),
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
