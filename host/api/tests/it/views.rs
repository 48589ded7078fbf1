//! A view says of an object what the object says, in a kilobyte.

use kube::Resource as _;
use serde_json::{Value, json};
use stagegate_api::combined_status_view::{digest, visible_results};
use stagegate_api::{CombinedStatus, CombinedStatusView, RowErrorView, evidence, label};

use crate::fixture;

const REPORTED: &str = "kubestellar-0.30/combinedstatus.yaml";
const NOT_REPORTED: &str = "kubestellar-0.30/combinedstatus-no-workstatus.yaml";

fn evidence_result(collector: &str) -> Value {
    let text = |text: &str| json!({"type": "String", "string": text});
    json!({
        "name": collector,
        "columnNames": ["cluster", "at", "gen", "ready", "available"],
        "rows": [{"columns": [text("dev1"), text("2026-11-21T07:03:25Z"), text("1"), text(""), text("1")]}],
    })
}

#[test]
fn a_view_keeps_identity_labels_and_counts() {
    let view: CombinedStatusView = fixture(REPORTED);
    assert_eq!(view.label(label::BINDING_POLICY), "probe0");
    assert_eq!(view.label(label::NAME), "nginx0");
    assert_eq!(view.metadata.labels.as_ref().unwrap().len(), 5);
    assert_eq!(view.metadata.resource_version.as_deref(), Some("295"));
    assert!(view.metadata.owner_references.is_none() && view.metadata.generation.is_none());
    let counts: Vec<_> = view.collectors.iter().map(|c| (c.name.as_str(), c.row_count)).collect();
    assert_eq!(counts, [("deployments-aggregator", 1), ("per-cluster", 2)]);
    assert!(
        view.collectors
            .iter()
            .all(|c| c.row_error.is_none() && c.error_cell.is_none())
    );
}

#[test]
fn a_view_is_read_from_where_the_objects_are() {
    let of_view = (
        CombinedStatusView::kind(&()),
        CombinedStatusView::plural(&()),
        CombinedStatusView::api_version(&()),
    );
    let of_whole = (
        CombinedStatus::kind(&()),
        CombinedStatus::plural(&()),
        CombinedStatus::api_version(&()),
    );
    assert_eq!(of_view, of_whole);
    assert_eq!(
        (of_view.1.as_ref(), of_view.2.as_ref()),
        ("combinedstatuses", "control.kubestellar.io/v1alpha1")
    );
}

#[test]
fn a_view_names_the_first_errors_with_cluster_and_column() {
    let view: CombinedStatusView = fixture(NOT_REPORTED);
    let error = |column: &str| {
        Some(RowErrorView {
            cluster: Some("dev1".to_owned()),
            column: column.to_owned(),
            error: "failed to evaluate expression: no such key: availableReplicas".to_owned(),
        })
    };
    assert_eq!(view.collectors[0].row_error, error("sum"));
    assert_eq!(view.collectors[1].error_cell, error("available"));
}

#[test]
fn long_errors_are_cut_by_characters() {
    let mut stored: Value = fixture(NOT_REPORTED);
    stored["results"][0]["rowErrors"][0]["error"] = json!("ü".repeat(300));
    let view: CombinedStatusView = serde_json::from_value(stored).unwrap();
    assert_eq!(view.collectors[0].row_error.as_ref().unwrap().error, "ü".repeat(256));
}

#[test]
fn an_object_and_its_view_have_the_same_digest() {
    for name in [REPORTED, NOT_REPORTED] {
        let whole: CombinedStatus = fixture(name);
        let view: CombinedStatusView = fixture(name);
        assert_eq!(digest(&whole), view.digest, "{name}");
        assert_eq!(CombinedStatusView::of(&whole), view, "{name}");
    }
    assert_ne!(
        fixture::<CombinedStatusView>(REPORTED).digest,
        fixture::<CombinedStatusView>(NOT_REPORTED).digest
    );
}

#[test]
fn the_digest_moves_with_rows_and_errors_but_not_with_the_evidence_or_the_order_of_collectors() {
    let stored: Value = fixture(REPORTED);
    let digest_of = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut stored = stored.clone();
        change(stored["results"].as_array_mut().unwrap());
        serde_json::from_value::<CombinedStatusView>(stored).unwrap().digest
    };
    let unchanged = digest_of(&|_| {});
    assert_eq!(digest_of(&|results| results.reverse()), unchanged);
    assert_eq!(
        digest_of(&|results| results.push(evidence_result("stagegate-evidence-00000000"))),
        unchanged
    );
    assert_ne!(
        digest_of(&|results| results.push(evidence_result("someone-elses"))),
        unchanged
    );
    assert_ne!(
        digest_of(&|results| results[0]["rows"][0]["columns"][0]["float"] = json!("1")),
        unchanged
    );
    let row_error = json!([{"wec": {"clusterId": "dev1"}, "columnName": "sum", "error": "failed"}]);
    assert_ne!(
        digest_of(&|results| results[0]["rowErrors"] = row_error.clone()),
        unchanged
    );
}

#[test]
fn the_digest_does_not_depend_on_the_order_of_keys_in_an_object() {
    let digest_of = |object: &str| {
        let text = format!(
            r#"{{"results": [{{"name": "c", "columnNames": ["s"], "rows": [{{"columns": [{{"type": "Object", "object": {object}}}]}}]}}]}}"#
        );
        serde_json::from_str::<CombinedStatusView>(&text).unwrap().digest
    };
    assert_eq!(
        digest_of(r#"{"a": 1, "b": [{"c": 2, "d": 3}]}"#),
        digest_of(r#"{"b": [{"d": 3, "c": 2}], "a": 1}"#)
    );
}

#[test]
fn a_condition_sees_metadata_and_results_but_not_the_evidence() {
    let mut stored: Value = fixture(REPORTED);
    let results = stored["results"].clone();
    stored["results"]
        .as_array_mut()
        .unwrap()
        .push(evidence_result(&evidence::collector_name()));
    let seen = visible_results(&serde_json::from_value(stored.clone()).unwrap());
    // What moves without the results would make an old verdict answer a new question.
    let metadata = stored["metadata"].as_object_mut().unwrap();
    metadata.retain(|member, _| ["name", "namespace", "uid", "labels"].contains(&member.as_str()));
    assert_eq!(seen, json!({"metadata": metadata, "results": results}));
}

#[test]
fn a_condition_sees_no_results_member_when_only_the_evidence_is_there() {
    let only_evidence = json!({"metadata": {"name": "a.b"}, "results": [evidence_result(&evidence::collector_name())]});
    let seen = visible_results(&serde_json::from_value(only_evidence).unwrap());
    assert_eq!(seen, json!({"metadata": {"name": "a.b"}}));
}

#[test]
fn a_view_of_few_values_shows_a_condition_what_the_object_does_and_one_of_many_nothing() {
    let mut stored: Value = fixture(REPORTED);
    let results = stored["results"].as_array_mut().unwrap();
    results.push(evidence_result(&evidence::collector_name()));
    let seen = |stored: &Value| {
        serde_json::from_value::<CombinedStatusView>(stored.clone())
            .unwrap()
            .visible()
    };
    let whole = |stored: &Value| visible_results(&serde_json::from_value(stored.clone()).unwrap());
    assert_eq!(seen(&stored), Some(whole(&stored)));
    let only_evidence = json!({"metadata": {"name": "a.b"}, "results": [evidence_result(&evidence::collector_name())]});
    assert_eq!(seen(&only_evidence), Some(whole(&only_evidence)));
    let row = stored["results"][1]["rows"][0].clone();
    stored["results"][1]["rows"]
        .as_array_mut()
        .unwrap()
        .extend(vec![row; 100]);
    assert_eq!(seen(&stored), None);
}

#[test]
fn the_size_is_that_of_the_results_as_json() {
    let stored: Value = fixture(REPORTED);
    let view: CombinedStatusView = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(
        view.size_bytes,
        serde_json::to_string(&stored["results"]).unwrap().len()
    );
}
