//! How the caller's data appears to an expression, and whether an answer is a part of it.

use crate::{deployment, eval};
use serde_json::json;
use stagegate_evaluate::{Answer, Budget, Origin, Value, compile};

fn eval_with(text: &str, name: &str, value: Value) -> Answer {
    let compiled = compile(text, &[name]).unwrap_or_else(|error| panic!("{text}: {error}"));
    compiled
        .eval(&[(name, value)], Budget::default())
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn whole_numbers_are_int_and_larger_ones_double_as_in_kubernetes() {
    assert_eq!(eval("obj", &json!(7)), Ok(Answer::Int(7)));
    assert_eq!(eval("obj", &json!(i64::MIN)), Ok(Answer::Int(i64::MIN)));
    assert_eq!(eval("obj", &json!(i64::MAX)), Ok(Answer::Int(i64::MAX)));
    assert_eq!(
        eval("obj", &json!(1u64 << 63)),
        Ok(Answer::Double(9_223_372_036_854_775_808.0))
    );
    assert_eq!(eval("obj", &json!(1.0)), Ok(Answer::Double(1.0)));
}

#[test]
fn a_document_comes_back_as_it_was() {
    assert_eq!(eval("obj", &deployment()).expect("evaluates").to_json(), deployment());
}

#[test]
fn an_answer_knows_whether_it_is_the_callers_data() {
    let origin_of = |text: &str| match eval(text, &deployment()).expect("evaluates") {
        Answer::List(_, origin) | Answer::Map(_, origin) => origin,
        other => panic!("{text} is {}", other.kind()),
    };
    for text in [
        "obj",
        "obj.spec.ports",
        "[obj.spec][0]",
        "dyn(obj.spec)",
        "obj.?spec.value()",
        "true ? obj.spec : {}",
    ] {
        assert_eq!(origin_of(text), Origin::Data, "{text}");
    }
    for text in [
        "[1]",
        "{}",
        "obj.spec.ports + []",
        "obj.spec.ports.map(p, p)",
        "obj.spec.ports.filter(p, true)",
    ] {
        assert_eq!(origin_of(text), Origin::Expression, "{text}");
    }
    let nested = eval("[obj.spec.ports]", &deployment()).expect("evaluates");
    let Answer::List(items, Origin::Expression) = nested else {
        panic!("a list made here")
    };
    assert!(items[0].from_data());
}

#[test]
fn timestamps_are_written_as_the_go_library_writes_them() {
    for (seconds, nanos, expected) in [
        (1_795_244_605, 0, "2026-11-21T07:03:25Z"),
        (0, 0, "1970-01-01T00:00:00Z"),
        (-62_135_596_800, 0, "0001-01-01T00:00:00Z"),
        (-1, 500_000_000, "1969-12-31T23:59:59.5Z"),
        (253_402_300_799, 999_999_999, "9999-12-31T23:59:59.999999999Z"),
    ] {
        let value = Value::timestamp(seconds, nanos).expect("in range");
        let propagation = Value::map([("at".to_owned(), value.clone())]);
        assert_eq!(
            eval_with("string(p.at)", "p", propagation),
            Answer::String(expected.to_owned())
        );
        assert_eq!(eval_with("t", "t", value.clone()), Answer::Timestamp { seconds, nanos });
        assert_eq!(eval_with("t", "t", value).to_json(), json!(expected));
    }
    assert!(Value::timestamp(-62_135_596_801, 0).is_err());
    assert!(Value::timestamp(253_402_300_800, 0).is_err());
    assert!(Value::timestamp(0, 1_000_000_000).is_err());
}

#[test]
fn values_can_be_built_from_parts() {
    let value = Value::map([
        ("name".to_owned(), Value::from("x")),
        (
            "list".to_owned(),
            Value::list([
                Value::from(1i64),
                Value::from(2u64),
                Value::from(0.5),
                Value::from(true),
            ]),
        ),
        ("none".to_owned(), Value::null()),
    ]);
    let json = json!({"list": [1, 2, 0.5, true], "name": "x", "none": null});
    assert_eq!(eval_with("v", "v", value).to_json(), json);
}

#[test]
fn the_order_of_keys_is_the_same_in_every_evaluation() {
    let keys: Vec<String> = (0..40).map(|i| format!("k{i:02}")).collect();
    let object: serde_json::Value = keys
        .iter()
        .map(|key| (key.clone(), json!(1)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let literal = format!(
        "{{{}}}",
        keys.iter()
            .map(|key| format!("'{key}': 1"))
            .collect::<Vec<_>>()
            .join(", ")
    );
    for text in [
        "obj.map(k, k)".to_owned(),
        format!("{literal}.map(k, k)"),
        format!("{literal}.filter(k, true)"),
    ] {
        for _ in 0..5 {
            assert_eq!(
                eval(&text, &object).expect("evaluates").to_json(),
                json!(keys),
                "{text}"
            );
        }
    }
}

#[test]
fn an_answer_is_bounded_in_nodes_and_bytes() {
    use stagegate_evaluate::EvalErrorKind::TooLarge;
    let long = json!("x".repeat(700_000));
    assert!(eval("obj", &long).is_ok());
    assert_eq!(eval("[obj, obj]", &long).expect_err("too many bytes").kind, TooLarge);
    let many = json!(vec![0; 40_000]);
    assert!(eval("obj", &many).is_ok());
    assert_eq!(eval("[obj, obj]", &many).expect_err("too many nodes").kind, TooLarge);
}

#[test]
fn one_expression_may_be_evaluated_by_many_small_threads_at_once() {
    let compiled = compile("obj.spec.ports.map(p, p + n)", &["obj", "n"]).expect("compiles");
    let obj = Value::from(&deployment());
    let threads: Vec<_> = (0..16i64)
        .map(|n| {
            let (compiled, obj) = (compiled.clone(), obj.clone());
            let work = move || compiled.eval(&[("obj", obj), ("n", Value::from(n))], Budget::default());
            (
                n,
                std::thread::Builder::new()
                    .stack_size(64 << 10)
                    .spawn(work)
                    .expect("a thread"),
            )
        })
        .collect();
    for (n, thread) in threads {
        let answer = thread.join().expect("does not panic").expect("evaluates");
        assert_eq!(answer.to_json(), json!([80 + n, 443 + n]));
    }
}
