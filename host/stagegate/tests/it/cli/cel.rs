//! `stagegate cel` over a table of expressions: `tests/cel.yaml`.

use serde::Deserialize;
use serde_json::Value;

use super::{stagegate, stagegate_reading, tests, text};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    why: String,
    expression: String,
    root: Option<String>,
    with: Value,
    /// Of `-o json`, without the fuel.
    answer: Value,
    code: i32,
}

#[test]
fn every_expression_of_the_table_has_its_answer_and_exit_code() {
    let table = std::fs::read_to_string(tests("cel.yaml")).expect("the table is in the repository");
    let cases: Vec<Case> = serde_saphyr::from_str(&table).expect("the table is well formed");
    let file = std::env::temp_dir().join(format!("stagegate-test-{}-cel.json", std::process::id()));
    let path = file.display().to_string();
    for case in cases {
        std::fs::write(&file, case.with.to_string()).expect("the temporary directory is writable");
        let mut arguments = vec!["cel", &case.expression, "--with", &path, "-o", "json"];
        if let Some(root) = &case.root {
            arguments.extend(["--root", root]);
        }
        let ended = stagegate(&arguments);
        let why = format!("{}\n{}\n{}", case.why, text(&ended.stdout), text(&ended.stderr));
        assert_eq!(ended.status.code(), Some(case.code), "{why}");
        let mut answer: Value = serde_json::from_slice(&ended.stdout).unwrap_or(Value::Null);
        let fuel = answer.as_object_mut().and_then(|answer| answer.remove("fuel"));
        assert_eq!(
            fuel.is_some_and(|fuel| fuel.is_u64()),
            case.answer.get("value").is_some(),
            "{why}"
        );
        assert_eq!(answer, case.answer, "{why}");
    }
    drop(std::fs::remove_file(file));
}

#[test]
fn text_output_of_what_is_false_says_why_on_standard_error() {
    let object = std::env::temp_dir().join(format!("stagegate-test-{}-false.yaml", std::process::id()));
    std::fs::write(&object, "replicas: 1\n").expect("the temporary directory is writable");
    let ended = stagegate(&["cel", "obj.replicas >= 2", "--with", &object.display().to_string()]);
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(text(&ended.stdout), "false\n");
    assert_eq!(text(&ended.stderr), "`obj.replicas >= 2` is false, it is 1\n");
    drop(std::fs::remove_file(object));
}

#[test]
fn an_expression_may_come_from_a_file_and_text_output_is_the_value_alone() {
    let directory = std::env::temp_dir();
    let expression = directory.join(format!("stagegate-test-{}.cel", std::process::id()));
    let object = directory.join(format!("stagegate-test-{}.yaml", std::process::id()));
    std::fs::write(&expression, "obj.name + '!'\n").expect("the temporary directory is writable");
    std::fs::write(&object, "name: nginx\n").expect("the temporary directory is writable");
    let ended = stagegate(&[
        "cel",
        "-f",
        &expression.display().to_string(),
        "--with",
        &object.display().to_string(),
    ]);
    assert_eq!(
        (ended.status.code(), text(&ended.stdout)),
        (Some(0), "\"nginx!\"\n".to_owned())
    );
    drop(std::fs::remove_file(expression));
    drop(std::fs::remove_file(object));
}

/// A file that is removed at the end.
struct File(std::path::PathBuf);

impl File {
    fn with(name: &str, content: &str) -> Self {
        let path = std::env::temp_dir().join(format!("stagegate-test-{}-cel-{name}", std::process::id()));
        std::fs::write(&path, content).expect("the temporary directory is writable");
        Self(path)
    }

    fn path(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

#[test]
fn a_file_has_an_expression_a_line_and_places_count_in_the_file() {
    let expressions = File::with(
        "lines",
        "// comment\n\nobj.a == 1\n  // comment\nobj.a = 1\nobj.a + 1\n",
    );
    let object = File::with("object.yaml", "a: 1\n");
    let ended = stagegate(&["cel", "-f", &expressions.path(), "--with", &object.path()]);
    assert_eq!(ended.status.code(), Some(1), "one of them is refused");
    assert_eq!(text(&ended.stdout), "true\n2\n");
    assert_eq!(
        text(&ended.stderr),
        "error: line 5, column 7: `=` is not an operator: write `==`\n  obj.a = 1\n        ^\n"
    );
    let ended = stagegate(&["cel", "-f", &expressions.path(), "--with", &object.path(), "-o", "json"]);
    let answers = text(&ended.stdout);
    let second = answers.lines().nth(1).map(serde_json::from_str::<Value>);
    let refused = second.expect("three answers").expect("a line is JSON");
    let place = (&refused["error"]["line"], &refused["error"]["column"]);
    assert_eq!(place, (&5.into(), &7.into()), "{refused}");
}

#[test]
fn each_item_of_a_list_has_an_answer_of_its_own() {
    let list = "kind: List\nitems:\n- {metadata: {name: a, namespace: shop}, n: 1}\n- {metadata: {name: b}, n: 2}\n";
    let list = File::with("list.yaml", list);
    let ended = stagegate(&["cel", "obj.n == 1", "--with", &list.path(), "-o", "json"]);
    assert_eq!(ended.status.code(), Some(1));
    let answers: Vec<Value> = text(&ended.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect();
    let of = |index: usize| (answers[index]["item"].clone(), answers[index]["value"].clone());
    assert_eq!(of(0), ("shop/a".into(), true.into()));
    assert_eq!(of(1), ("b".into(), false.into()));
    let ended = stagegate(&["cel", "obj.n", "--with", &list.path()]);
    assert_eq!(text(&ended.stdout), "shop/a: 1\nb: 2\n");
    let none = File::with("none.yaml", "kind: List\nitems: []\n");
    assert_eq!(
        stagegate(&["cel", "true", "--with", &none.path()]).status.code(),
        Some(2)
    );
}

#[test]
fn the_object_may_come_from_standard_input() {
    let ended = stagegate_reading(&["cel", "obj.a", "--with", "-"], "a: 7\n");
    assert_eq!((ended.status.code(), text(&ended.stdout)), (Some(0), "7\n".to_owned()));
}

const REPORTED_NOTHING: &str = "metadata: {name: web, labels: {status.kubestellar.io/api-group: apps, \
     status.kubestellar.io/resource: deployments, status.kubestellar.io/name: web}}
  results:
  - name: stagegate-evidence-01234567
    columnNames: [cluster, at, gen, ready, available, desired, total, updated, phase, conditions]
    rows: []
";

#[test]
fn an_item_has_the_kind_of_its_list_unless_it_has_one() {
    let list = |kind: &str| format!("kind: {kind}\nitems:\n- {REPORTED_NOTHING}");
    let ended = stagegate_reading(
        &["cel", "obj.metadata.name == 'web'", "--with", "-"],
        &list("CombinedStatusList"),
    );
    assert_eq!(
        (ended.status.code(), text(&ended.stderr)),
        (
            Some(1),
            "error: web: the controller would not evaluate this CombinedStatus: the evidence about deployments.apps web has no row \
             for any cluster\n"
                .to_owned()
        )
    );
    for (kind, said) in [("List", "has no kind"), ("OtherList", "has the kind \"Other\"")] {
        let ended = stagegate_reading(&["cel", "obj.metadata.name == 'web'", "--with", "-"], &list(kind));
        assert_eq!(
            (ended.status.code(), text(&ended.stdout)),
            (Some(0), "web: true\n".to_owned())
        );
        let note = format!(
            "note: web: the object {said}, so it was not taken as a CombinedStatus, and cel cannot tell whether"
        );
        assert!(text(&ended.stderr).starts_with(&note), "{}", text(&ended.stderr));
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    let list = "kind: CombinedStatusList\nitems:\n- {metadata: {name: a}}\n- {metadata: {name: b}, results: 7}\n";
    let ended = stagegate_reading(&["cel", "true", "--with", "-"], list);
    assert_eq!(ended.status.code(), Some(2));
    let said = text(&ended.stderr);
    assert!(
        said.contains("reading items[1] of standard input as a CombinedStatus: "),
        "{said}"
    );
    let ended = stagegate_reading(&["cel", "true", "--root", "returned", "--with", "-"], "[1]\n");
    assert_eq!(ended.status.code(), Some(2));
    let said = text(&ended.stderr);
    assert!(
        said.contains("reading standard input: a map is needed, with members of inventory, "),
        "{said}"
    );
}
