//! A column is read as one type, and whatever is missing is an error that names it.

use stagegate_guest::Request;
use stagegate_guest::bindings::stagegate::gate::types::{ColumnData, Reported};

use crate::request;

fn table(columns: &str, rows: &str) -> Request {
    request(&format!(
        "- object: shop/web\n  collectors: {{health: {{columns: {columns}, rows: {rows}}}}}\n"
    ))
}

fn error<T>(result: Result<T, stagegate_guest::Error>) -> String {
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
    request.destinations[1].evidence.clear();
    assert_eq!(
        error(request.evidence().map(drop)),
        "b does not have one row of evidence for each object"
    );
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
    request.destinations[1].evidence[0].reported = Reported::Never;
    assert_eq!(
        error(request.evidence().map(drop)),
        "b has never reported on deployments shop/web"
    );
    request.objects.clear();
    assert!(error(request.evidence().map(drop)).contains("nothing to judge"));
}

#[test]
fn labels_that_nobody_could_read_are_not_absent() {
    let mut request = request("- object: shop/web\n");
    request.destinations[0].labels = Some(vec![("env".to_owned(), "dev".to_owned())]);
    assert_eq!(request.destinations[0].label("env").unwrap(), Some("dev"));
    assert_eq!(request.destinations[0].label("tier").unwrap(), None);
    assert!(error(request.destinations[1].label("env")).contains("the labels of b are unknown"));
}
