//! The conformance tests of the language (`tests/data/cel-conformance.json`): the guards may change no answer.
//!
//! Of google/cel-spec `tests/simple/testdata` at 508bd98 (Apache-2.0), converted to JSON, all tests but those that need
//! protobuf messages, a container, a variable with dots in its name or a library that is left out, that call an undeclared
//! name and want it ignored (it is refused here), or quote a field in backticks (off in the Go library, too). A wanted
//! `null` means that an error is due, from the check or from the evaluation.

use base64::Engine;
use serde::Deserialize;
use serde_json::Value as Json;
use stagegate_evaluate::{Answer, Budget, Value, compile};
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Test {
    name: String,
    expr: String,
    #[serde(default)]
    bindings: BTreeMap<String, Tagged>,
    want: Option<Tagged>,
}

/// A value with the name of its type.
#[derive(Deserialize)]
struct Tagged {
    t: String,
    #[serde(default)]
    v: Json,
}

#[test]
fn the_language_is_the_one_of_its_conformance_tests() {
    let tests: Vec<Test> =
        serde_json::from_str(include_str!("../data/cel-conformance.json")).expect("the fixture is a list of tests");
    assert!(tests.len() > 1200);
    let wrong: Vec<String> = tests.iter().filter_map(problem).collect();
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        tests.len(),
        wrong.join("\n")
    );
}

fn problem(test: &Test) -> Option<String> {
    let outcome = evaluate(test);
    let right = match (&test.want, &outcome) {
        (None, outcome) => outcome.is_err(),
        (Some(want), Ok(answer)) => is(answer, want),
        (Some(_), Err(_)) => false,
    };
    (!right).then(|| format!("{}: {} is {outcome:?}", test.name, test.expr))
}

fn evaluate(test: &Test) -> Result<Answer, String> {
    let names: Vec<&str> = test.bindings.keys().map(String::as_str).collect();
    let compiled = compile(&test.expr, &names).map_err(|error| error.to_string())?;
    let vars: Vec<(&str, Value)> = test
        .bindings
        .iter()
        .map(|(name, bound)| (name.as_str(), value(bound)))
        .collect();
    compiled
        .eval(
            &vars,
            Budget {
                deadline_ms: 10_000,
                ..Budget::default()
            },
        )
        .map_err(|error| error.to_string())
}

fn value(tagged: &Tagged) -> Value {
    let text = || tagged.v.as_str().expect("text");
    match tagged.t.as_str() {
        "null" => Value::null(),
        "bool" => Value::from(tagged.v.as_bool().expect("a truth value")),
        "int" => Value::from(text().parse::<i64>().expect("an int")),
        "uint" => Value::from(text().parse::<u64>().expect("a uint")),
        "double" => Value::from(text().parse::<f64>().expect("a double")),
        "string" => Value::from(text()),
        "list" => Value::list(parts(&tagged.v).iter().map(value)),
        "map" => Value::map(
            pairs(&tagged.v)
                .iter()
                .map(|(key, part)| (key.v.as_str().expect("text").into(), value(part))),
        ),
        other => panic!("no binding of type {other} is expected"),
    }
}

fn is(answer: &Answer, want: &Tagged) -> bool {
    let text = want.v.as_str().unwrap_or_default();
    if answer.kind() != want.t {
        return false;
    }
    match answer {
        Answer::Null => true,
        Answer::Bool(value) => want.v == *value,
        Answer::Int(value) => text == value.to_string(),
        Answer::Uint(value) => text == value.to_string(),
        Answer::Double(value) => {
            let wanted: f64 = text.parse().expect("a double");
            *value == wanted || value.is_nan() && wanted.is_nan()
        }
        Answer::String(value) | Answer::Type(value) => text == value,
        Answer::Bytes(value) => text == base64::engine::general_purpose::STANDARD.encode(value),
        Answer::List(items, _) => {
            let wanted = parts(&want.v);
            items.len() == wanted.len() && items.iter().zip(&wanted).all(|(item, want)| is(item, want))
        }
        Answer::Map(entries, _) => {
            let wanted = pairs(&want.v);
            let found = |(key, value): &(Tagged, Tagged)| entries.iter().any(|(k, v)| is(k, key) && is(v, value));
            entries.len() == wanted.len() && wanted.iter().all(found)
        }
        Answer::Timestamp { .. } | Answer::Duration { .. } | Answer::Other => panic!("no test wants a {}", want.t),
    }
}

fn parts(list: &Json) -> Vec<Tagged> {
    serde_json::from_value(list.clone()).expect("a list of values")
}

fn pairs(map: &Json) -> Vec<(Tagged, Tagged)> {
    serde_json::from_value(map.clone()).expect("a list of pairs")
}
