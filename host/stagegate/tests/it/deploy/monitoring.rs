//! Monitoring, which is off by default: what the component adds, that it grants nothing, and that alerts and dashboard arrive as they are
//! written. What they say is for their own tests.

use serde_json::Value;

use super::chart::{objects, rendered};
use super::rights::rights;
use super::{MONITORING, Rendered, WITH_PODS, identity, read, root};

const ALERTS: &str = "deploy/monitoring/alerts.yaml";
const RULE: &str = "deploy/kustomize/monitoring/alerts.yaml";
const ADDED: [&str; 3] = [
    "ConfigMap stagegate-system/stagegate-dashboard",
    "PodMonitor stagegate-system/stagegate",
    "PrometheusRule stagegate-system/stagegate",
];

#[test]
fn monitoring_adds_three_objects_and_no_right_and_can_be_applied_alone() {
    for folder in WITH_PODS {
        let (Some(without), Some(with)) = (Rendered::by_kustomize(folder), Rendered::with_monitoring(folder)) else {
            return;
        };
        assert_eq!(rights(&with), rights(&without), "{folder}");
        let (before, mut after) = (objects(&without), objects(&with));
        for name in ADDED {
            let object = after.remove(name).unwrap_or_else(|| panic!("{folder}: no {name}"));
            assert!(!before.contains_key(name), "{folder}: {name} is there without it");
            let labels = &object["metadata"]["labels"];
            assert_eq!(labels["app.kubernetes.io/part-of"], "stagegate", "{folder}: {name}");
        }
        assert_eq!(after, before, "{folder}");
    }
    let Some(alone) = Rendered::by_kustomize(MONITORING) else {
        return;
    };
    let mut found: Vec<String> = alone.all().map(identity).collect();
    found.sort();
    assert_eq!(found, ADDED);
}

/// Alerts have templates of their own, which neither tool may evaluate.
#[test]
fn alerts_and_dashboard_are_as_they_are_written() {
    let alerts: Value = serde_saphyr::from_str(&read(ALERTS)).expect("rules are YAML");
    let every = r#"monitoring={"prometheusRule":{"create":true},"dashboard":{"create":true}}"#;
    let (Some(kustomize), Some(helm)) = (Rendered::by_kustomize(MONITORING), rendered("stagegate", &[every])) else {
        return;
    };
    assert!(
        read(ALERTS).contains("{{"),
        "no alert has a template, so this shows nothing"
    );
    for rendered in [kustomize, helm] {
        let rule = rendered.find("PrometheusRule", "stagegate").expect("alerts");
        assert_eq!(rule["spec"], alerts, "{}", rendered.from);
        let dashboard = rendered.find("ConfigMap", "stagegate-dashboard").expect("a dashboard");
        assert_eq!(
            dashboard["data"]["stagegate.json"],
            read("deploy/monitoring/dashboard.json"),
            "{}",
            rendered.from
        );
    }
}

/// kustomize cannot put one file into another.
#[test]
fn the_components_alerts_are_those_of_the_file() {
    let kept = read(RULE);
    let head = kept.split_inclusive("\nspec:\n").next().expect("a PrometheusRule");
    let alerts = read(ALERTS);
    let indented: String = alerts
        .lines()
        .map(|line| format!("{}\n", format!("  {line}").trim_end()))
        .collect();
    let fresh = format!("{head}{indented}");
    if std::env::var_os("STAGEGATE_WRITE").is_some() {
        std::fs::write(root().join(RULE), &fresh).expect("the repository is writable");
    }
    assert_eq!(read(RULE), fresh, "{RULE}: STAGEGATE_WRITE=1 writes it anew");
}
