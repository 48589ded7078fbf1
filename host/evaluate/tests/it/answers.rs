//! Every line of `tests/data/answers.json`: an expression over the sample Deployment and the JSON of its answer.

use crate::{deployment, eval};
use serde_json::Value;

#[test]
fn every_expression_of_the_table_has_its_answer() {
    let table: Vec<(String, String, Value)> =
        serde_json::from_str(include_str!("../data/answers.json")).expect("the table is a list of triples");
    assert!(table.len() > 60);
    let mut wrong = Vec::new();
    for (text, kind, expected) in table {
        match eval(&text, &deployment()) {
            Ok(answer) if answer.kind() == kind && answer.to_json() == expected => (),
            Ok(answer) => wrong.push(format!("{text}: {} {}", answer.kind(), answer.to_json())),
            Err(error) => wrong.push(format!("{text}: {:?} {error}", error.kind)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
