//! Runs `tests/combine_cases/*.yaml` and compares with CombinedStatuses that KubeStellar 0.30 wrote.
//!
//! A case is a sentence (`why`), collectors with what their expressions gave in each cluster, what is there already, and
//! all the writes that must come of it. The object is Deployment shop/web, bound by the BindingPolicy `p`.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stagegate_api::{Binding, CollectorResult, CombinedStatus, StatusCollector, StatusCollectorSpec};
use stagegate_decide::combine::{
    Collector, CompileProblem, Computed, Evaluation, ExpressionPlace, Facts, Outcome, Plan, WorkloadObject, Write,
    cell, collector_errors, collector_status, decide, expressions, go_float, keeps_row, questions,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    why: String,
    /// Cluster-scoped instead: a Namespace `shop`.
    #[serde(default)]
    cluster_scoped: bool,
    /// Another name for the object.
    name: Option<String>,
    #[serde(default = "two_clusters")]
    destinations: Vec<String>,
    /// `false`: there is no Binding.
    #[serde(default = "yes")]
    bound: bool,
    /// Members over the Binding's metadata.
    #[serde(default)]
    binding: BTreeMap<String, Value>,
    /// Where the Binding has an object of this name, if not where the object is.
    bound_namespace: Option<String>,
    /// The collectors that the Binding names, if not all below.
    named: Option<Vec<String>>,
    #[serde(default)]
    collectors: BTreeMap<String, Collector>,
    #[serde(default)]
    existing: Vec<Existing>,
    #[serde(default)]
    report_namespace_exists: bool,
    writes: Vec<Value>,
    problem: Option<String>,
}

/// A CombinedStatus that is there, of the wanted name and labels if nothing else is said.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Existing {
    name: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    results: Vec<CollectorResult>,
    deletion_timestamp: Option<String>,
}

fn two_clusters() -> Vec<String> {
    vec!["dev2".to_owned(), "dev1".to_owned()]
}

fn yes() -> bool {
    true
}

fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn object_of(case: &Case) -> WorkloadObject {
    let name = case.name.clone().unwrap_or_else(|| "web".to_owned());
    let (group, kind, resource, namespace) = match case.cluster_scoped {
        true => ("", "Namespace", "namespaces", None),
        false => ("apps", "Deployment", "deployments", Some("shop")),
    };
    WorkloadObject {
        uid: "o-uid".to_owned(),
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.map(str::to_owned),
        name,
    }
}

fn binding_of(case: &Case, object: &WorkloadObject) -> Binding {
    let named = case
        .named
        .clone()
        .unwrap_or_else(|| case.collectors.keys().cloned().collect());
    let bound = json!({
        "group": object.group, "version": "v1", "resource": object.resource, "namespace": case.bound_namespace.as_ref().or(object.namespace.as_ref()),
        "name": object.name, "resourceVersion": "1", "statusCollectors": named,
    });
    let scope = if case.cluster_scoped {
        "clusterScope"
    } else {
        "namespaceScope"
    };
    let destinations: Vec<Value> = case
        .destinations
        .iter()
        .map(|name| json!({"clusterId": name}))
        .collect();
    let owner = json!({"apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy", "name": "p", "uid": "p-uid", "controller": true});
    let mut binding = json!({
        "metadata": {"name": "p", "uid": "b-uid", "resourceVersion": "20", "ownerReferences": [owner]},
        "spec": {"workload": {scope: [bound]}, "destinations": destinations},
    });
    for (key, value) in &case.binding {
        binding["metadata"][key] = value.clone();
    }
    typed(binding)
}

fn existing_of(existing: &Existing, object: &WorkloadObject) -> CombinedStatus {
    let mut labels: BTreeMap<String, String> = [
        ("status.kubestellar.io/api-group", object.group.as_str()),
        ("status.kubestellar.io/resource", &object.resource),
        (
            "status.kubestellar.io/namespace",
            object.namespace.as_deref().unwrap_or_default(),
        ),
        ("status.kubestellar.io/name", &object.name),
        ("status.kubestellar.io/binding-policy", "p"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    labels.extend(existing.labels.clone());
    let group = if object.group.is_empty() {
        "v1".to_owned()
    } else {
        format!("{}/v1", object.group)
    };
    let owner = json!({"apiVersion": group, "kind": object.kind, "name": object.name, "uid": object.uid});
    typed(json!({
        "metadata": {
            "name": existing.name.as_deref().unwrap_or("o-uid.p-uid"), "uid": "c-uid", "resourceVersion": "30",
            "namespace": object.namespace.as_deref().unwrap_or("kubestellar-report"), "labels": labels,
            "ownerReferences": [owner], "deletionTimestamp": existing.deletion_timestamp,
        },
        "results": existing.results,
    }))
}

fn run(case: &Case) -> Plan {
    let object = object_of(case);
    let binding = binding_of(case, &object);
    let existing: Vec<_> = case
        .existing
        .iter()
        .map(|existing| existing_of(existing, &object))
        .collect();
    decide(&Facts {
        object: &object,
        binding: case.bound.then_some(&binding),
        collectors: &case.collectors,
        existing: &existing,
        report_namespace_exists: case.report_namespace_exists,
    })
}

/// A write in few words: the results that are written, and the version they are conditional on.
fn short(write: &Write) -> Value {
    match write {
        Write::CreateNamespace { name } => json!(format!("create namespace {name}")),
        Write::Create(combined) => json!({"create": combined.results}),
        Write::Update {
            precondition,
            combined_status,
        } => {
            let carried = combined_status.metadata.resource_version.as_deref();
            assert_eq!(
                carried,
                Some(precondition.resource_version.as_str()),
                "a PUT carries its precondition"
            );
            json!({"update": combined_status.results, "at": precondition.resource_version})
        }
        Write::Delete {
            namespace,
            name,
            precondition,
        } => {
            json!(format!(
                "delete {namespace}/{name} at {}",
                precondition.resource_version
            ))
        }
        Write::CollectorStatus { .. } | Write::BindingStatus { .. } => {
            panic!("not a write about one object: {write:?}")
        }
    }
}

#[test]
fn every_combine_case_ends_in_the_writes_it_names() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/combine_cases");
    let mut failed = Vec::new();
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let case: Case = serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        count += 1;
        let plan = run(&case);
        let writes: Vec<Value> = plan.writes.iter().map(short).collect();
        if writes != case.writes || plan.problem != case.problem {
            let (is, should) = (json!([writes, plan.problem]), json!([case.writes, case.problem]));
            failed.push(format!("{name}: {}\n      is {is}\n  should {should}", case.why));
        }
    }
    failed.sort();
    assert!(count > 0 && failed.is_empty(), "{}", failed.join("\n"));
}

pub(super) fn stored<T: DeserializeOwned>(name: &str) -> T {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/data/kubestellar-0.30")
        .join(name);
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn value(value: Computed) -> Outcome {
    Outcome::Value(value)
}

fn text(text: &str) -> Computed {
    Computed::String(text.to_owned())
}

fn collector(spec: Value, evaluations: impl IntoIterator<Item = (&'static str, Vec<Outcome>)>) -> Collector {
    let evaluation = |columns| Evaluation { filter: None, columns };
    let evaluations = evaluations
        .into_iter()
        .map(|(cluster, columns)| (cluster.to_owned(), evaluation(columns)));
    Collector {
        spec: typed(spec),
        evaluations: evaluations.collect(),
    }
}

/// The collectors of the stored run, with `available` as what `returned.status.availableReplicas` gave everywhere.
fn stored_collectors(available: &Outcome) -> BTreeMap<String, Collector> {
    let sum: StatusCollector = stored("statuscollector.yaml");
    let sum = collector(
        json!(sum.spec),
        ["dev1", "dev2"].map(|cluster| (cluster, vec![available.clone()])),
    );
    let select = json!({"limit": 20, "select": [
        {"name": "wec", "def": "inventory.name"}, {"name": "available", "def": "returned.status.availableReplicas"},
    ]});
    let rows = ["dev1", "dev2"].map(|cluster| (cluster, vec![value(text(cluster)), available.clone()]));
    [
        ("deployments-aggregator".to_owned(), sum),
        ("per-cluster".to_owned(), collector(select, rows)),
    ]
    .into()
}

fn decide_as_stored(collectors: &BTreeMap<String, Collector>, existing: &[CombinedStatus]) -> Plan {
    let object = WorkloadObject {
        uid: "452a4cef-2f19-4761-b935-2bfceeac62fa".to_owned(),
        group: "apps".to_owned(),
        version: "v1".to_owned(),
        kind: "Deployment".to_owned(),
        resource: "deployments".to_owned(),
        namespace: Some("default".to_owned()),
        name: "nginx0".to_owned(),
    };
    let binding: Binding = stored("binding.yaml");
    decide(&Facts {
        object: &object,
        binding: Some(&binding),
        collectors,
        existing,
        report_namespace_exists: false,
    })
}

#[test]
fn the_combined_statuses_are_the_ones_that_kubestellar_wrote() {
    let nothing = Outcome::Error("no such key: availableReplicas".to_owned());
    for (file, available) in [
        ("combinedstatus.yaml", value(Computed::Int(1))),
        ("combinedstatus-no-workstatus.yaml", nothing),
    ] {
        let theirs: CombinedStatus = stored(file);
        let collectors = stored_collectors(&available);
        let plan = decide_as_stored(&collectors, &[]);
        let [Write::Create(ours)] = plan.writes.as_slice() else {
            panic!("{file}: {plan:?}")
        };
        assert_eq!(ours.results, theirs.results, "{file}");
        assert_eq!(ours.metadata.labels, theirs.metadata.labels, "{file}");
        assert_eq!(
            ours.metadata.owner_references, theirs.metadata.owner_references,
            "{file}"
        );
        let place = |combined: &CombinedStatus| (combined.metadata.name.clone(), combined.metadata.namespace.clone());
        assert_eq!(place(ours), place(&theirs), "{file}");
        assert_eq!(
            decide_as_stored(&collectors, &[theirs]),
            Plan::default(),
            "{file}: written once is enough"
        );
    }
}

#[test]
fn what_is_not_evaluated_is_asked_for_and_counts_as_an_error_until_then() {
    let mut collectors = stored_collectors(&value(Computed::Int(1)));
    collectors.get_mut("per-cluster").unwrap().evaluations.remove("dev2");
    let object = object_of(&serde_saphyr::from_str("{why: '', writes: []}").unwrap());
    let mut binding: Binding = stored("binding.yaml");
    let bound = &mut binding.spec.workload.namespace_scope[0];
    (bound.namespace, bound.name) = (object.namespace.clone(), object.name.clone());
    let facts = Facts {
        object: &object,
        binding: Some(&binding),
        collectors: &collectors,
        existing: &[],
        report_namespace_exists: false,
    };
    let asked = questions(&facts);
    let [question] = asked.as_slice() else {
        panic!("{asked:?}")
    };
    assert_eq!(
        (question.collector, question.cluster, question.filter),
        ("per-cluster", "dev2", None)
    );
    assert_eq!(
        question.columns,
        [
            ("wec", "inventory.name"),
            ("available", "returned.status.availableReplicas")
        ]
    );
    let plan = decide(&facts);
    let [Write::Create(combined)] = plan.writes.as_slice() else {
        panic!("{plan:?}")
    };
    let cells = &combined.results[1].rows[1].columns;
    assert!(
        cells
            .iter()
            .all(|cell| cell.string.as_deref() == Some("failed to evaluate expression: not evaluated"))
    );
    assert!(questions(&Facts { binding: None, ..facts }).is_empty());
}

#[test]
fn values_are_written_as_kubestellar_writes_them() {
    let time: Timestamp = "2026-11-21T07:03:25Z".parse().unwrap();
    let year_1: Timestamp = "0001-01-01T00:00:00Z".parse().unwrap();
    let table = [
        (text("x"), json!({"type": "String", "string": "x"})),
        (
            Computed::Type("int".to_owned()),
            json!({"type": "String", "string": "int"}),
        ),
        (Computed::Int(-7), json!({"type": "Number", "float": "-7"})),
        (
            Computed::Int(10_000_000),
            json!({"type": "Number", "float": "10000000"}),
        ),
        (
            Computed::Uint(u64::MAX),
            json!({"type": "Number", "float": "18446744073709551615"}),
        ),
        (
            Computed::Double(1_000_000.0),
            json!({"type": "Number", "float": "1e+06"}),
        ),
        (Computed::Bool(false), json!({"type": "Bool", "bool": false})),
        (
            Computed::Json(json!({"b": 1, "a": [2]})),
            json!({"type": "Object", "object": {"a": [2], "b": 1}}),
        ),
        (
            Computed::Json(json!([1, "2"])),
            json!({"type": "Object", "object": [1, "2"]}),
        ),
        (Computed::BuiltMap, json!({"type": "Null"})),
        (Computed::Null, json!({"type": "Object", "object": 0})),
        (
            Computed::Timestamp(time),
            json!({"type": "Object", "object": "2026-11-21T07:03:25Z"}),
        ),
        (
            Computed::Timestamp(year_1),
            json!({"type": "Object", "object": "0001-01-01T00:00:00Z"}),
        ),
        (
            Computed::Nanoseconds(90_000_000_000),
            json!({"type": "Object", "object": 90_000_000_000_i64}),
        ),
        (Computed::Bytes(b"".to_vec()), json!({"type": "Object", "object": ""})),
        (
            Computed::Bytes(b"M".to_vec()),
            json!({"type": "Object", "object": "TQ=="}),
        ),
        (
            Computed::Bytes(b"Ma".to_vec()),
            json!({"type": "Object", "object": "TWE="}),
        ),
        (
            Computed::Bytes(vec![0xfb, 0xff, 0xbf]),
            json!({"type": "Object", "object": "+/+/"}),
        ),
    ];
    for (computed, written) in table {
        assert_eq!(json!(cell(&computed)), written, "{computed:?}");
    }
}

#[test]
fn doubles_are_written_in_gos_shortest_form() {
    let table = [
        (0.0, "0"),
        (-0.0, "-0"),
        (2.0, "2"),
        (0.1, "0.1"),
        (-2.5, "-2.5"),
        (100_000.0, "100000"),
        (999_999.0, "999999"),
        (123_456.7, "123456.7"),
        (1_000_000.0, "1e+06"),
        (1_234_567.0, "1.234567e+06"),
        (-1e21, "-1e+21"),
        (1e100, "1e+100"),
        (0.0001, "0.0001"),
        (0.000_01, "1e-05"),
        (1.5e-7, "1.5e-07"),
        (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
        (f64::NAN, "NaN"),
        (f64::INFINITY, "+Inf"),
        (f64::NEG_INFINITY, "-Inf"),
    ];
    for (value, written) in table {
        assert_eq!(go_float(value), written);
    }
}

#[test]
fn only_false_and_null_spare_the_columns() {
    assert!(!keeps_row(&value(Computed::Bool(false))) && !keeps_row(&value(Computed::Null)));
    assert!(keeps_row(&value(Computed::Bool(true))) && keeps_row(&value(Computed::Int(0))));
    assert!(keeps_row(&Outcome::Error("no such key".to_owned())));
}

#[test]
fn collectors_are_refused_as_kubestellar_refuses_them() {
    let field = |aggregation: &str, subject: Value| json!({"name": "f", "type": aggregation, "subject": subject});
    let column = json!([{"name": "c", "def": "1"}]);
    let table = [
        (json!({"limit": 1}), vec![]),
        (json!({"select": column}), vec![]),
        (json!({"combinedFields": [field("COUNT", Value::Null)]}), vec![]),
        (json!({"combinedFields": [field("MEDIAN", json!("1"))]}), vec![]),
        (
            json!({"groupBy": column, "combinedFields": [field("SUM", json!("1"))]}),
            vec![],
        ),
        (
            json!({"select": column, "combinedFields": [field("COUNT", Value::Null)]}),
            vec!["select goes neither with groupBy nor with combinedFields"],
        ),
        (
            json!({"select": column, "groupBy": column}),
            vec![
                "select goes neither with groupBy nor with combinedFields",
                "groupBy needs combinedFields",
            ],
        ),
        (json!({"groupBy": column}), vec!["groupBy needs combinedFields"]),
        (
            json!({"combinedFields": [field("COUNT", json!("1"))]}),
            vec!["combined field \"f\": COUNT takes no subject"],
        ),
        (
            json!({"combinedFields": [field("MAX", Value::Null)]}),
            vec!["combined field \"f\": MAX needs a subject"],
        ),
    ];
    for (spec, errors) in table {
        assert_eq!(collector_errors(&typed(spec.clone()), &[]), errors, "{spec}");
    }
}

#[test]
fn what_does_not_compile_is_refused_with_its_place() {
    let spec: StatusCollectorSpec = typed(json!({
        "filter": "a", "groupBy": [{"name": "g", "def": "b"}],
        "combinedFields": [{"name": "n", "type": "COUNT"}, {"name": "s", "type": "SUM", "subject": "c"}],
    }));
    let places: Vec<_> = expressions(&spec)
        .map(|expression| (expression.place, expression.text))
        .collect();
    assert_eq!(
        places,
        [
            (ExpressionPlace::Filter, "a"),
            (ExpressionPlace::Column("g"), "b"),
            (ExpressionPlace::Column("s"), "c")
        ]
    );
    let problem = |place| CompileProblem {
        place,
        message: "line 1, column 1: unknown variable".to_owned(),
    };
    let errors = collector_errors(
        &spec,
        &[problem(ExpressionPlace::Filter), problem(ExpressionPlace::Column("s"))],
    );
    assert_eq!(
        errors,
        [
            "filter: line 1, column 1: unknown variable",
            "column \"s\": line 1, column 1: unknown variable"
        ]
    );
}

#[test]
fn a_collectors_status_is_written_once() {
    let mut collector: StatusCollector = stored("statuscollector.yaml");
    let errors = vec!["groupBy needs combinedFields".to_owned()];
    let Some(Write::CollectorStatus {
        name,
        precondition,
        status,
    }) = collector_status(&collector, errors.clone())
    else {
        panic!("nothing is written")
    };
    assert_eq!(
        (name.as_str(), precondition.resource_version.as_str()),
        ("deployments-aggregator", "280")
    );
    assert_eq!((status.observed_generation, &status.errors), (1, &errors));
    collector.status = Some(status);
    assert_eq!(collector_status(&collector, errors), None);
}
