//! `stagegate lint` over files that say what is wrong with them: `tests/lint/*.yaml`.
//!
//! Each expected finding is a line `#= line:column: severity: message [rule]`, exactly as a pipe is told, after the
//! objects; a file without any is clean.

use std::path::Path;

use serde_json::{Value, json};

use super::{cases, repository, stagegate, stagegate_reading, text};
use crate::guests;

#[test]
fn every_file_has_exactly_the_findings_it_names() {
    for file in cases("lint") {
        let path = file.display().to_string();
        let content = std::fs::read_to_string(&file).expect("the case was listed");
        let expected: Vec<&str> = content.lines().filter_map(|line| line.strip_prefix("#= ")).collect();
        let ended = stagegate(&["lint", &path]);
        let output = text(&ended.stdout);
        let prefix = format!("{path}:");
        let found: Vec<&str> = output
            .lines()
            .map(|line| line.strip_prefix(&prefix).unwrap_or(line))
            .collect();
        assert_eq!(found, expected, "{path}: {}", text(&ended.stderr));
        let fails = expected.iter().any(|finding| finding.contains(": error: "));
        assert_eq!(ended.status.code(), Some(i32::from(fails)), "{path}");
    }
}

#[test]
fn the_examples_and_the_original_samples_are_clean() {
    for path in [
        "deploy/examples/shortest",
        "deploy/examples/three-stages",
        "deploy/examples/nginx-original",
        "deploy/examples/pools",
        "tests/data/original-nginx-obj.yaml",
        "tests/data/original-nginx-combinedstatus.yaml",
    ] {
        let ended = stagegate(&["lint", &repository(path)]);
        assert_eq!(
            (ended.status.code(), text(&ended.stdout)),
            (Some(0), String::new()),
            "{path}"
        );
    }
}

#[test]
fn a_file_with_nothing_to_check_is_a_usage_error() {
    let ended = stagegate(&["lint", &repository("deploy/examples/three-stages/clusters.yaml")]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(text(&ended.stderr).contains("no StagedBindingPolicy, no StatusCollector and no YurtAppDaemon in"));
}

const WARNED: &str = "apiVersion: community.kubestellar.io/v1alpha1
kind: StagedBindingPolicy
metadata: {name: web}
spec:
  downsync: [{objectSelectors: [{matchLabels: {app: web}}]}]
  stages: [{name: dev}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
";

#[test]
fn standard_input_is_checked_and_what_is_skipped_is_named() {
    let ended = stagegate_reading(&["lint", "-"], WARNED);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    assert!(text(&ended.stdout).starts_with("-:6:12: warning: stage dev has no clusterSelectors"));
    assert_eq!(
        text(&ended.stderr),
        "1 object checked, 0 errors, 1 warning; only read, not checked: ConfigMap settings\n"
    );
}

#[test]
fn strict_makes_warnings_fail() {
    assert_eq!(
        stagegate_reading(&["lint", "-", "--strict"], WARNED).status.code(),
        Some(1)
    );
    let clean = repository("deploy/examples/shortest");
    assert_eq!(stagegate(&["lint", &clean, "--strict"]).status.code(), Some(0));
}

#[test]
fn json_output_is_one_object() {
    let ended = stagegate_reading(&["lint", "-", "-o", "json"], WARNED);
    let told: Value = serde_json::from_slice(&ended.stdout).expect("one object");
    let finding = json!({
        "file": "-", "line": 6, "column": 12, "severity": "warning", "rule": "no-clusters",
        "message": "stage dev has no clusterSelectors, so it selects no cluster and waits",
        "advice": "add some, for example `clusterSelectors: [{matchLabels: {env: dev}}]`",
    });
    let skipped = json!([{"kind": "ConfigMap", "name": "settings"}]);
    let wanted = json!({"findings": [finding], "checked": 1, "errors": 0, "warnings": 1, "skipped": skipped});
    assert_eq!(told, wanted);
}

/// A policy with one gate, whose module and config are given as YAML.
fn gated(module: &str, config: &str) -> String {
    format!(
        "apiVersion: community.kubestellar.io/v1alpha1
kind: StagedBindingPolicy
metadata: {{name: web}}
spec:
  downsync: [{{objectSelectors: [{{matchLabels: {{app: web}}}}]}}]
  stages:
  - name: dev
    clusterSelectors: [{{matchLabels: {{env: dev}}}}]
    gates:
    - name: enough
      module: {module}
      config: {config}
"
    )
}

/// What lint says of the policy, with this file beside it.
fn beside(policy: &str, path: &Path) -> String {
    let ended = stagegate_reading(&["lint", "-", &path.display().to_string()], policy);
    assert!(ended.status.code() < Some(2), "{}", text(&ended.stderr));
    text(&ended.stdout)
}

#[test]
fn a_gates_config_is_checked_by_the_component_beside_the_policy() {
    let component = guests::path("gate_min_available");
    let directory = std::env::temp_dir().join(format!("stagegate-test-{}-lint-gate", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the temporary directory is writable");
    let packed = stagegate(&["gate", "configmap", "min-available", &component.display().to_string()]);
    let config_map = directory.join("configmap.yaml");
    std::fs::write(&config_map, &packed.stdout).expect("the temporary directory is writable");
    let module = "{configMap: {namespace: stagegate-gates, name: min-available, key: gate.wasm}}";
    let right = "{collector: numbers, atLeast: 2}";
    for file in [&config_map, &component] {
        assert_eq!(beside(&gated(module, right), file), "");
        let wrong = beside(&gated(module, "{collector: numbers, atLeast: two}"), file);
        let begin = "-:12:45: error: gate enough refuses its config: /atLeast: ";
        assert!(
            wrong.starts_with(begin) && wrong.ends_with(" [gate-config]\n"),
            "{wrong}"
        );
    }
    let cases = [
        (
            module.replace("stagegate-gates", "gates"),
            "-:11:39: warning: gate enough is in namespace gates, and the controller runs gates of stagegate-gates only, \
             unless its flag --gate-namespaces says otherwise; put the ConfigMap into stagegate-gates, or start the controller with \
             --gate-namespaces=gates [gate-namespace]\n\
             -:11:39: error: gate enough is in ConfigMap gates/min-available, and the one in FILE is \
             stagegate-gates/min-available; write `namespace: stagegate-gates`, or put the ConfigMap into gates \
             [gate-configmap]\n",
        ),
        (
            module.replace("min-available", "min-avaliable"),
            "-:11:62: warning: the ConfigMap stagegate-gates/min-avaliable of gate enough is not among the files; did you \
             mean min-available? [gate-configmap]\n",
        ),
        (
            module.replace("gate.wasm", "gate"),
            "-:11:82: error: ConfigMap min-available in FILE has no key \"gate\" under binaryData; its keys: gate.wasm \
             [gate-configmap]\n",
        ),
    ];
    for (module, expected) in cases {
        let said = beside(&gated(&module, right), &config_map);
        assert_eq!(said.replace(&config_map.display().to_string(), "FILE"), expected);
    }
    let pinned = module.replace("}}", &format!("}}, digest: 'sha256:{}'}}", "0".repeat(64)));
    let said = beside(&gated(&pinned, right), &config_map);
    assert!(
        said.contains(" has another digest than module.digest; write `digest: sha256:"),
        "{said}"
    );
    drop(std::fs::remove_dir_all(directory));
}

#[test]
fn a_gate_of_a_yurtappdaemon_is_checked_in_the_same_way() {
    let daemon = "apiVersion: apps.openyurt.io/v1alpha1
kind: YurtAppDaemon
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  nodepoolSelector: {}
  workloadTemplate: {deploymentTemplate: {metadata: {labels: {app: web}}, spec: {template: {metadata: {labels: {app: web}}}}}}
  updateStrategy:
    stages:
    - name: canary
      nodepoolSelector: {matchLabels: {canary: 'yes'}}
      gates:
      - name: enough
        module: {configMap: {namespace: stagegate-gates, name: min-available, key: gate.wasm}}
        config: {atLeast: two}
";
    let component = guests::path("gate_min_available");
    let wrong = beside(daemon, &component);
    let begin = "-:15:27: error: gate enough refuses its config: /atLeast: ";
    assert!(wrong.starts_with(begin), "{wrong}");
    assert_eq!(beside(&daemon.replace("two", "2"), &component), "");
}

#[test]
fn an_applications_config_map_of_the_same_name_is_not_taken_for_the_gates() {
    let directory = std::env::temp_dir().join(format!("stagegate-test-{}-lint-namesake", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the temporary directory is writable");
    let file = directory.join("configmap.yaml");
    let module = "{configMap: {namespace: stagegate-gates, name: min-available, key: gate.wasm}}";
    for namespace in [", namespace: shop", ""] {
        let namesake =
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: min-available{namespace}}}\ndata: {{a: b}}\n");
        std::fs::write(&file, namesake).expect("the temporary directory is writable");
        assert_eq!(beside(&gated(module, "{}"), &file), "", "{namespace}");
    }
    drop(std::fs::remove_dir_all(directory));
}

#[test]
fn without_components_among_the_files_nothing_is_said_of_gates() {
    let module = "{configMap: {namespace: stagegate-gates, name: min-available, key: gate.wasm}}";
    let ended = stagegate_reading(&["lint", "-"], &gated(module, "{atLeast: two}"));
    assert_eq!((ended.status.code(), text(&ended.stdout)), (Some(0), String::new()));
}
