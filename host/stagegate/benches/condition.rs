//! What a condition over `clusters` costs, from the rows of the controller's own collector to the answer, as a multiple of the same
//! question asked of a CombinedStatus: ratios compare between machines, microseconds do not.
//!
//! Both conditions visit all rows. Each ratio is the median over rounds in which both run right after each other, so that whatever
//! else the machine does meets both. Ends with 1 when a ratio is over its bar.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use stagegate::controllers::variables::{Shown, values};
use stagegate_api::evidence::ReportedConditions;
use stagegate_api::{EvidenceRow, Reported};
use stagegate_decide::names::ObjectKey;
use stagegate_decide::staging::{ClusterReport, Variable};
use stagegate_evaluate::{Answer, Budget, Compiled, compile};

const WORDS: &str = "clusters.all(c, c.available >= 2)";
const NESTED: &str = "obj.results.exists(r, r.name == 'available' && r.rows.all(row, \
     row.columns.exists(col, col.type == 'Number' && double(col.float) >= 2.0)))";

/// A condition over `clusters` costs no more than one over a CombinedStatus.
const NESTED_BAR: f64 = 1.0;
/// A hundred times as many rows take at most so many times as long.
const LINEAR_BAR: f64 = 130.0;

const FEW: usize = 100;
const MANY: usize = 10_000;

#[expect(clippy::print_stdout, reason = "the result of a benchmark is what it prints")]
fn main() -> ExitCode {
    let (few, nested) = measure(FEW, 400);
    let (many, _) = measure(MANY, 20);
    let ratio = few.as_secs_f64() / nested.as_secs_f64();
    println!(
        "clusters/{FEW}-rows ratio {ratio:.2} (bar {NESTED_BAR}): {:.1} us, nested {:.1} us",
        few.as_secs_f64() * 1e6,
        nested.as_secs_f64() * 1e6
    );
    let growth = many.as_secs_f64() / few.as_secs_f64();
    println!(
        "clusters/{MANY}-rows ratio to {FEW} rows {growth:.0} (bar {LINEAR_BAR}): {:.1} us",
        many.as_secs_f64() * 1e6
    );
    ExitCode::from(u8::from(ratio > NESTED_BAR || growth > LINEAR_BAR))
}

/// Medians over `clusters` and over a CombinedStatus.
fn measure(count: usize, rounds: usize) -> (Duration, Duration) {
    let words = compile(WORDS, &["clusters"]).expect("the condition compiles");
    let nested = compile(NESTED, &["obj"]).expect("the condition compiles");
    let rows: Vec<EvidenceRow> = (0..count).map(row).collect();
    let combined = combined_status(count);
    let (mut over_clusters, mut over_combined) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        over_clusters.push(time(|| of_rows(&words, black_box(&rows))));
        over_combined.push(time(|| of_combined(&nested, black_box(&combined))));
    }
    (median(over_clusters), median(over_combined))
}

fn of_rows(condition: &Compiled, rows: &[EvidenceRow]) {
    let key = ObjectKey {
        group: "apps".to_owned(),
        resource: "deployments".to_owned(),
        namespace: Some("shop".to_owned()),
        name: "web".to_owned(),
    };
    let clusters: Vec<ClusterReport> = rows.iter().map(|row| ClusterReport::of(&key, row)).collect();
    let shown = Shown {
        clusters: Some(&clusters),
        ..Shown::default()
    };
    is_true(condition, Variable::Clusters, shown);
}

fn of_combined(condition: &Compiled, combined: &Json) {
    let shown = Shown {
        combined: Some(combined),
        ..Shown::default()
    };
    is_true(condition, Variable::Obj, shown);
}

fn is_true(condition: &Compiled, variable: Variable, shown: Shown<'_>) {
    let bound = values(&BTreeSet::from([variable]), shown).expect("it is shown");
    assert_eq!(condition.eval(&bound, Budget::default()), Ok(Answer::Bool(true)));
}

fn row(index: usize) -> EvidenceRow {
    EvidenceRow {
        cluster: format!("cluster-{index:05}").as_str().into(),
        at: Reported::At { seconds: 1_767_600_000 },
        r#gen: "4".to_owned(),
        ready: Some(3),
        available: Some(3),
        desired: Some(3),
        total: Some(3),
        updated: Some(3),
        phase: None,
        conditions: ReportedConditions::default(),
    }
}

fn combined_status(count: usize) -> Json {
    let row = |index: usize| {
        json!({"columns": [
            {"type": "String", "string": format!("cluster-{index:05}")},
            {"type": "Number", "float": "3"},
        ]})
    };
    let rows: Vec<Json> = (0..count).map(row).collect();
    json!({
        "metadata": {"name": "c1.b1", "namespace": "shop"},
        "results": [{"name": "available", "columnNames": ["cluster", "available"], "rows": rows}],
    })
}

fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let started = Instant::now();
    black_box(work());
    started.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
