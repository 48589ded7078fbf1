//! Every line of `tests/data/functions.json`, a table for each library: an expression and `true`, or the error that it ends with.

use crate::deployment;
use serde::Deserialize;
use stagegate_evaluate::{Answer, Budget, CompileError, Compiled, Library, Shape, Value, compile_shaped};
use std::collections::BTreeMap;

/// Compiles `text` over the variable `obj`, of which nothing is known, with all functions.
pub(crate) fn compile(text: &str) -> Result<Compiled, CompileError> {
    compile_shaped(text, vec![("obj".to_owned(), Shape::Any)], Library::Extended)
}

/// What is to come of an expression.
#[derive(Deserialize)]
#[serde(untagged)]
enum Due {
    /// The answer is `true`.
    Truth(bool),
    /// It is refused, or fails, with this message.
    Error(String),
}

#[test]
fn every_function_answers_as_the_table_says() {
    let tables: BTreeMap<String, Vec<(String, Due)>> = serde_json::from_str(include_str!("../data/functions.json"))
        .expect("the table is a list of pairs for each library");
    assert!(tables.len() > 10 && tables.values().flatten().count() > 300);
    let obj = Value::from(&deployment());
    let mut wrong = Vec::new();
    for (library, table) in &tables {
        for (text, due) in table {
            let outcome = compile(text).map_err(|error| error.to_string()).and_then(|compiled| {
                let answer = compiled.eval(&[("obj", obj.clone())], Budget::default());
                answer.map_err(|error| error.to_string())
            });
            let is_right = match (&outcome, due) {
                (Ok(answer), Due::Truth(truth)) => *answer == Answer::Bool(*truth),
                (Err(said), Due::Error(message)) => said == message,
                _ => false,
            };
            if !is_right {
                wrong.push(format!("{library}: {text}: {outcome:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// KubeStellar evaluates the expressions of StatusCollectors, too, and has none of these.
#[test]
fn the_standard_library_has_none_of_these_functions() {
    let tables: BTreeMap<String, Vec<(String, Due)>> = serde_json::from_str(include_str!("../data/functions.json"))
        .expect("the table is a list of pairs for each library");
    let texts = tables.values().flatten().map(|(text, _)| text);
    for text in texts {
        let compiled = stagegate_evaluate::compile(text, &["obj"]);
        let Ok(compiled) = compiled else { continue };
        let error = compiled.eval(&[("obj", Value::from(&deployment()))], Budget::default());
        error.expect_err(text);
    }
}
