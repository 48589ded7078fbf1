//! The evidence rows: read when they are as our collector writes them, malformed otherwise.

use serde_json::{Value, json};
use stagegate_api::evidence::{ConditionReason, ConditionStatus, ConditionType, ReportedConditions, ReportedPhase};
use stagegate_api::{CollectorResult, EvidenceRow, EvidenceView, Reported, evidence};

const COLUMNS: [&str; 10] = [
    "cluster",
    "at",
    "gen",
    "ready",
    "available",
    "desired",
    "total",
    "updated",
    "phase",
    "conditions",
];

fn text(text: &str) -> Value {
    json!({"type": "String", "string": text})
}

fn row_with(cells: [&str; 9], conditions: &[&str]) -> Value {
    let cells = cells.iter().map(|cell| text(cell));
    let conditions = json!({"type": "Object", "object": conditions});
    json!({"columns": cells.chain([conditions]).collect::<Vec<_>>()})
}

/// A row of which the first five columns matter.
fn row(cells: [&str; 5]) -> Value {
    let [cluster, at, generation, ready, available] = cells;
    row_with([cluster, at, generation, ready, available, "", "", "", ""], &[])
}

fn result(rows: &[Value]) -> Value {
    json!({"name": evidence::collector_name(), "columnNames": COLUMNS, "rows": rows})
}

fn read(result: Value) -> EvidenceView {
    evidence::read(&serde_json::from_value::<CollectorResult>(result).unwrap())
}

#[test]
fn rows_are_read_by_the_names_of_their_columns() {
    let entries = ["Available=True", "Progressing=False:ProgressDeadlineExceeded", "?"];
    let mut row = row_with(
        ["dev1", "2026-11-21T07:03:25Z", "2", "3", "4", "5", "6", "7", "Bound"],
        &entries,
    );
    row["columns"].as_array_mut().unwrap().reverse();
    let columns: Vec<&str> = COLUMNS.into_iter().rev().collect();
    let view = read(json!({"name": evidence::collector_name(), "columnNames": columns, "rows": [row]}));
    let conditions = ReportedConditions::try_from(entries.map(str::to_owned).to_vec()).unwrap();
    let expected = EvidenceRow {
        cluster: "dev1".into(),
        at: Reported::At { seconds: 1_795_244_605 },
        r#gen: "2".to_owned(),
        ready: Some(3),
        available: Some(4),
        desired: Some(5),
        total: Some(6),
        updated: Some(7),
        phase: Some(ReportedPhase::Bound),
        conditions,
    };
    assert_eq!((view.rows, view.malformed), (vec![expected], None));
    let progressing = conditions.get(ConditionType::Progressing).unwrap();
    assert_eq!(progressing.status, ConditionStatus::False);
    assert_eq!(progressing.reason, Some(ConditionReason::ProgressDeadlineExceeded));
    assert_eq!(conditions.get(ConditionType::Ready), None);
    assert!(conditions.unreadable);
    assert_eq!(Vec::<String>::from(conditions).len(), entries.len());
}

#[test]
fn rows_are_sorted_by_cluster() {
    let at = "2026-11-21T07:03:25Z";
    let view = read(result(&[
        row(["dev2", at, "", "", ""]),
        row(["dev10", at, "", "", ""]),
        row(["dev1", at, "", "", ""]),
    ]));
    let clusters: Vec<_> = view.rows.iter().map(|row| row.cluster.as_str()).collect();
    assert_eq!(clusters, ["dev1", "dev10", "dev2"]);
}

#[test]
fn what_the_collector_never_writes_is_malformed() {
    let at = "2026-11-21T07:03:25Z";
    let with = |column: usize, value: &str| {
        let mut cells = ["dev1", at, "1", "1", "1", "1", "1", "1", ""];
        cells[column] = value;
        row_with(cells, &[])
    };
    let conditions = |entries: &[&str]| row_with(["dev1", at, "1", "1", "1", "1", "1", "1", ""], entries);
    let mut text_for_list = conditions(&[]);
    text_for_list["columns"][9] = text("[]");
    let mut error_for_list = conditions(&[]);
    error_for_list["columns"][9] = text("failed to evaluate expression: no such key");
    let rows = [
        with(3, "many"),
        with(4, "1.5"),
        with(5, "1e3"),
        with(6, " 1"),
        with(7, "99999999999999999999"),
        with(8, "Odd"),
        conditions(&["Ready"]),
        conditions(&["Ready=true"]),
        conditions(&["Ready=True", "Ready=True"]),
        conditions(&["Odd=True"]),
        conditions(&["Ready=True:SomeReason"]),
        conditions(&[""]),
        text_for_list,
        error_for_list,
    ];
    for row in rows {
        let view = read(result(std::slice::from_ref(&row)));
        assert!(view.malformed.is_some() && view.rows.is_empty(), "{row}");
    }
}

#[test]
fn the_two_special_years_mean_never_and_without_status() {
    let view = read(result(&[
        row(["dev1", "1970-01-01T00:00:00Z", "", "", ""]),
        row(["dev2", "0001-01-01T00:00:00Z", "", "", ""]),
    ]));
    let times: Vec<_> = view.rows.iter().map(|row| row.at).collect();
    assert_eq!(times, [Reported::Never, Reported::WithoutStatus]);
}

#[test]
fn no_destination_is_no_row_and_not_malformed() {
    assert_eq!(read(result(&[])).malformed, None);
}

#[test]
fn everything_else_is_malformed_and_says_why() {
    let good = row(["dev1", "2026-11-21T07:03:25Z", "1", "1", "1"]);
    let error_text = "failed to evaluate expression: no such key: status";
    let mut missing_column = result(std::slice::from_ref(&good));
    missing_column["columnNames"][4] = json!("more");
    let mut doubled_column = result(std::slice::from_ref(&good));
    doubled_column["columnNames"].as_array_mut().unwrap().push(json!("at"));
    let mut row_error = result(std::slice::from_ref(&good));
    row_error["rowErrors"] = json!([{"wec": {"clusterId": "dev2"}, "columnName": "", "error": "no such key"}]);
    let mut aggregation_error = result(std::slice::from_ref(&good));
    aggregation_error["aggregationErrors"] = json!([{"columnName": "at", "error": "no values"}]);
    let number = json!({"columns": [text("dev1"), {"type": "Number", "float": "1"}, text(""), text(""), text("")]});
    let table = [
        (missing_column, "no column \"available\""),
        (doubled_column, "column \"at\" is there twice"),
        (row_error, "cluster dev2, column \"\": no such key"),
        (aggregation_error, "column \"at\": no values"),
        (
            result(&[json!({"columns": [text("dev1")]})]),
            "cluster dev1: a row has no column \"at\"",
        ),
        (result(&[number]), "cluster dev1: column \"at\" holds no text"),
        (
            result(&[row(["", "2026-11-21T07:03:25Z", "1", "", ""])]),
            "a row names no cluster",
        ),
        (
            result(&[row(["dev1", "yesterday", "1", "", ""])]),
            "cluster dev1: \"yesterday\" is not a time",
        ),
        (
            result(&[row(["dev1", "1969-12-31T23:59:59Z", "1", "", ""])]),
            "cluster dev1: \"1969-12-31T23:59:59Z\" is not a time",
        ),
        (
            result(&[good.clone(), row(["dev1", "2026-11-21T07:03:25Z", error_text, "", ""])]),
            "cluster dev1: column \"gen\": failed to evaluate",
        ),
    ];
    for (result, why) in table {
        let view = read(result);
        assert!(
            view.malformed.as_deref().is_some_and(|text| text.starts_with(why)),
            "{why}: {:?}",
            view.malformed
        );
        assert!(view.rows.is_empty(), "{why}: rows of malformed evidence must not count");
    }
}

#[test]
fn the_collector_selects_the_columns_that_are_read_and_is_named_after_its_spec() {
    let collector = evidence::collector();
    let name = collector.metadata.name.unwrap();
    let columns: Vec<_> = collector
        .spec
        .select
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(columns, COLUMNS);
    assert!(evidence::is_evidence_collector(&name));
    assert_eq!(name.len(), evidence::NAME_PREFIX.len() + 8);
    // A change of the spec must be a change of the name: this one belongs to the expressions as they are.
    assert_eq!(name, "stagegate-evidence-48e0fc77");
}

#[test]
fn kubestellars_scan_for_variable_names_ends_on_our_expressions() {
    // It loops for ever when a longer word that holds a variable's name stands before the variable itself.
    for column in &evidence::collector_spec().select {
        for variable in ["obj", "returned", "inventory", "propagation"] {
            let first = column.def.find(variable);
            let is_whole = |at: usize| {
                let word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
                !word(column.def[..at].chars().next_back()) && !word(column.def[at + variable.len()..].chars().next())
            };
            assert!(first.is_none_or(is_whole), "{variable} in {}", column.def);
        }
    }
}
