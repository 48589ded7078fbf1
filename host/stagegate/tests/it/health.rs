//! Health from what clusters return, through the evidence collector's own expressions (`tests/data/kstatus.yaml`), and the length
//! of a row's values.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use stagegate_api::{CollectorResult, EvidenceRow, evidence};
use stagegate_decide::combine::{Computed, cell};
use stagegate_decide::health::{Health, health};
use stagegate_evaluate::{Answer, Budget, Value as CelValue, compile};

const VARIABLES: &[&str] = &["inventory", "obj", "returned", "propagation"];
/// The most bytes of the values in one row, for the kinds of Kubernetes.
const ROW_BYTES_MAX: usize = 300;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    kind: String,
    is: String,
    spec: Option<Value>,
    status: Option<Value>,
    kstatus: Option<String>,
    health: String,
}

fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/kstatus.yaml");
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The columns' values in one cluster.
fn values(cluster: &str, spec: Option<&Value>, status: Option<&Value>) -> Vec<Value> {
    let object = spec.map_or_else(|| json!({}), |spec| json!({"spec": spec}));
    let returned = status.map_or_else(|| json!({}), |status| json!({"status": status}));
    let at = CelValue::timestamp(1_767_225_600, 0).unwrap();
    let bound = [
        ("inventory", CelValue::from(&json!({"name": cluster}))),
        ("obj", CelValue::from(&object)),
        ("returned", CelValue::from(&returned)),
        (
            "propagation",
            CelValue::map([("lastReturnedUpdateTimestamp".to_owned(), at)]),
        ),
    ];
    let columns = &evidence::collector_spec().select;
    let cells = columns.iter().map(|column| {
        let compiled = compile(&column.def, VARIABLES).unwrap();
        let computed = match compiled.eval(&bound, Budget::default()).unwrap() {
            Answer::String(text) => Computed::String(text),
            list => Computed::Json(list.to_json()),
        };
        json!(cell(&computed))
    });
    cells.collect()
}

fn row(cells: &[Value]) -> EvidenceRow {
    let names: Vec<String> = evidence::collector_spec()
        .select
        .iter()
        .map(|column| column.name.clone())
        .collect();
    let result = json!({"name": evidence::collector_name(), "columnNames": names, "rows": [{"columns": cells}]});
    let view = evidence::read(&serde_json::from_value::<CollectorResult>(result).unwrap());
    assert_eq!(view.malformed, None);
    view.rows.into_iter().next().unwrap()
}

fn bytes(cells: &[Value]) -> usize {
    let length = |cell: &Value| {
        let text = cell.get("string").and_then(Value::as_str).map(str::len);
        text.unwrap_or_else(|| cell["object"].to_string().len())
    };
    cells.iter().map(length).sum()
}

#[test]
fn kstatus_own_inputs_have_the_health_that_the_table_says() {
    let mut failures = Vec::new();
    let cases = cases();
    for case in &cases {
        let (resource, group) = case.kind.split_once('.').unwrap_or((&case.kind, ""));
        let row = row(&values("dev-1", case.spec.as_ref(), case.status.as_ref()));
        let found = health(group, resource, &row);
        let word = match found {
            Health::Healthy => "Healthy",
            Health::Progressing(_) => "Progressing",
            Health::Failed(_) => "Failed",
        };
        if word != case.health {
            failures.push(format!("{}, {}: {found:?}, not {}", case.kind, case.is, case.health));
        }
    }
    let compared = cases.iter().filter(|case| case.kstatus.is_some()).count();
    crate::tell(&format!(
        "health by the real expressions: {} inputs, {compared} of kstatus",
        cases.len()
    ));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_values_of_a_built_in_kind_fit_into_three_hundred_bytes() {
    let cluster = "c".repeat(63);
    let most = i64::from(i32::MAX);
    let message = "x".repeat(2_000);
    let condition = |type_: &str, status: &str, reason: &str| json!({"type": type_, "status": status, "reason": reason, "message": message});
    let conditions = [
        // A Deployment, a Job, a Pod, a CustomResourceDefinition.
        json!([
            condition("Available", "False", "MinimumReplicasUnavailable"),
            condition("Progressing", "False", "ProgressDeadlineExceeded"),
            condition("ReplicaFailure", "Unknown", "FailedCreate"),
        ]),
        json!([
            condition("Complete", "Unknown", "CompletionsReached"),
            condition("Failed", "Unknown", "BackoffLimitExceeded"),
            condition("SuccessCriteriaMet", "True", "SuccessPolicy"),
        ]),
        json!([
            condition("Ready", "Unknown", "ContainersNotReady"),
            condition("PodScheduled", "Unknown", "Unschedulable"),
            condition("Initialized", "False", "ContainersNotInitialized"),
        ]),
        json!([
            condition("Established", "Unknown", "Installing"),
            condition("NamesAccepted", "Unknown", "PluralConflict"),
        ]),
    ];
    for conditions in conditions {
        let status = json!({
            "observedGeneration": i64::MAX, "replicas": most, "updatedReplicas": most, "readyReplicas": most,
            "availableReplicas": most, "phase": "Terminating", "conditions": conditions,
        });
        let cells = values(&cluster, Some(&json!({"replicas": most})), Some(&status));
        assert!(bytes(&cells) <= ROW_BYTES_MAX, "{} bytes: {cells:?}", bytes(&cells));
    }
}

#[test]
fn no_custom_resource_makes_a_row_longer_than_its_known_words() {
    let long = "x".repeat(1_024);
    let types = evidence::ConditionType::ALL.map(|type_| type_.as_str());
    let conditions: Vec<Value> = (0..20)
        .flat_map(|_| types.map(|type_| json!({"type": type_, "status": long, "reason": long})))
        .chain([json!({"type": long, "status": "True"})])
        .collect();
    let status = json!({"phase": long, "replicas": long, "readyReplicas": [long], "conditions": conditions});
    let cells = values("dev-1", Some(&json!({"replicas": long, "type": long})), Some(&status));
    assert!(bytes(&cells) < 1_000, "{} bytes", bytes(&cells));
    assert!(!health("example.com", "widgets", &row(&cells)).is_healthy());
}
