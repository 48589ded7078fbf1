//! What is combined about the workload under dev: the whole, each collector's result in it, rows, cells and errors.

use serde_json::{Value, json};

use super::Tampering::{AsAtFirst, BeingDeleted, Deleted, Doubled, Edited, MadeAnew};
use super::Then::{GoesOn, Waits};
use super::pieces::Piece;
use super::{Parts, Table, run};

/// The result of a collector; ours begins like this.
fn result<'a>(combined: &'a mut Value, collector: &str) -> &'a mut Value {
    let results = combined["results"].as_array_mut().unwrap();
    let is_it = |result: &&mut Value| result["name"].as_str().unwrap().starts_with(collector);
    results.iter_mut().find(is_it).unwrap()
}

const OURS: &str = "stagegate-evidence-";

fn without(combined: &mut Value, collector: &str) {
    let name = result(combined, collector)["name"].clone();
    let results = combined["results"].as_array_mut().unwrap();
    results.retain(|result| result["name"] != name);
}

fn twice(combined: &mut Value, collector: &str) -> usize {
    let copy = result(combined, collector).clone();
    let results = combined["results"].as_array_mut().unwrap();
    results.push(copy);
    results.len() - 1
}

fn rows<'a>(combined: &'a mut Value, collector: &str) -> &'a mut Vec<Value> {
    result(combined, collector)["rows"].as_array_mut().unwrap()
}

/// The row about dev-2, of a collector with a row for each cluster.
fn row<'a>(combined: &'a mut Value, collector: &str) -> &'a mut Value {
    let is_it = |row: &&mut Value| row["columns"][0]["string"] == "dev-2";
    rows(combined, collector).iter_mut().find(is_it).unwrap()
}

fn without_row(combined: &mut Value, collector: &str) {
    rows(combined, collector).retain(|row| row["columns"][0]["string"] != "dev-2");
}

fn row_twice(combined: &mut Value, collector: &str) {
    let copy = row(combined, collector).clone();
    rows(combined, collector).push(copy);
}

/// The one value of an aggregating collector.
fn value<'a>(combined: &'a mut Value, collector: &str) -> &'a mut Value {
    &mut rows(combined, collector)[0]["columns"][0]
}

/// A column of our row about dev-2: cluster, at, gen, ready, available.
fn cell(combined: &mut Value, column: usize) -> &mut Value {
    &mut row(combined, OURS)["columns"][column]
}

fn row_error(combined: &mut Value, collector: &str) {
    let error = json!({"wec": {"clusterId": "dev-2"}, "columnName": "available", "error": "no such key"});
    result(combined, collector)["rowErrors"] = json!([error]);
}

fn aggregation_error(combined: &mut Value, collector: &str) {
    result(combined, collector)["aggregationErrors"] = json!([{"columnName": "available", "error": "not a number"}]);
}

fn text(text: &str) -> Value {
    json!({"type": "String", "string": text})
}

fn label<'a>(combined: &'a mut Value, name: &str) -> &'a mut Value {
    &mut combined["metadata"]["labels"][format!("status.kubestellar.io/{name}")]
}

fn rename(combined: &mut Value, what: usize, uid: &str) {
    let name = combined["metadata"]["name"].as_str().unwrap().to_owned();
    let mut uids: Vec<&str> = name.split('.').collect();
    uids[what] = uid;
    combined["metadata"]["name"] = json!(uids.join("."));
}

const WHOLE: Table = Table {
    name: "evidence: a CombinedStatus",
    piece: Piece::Combined,
    parts: Parts::Stopped,
    rows: &[
        (
            "taken away",
            Deleted,
            Waits(&["CombinedStatus", "deployments.apps shop/web"]),
        ),
        (
            "being taken away",
            BeingDeleted,
            Waits(&["CombinedStatus", "deployments.apps shop/web"]),
        ),
        (
            "without results",
            Edited(|it| it["results"] = json!([])),
            Waits(&["StatusCollector each", "deployments.apps shop/web"]),
        ),
        (
            "as it was before the clusters were ready",
            AsAtFirst,
            Waits(&["deployments.apps shop/web", "dev-"]),
        ),
        (
            "of another placement, by its name",
            MadeAnew(|it| rename(it, 1, "$other")),
            Waits(&["CombinedStatus", "deployments.apps shop/web"]),
        ),
        (
            "of another object, by its name",
            MadeAnew(|it| rename(it, 0, "$other")),
            Waits(&["CombinedStatus", "deployments.apps shop/web"]),
        ),
        (
            "in another namespace",
            MadeAnew(|it| it["metadata"]["namespace"] = json!("default")),
            Waits(&["CombinedStatus shop/", "deployments.apps shop/web"]),
        ),
        (
            "made anew, just as it was",
            MadeAnew(|it| it["metadata"]["annotations"] = json!({"example.org/by": "hand"})),
            GoesOn("KubeStellar makes it anew, too, when it has lost it: what it says is what counts"),
        ),
        (
            "of another group, by its label",
            Edited(|it| *label(it, "api-group") = json!("batch")),
            Waits(&["CombinedStatus of deployments.apps shop/web", "api-group"]),
        ),
        (
            "of another resource, by its label",
            Edited(|it| *label(it, "resource") = json!("statefulsets")),
            Waits(&["CombinedStatus of deployments.apps shop/web", "resource"]),
        ),
        (
            "of another namespace, by its label",
            Edited(|it| *label(it, "namespace") = json!("default")),
            Waits(&["CombinedStatus of deployments.apps shop/web", "namespace"]),
        ),
        (
            "of another object, by its label",
            Edited(|it| *label(it, "name") = json!("other")),
            Waits(&["CombinedStatus of deployments.apps shop/web", "name"]),
        ),
        (
            "of another placement, by its label",
            Edited(|it| *label(it, "binding-policy") = json!("web.stage.test")),
            Waits(&["CombinedStatus", "deployments.apps shop/web"]),
        ),
        (
            "of no placement, by its label",
            Edited(|it| *label(it, "binding-policy") = json!("")),
            Waits(&["CombinedStatus", "deployments.apps shop/web"]),
        ),
        (
            "without labels",
            Edited(|it| it["metadata"]["labels"] = json!({})),
            Waits(&["CombinedStatus", "deployments.apps shop/web"]),
        ),
        (
            "with a label more",
            Edited(|it| it["metadata"]["labels"]["example.org/seen"] = json!("yes")),
            GoesOn("a label of somebody's says nothing about whose it is"),
        ),
        (
            "doubled under a strange name",
            Doubled(|it| {
                it["metadata"]["name"] = json!("strange");
                it["results"] = json!([]);
            }),
            GoesOn("it is known by its whole name: a second one is nobody's"),
        ),
        (
            "doubled under the name of another placement",
            Doubled(|it| {
                rename(it, 1, "$other");
                it["results"] = json!([]);
            }),
            GoesOn("it is known by its whole name: a second one is another placement's"),
        ),
    ],
};

const UNREADABLE: Table = Table {
    name: "evidence: a CombinedStatus that cannot be read",
    piece: Piece::LooseCombined,
    parts: Parts::Stopped,
    rows: &[
        (
            "results as text",
            Edited(|it| it["results"] = json!("all is well")),
            Waits(&["CombinedStatus shop/", "deployments.apps shop/web", "cannot be read"]),
        ),
        (
            "a row as text",
            Edited(|it| *row(it, "each") = json!("well")),
            Waits(&["CombinedStatus shop/", "deployments.apps shop/web", "cannot be read"]),
        ),
        (
            "a cell without type",
            Edited(|it| *value(it, "worst") = json!({"float": "2"})),
            Waits(&["CombinedStatus shop/", "deployments.apps shop/web", "cannot be read"]),
        ),
        (
            "a value of another type than it says",
            Edited(|it| *value(it, "worst") = json!({"type": "Number", "float": 2})),
            Waits(&["CombinedStatus shop/", "deployments.apps shop/web", "cannot be read"]),
        ),
    ],
};

const AGGREGATED: Table = Table {
    name: "evidence: an aggregating collector's result",
    piece: Piece::Combined,
    parts: Parts::Stopped,
    rows: &[
        (
            "taken away, and the condition reads it",
            Edited(|it| without(it, "worst")),
            Waits(&["StatusCollector worst", "deployments.apps shop/web"]),
        ),
        (
            "taken away, and nothing reads it",
            Edited(|it| without(it, "total")),
            Waits(&["StatusCollector total", "deployments.apps shop/web"]),
        ),
        (
            "given to another collector",
            Edited(|it| result(it, "worst")["name"] = json!("worse")),
            Waits(&["StatusCollector worst", "deployments.apps shop/web"]),
        ),
        (
            "doubled",
            Edited(|it| _ = twice(it, "worst")),
            Waits(&["StatusCollector worst", "deployments.apps shop/web"]),
        ),
        (
            "doubled, and the two do not agree",
            Edited(|it| {
                let second = twice(it, "worst");
                it["results"][second]["rows"][0]["columns"][0]["float"] = json!("0");
            }),
            Waits(&["StatusCollector worst", "deployments.apps shop/web"]),
        ),
        (
            "without its row",
            Edited(|it| rows(it, "worst").clear()),
            Waits(&["StatusCollector worst", "deployments.apps shop/web"]),
        ),
        (
            "without its row, and nothing reads it",
            Edited(|it| rows(it, "total").clear()),
            Waits(&["StatusCollector total", "deployments.apps shop/web"]),
        ),
        (
            "with its row twice",
            Edited(|it| {
                let copy = rows(it, "worst")[0].clone();
                rows(it, "worst").push(copy);
            }),
            Waits(&["StatusCollector worst", "deployments.apps shop/web"]),
        ),
        (
            "with a row without columns",
            Edited(|it| rows(it, "worst")[0]["columns"] = json!([])),
            Waits(&["condition of stage dev", "deployments.apps shop/web"]),
        ),
        (
            "its value blanked",
            Edited(|it| *value(it, "worst") = json!({"type": "Null"})),
            Waits(&["condition of stage dev", "deployments.apps shop/web"]),
        ),
        (
            "its value one too low",
            Edited(|it| value(it, "worst")["float"] = json!("1")),
            Waits(&["condition of stage dev", "deployments.apps shop/web"]),
        ),
        (
            "its value no number",
            Edited(|it| value(it, "worst")["float"] = json!("plenty")),
            Waits(&["condition of stage dev", "failed for deployments.apps shop/web"]),
        ),
        (
            "its value NaN",
            Edited(|it| value(it, "worst")["float"] = json!("NaN")),
            Waits(&["condition of stage dev", "deployments.apps shop/web"]),
        ),
        (
            "its value replaced by an error",
            Edited(|it| *value(it, "worst") = text("failed to evaluate: no such key: availableReplicas")),
            Waits(&["StatusCollector worst", "deployments.apps shop/web", "no such key"]),
        ),
        (
            "its value replaced by an error, and nothing reads it",
            Edited(|it| *value(it, "total") = text("failed to evaluate: no such key: availableReplicas")),
            Waits(&["StatusCollector total", "deployments.apps shop/web", "no such key"]),
        ),
        (
            "with a row error beside a value that is well",
            Edited(|it| row_error(it, "worst")),
            Waits(&["StatusCollector worst", "deployments.apps shop/web", "dev-2"]),
        ),
        (
            "with a row error, and nothing reads it",
            Edited(|it| row_error(it, "total")),
            Waits(&["StatusCollector total", "deployments.apps shop/web", "dev-2"]),
        ),
        (
            "with an error of its filter",
            Edited(|it| {
                row_error(it, "worst");
                result(it, "worst")["rowErrors"][0]["columnName"] = json!("");
            }),
            Waits(&["StatusCollector worst", "its filter", "dev-2"]),
        ),
        (
            "with an aggregation error beside a value that is well",
            Edited(|it| aggregation_error(it, "worst")),
            Waits(&["StatusCollector worst", "deployments.apps shop/web", "available"]),
        ),
        (
            "with an aggregation error, and nothing reads it",
            Edited(|it| aggregation_error(it, "total")),
            Waits(&["StatusCollector total", "deployments.apps shop/web", "available"]),
        ),
    ],
};

const SELECTED: Table = Table {
    name: "evidence: a selecting collector's result",
    piece: Piece::Combined,
    parts: Parts::Stopped,
    rows: &[
        (
            "a row taken away",
            Edited(|it| without_row(it, "each")),
            Waits(&["StatusCollector each", "deployments.apps shop/web"]),
        ),
        (
            "all rows taken away",
            Edited(|it| rows(it, "each").clear()),
            Waits(&["StatusCollector each", "deployments.apps shop/web"]),
        ),
        (
            "a row doubled",
            Edited(|it| row_twice(it, "each")),
            Waits(&["StatusCollector each", "deployments.apps shop/web"]),
        ),
        (
            "a value replaced by an error",
            Edited(|it| row(it, "each")["columns"][1] = text("failed to evaluate: no such key")),
            Waits(&["StatusCollector each", "deployments.apps shop/web", "dev-2"]),
        ),
        (
            "a value replaced by another",
            Edited(|it| row(it, "each")["columns"][1]["float"] = json!("7")),
            GoesOn("no check of this stage reads it"),
        ),
        (
            "the columns named otherwise",
            Edited(|it| result(it, "each")["columnNames"] = json!(["wec", "count"])),
            GoesOn("no check of this stage reads it"),
        ),
        (
            "the order of the rows turned about",
            Edited(|it| rows(it, "each").reverse()),
            GoesOn("rows have no order"),
        ),
        (
            "the order of the results turned about",
            Edited(|it| it["results"].as_array_mut().unwrap().reverse()),
            GoesOn("results are known by their names"),
        ),
    ],
};

const EVIDENCE: Table = Table {
    name: "evidence: the host's own collector's result",
    piece: Piece::Combined,
    parts: Parts::Stopped,
    rows: &[
        (
            "taken away",
            Edited(|it| without(it, OURS)),
            Waits(&["StatusCollector stagegate-evidence-"]),
        ),
        (
            "of another version",
            Edited(|it| result(it, OURS)["name"] = json!("stagegate-evidence-00000000")),
            Waits(&["StatusCollector stagegate-evidence-"]),
        ),
        (
            "doubled",
            Edited(|it| _ = twice(it, OURS)),
            Waits(&["deployments.apps shop/web", "several results"]),
        ),
        (
            "without rows",
            Edited(|it| rows(it, OURS).clear()),
            Waits(&["deployments.apps shop/web", "cluster dev-1"]),
        ),
        (
            "a row taken away",
            Edited(|it| without_row(it, OURS)),
            Waits(&["deployments.apps shop/web", "cluster dev-2"]),
        ),
        (
            "a row doubled",
            Edited(|it| row_twice(it, OURS)),
            Waits(&["deployments.apps shop/web", "several rows for cluster dev-2"]),
        ),
        (
            "a row of a cluster that is no destination",
            Edited(|it| {
                row_twice(it, OURS);
                rows(it, OURS).last_mut().unwrap()["columns"][0] = text("elsewhere");
            }),
            Waits(&["deployments.apps shop/web", "cluster elsewhere"]),
        ),
        (
            "a row given to another cluster",
            Edited(|it| *cell(it, 0) = text("elsewhere")),
            Waits(&["deployments.apps shop/web", "cluster dev-2"]),
        ),
        (
            "a row given to the other cluster of the stage",
            Edited(|it| *cell(it, 0) = text("dev-1")),
            Waits(&["deployments.apps shop/web", "cluster dev-"]),
        ),
        (
            "a row of no cluster",
            Edited(|it| *cell(it, 0) = text("")),
            Waits(&["deployments.apps shop/web"]),
        ),
        (
            "a row without columns",
            Edited(|it| row(it, OURS)["columns"] = json!([])),
            Waits(&["deployments.apps shop/web", "no column"]),
        ),
        (
            "never reported",
            Edited(|it| *cell(it, 1) = text("1970-01-01T00:00:00Z")),
            Waits(&["deployments.apps shop/web", "cluster dev-2"]),
        ),
        (
            "there without a status",
            Edited(|it| *cell(it, 1) = text("0001-01-01T00:00:00Z")),
            Waits(&["deployments.apps shop/web", "cluster dev-2"]),
        ),
        (
            "reported before there were clusters",
            Edited(|it| *cell(it, 1) = text("1960-01-01T00:00:00Z")),
            Waits(&["deployments.apps shop/web", "dev-2"]),
        ),
        (
            "reported at no time",
            Edited(|it| *cell(it, 1) = text("lately")),
            Waits(&["deployments.apps shop/web", "lately"]),
        ),
        (
            "the time replaced by an error",
            Edited(|it| *cell(it, 1) = text("failed to evaluate: no such key")),
            Waits(&["deployments.apps shop/web", "no such key"]),
        ),
        (
            "the time blanked",
            Edited(|it| *cell(it, 1) = json!({"type": "Null"})),
            Waits(&["deployments.apps shop/web", "at"]),
        ),
        (
            "the time aged to before the object was made",
            Edited(|it| *cell(it, 1) = text("2001-01-01T00:00:00Z")),
            Waits(&["dev-2", "an older object of this name"]),
        ),
        (
            "the generation aged",
            Edited(|it| *cell(it, 2) = text("0")),
            GoesOn("no edit is owed, so nothing is compared with it"),
        ),
        (
            "the generation blanked",
            Edited(|it| *cell(it, 2) = text("")),
            Waits(&["dev-2", "deployments.apps shop/web"]),
        ),
        (
            "the available blanked",
            Edited(|it| *cell(it, 4) = text("")),
            Waits(&["gate min-available of stage dev", "dev-2"]),
        ),
        (
            "the available one too low",
            Edited(|it| *cell(it, 4) = text("1")),
            Waits(&["clusters healthy", "dev-2"]),
        ),
        (
            "the available no number",
            Edited(|it| *cell(it, 4) = text("plenty")),
            Waits(&["available", "dev-2"]),
        ),
        (
            "the available no text",
            Edited(|it| *cell(it, 4) = json!({"type": "Number", "float": "2"})),
            Waits(&["deployments.apps shop/web", "available"]),
        ),
        (
            "a column taken away",
            Edited(|it| {
                _ = result(it, OURS)["columnNames"].as_array_mut().unwrap().pop();
            }),
            Waits(&["deployments.apps shop/web", "conditions"]),
        ),
        (
            "a column doubled",
            Edited(|it| {
                result(it, OURS)["columnNames"]
                    .as_array_mut()
                    .unwrap()
                    .push(json!("at"))
            }),
            Waits(&["deployments.apps shop/web", "at"]),
        ),
        (
            "with a row error",
            Edited(|it| row_error(it, OURS)),
            Waits(&["deployments.apps shop/web", "dev-2"]),
        ),
        (
            "with an aggregation error",
            Edited(|it| aggregation_error(it, OURS)),
            Waits(&["deployments.apps shop/web", "available"]),
        ),
    ],
};

#[tokio::test(start_paused = true)]
async fn no_stage_passes_on_a_combined_status_that_was_tampered_with() {
    run(&WHOLE).await;
}

#[tokio::test(start_paused = true)]
async fn no_stage_passes_on_a_combined_status_that_cannot_be_read() {
    run(&UNREADABLE).await;
}

#[tokio::test(start_paused = true)]
async fn no_stage_passes_on_an_aggregate_that_was_tampered_with() {
    run(&AGGREGATED).await;
}

#[tokio::test(start_paused = true)]
async fn no_stage_passes_on_selected_rows_that_were_tampered_with() {
    run(&SELECTED).await;
}

#[tokio::test(start_paused = true)]
async fn no_stage_passes_on_evidence_rows_that_were_tampered_with() {
    run(&EVIDENCE).await;
}
