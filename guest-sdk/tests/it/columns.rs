//! A column is read as one type, and whatever is missing is an error that names it.

use std::time::{Duration, UNIX_EPOCH};

use stagegate_guest::bindings::stagegate::gate::types::{self, ColumnData, Reported};
use stagegate_guest::{Error, Gate, Health, Request, Verdict};

use crate::request;

fn table(columns: &str, rows: &str) -> Request {
    request(&format!(
        "- object: shop/web\n  collectors: {{health: {{columns: {columns}, rows: {rows}}}}}\n"
    ))
}

fn error<T>(result: Result<T, Error>) -> String {
    result.err().unwrap().to_string()
}

#[test]
fn columns_are_read_as_what_they_hold() {
    let request = table("[n, d, b, t, m]", r#"[[1, 1.5, true, x, 1], [-2, 2, false, "", 2.5]]"#);
    let object = &request.objects[0];
    assert_eq!(*object.column("health", "n").unwrap().integers().unwrap(), [1, -2]);
    assert_eq!(*object.column("health", "n").unwrap().numbers().unwrap(), [1.0, -2.0]);
    assert_eq!(*object.column("health", "d").unwrap().numbers().unwrap(), [1.5, 2.0]);
    assert_eq!(
        *object.column("health", "b").unwrap().booleans().unwrap(),
        [true, false]
    );
    assert_eq!(*object.column("health", "t").unwrap().texts().unwrap(), ["x", ""]);
    assert_eq!(*object.column("health", "m").unwrap().numbers().unwrap(), [1.0, 2.5]);
}

#[test]
fn cells_of_mixed_columns_are_read_one_by_one() {
    let request = table("[m, j]", r#"[[1, {a: 1}], ["x", [2]]]"#);
    let object = &request.objects[0];
    let of = |column| object.column("health", column).unwrap();
    assert_eq!(
        error(of("m").numbers()),
        "column `m` of collector `health` for deployments shop/web holds no number in row 1"
    );
    assert_eq!(
        error(of("m").texts()),
        "column `m` of collector `health` for deployments shop/web holds no text in row 0"
    );
    assert_eq!(
        error(of("j").texts()),
        "column `j` of collector `health` for deployments shop/web holds no text in row 0"
    );
}

#[test]
fn what_is_missing_is_an_error_and_no_default() {
    let request = table("[n]", "[[1], [null]]");
    let object = &request.objects[0];
    assert_eq!(
        error(object.column("halth", "n")),
        "there is no collector `halth` for deployments shop/web"
    );
    assert_eq!(
        error(object.column("health", "m")),
        "collector `health` has no column `m` for deployments shop/web"
    );
    let column = object.column("health", "n").unwrap();
    assert_eq!(
        error(column.numbers()),
        "column `n` of collector `health` for deployments shop/web has no value in row 1"
    );
    assert!(column.texts().is_err() && column.booleans().is_err());
}

#[test]
fn a_host_that_contradicts_itself_is_an_error_and_no_panic() {
    let mut request = table("[t, n]", "[[x, 1], [y, 2]]");
    let results = &mut request.objects[0].combined_status.results[0];
    let ColumnData::Texts(arena) = &mut results.columns[0].data else {
        panic!("texts")
    };
    arena.ends = vec![9, 2];
    results.columns[1].data = ColumnData::Integers(vec![1]);
    let object = &request.objects[0];
    assert!(error(object.column("health", "t").unwrap().texts()).contains("holds no text in row 0"));
    assert!(error(object.column("health", "n")).contains("is not as long as its table"));
    for odd in [f64::NAN, f64::INFINITY] {
        request.objects[0].combined_status.results[0].columns[1].data = ColumnData::Decimals(vec![1.0, odd]);
        let numbers = request.objects[0].column("health", "n").unwrap().numbers();
        assert!(error(numbers).contains("holds no number in row 1"));
    }
}

/// What a host may say wrongly of one object.
type Wrong = fn(&mut types::Evidence);

#[test]
fn evidence_that_is_not_one_row_for_each_destination_is_an_error() {
    let wrong: [Wrong; 10] = [
        |evidence| evidence.reported.truncate(1),
        |evidence| evidence.reported_at_ms.push(0),
        |evidence| evidence.health.clear(),
        |evidence| evidence.generation.values.truncate(1),
        |evidence| evidence.ready.values.push(1),
        |evidence| evidence.available.values.clear(),
        |evidence| evidence.total.values.truncate(1),
        |evidence| evidence.updated.values.push(0),
        // What is null could not be found.
        |evidence| evidence.available.nulls = vec![1, 0],
        |evidence| {
            *evidence = types::Evidence {
                reported: vec![Reported::WithStatus; 3],
                ..evidence.clone()
            }
        },
    ];
    for (index, make_wrong) in wrong.into_iter().enumerate() {
        let mut request = request("- object: shop/web\n- object: shop/other\n");
        assert!(request.evidence().is_ok());
        make_wrong(&mut request.objects[1].evidence);
        assert_eq!(
            error(request.evidence().map(drop)),
            "the evidence about deployments shop/other does not have one row for each destination",
            "{index}"
        );
    }
}

#[test]
fn names_that_are_no_texts_are_an_error_and_no_destinations_less() {
    for ends in [vec![1, 3], vec![2, 1], vec![9, 9]] {
        let mut request = request("- object: shop/web\n");
        request.destinations.names.ends = ends;
        assert!(error(request.evidence().map(drop)).contains("one row for each destination"));
        let judged = stagegate_guest::evaluate::<Careless>(&request);
        assert_eq!(error(judged), "the names of the destinations cannot be told apart");
    }
    assert!(stagegate_guest::evaluate::<Careless>(&request("- object: shop/web\n")).is_ok());
}

/// Looks at no destination that it does not get.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Careless {}

impl Gate for Careless {
    const NAME: &'static str = "careless";
    const VERSION: &'static str = "0.0.0";
    const SUMMARY: &'static str = "Looks at what there is";

    fn evaluate(&self, request: &Request) -> Result<Verdict, Error> {
        Ok(Verdict::pass().evidence("clusters", request.destinations.iter().count()))
    }
}

#[test]
fn values_go_to_the_clusters_that_their_rows_name() {
    for rows in ["[[a, 1], [b, 2]]", "[[b, 2], [a, 1]]"] {
        let request = table("[cluster, n]", rows);
        let values = request.objects[0].column("health", "n").unwrap().integers().unwrap();
        assert_eq!(
            values.per_cluster("cluster", &request).unwrap(),
            [("a", 1), ("b", 2)],
            "{rows}"
        );
    }
}

#[test]
fn every_cluster_has_exactly_one_row() {
    let wrong = [
        ("[[a, 1]]", "has no row of b"),
        ("[[a, 1], [a, 2]]", "names the cluster a twice"),
        (
            "[[a, 1], [b, 2], [c, 3]]",
            "names c, which is no destination of the stage",
        ),
        ("[[a, 1], [null, 2]]", "has no value in row 1"),
        ("[[1, 1], [2, 2]]", "holds no text in row 0"),
    ];
    for (rows, message) in wrong {
        let request = table("[cluster, n]", rows);
        let values = request.objects[0].column("health", "n").unwrap().integers().unwrap();
        let said = error(values.per_cluster("cluster", &request));
        assert_eq!(
            said,
            format!("column `cluster` of collector `health` for deployments shop/web {message}"),
            "{rows}"
        );
    }
}

#[test]
fn evidence_is_there_for_every_object_in_every_cluster_or_not_at_all() {
    let objects = "- object: shop/web\n  evidence: {a: {available: 1, ready: 2}}\n- object: quiet\n  kind: namespaces\n  evidence: {a: withoutStatus}\n";
    let mut request = request(objects);
    let rows: Vec<_> = request
        .evidence()
        .unwrap()
        .map(|row| (row.object.name.clone(), row.cluster().to_owned()))
        .collect();
    let expected = [("web", "a"), ("web", "b"), ("quiet", "a"), ("quiet", "b")];
    assert_eq!(
        rows,
        expected.map(|(object, cluster)| (object.to_owned(), cluster.to_owned()))
    );
    let first = request.evidence().unwrap().next().unwrap();
    assert_eq!((first.available().unwrap(), first.ready().unwrap()), (1, 2));
    let third = request.evidence().unwrap().nth(2).unwrap();
    assert_eq!(
        error(third.available()),
        "a reports no available replicas of namespaces quiet"
    );
    request.objects[0].evidence.reported[1] = Reported::Never;
    assert_eq!(
        error(request.evidence().map(drop)),
        "b has never reported on deployments shop/web"
    );
    request.objects.clear();
    assert!(error(request.evidence().map(drop)).contains("nothing to evaluate"));
}

#[test]
fn what_the_host_knows_of_a_cluster_is_read_by_name() {
    let objects = "- object: shop/web\n  evidence:\n    \
                   a: {generation: 7, ready: 1, available: 2, total: 3, updated: 4, health: progressing}\n    \
                   b: {total: 0, health: failed}\n\
                   - object: quiet\n  kind: namespaces\n  evidence: {a: withoutStatus}\n";
    let request = request(objects);
    let rows: Vec<_> = request.evidence().unwrap().collect();
    let all = |at: usize| {
        let row = rows[at];
        [
            row.generation(),
            row.ready(),
            row.available(),
            row.total(),
            row.updated(),
        ]
        .map(Result::ok)
    };
    assert_eq!(all(0), [Some(7), Some(1), Some(2), Some(3), Some(4)]);
    assert_eq!(all(1), [Some(1), None, None, Some(0), None]);
    assert_eq!(all(2), [None; 5]);
    let health = [Health::Progressing, Health::Failed, Health::Healthy, Health::Healthy];
    assert_eq!(rows.iter().map(|row| row.health()).collect::<Vec<_>>(), health);
    assert_eq!(
        rows.iter().map(|row| row.is_healthy()).collect::<Vec<_>>(),
        [false, false, true, true]
    );
    let reported_at = UNIX_EPOCH + Duration::from_millis(request.now_ms - 60_000);
    assert_eq!(
        (rows[1].reported_at(), rows[2].reported_at()),
        (Some(reported_at), None)
    );
    assert_eq!(
        error(rows[1].updated()),
        "b reports no updated replicas of deployments shop/web"
    );
    assert_eq!(
        error(rows[2].total()),
        "a reports no number of replicas of namespaces quiet"
    );
}

#[test]
fn destinations_are_gone_through_like_a_list() {
    let request = request("- object: shop/web\n");
    let mut names = Vec::new();
    for destination in &request.destinations {
        names.push(destination.name);
    }
    assert_eq!(names, ["a", "b"]);
    assert_eq!(
        (request.destinations.len(), request.destinations.is_empty()),
        (2, false)
    );
    assert_eq!(
        request.destinations.get(1).map(|destination| destination.name),
        Some("b")
    );
    assert!(request.destinations.get(2).is_none());
}

#[test]
fn each_cluster_has_its_own_labels_and_those_that_nobody_could_read_are_not_absent() {
    let case = "why: test\nnow: 2026-11-20T09:00:00Z\nexpect: {outcome: pass}\n\
                clusters: [{name: a, labels: {env: dev, zone: x}}, {name: b, labels: {}}, c, {name: d, labels: {env: \"\"}}]";
    let case: stagegate_guest::harness::Case = case.parse().unwrap();
    let mut request = case.request().unwrap();
    let label = |request: &Request, at: usize, name: &str| {
        let destination = request.destinations.get(at).unwrap();
        destination.label(name).map(|value| value.map(str::to_owned))
    };
    let value = |at, name| label(&request, at, name).unwrap();
    assert_eq!(
        (
            value(0, "env").as_deref(),
            value(0, "zone").as_deref(),
            value(0, "tier")
        ),
        (Some("dev"), Some("x"), None)
    );
    assert_eq!((value(1, "env"), value(3, "env").as_deref()), (None, Some("")));
    assert_eq!(
        error(label(&request, 2, "env")),
        "the labels of c are unknown: the host cannot read them"
    );
    let odd: [fn(&mut types::Labels); 3] = [
        |labels| labels.ends.truncate(3),
        |labels| labels.ends = vec![9; 4],
        |labels| labels.ends = vec![2, 2, 2, 1],
    ];
    for make_odd in odd {
        let mut request = request.clone();
        make_odd(request.destinations.labels.as_mut().unwrap());
        assert_eq!(
            error(label(&request, 3, "env")),
            "the labels of d are unknown: the host contradicts itself"
        );
    }
    request.destinations.labels = None;
    assert_eq!(
        error(label(&request, 0, "env")),
        "the labels of a are unknown: the host does not read the inventory"
    );
}
