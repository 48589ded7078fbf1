//! `stagegate cel` over a table of expressions: `tests/cel.yaml`.

use serde::Deserialize;
use serde_json::Value;

use super::{stagegate, tests, text};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    why: String,
    expression: String,
    root: Option<String>,
    with: Value,
    /// Of `-o json`.
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
        let answer: Value = serde_json::from_slice(&ended.stdout).unwrap_or(Value::Null);
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
