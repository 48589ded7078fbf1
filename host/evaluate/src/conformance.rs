//! The conformance tests of the language (`tests/data/cel-conformance.json`): the guards may change no answer.
//!
//! Of google/cel-spec `tests/simple/testdata` at 508bd98 (Apache-2.0), converted to JSON, all tests that need no protobuf message and check
//! more than a deduced type. A wanted `null` means that an error is due, from the check or from the evaluation. What does not pass is
//! listed in `tests/data/cel-failures.json`, with the reason.
//!
//! Some tests are about expressions that were not checked, or about variables that have dots in their names or stand in a container. No
//! caller of this crate can have either, so these tests are not checked, and everything else is done as always.

use crate::compile::unchecked;
use crate::{Answer, Budget, Compiled, Library, Shape, Value, compile_shaped};
use base64::Engine;
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Deserialize)]
struct Test {
    name: String,
    expr: String,
    #[serde(default)]
    bindings: BTreeMap<String, Tagged>,
    #[serde(default)]
    container: String,
    #[serde(default)]
    unchecked: bool,
    want: Option<Tagged>,
}

/// A value with the name of its type.
#[derive(Deserialize)]
struct Tagged {
    t: String,
    #[serde(default)]
    v: Json,
}

/// Tests that do not pass, for one reason.
#[derive(Deserialize)]
struct Failures {
    #[expect(dead_code, reason = "for whoever reads the list")]
    reason: String,
    tests: Vec<String>,
}

fn tests() -> Vec<Test> {
    serde_json::from_str(include_str!("../tests/data/cel-conformance.json")).expect("the fixture is a list of tests")
}

fn listed_failures() -> BTreeSet<String> {
    let listed: Vec<Failures> =
        serde_json::from_str(include_str!("../tests/data/cel-failures.json")).expect("the list is one of reasons");
    listed.into_iter().flat_map(|failures| failures.tests).collect()
}

/// What came of a test.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Right,
    /// A value is due.
    Error(String),
    /// Another value or an error is due.
    WrongValue(String),
}

#[test]
fn the_language_is_the_one_of_its_conformance_tests() {
    let tests = tests();
    let listed = listed_failures();
    assert_eq!((tests.len(), listed.len()), (1728, 33));
    let mut wrong = Vec::new();
    let mut failed = BTreeSet::new();
    for test in &tests {
        match outcome(test, Library::Extended) {
            Outcome::Right => {}
            Outcome::Error(_) if listed.contains(&test.name) => drop(failed.insert(test.name.clone())),
            other => wrong.push(format!("{}: {}: {other:?}", test.name, test.expr)),
        }
    }
    let passed: Vec<_> = listed
        .difference(&failed)
        .map(|name| format!("{name}: listed, and passes"))
        .collect();
    wrong.extend(passed);
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_the_standard_library_does_not_have_is_an_error_and_never_another_value() {
    let tests = tests();
    let mut right = 0;
    let mut wrong = Vec::new();
    for test in &tests {
        match outcome(test, Library::Standard) {
            Outcome::Right => right += 1,
            Outcome::Error(_) => {}
            other => wrong.push(format!("{}: {}: {other:?}", test.name, test.expr)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(right, 1405);
}

fn outcome(test: &Test, library: Library) -> Outcome {
    match (&test.want, evaluate(test, library)) {
        (None, Err(_)) => Outcome::Right,
        (Some(want), Ok(answer)) if is(&answer, want) => Outcome::Right,
        (_, Ok(answer)) => Outcome::WrongValue(format!("{answer:?}")),
        (Some(_), Err(error)) => Outcome::Error(error),
    }
}

fn compiled(test: &Test, library: Library) -> Result<Compiled, String> {
    let is_unchecked =
        test.unchecked || !test.container.is_empty() || test.bindings.keys().any(|name| name.contains('.'));
    let compiled = if is_unchecked {
        unchecked(&test.expr, &test.container, library)
    } else {
        let shapes = test.bindings.keys().map(|name| (name.clone(), Shape::Any));
        compile_shaped(&test.expr, shapes.collect(), library)
    };
    compiled.map_err(|error| error.to_string())
}

fn evaluate(test: &Test, library: Library) -> Result<Answer, String> {
    let compiled = compiled(test, library)?;
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
        "bytes" => Value::from_val(cel::common::types::CelBytes::from(bytes(text()))),
        "list" => Value::list(parts(&tagged.v).iter().map(value)),
        "map" => Value::map(
            pairs(&tagged.v)
                .iter()
                .map(|(key, part)| (key.v.as_str().expect("text").into(), value(part))),
        ),
        other => panic!("no binding of type {other} is expected"),
    }
}

fn bytes(text: &str) -> Vec<u8> {
    base64::engine::general_purpose::STANDARD.decode(text).expect("base 64")
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
