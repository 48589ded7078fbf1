//! What is refused, what fails, and that no message says more than it may.

use crate::{deployment, eval};
use serde_json::json;
use stagegate_evaluate::{Answer, Budget, EvalErrorKind, Library, Shape, Value, compile, compile_shaped};

#[test]
fn every_text_of_the_table_is_refused_with_its_message() {
    let table: Vec<(String, String)> =
        serde_json::from_str(include_str!("../data/refused.json")).expect("the table is a list of pairs");
    assert!(table.len() > 20);
    let mut wrong = Vec::new();
    for (text, expected) in table {
        match compile(&text, &["obj"]) {
            Ok(_) => wrong.push(format!("{text}: not refused")),
            Err(error) if error.to_string() == expected => (),
            Err(error) => wrong.push(format!("{text}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_expression_that_is_nested_too_deeply_is_refused_in_plain_words() {
    for (open, close) in [("(", ")"), ("[", "]"), ("obj.all(x, ", ")"), ("obj.map(i, x, ", ")")] {
        let text = format!("{}true{}", open.repeat(300), close.repeat(300));
        let error = crate::functions::compile(&text).expect_err("nested too deeply");
        assert_eq!(error.message, "the expression is nested too deeply", "{open}");
    }
}

#[test]
fn every_failure_of_the_table_has_its_kind_and_message() {
    let table: Vec<(String, String, String)> =
        serde_json::from_str(include_str!("../data/failures.json")).expect("the table is a list of triples");
    assert!(table.len() > 20);
    let mut wrong = Vec::new();
    for (text, kind, message) in table {
        match eval(&text, &deployment()) {
            Ok(answer) => wrong.push(format!("{text}: {}", answer.to_json())),
            Err(error) if kind_name(&error.kind) == kind && error.to_string() == message => (),
            Err(error) => wrong.push(format!("{text}: {} {error}", kind_name(&error.kind))),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn kind_name(kind: &EvalErrorKind) -> String {
    let debug = format!("{kind:?}");
    debug.split([' ', '{']).next().unwrap_or_default().to_owned()
}

#[test]
fn a_missing_key_is_named_only_if_the_expression_names_it() {
    let object = json!({"key": "s3cret", "map": {}});
    let named = eval("obj.map.availableReplicas", &object).expect_err("missing");
    assert_eq!(
        named.kind,
        EvalErrorKind::NoSuchKey {
            name: "availableReplicas".to_owned()
        }
    );
    assert_eq!(named.to_string(), "no such key: availableReplicas");
    let computed = eval("obj.map[obj.key]", &object).expect_err("missing");
    assert_eq!(
        computed.kind,
        EvalErrorKind::NoSuchKey {
            name: "(computed)".to_owned()
        }
    );
}

#[test]
fn no_message_repeats_a_value() {
    let marker = "bWFya2Vy";
    let secret = json!({
        "kind": "Secret",
        "data": {"password": marker, marker: marker, "list": [marker], "number": 4711},
        "zone": marker,
    });
    let table: Vec<String> = serde_json::from_str(include_str!("../data/leaks.json")).expect("the table is a list");
    assert!(table.len() > 20);
    for text in &table {
        let compiled = crate::functions::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let outcome = compiled.eval(&[("obj", Value::from(&secret))], Budget::default());
        let error = outcome.expect_err(text);
        for said in [error.to_string(), format!("{error:?}")] {
            assert!(!said.contains(marker) && !said.contains("4711"), "{text}: {said}");
        }
    }
    let value = Value::from(&secret);
    assert_eq!(format!("{value:?}"), "Value(map)");
}

#[test]
fn an_exhausted_budget_is_no_answer_however_the_expression_would_swallow_it() {
    let loops = "lists.range(100).all(a, lists.range(100).all(b, a >= 0 && b >= 0))";
    let budget = Budget {
        fuel: 5_000,
        deadline_ms: 60_000,
    };
    for text in [
        loops.to_owned(),
        format!("{loops} || true"),
        format!("true && ({loops} || true)"),
        format!("false && {loops} || {loops} || true"),
        format!("[1, 2].exists(x, x == 2 || {loops})"),
        format!("![1, 2].all(x, {loops} && x == 2)"),
        format!("{{'a': 1}}[?{loops} ? 'b' : 'c'].orValue(1) == 1"),
        format!("({loops} ? [1] : [2]).all(x, false) || true"),
    ] {
        let compiled = compile(&text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"));
        let error = compiled.eval(&[], budget).expect_err(&text);
        assert_eq!(error.kind, EvalErrorKind::BudgetExceeded, "{text}");
        let enough = Budget {
            fuel: 1_000_000,
            deadline_ms: 60_000,
        };
        assert!(
            compiled.eval(&[], enough).is_ok(),
            "{text}: with enough fuel there is an answer"
        );
    }
}

/// A price is a promise: what ran within a budget yesterday runs within it tomorrow.
#[test]
fn every_expression_of_the_table_has_its_price() {
    let table: Vec<(String, u64)> =
        serde_json::from_str(include_str!("../data/prices.json")).expect("the table is a list of pairs");
    assert!(table.len() > 20);
    let mut wrong = Vec::new();
    for (text, price) in table {
        let compiled = crate::functions::compile(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let obj = Value::from(&deployment());
        let within = |fuel| match compiled.eval(
            &[("obj", obj.clone())],
            Budget {
                fuel,
                deadline_ms: 60_000,
            },
        ) {
            Ok(_) => true,
            Err(error) if error.kind == EvalErrorKind::BudgetExceeded => false,
            Err(error) => panic!("{text}: {error}"),
        };
        if !within(price) || price > 0 && within(price - 1) {
            let enough = (0..100_000).find(|&fuel| within(fuel));
            wrong.push(format!("{text}: {enough:?} and not {price}"));
        }
        let (_, spent) = compiled
            .eval_metered(&[("obj", obj.clone())], Budget::default())
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(spent, price, "{text}: what was spent is what it costs");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_deadline_that_passes_is_no_answer() {
    let text = "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, true))) || true";
    let compiled = compile(text, &[]).expect("compiles");
    let started = std::time::Instant::now();
    let error = compiled
        .eval(
            &[],
            Budget {
                fuel: u64::MAX,
                deadline_ms: 50,
            },
        )
        .expect_err("a billion steps");
    assert_eq!(error.kind, EvalErrorKind::DeadlineExceeded);
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
}

#[test]
fn one_evaluation_leaves_nothing_of_its_budget_to_the_next() {
    let compiled = compile("lists.range(900).size() == 900", &[]).expect("compiles");
    let tight = Budget {
        fuel: 2_000,
        deadline_ms: 60_000,
    };
    for _ in 0..10 {
        assert_eq!(compiled.eval(&[], tight), Ok(Answer::Bool(true)));
    }
    assert!(compiled.eval(&[], Budget { fuel: 1_500, ..tight }).is_err());
    assert_eq!(compiled.eval(&[], tight), Ok(Answer::Bool(true)));
}

/// What is read is not there, which is not the same as empty: only what the standard lets absorb an error gives a value.
#[test]
fn a_variable_that_was_not_given_is_an_error_wherever_it_is_read() {
    let given = [("other", Value::from(&json!({"a": 1})))];
    let outcome = |text: &str| {
        let variables = ["obj", "other"].map(|name| (name.to_owned(), Shape::Any)).into();
        let compiled =
            compile_shaped(text, variables, Library::Extended).unwrap_or_else(|error| panic!("{text}: {error}"));
        compiled.eval(&given, Budget::default())
    };
    let table: Vec<String> =
        serde_json::from_str(include_str!("../data/not-given.json")).expect("the table is a list of texts");
    assert!(table.len() > 40);
    for text in &table {
        let error = outcome(text).expect_err(text);
        let name = "obj".to_owned();
        assert_eq!(error.kind, EvalErrorKind::NoValue { name }, "{text}: {error}");
        assert_eq!(error.to_string(), "`obj` has no value", "{text}");
    }
    for (text, value) in [
        ("true || obj.a == 1", true),
        ("obj.a == 1 || true", true),
        ("false && obj.a == 1", false),
        ("obj.a == 1 && false", false),
        ("other.a == 1 ? true : obj.a == 1", true),
        ("[1, 2].exists(x, x == 2 || obj.a == x)", true),
        ("[1, 2].all(x, x == 1 && obj.a == x)", false),
        ("[1].all(obj, obj == 1)", true),
        ("[1].filter(x, x > 1).all(x, obj.a == x)", true),
    ] {
        assert_eq!(outcome(text), Ok(Answer::Bool(value)), "{text}");
    }
}

#[test]
fn variables_of_macros_are_in_sight_only_inside_of_them() {
    for text in [
        "[1].all(x, [2].exists(y, x < y))",
        "[1].map(x, x)",
        "[1].map(x, x > 0, x)",
        "[1].sortBy(x, -x)",
        "optional.of(1).optMap(x, x)",
        "[[1]].all(x, x.all(x, x == 1))",
        "type(1) == int && type('') == string && type(duration('1s')) == google.protobuf.Duration",
    ] {
        assert!(compile(text, &[]).is_ok(), "{text}");
    }
    for text in [
        "[1].all(x, true) && x == 1",
        "x.all(x, true)",
        "[1].all(x, y)",
        "[x].map(x, x)",
    ] {
        let error = compile(text, &[]).expect_err(text);
        assert!(error.message.starts_with("unknown variable: "), "{text}: {error}");
    }
}
