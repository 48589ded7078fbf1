//! Every case of `tests/data/hostile.json`, each in a child process: a stack overflow or an exhausted memory ends a process
//! and cannot be caught, so only from outside is it a failed test and not a vanished one.

use serde::Deserialize;
use serde_json::json;
use stagegate_evaluate::{Budget, EvalErrorKind, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The name of the case that a child runs.
const CASE: &str = "HOSTILE_CASE";
/// A child that is not done after this hangs. A case takes a second at most, an unoptimised one on a busy machine more.
const PATIENCE: Duration = Duration::from_secs(20);
/// The address space of a child, in KiB: with more it could allocate what it may not, unnoticed.
const ADDRESS_SPACE_KIB: &str = "4194304";
/// No case may need more memory: it is three times what the worst one does.
const PEAK_KIB: u64 = 192 << 10;
/// The stack of the thread that compiles, evaluates and drops: nothing of an expression may run on it.
const CALLER_STACK_BYTES: usize = 128 << 10;

#[derive(Deserialize)]
struct Case {
    text: Vec<Part>,
    outcome: String,
}

/// A piece of an expression.
#[derive(Deserialize)]
#[serde(untagged)]
enum Part {
    Once(String),
    Repeated { repeat: String, times: usize },
}

impl Case {
    fn text(&self) -> String {
        let part = |part: &Part| match part {
            Part::Once(text) => text.clone(),
            Part::Repeated { repeat, times } => repeat.repeat(*times),
        };
        self.text.iter().map(part).collect()
    }
}

fn cases() -> BTreeMap<String, Case> {
    serde_json::from_str(include_str!("../data/hostile.json")).expect("the table maps names to cases")
}

#[test]
fn no_text_ends_the_process_hangs_or_passes_over_its_limits() {
    let cases = cases();
    assert!(cases.len() > 180);
    let mut wrong = String::new();
    for (name, case) in &cases {
        match in_a_child(name, case) {
            Ok(figures) => println!("{name}: {figures}"),
            Err(problem) => writeln!(wrong, "{name}: {problem}").expect("a string takes text"),
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// What the case took, or what is wrong with it.
fn in_a_child(name: &str, case: &Case) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -v \"$0\" && exec \"$@\"", ADDRESS_SPACE_KIB])
        .arg(program)
        .args([
            "--exact",
            "hostile::the_case_that_the_parent_names",
            "--ignored",
            "--nocapture",
        ])
        .env(CASE, name)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let started = Instant::now();
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        if started.elapsed() > PATIENCE {
            child.kill().map_err(|error| error.to_string())?;
            return Err("hangs".to_owned());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("the process ended with {}", output.status));
    }
    let field = |label: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(label))
            .map(str::to_owned)
    };
    let outcome = field("outcome ").ok_or("said nothing")?;
    let peak_kib: u64 = field("peak KiB ").and_then(|peak| peak.parse().ok()).ok_or("no peak")?;
    if peak_kib > PEAK_KIB {
        return Err(format!("needs {peak_kib} KiB"));
    }
    if outcome != case.outcome {
        return Err(format!("{outcome} and not {}", case.outcome));
    }
    Ok(format!(
        "{outcome}, {peak_kib} KiB, {} ms",
        field("ms ").unwrap_or_default()
    ))
}

#[test]
#[ignore = "runs in a child of the test above"]
fn the_case_that_the_parent_names() {
    let name = std::env::var(CASE).expect("the parent names a case");
    let cases = cases();
    let case = cases.get(&name).expect("the case is in the table");
    let obj = json!({
        "text": "a".repeat(100_000),
        "noise": noise(50_000),
        "numbers": (0..1000).collect::<Vec<_>>(),
        "missing": null,
    });
    let started = Instant::now();
    // A busy machine may not make an answer late that is due; a limit has to hold on any.
    let deadline_ms = if case.outcome == "value" {
        10_000
    } else {
        Budget::default().deadline_ms
    };
    let (text, obj, budget) = (
        case.text(),
        Value::from(&obj),
        Budget {
            deadline_ms,
            ..Budget::default()
        },
    );
    let caller = std::thread::Builder::new().stack_size(CALLER_STACK_BYTES);
    let outcome = caller
        .spawn(move || outcome(&text, &obj, budget))
        .expect("a thread")
        .join()
        .expect("no panic");
    println!(
        "\noutcome {outcome}\nms {}\npeak KiB {}",
        started.elapsed().as_millis(),
        peak_kib()
    );
}

/// As and bs in no order that an automaton could learn.
fn noise(length: usize) -> String {
    let mut state = 1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        if state >> 63 == 0 { 'a' } else { 'b' }
    };
    (0..length).map(|_| next()).collect()
}

fn outcome(text: &str, obj: &Value, budget: Budget) -> &'static str {
    let compiled = match crate::functions::compile(text) {
        Ok(compiled) => compiled,
        Err(error) => {
            assert!(error.to_string().chars().count() < 300, "{error}");
            return "refused";
        }
    };
    match compiled.eval(&[("obj", obj.clone())], budget) {
        Ok(_) => "value",
        Err(error) => {
            assert!(error.message.chars().count() <= 256, "{error}");
            match error.kind {
                // Which of them comes first depends on the machine.
                EvalErrorKind::BudgetExceeded | EvalErrorKind::DeadlineExceeded | EvalErrorKind::TooLarge => "limit",
                EvalErrorKind::Panicked => "panic",
                _ => "error",
            }
        }
    }
}

/// The most memory this process ever had.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says what a process needs");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("it says the peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
