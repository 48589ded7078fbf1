//! What one evaluation of a stage condition and the conversion of its object cost, as multiples of a
//! `serde_json::Value::clone` of that object: ratios compare between machines, microseconds do not.
//!
//! The condition is true only in the last row, so that all rows are visited. Each ratio is the median over rounds in which
//! copy, conversion and evaluation run right after each other, so that whatever else the machine does meets all three.
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

const ROUNDS: usize = 400;
/// How often each is done in a round.
const REPETITIONS: u32 = 5;

fn main() -> ExitCode {
    let mut within = true;
    for rows in [1, ROWS, 10_000] {
        let figures = measure(rows, if rows > ROWS { ROUNDS / 20 } else { ROUNDS });
        let barred = rows == ROWS;
        report(
            "evaluate",
            rows,
            figures.evaluate,
            figures.copy,
            barred.then_some(EVALUATE_BAR),
        );
        report(
            "convert",
            rows,
            figures.convert,
            figures.copy,
            barred.then_some(CONVERT_BAR),
        );
        within &= !barred || (ratio(figures.evaluate, figures.copy) <= EVALUATE_BAR);
        within &= !barred || (ratio(figures.convert, figures.copy) <= CONVERT_BAR);
    }
    ExitCode::from(u8::from(!within))
}

/// Medians of one operation.
struct Figures {
    copy: Duration,
    convert: Duration,
    evaluate: Duration,
}

fn measure(rows: usize, rounds: usize) -> Figures {
    let object = combined_status(rows);
    let condition = compile(CONDITION, &["obj"]).expect("the condition compiles");
    let value = Value::from(&object);
    let (mut copy, mut convert, mut evaluate) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        copy.push(time(|| drop(black_box(black_box(&object).clone()))));
        convert.push(time(|| drop(black_box(Value::from(black_box(&object))))));
        evaluate.push(time(|| {
            let answer = condition.eval(&[("obj", value.clone())], Budget::default());
            assert_eq!(black_box(answer), Ok(Answer::Bool(true)));
        }));
    }
    Figures {
        copy: median(copy),
        convert: median(convert),
        evaluate: median(evaluate),
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

fn time(mut work: impl FnMut()) -> Duration {
    let started = Instant::now();
    for _ in 0..REPETITIONS {
        work();
    }
    started.elapsed() / REPETITIONS
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn ratio(time: Duration, copy: Duration) -> f64 {
    time.as_secs_f64() / copy.as_secs_f64()
}

#[expect(clippy::print_stdout, reason = "a benchmark's result is what it prints")]
fn report(name: &str, rows: usize, time: Duration, copy: Duration, bar: Option<f64>) {
    let ratio = ratio(time, copy);
    let bar = bar.map_or_else(String::new, |bar| format!(" (bar {bar})"));
    let micros = time.as_secs_f64() * 1e6;
    println!("{name}/{rows}-rows ratio {ratio:.1}{bar}, {micros:.1} us");
}
