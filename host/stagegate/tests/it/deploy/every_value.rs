//! The chart with every value set to something other than its default (`tests/data/every-value.yaml`), and with none: both render what is
//! right, and no value is without effect.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::chart::{chart_with, objects};
use super::rights::rights;
use super::values::{CHART, DEFINITIONS, defaults, schema, validator};
use super::values_text::leaves;
use super::{NODE_POOLS, PLAIN, Rendered, fields, pods, printed, read, root, texts};

const FILE: &str = "tests/data/every-value.yaml";

fn every_value() -> Value {
    serde_saphyr::from_str(&read(FILE)).expect("values are YAML")
}

/// A value by its path; null where none is set.
fn member<'a>(values: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.').fold(values, |place, name| &mut place[name])
}

/// All of it in one API server, so that the rights are rendered, with what some values hide from others.
fn in_one() -> Value {
    let mut values = every_value();
    for (path, value) in [
        ("install", json!("all")),
        ("kubeconfig.secret", json!("")),
        ("image.digest", json!("")),
        ("networkPolicy.create", json!(true)),
        ("serviceAccount.create", json!(true)),
    ] {
        *member(&mut values, path) = value;
    }
    values
}

fn rendered(values: &Value) -> Option<Rendered> {
    let output = chart_with(values)?;
    let text = printed(&output, &format!("{FILE}, changed to {values}"));
    Some(Rendered::new(FILE.to_owned(), &text))
}

#[test]
fn the_file_sets_every_value_to_something_other_than_its_default() {
    let schema = schema(CHART);
    let (mut every, mut default) = (every_value(), defaults(CHART));
    validator(&schema)
        .validate(&every)
        .unwrap_or_else(|error| panic!("{FILE}: {error}"));
    let leaves = leaves(&schema);
    assert!(leaves.len() > 40, "only {} values", leaves.len());
    for (path, _) in leaves {
        let (set, default) = (member(&mut every, &path).take(), member(&mut default, &path).take());
        assert!(!set.is_null(), "{FILE} does not set {path}");
        assert_ne!(set, default, "{FILE}: {path} is the default");
    }
}

#[test]
fn each_value_makes_a_difference() {
    let (Some(program), Some(one)) = (rendered(&every_value()), rendered(&in_one())) else {
        return;
    };
    let cases = [(every_value(), objects(&program)), (in_one(), objects(&one))];
    // The schema takes neither without the other.
    let tied = ["install", "kubeconfig.secret"];
    let validator = validator(&schema(CHART));
    for (path, _) in leaves(&schema(CHART)) {
        let path = path.as_str();
        let reset = if tied.contains(&path) {
            tied.to_vec()
        } else {
            vec![path]
        };
        let makes_one = |(values, before): &(Value, BTreeMap<String, Value>)| {
            let mut values = values.clone();
            for path in &reset {
                *member(&mut values, path) = member(&mut defaults(CHART), path).take();
            }
            validator.is_valid(&values) && objects(&rendered(&values).expect("Helm was there before")) != *before
        };
        assert!(
            cases.iter().any(makes_one),
            "{path}: nothing of what is rendered changes with it"
        );
    }
}

#[test]
fn what_is_rendered_of_every_value_is_right() {
    let (Some(program), Some(one)) = (rendered(&every_value()), rendered(&in_one())) else {
        return;
    };
    for rendered in [&program, &one] {
        let found: Vec<String> = rendered.all().flat_map(fields::unknown).collect();
        assert!(found.is_empty(), "{}", found.join("\n"));
        let deployment = rendered.deployment().expect("the pods are rendered");
        let run = pods::parsed(deployment);
        assert_eq!(run.gate_cache, Some(PathBuf::from("/cache")));
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pods::breaches(pod), Vec::<String>::new());
        assert_eq!(pod["serviceAccountName"], "rollouts");
        assert_eq!(
            pod["containers"][0]["env"],
            json!([
                {"name": "MALLOC_ARENA_MAX", "value": "2"},
                {"name": "RUST_LOG", "value": "warn,stagegate=debug"},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
                // A variable can only refer to one before it.
                {"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://$(NODE):4318/v1"},
            ])
        );
    }
    let policy = one.find("NetworkPolicy", "stagegate").expect("it is created");
    let egress: Vec<&Value> = policy["spec"]["egress"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|rule| rule["ports"].as_array().into_iter().flatten())
        .map(|port| &port["port"])
        .collect();
    assert_eq!(
        egress,
        [&json!(53), &json!(53), &json!(9443), &json!(4318)],
        "traces reach their collector"
    );
}

/// Every binding names the account that the pods have, whoever creates it.
#[test]
fn rights_follow_the_name_of_the_service_account() {
    for is_created in [true, false] {
        let mut values = in_one();
        values["serviceAccount"]["create"] = json!(is_created);
        let Some(rendered) = rendered(&values) else {
            return;
        };
        let accounts = rendered.of_kind("ServiceAccount");
        let names: Vec<&Value> = accounts.iter().map(|account| &account["metadata"]["name"]).collect();
        assert_eq!(names, if is_created { vec!["rollouts"] } else { vec![] });
        let bindings = [rendered.of_kind("ClusterRoleBinding"), rendered.of_kind("RoleBinding")].concat();
        assert!(bindings.len() > 6, "only {} bindings", bindings.len());
        for binding in bindings {
            assert_eq!(
                binding["subjects"],
                json!([{"kind": "ServiceAccount", "name": "rollouts", "namespace": "stagegate-system"}])
            );
        }
    }
}

/// What the other tests hold to be used is what every optional part together is granted: none adds a right that is nowhere else.
#[test]
fn every_optional_part_together_is_granted_what_the_parts_are() {
    let mut values = in_one();
    values["workloads"]["rules"] = json!([]);
    values["gates"] = json!({"namespaces": ["stagegate-gates"], "createNamespaces": true});
    let (Some(all), Some(plain), Some(pools)) = (
        rendered(&values),
        Rendered::with_staged_updates(PLAIN),
        Rendered::by_kustomize(NODE_POOLS),
    ) else {
        return;
    };
    let parts: BTreeSet<_> = &rights(&plain) | &rights(&pools);
    assert_eq!(rights(&all), parts);
}

#[test]
fn with_no_value_set_everything_optional_is_off() {
    let Some(none) = rendered(&json!({})) else {
        return;
    };
    for kind in ["PodMonitor", "PrometheusRule", "ConfigMap"] {
        assert!(none.of_kind(kind).is_empty(), "{kind} is rendered by default");
    }
    let deployment = none.deployment().expect("the pods are rendered");
    let environment = deployment["spec"]["template"]["spec"]["containers"][0]["env"].to_string();
    assert!(
        environment.contains("RUST_LOG") && !environment.contains("OTEL"),
        "{environment}"
    );
}

/// A flag that stands there twice ends the program, so that the pods never become ready.
#[test]
fn no_flag_that_the_chart_sets_can_be_set_again() {
    let (Some(program), Some(one)) = (rendered(&every_value()), rendered(&in_one())) else {
        return;
    };
    let validator = validator(&schema(CHART));
    let takes = |flag: &str| {
        let mut values = defaults(CHART);
        values["extraArgs"] = json!([flag]);
        validator.is_valid(&values)
    };
    for rendered in [program, one] {
        let container = &rendered.deployment().expect("the pods")["spec"]["template"]["spec"]["containers"][0];
        let arguments = texts(&container["args"]).into_iter().skip(1);
        for argument in arguments.filter(|argument| *argument != "--gate-cache=/cache") {
            assert!(!takes(argument), "extraArgs takes {argument}");
        }
    }
    assert!(takes("--gate-cache=/cache"));
}

fn lint(chart: &str, arguments: &[&str]) -> Option<Output> {
    let Some(helm) = std::env::var_os("HELM") else {
        crate::tell("SKIPPED: HELM does not name the program; the charts were not linted");
        return None;
    };
    let mut command = Command::new(helm);
    command
        .args(["lint", "--strict"])
        .arg(root().join(chart))
        .args(arguments);
    Some(command.output().expect("helm starts"))
}

#[test]
fn helm_lint_has_nothing_to_say() {
    let every = root().join(FILE).display().to_string();
    for (chart, arguments) in [(CHART, &[][..]), (CHART, &["--values", &every]), (DEFINITIONS, &[])] {
        let Some(output) = lint(chart, arguments) else {
            return;
        };
        let said = printed(&output, &format!("helm lint {chart}"));
        assert!(
            !said.contains("[INFO]") && !said.contains("[WARNING]"),
            "{chart} {arguments:?}: {said}"
        );
    }
}
