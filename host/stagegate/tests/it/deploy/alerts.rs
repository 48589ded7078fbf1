//! Rules and dashboard for Prometheus and Grafana: that each rule fires on what it is for, by promtool's own tests, and that the
//! document for operators says what to do for each. That they read metrics which are served is for the tests of metrics.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use super::{read, root};

const RULES: &str = "deploy/monitoring/alerts.yaml";
const TESTS: &str = "deploy/monitoring/alerts.test.yaml";
const DASHBOARD: &str = "deploy/monitoring/dashboard.json";

fn parsed(path: &str) -> Value {
    serde_saphyr::from_str(&read(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn rules() -> Vec<Value> {
    let groups = parsed(RULES);
    let groups = groups["groups"].as_array().expect("a list of groups").iter();
    groups
        .flat_map(|group| group["rules"].as_array().expect("a list of rules").clone())
        .collect()
}

fn name(rule: &Value) -> String {
    rule["alert"].as_str().expect("every rule is an alert").to_owned()
}

#[test]
fn each_rule_fires_on_what_it_is_for_and_on_nothing_else() {
    let (tests, rules) = (parsed(TESTS), rules());
    let tested = tests["tests"].as_array().expect("a list of tests").iter();
    let tested = tested.flat_map(|test| test["alert_rule_test"].as_array().expect("alerts of a test"));
    let fires = tested.filter(|test| test["exp_alerts"].as_array().is_some_and(|alerts| !alerts.is_empty()));
    let fires: BTreeSet<String> = fires
        .map(|test| test["alertname"].as_str().expect("the name of an alert").to_owned())
        .collect();
    assert_eq!(fires, rules.iter().map(name).collect(), "{TESTS} sees each rule fire");

    let run = |arguments: &[&str]| Command::new("promtool").args(arguments).current_dir(root()).output();
    for arguments in [
        &["check", "rules", "--lint=all", "--lint-fatal", RULES][..],
        &["test", "rules", TESTS],
    ] {
        let Ok(output) = run(arguments) else {
            crate::tell("SKIPPED: promtool is not on PATH; the rules for Prometheus were not run");
            return;
        };
        let text = [output.stdout, output.stderr].concat();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&text)
        );
    }
}

#[test]
fn the_document_for_operators_says_what_to_do_for_each_alert() {
    let document = read("docs/operations.md");
    for rule in rules() {
        let row = format!("| `{}` |", name(&rule));
        assert!(
            document.contains(&row),
            "docs/operations.md has no row that begins with {row}"
        );
        for annotation in ["summary", "description"] {
            assert!(
                rule["annotations"][annotation].is_string(),
                "{}: {annotation}",
                name(&rule)
            );
        }
        assert!(rule["labels"]["severity"].is_string(), "{}", name(&rule));
    }
}

#[test]
fn every_panel_of_the_dashboard_asks_for_something_and_none_lies_over_another() {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).expect("the dashboard is JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut cells = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().expect("a title");
        let targets = panel["targets"].as_array().expect("targets");
        assert!(!targets.is_empty(), "{title}");
        for target in targets {
            let expression = target["expr"].as_str().expect("an expression");
            assert!(
                expression.contains(r#"{namespace="$namespace", job="$job""#),
                "{title} reads other installations, too: {expression}"
            );
        }
        let place = |name: &str| panel["gridPos"][name].as_u64().expect("a number");
        for row in place("y")..place("y") + place("h") {
            for column in place("x")..place("x") + place("w") {
                assert!(
                    column < 24 && cells.insert((row, column)),
                    "{title} lies over another panel"
                );
            }
        }
    }
}
