//! What one evaluation of a stage condition and the conversion of its object cost, as multiples of a
//! `serde_json::Value::clone` of that object: ratios compare between machines, microseconds do not.
//!
//! It also measures what the guards (fuel, deadline, threads of their own) add to the bare library, which evaluates the same text over its
//! own values.
//!
//! The condition is true only in the last row, so that all rows are visited. Each ratio is the median over rounds in which
//! copy, conversion and the evaluations run right after each other, so that whatever else the machine does affects all of them alike.
//! Ends with 1 when a ratio is over its bar.

use serde_json::json;
use stagegate_evaluate::{Answer, Budget, Value, compile};
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const CONDITION: &str = "obj.results.exists(r, r.name == 'x' && \
     r.rows.exists(row, row.columns.exists(col, col.type == 'Number' && col.float == '1')))";

/// Rows of the object that has bars, and the bars.
const ROWS: usize = 100;
const EVALUATE_BAR: f64 = 4.5;
const CONVERT_BAR: f64 = 2.5;
/// Against the bare library.
const GUARDS_BAR: f64 = 1.1;

const ROUNDS: usize = 400;
/// How often each is done in a round.
const REPETITIONS: usize = 5;

#[expect(clippy::print_stdout, reason = "the result of a benchmark is what it prints")]
fn main() -> ExitCode {
    let mut within = true;
    for rows in [1, ROWS, 10_000] {
        let Figures {
            copy,
            convert,
            evaluate,
            bare,
        } = measure(rows, if rows > ROWS { ROUNDS / 20 } else { ROUNDS });
        for (name, time, bar) in [("evaluate", evaluate, EVALUATE_BAR), ("convert", convert, CONVERT_BAR)] {
            let ratio = time.as_secs_f64() / copy.as_secs_f64();
            let bar = (rows == ROWS).then_some(bar);
            within &= bar.is_none_or(|bar| ratio <= bar);
            let bar = bar.map_or_else(String::new, |bar| format!(" (bar {bar})"));
            println!(
                "{name}/{rows}-rows ratio {ratio:.1}{bar}: {:.1} us",
                time.as_secs_f64() * 1e6
            );
        }
        let ratio = evaluate.as_secs_f64() / bare.as_secs_f64();
        within &= rows != ROWS || ratio <= GUARDS_BAR;
        println!(
            "guards/{rows}-rows ratio {ratio:.2} (bar {GUARDS_BAR} at {ROWS}): {:.1} us, bare {:.1} us",
            evaluate.as_secs_f64() * 1e6,
            bare.as_secs_f64() * 1e6
        );
    }
    ExitCode::from(u8::from(!within))
}

/// Medians of one operation.
struct Figures {
    copy: Duration,
    convert: Duration,
    evaluate: Duration,
    /// The library alone.
    bare: Duration,
}

fn measure(rows: usize, rounds: usize) -> Figures {
    let object = combined_status(rows);
    let condition = compile(CONDITION, &["obj"]).expect("the condition compiles");
    let value = Value::from(&object);
    assert_eq!(
        condition.eval(&[("obj", value.clone())], Budget::default()),
        Ok(Answer::Bool(true))
    );
    let program = cel::Program::compile(CONDITION).expect("the condition compiles");
    let mut context = cel::Context::default();
    context.add_variable("obj", &object).expect("JSON is a value");
    assert_eq!(program.execute(&context), Ok(cel::Value::Bool(true)));
    let (mut copy, mut convert, mut evaluate, mut bare) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        copy.push(time(|| black_box(&object).clone()));
        convert.push(time(|| Value::from(black_box(&object))));
        evaluate.push(time(|| condition.eval(&[("obj", value.clone())], Budget::default())));
        bare.push(time(|| program.execute(&context)));
    }
    Figures {
        copy: median(copy),
        convert: median(convert),
        evaluate: median(evaluate),
        bare: median(bare),
    }
}

/// A CombinedStatus with `rows` rows of two columns, of which the last makes the condition true.
fn combined_status(rows: usize) -> serde_json::Value {
    let row = |index: usize| {
        let count = if index + 1 == rows { "1" } else { "0" };
        json!({"columns": [
            {"type": "String", "string": format!("cluster-{index}")},
            {"type": "Number", "float": count},
        ]})
    };
    let rows: Vec<_> = (0..rows).map(row).collect();
    json!({
        "apiVersion": "control.kubestellar.io/v1alpha1",
        "kind": "CombinedStatus",
        "metadata": {"name": "c1.b1", "namespace": "default", "labels": {"status.kubestellar.io/name": "nginx"}},
        "results": [{"name": "x", "columnNames": ["cluster", "count"], "rows": rows}],
    })
}

/// How long `work` takes, without dropping what it made.
fn time<T>(mut work: impl FnMut() -> T) -> Duration {
    let mut made = Vec::with_capacity(REPETITIONS);
    let started = Instant::now();
    for _ in 0..REPETITIONS {
        made.push(black_box(work()));
    }
    let taken = started.elapsed();
    drop(made);
    taken.div_f64(REPETITIONS as f64)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
