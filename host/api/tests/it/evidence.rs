//! The evidence rows: read when they are as our collector writes them, malformed otherwise.

use serde_json::{Value, json};
use stagegate_api::{CollectorResult, EvidenceRow, EvidenceView, Reported, evidence};

fn text(text: &str) -> Value {
    json!({"type": "String", "string": text})
}

fn row(cells: [&str; 5]) -> Value {
    json!({"columns": cells.map(text)})
}

fn result(rows: &[Value]) -> Value {
    let columns = ["cluster", "at", "gen", "ready", "available"];
    json!({"name": evidence::collector_name(), "columnNames": columns, "rows": rows})
}

fn read(result: Value) -> EvidenceView {
    evidence::read(&serde_json::from_value::<CollectorResult>(result).unwrap())
}

#[test]
fn rows_are_read_by_the_names_of_their_columns() {
    let view = read(json!({
        "name": evidence::collector_name(),
        "columnNames": ["available", "ready", "gen", "at", "cluster"],
        "rows": [row(["4", "3", "2", "2026-11-21T07:03:25Z", "dev1"])],
    }));
    let expected = EvidenceRow {
        cluster: "dev1".to_owned(),
        at: Reported::At { seconds: 1_795_244_605 },
        r#gen: "2".to_owned(),
        ready: "3".to_owned(),
        available: "4".to_owned(),
    };
    assert_eq!((view.rows, view.malformed), (vec![expected], None));
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
    missing_column["columnNames"] = json!(["cluster", "at", "gen", "ready", "more"]);
    let mut doubled_column = result(std::slice::from_ref(&good));
    doubled_column["columnNames"] = json!(["cluster", "at", "gen", "ready", "available", "at"]);
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
    assert_eq!(columns, ["cluster", "at", "gen", "ready", "available"]);
    assert!(evidence::is_evidence_collector(&name));
    assert_eq!(name.len(), evidence::NAME_PREFIX.len() + 8);
    // A change of the spec must be a change of the name: this one belongs to the expressions as they are.
    assert_eq!(name, "stagegate-evidence-4795264f");
}

#[test]
fn kubestellars_scan_for_variable_names_ends_on_our_expressions() {
    // It loops for ever when a longer word that holds a variable's name stands before the variable itself.
    for column in evidence::collector_spec().select {
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
