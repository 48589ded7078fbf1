//! Every line of `tests/data/explanations.json`: an expression over five clusters, and why it is false; `null` where it is not.

use serde_json::{Value as Json, json};
use stagegate_evaluate::{Budget, Cause, Value, explain};

fn variables() -> Vec<(&'static str, Value)> {
    let cluster = |name: &str, available: i64, replicas: i64, healthy: bool| {
        let message = if healthy { "" } else { "has 0 of 2 replicas ready" };
        json!({"name": name, "available": available, "replicas": replicas, "healthy": healthy, "message": message})
    };
    let clusters = json!([
        cluster("dev-1", 2, 2, true),
        cluster("dev-2", 4, 4, true),
        cluster("test-1", 0, 2, false),
        cluster("test-2", 2, 3, true),
        cluster("test-3", 2, 3, true),
    ]);
    let object = Value::map([
        ("name".to_owned(), Value::from("web")),
        ("text".to_owned(), Value::from("x".repeat(1000))),
        ("labels".to_owned(), Value::from_json(&json!({"app": "web"}))),
        (
            "since".to_owned(),
            Value::timestamp(1_767_603_600, 0).expect("a time in 2026"),
        ),
    ]);
    let collectors = json!({
        "error-rate": [{"rate": 0.001}, {"rate": 0.5}],
        "states": [{"name": "test-1", "healthy": false, "message": "a part of a workload"}],
    });
    vec![
        ("clusters", Value::from_json(&clusters)),
        ("object", object),
        ("collectors", Value::from_json(&collectors)),
    ]
}

fn explained(text: &str, budget: Budget) -> Option<String> {
    let cause = Cause {
        variable: "clusters",
        member: "healthy",
        text: "message",
    };
    explain(text, &variables(), Some(cause), budget)
}

#[test]
fn every_expression_of_the_table_is_explained_as_it_says() {
    let table: Vec<(String, Json)> = serde_json::from_str(include_str!("../data/explanations.json")).unwrap();
    let mut wrong = Vec::new();
    for (text, expected) in table {
        let explained = explained(&text, Budget::default());
        if explained.as_deref() != expected.as_str() {
            wrong.push(format!("{text}\n  is:   {explained:?}\n  not:  {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_explanation_that_would_take_more_than_the_budget_is_none() {
    let text = "clusters.all(c, clusters.all(d, c.name != d.name || c.available > 0))";
    assert!(explained(text, Budget::default()).is_some());
    for fuel in 0..200 {
        let budget = Budget {
            fuel,
            ..Budget::default()
        };
        assert_eq!(explained(text, budget), None, "with {fuel} units");
    }
}

#[test]
fn an_explanation_is_short_and_on_one_line() {
    let long = format!(
        "{} && object.name != 'web'",
        vec!["object.text.size() == 1000"; 300].join(" &&\n ")
    );
    let negated = format!("!({long} || true)");
    for text in [&long, &negated] {
        let explained = explained(text, Budget::default()).unwrap();
        assert!(
            explained.chars().count() <= 512 && !explained.contains('\n'),
            "{explained}"
        );
    }
}
