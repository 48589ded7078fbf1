//! What one call of a gate costs in process, in a fresh instance and with the conversion of its request, as multiples of the
//! same check in native Rust that first parses its evidence, the CombinedStatuses as the API server gives them: ratios compare
//! between machines, microseconds do not.
//!
//! The load of a compiled gate is measured in digests of its artifact, of which it contains one.
//!
//! The gate is `min-available` over a collector's column; sizes are those of the JSON. Each ratio is the median over rounds
//! in which both run right after each other, so that whatever else the machine does meets both. Ends with 1 when a ratio is
//! over its bar.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use stagegate_evaluate::gate::wire::{
    Arena, Column, ColumnData, CombinedStatus, Decision, Destinations, Evidence, Health, Integers, Object, Reported,
    Request, ResultSet,
};
use stagegate_evaluate::gate::{Engine, Gate, Limits, compile};

/// Name, clusters, objects, rounds, and the bar.
const SIZES: [(&str, usize, usize, usize, f64); 3] = [
    ("1kB", 2, 1, 2_000, 3.5),
    ("100kB", 25, 9, 300, 0.3),
    ("5MB", 100, 115, 30, 0.3),
];

/// Reading, checking and loading an artifact, in digests of it.
const LOAD_BAR: f64 = 2.0;
const LOAD_ROUNDS: usize = 200;

/// How much more two threads must do than one.
const THREADS_BAR: f64 = 1.7;
const THREADS_FOR: Duration = Duration::from_millis(300);
const THREADS_ROUNDS: usize = 9;

const COLLECTOR: &str = "workload";
const AT_LEAST: f64 = 3.0;
const SHARE: f64 = 0.9;

#[expect(clippy::print_stdout, reason = "the result of a benchmark is what it prints")]
fn main() -> ExitCode {
    let engine = Engine::new(2).expect("the engine starts");
    let path = artifact();
    let mut within = loads(&engine, &path);
    let gate = load(&engine, &path);
    for (name, clusters, objects, rounds, bar) in SIZES {
        let request = request(clusters, objects);
        let text = combined_statuses(&request);
        let answer = gate.evaluate(&request, Limits::default()).expect("the gate judges");
        assert_eq!(
            native(&text, clusters),
            matches!(answer.verdict.decision, Decision::Pass(_))
        );
        let (mut sandboxed, mut natively) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            sandboxed.push(time(|| gate.evaluate(black_box(&request), Limits::default())));
            natively.push(time(|| native(black_box(&text), clusters)));
        }
        let (sandboxed, natively) = (median(sandboxed), median(natively));
        let ratio = sandboxed.as_secs_f64() / natively.as_secs_f64();
        within &= ratio <= bar;
        println!(
            "gate/{name} ratio {ratio:.2} (bar {bar}): {:.1} us, native {:.1} us, {} bytes of JSON",
            sandboxed.as_secs_f64() * 1e6,
            natively.as_secs_f64() * 1e6,
            text.len()
        );
    }
    let ratio = two_threads(&gate);
    within &= ratio >= THREADS_BAR;
    println!("gate/two-threads ratio {ratio:.2} (bar {THREADS_BAR}, at least)");
    ExitCode::from(u8::from(!within))
}

/// Builds the gate as its author would, and compiles it.
fn artifact() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
    let status = Command::new(env!("CARGO"))
        .current_dir(workspace)
        .args(["build", "--quiet", "--target", "wasm32-wasip2", "--profile", "gate"])
        .args(["--package", "gate-min-available", "--target-dir"])
        .arg(&target)
        .status()
        .expect("cargo starts");
    assert!(status.success(), "building the gate: {status}");
    let component = fs::read(target.join("wasm32-wasip2/gate/gate_min_available.wasm")).expect("the gate was built");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("min-available.artifact");
    fs::write(&path, compile(&component).expect("the gate compiles")).expect("the artifact is written");
    path
}

fn load(engine: &Engine, path: &Path) -> Gate {
    let artifact = fs::File::open(path).expect("the artifact is there");
    Gate::load(engine, artifact).expect("the gate loads")
}

/// Whether reading an artifact, its digest and its load cost no more than so many digests.
#[expect(clippy::print_stdout, reason = "the result of a benchmark is what it prints")]
fn loads(engine: &Engine, path: &Path) -> bool {
    let bytes = fs::read(path).expect("the artifact is there");
    let (mut loads, mut digests) = (Vec::new(), Vec::new());
    for _ in 0..LOAD_ROUNDS {
        digests.push(time(|| Sha256::digest(black_box(&bytes))));
        loads.push(time(|| {
            let digest = Sha256::digest(fs::read(path).expect("the artifact is there"));
            (digest, load(engine, path))
        }));
    }
    let (loads, digests) = (median(loads), median(digests));
    let ratio = loads.as_secs_f64() / digests.as_secs_f64();
    println!(
        "gate/load ratio {ratio:.2} (bar {LOAD_BAR}): {:.1} us, digest {:.1} us, {} bytes",
        loads.as_secs_f64() * 1e6,
        digests.as_secs_f64() * 1e6,
        bytes.len()
    );
    ratio <= LOAD_BAR
}

/// Every cluster has enough of every object but each twentieth, which is short of all.
fn request(clusters: usize, objects: usize) -> Request {
    let short = |cluster: usize| cluster % 20 == 19;
    let available = |cluster: usize| if short(cluster) { 2 } else { 3 };
    let name = |cluster: usize| format!("cluster-{cluster:04}");
    let mut names = Arena::default();
    (0..clusters).for_each(|cluster| names.push(&name(cluster)));
    let column = |name: &str, data| Column {
        name: name.to_owned(),
        nulls: Vec::new(),
        data,
    };
    let per_cluster = |value: &dyn Fn(usize) -> i64| ColumnData::Integers((0..clusters).map(value).collect());
    let rates = (0..clusters).map(|cluster| 0.001 * cluster as f64).collect();
    let columns = vec![
        column("cluster", ColumnData::Texts(names.clone())),
        column("available", per_cluster(&|cluster| available(cluster))),
        column("restarts", per_cluster(&|cluster| (cluster as i64 * 7919) % 1000)),
        column("errorRate", ColumnData::Decimals(rates)),
        column(
            "healthy",
            ColumnData::Booleans((0..clusters).map(|cluster| !short(cluster)).collect()),
        ),
    ];
    let integers = |value: &dyn Fn(usize) -> i64| Integers {
        nulls: Vec::new(),
        values: (0..clusters).map(value).collect(),
    };
    let health = |cluster: usize| {
        if short(cluster) {
            Health::Progressing
        } else {
            Health::Healthy
        }
    };
    let evidence = Evidence {
        reported: vec![Reported::WithStatus; clusters],
        reported_at_ms: vec![1_795_276_799_000; clusters],
        generation: integers(&|_| 4),
        ready: integers(&|_| 3),
        available: integers(&|cluster| available(cluster)),
        total: integers(&|_| 3),
        updated: integers(&|_| 3),
        health: (0..clusters).map(health).collect(),
    };
    let object = |index: usize| Object {
        group: "apps".to_owned(),
        resource: "deployments".to_owned(),
        namespace: Some("default".to_owned()),
        name: format!("workload-{index}"),
        uid: format!("7b0d2a34-5d10-4b5e-9a39-{index:012}"),
        generation: Some(4),
        evidence: evidence.clone(),
        combined_status: CombinedStatus {
            namespace: "default".to_owned(),
            name: format!("7b0d2a34-5d10-4b5e-9a39-{index:012}.c21f0e57-8e0c-4d8e-8f4c-000000000001"),
            results: vec![ResultSet {
                collector: COLLECTOR.to_owned(),
                row_count: u32::try_from(clusters).expect("a number of clusters"),
                columns: columns.clone(),
            }],
        },
    };
    Request {
        policy: "nginx".to_owned(),
        stage: "prod".to_owned(),
        attempt: 1,
        now_ms: 1_795_276_800_000,
        config: serde_json::json!({"atLeast": AT_LEAST, "share": SHARE, "collector": COLLECTOR}).to_string(),
        objects: (0..objects).map(object).collect(),
        destinations: Destinations { names, labels: None },
        earlier: Vec::new(),
    }
}

/// The evidence of `request` as KubeStellar writes it: rows of typed cells, numbers as texts, the host's collector among them.
fn combined_statuses(request: &Request) -> String {
    let text = |text: &str| json!({"type": "String", "string": text});
    let number = |number: String| json!({"type": "Number", "float": number});
    let statuses = request.objects.iter().map(|object| {
        let columns = &object.combined_status.results[0].columns;
        let (ColumnData::Texts(names), ColumnData::Decimals(rates)) = (&columns[0].data, &columns[3].data) else {
            panic!("clusters are named, and rates are decimals");
        };
        let counted = || texts(names).zip(&object.evidence.available.values);
        let evidence = counted().map(|(cluster, available)| {
            let mut cells = vec![text(cluster), text("2026-11-21T15:59:59Z"), text("4"), text("3")];
            cells.push(text(&available.to_string()));
            json!({"columns": cells})
        });
        let workload = counted().zip(rates).map(|((cluster, available), rate)| {
            let healthy = json!({"type": "Bool", "bool": *available >= 3});
            let cells = [
                text(cluster),
                number(available.to_string()),
                number("17".to_owned()),
                number(rate.to_string()),
                healthy,
            ];
            json!({"columns": cells})
        });
        json!({"metadata": {"name": object.combined_status.name}, "results": [
            {"name": "evidence", "columnNames": ["cluster", "at", "gen", "ready", "available"],
             "rows": evidence.collect::<Vec<_>>()},
            {"name": COLLECTOR, "columnNames": ["cluster", "available", "restarts", "errorRate", "healthy"],
             "rows": workload.collect::<Vec<_>>()},
        ]})
    });
    serde_json::Value::from(statuses.collect::<Vec<_>>()).to_string()
}

fn texts(arena: &Arena) -> impl Iterator<Item = &str> {
    let begins = std::iter::once(0).chain(arena.ends.iter().copied());
    begins
        .zip(&arena.ends)
        .map(|(begin, end)| &arena.bytes[begin as usize..*end as usize])
}

#[derive(Deserialize)]
struct Status {
    results: Vec<Table>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Table {
    name: String,
    column_names: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    columns: Vec<Typed>,
}

#[derive(Deserialize)]
struct Typed {
    string: Option<String>,
    float: Option<String>,
}

/// What the gate does, from JSON, without a sandbox: whether enough clusters have enough of every object.
fn native(text: &str, clusters: usize) -> bool {
    let statuses: Vec<Status> = serde_json::from_str(text).expect("it is the text of CombinedStatuses");
    let mut worst = BTreeMap::new();
    for status in &statuses {
        let table = |name| {
            status
                .results
                .iter()
                .find(|table| table.name == name)
                .expect("it is there")
        };
        let at = |table: &Table, name| {
            table
                .column_names
                .iter()
                .position(|column| column == name)
                .expect("it is there")
        };
        let (evidence, workload) = (table("evidence"), table(COLLECTOR));
        let seen = at(evidence, "at");
        let never = |row: &Row| row.columns[seen].string.as_deref() <= Some("1970-01-01T00:00:00Z");
        assert!(!evidence.rows.iter().any(never));
        let (cluster, available) = (at(workload, "cluster"), at(workload, "available"));
        for row in &workload.rows {
            let name = row.columns[cluster].string.as_deref().expect("it is a name");
            let value = row.columns[available].float.as_deref().expect("it is a number");
            let value: f64 = value.parse().expect("it is a number");
            let worst = worst.entry(name).or_insert(f64::INFINITY);
            *worst = worst.min(value);
        }
    }
    let enough = worst.values().filter(|worst| **worst >= AT_LEAST).count();
    worst.len() == clusters && enough as f64 / clusters as f64 >= SHARE
}

/// How many times as many small calls two threads finish as one does: the best round, since a machine that is busy with
/// something else has no second processor to show.
fn two_threads(gate: &Gate) -> f64 {
    let request = request(SIZES[0].1, SIZES[0].2);
    let calls = |threads: usize| {
        let stop = AtomicBool::new(false);
        let call_until_stopped = || {
            let mut calls = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                gate.evaluate(&request, Limits::default()).expect("the gate judges");
                calls += 1;
            }
            calls
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(call_until_stopped)).collect();
            thread::sleep(THREADS_FOR);
            stop.store(true, Ordering::Relaxed);
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no call panics"))
                .sum::<u64>()
        })
    };
    let ratios = (0..THREADS_ROUNDS).map(|_| calls(2) as f64 / calls(1) as f64);
    ratios.fold(0.0, f64::max)
}

/// How long `work` takes, without dropping what it made.
fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let started = Instant::now();
    let made = black_box(work());
    let taken = started.elapsed();
    drop(made);
    taken
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
