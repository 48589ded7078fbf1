//! The definitions: bounded where rules run over them, and shaped as clients expect. That the rules refuse what they
//! should is tested on an API server.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use stagegate_api::crd;

fn schemas(
    crds: Vec<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition>,
) -> Vec<(String, Value)> {
    let whole = |crd| serde_json::to_value(crd).unwrap();
    crds.into_iter()
        .map(whole)
        .map(|crd| {
            let name = crd["spec"]["names"]["kind"].as_str().unwrap().to_owned();
            (name, crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone())
        })
        .collect()
}

/// Calls `visit` with the path and the schema of every node.
fn walk(path: &str, schema: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(&format!("{path}.{name}"), property, visit);
    }
    for (inner, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[inner].is_object() {
            walk(&format!("{path}{suffix}"), &schema[inner], visit);
        }
    }
}

fn unbounded(kind: &str, schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for member in ["spec", "status"] {
        walk(
            &format!("{kind}.{member}"),
            &schema["properties"][member],
            &mut |path, node| {
                let has = |key: &str| !node[key].is_null();
                let bounded = match node["type"].as_str() {
                    Some("string") => has("maxLength") || has("enum") || node["format"] == "date-time",
                    Some("array") => has("maxItems"),
                    Some("object") if node["additionalProperties"].is_object() => has("maxProperties"),
                    _ => true,
                };
                if !bounded {
                    found.push(path.to_owned());
                }
            },
        );
    }
    found
}

/// `kubectl explain` shows descriptions, not values.
#[test]
fn every_field_is_described_and_so_is_every_value_that_it_may_have() {
    for (kind, schema) in schemas([crd::ours(), crd::workloads()].concat()) {
        let (mut undescribed, mut unexplained) = (Vec::new(), Vec::new());
        walk(&kind, &schema, &mut |path, node| {
            let description = node["description"].as_str().unwrap_or_default();
            // What stands in lists and maps is described where these are.
            let is_field = !path.ends_with([']', '}']);
            // The rest of every object is Kubernetes' own.
            let is_of_kubernetes = ["apiVersion", "kind", "metadata"]
                .iter()
                .any(|field| path == format!("{kind}.{field}"));
            if is_field && !is_of_kubernetes && description.trim().is_empty() {
                undescribed.push(path.to_owned());
            }
            for value in node["enum"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                let is_explained = ["", " (default)"]
                    .iter()
                    .any(|rest| description.contains(&format!("- {value}{rest}: ")));
                if !is_explained {
                    unexplained.push(format!("{path}: {value}"));
                }
            }
        });
        assert_eq!(undescribed, Vec::<String>::new());
        assert_eq!(unexplained, Vec::<String>::new());
    }
}

#[test]
fn every_string_list_and_map_of_our_kinds_is_bounded() {
    for (kind, schema) in schemas([crd::ours(), crd::playground()].concat()) {
        assert_eq!(unbounded(&kind, &schema), Vec::<String>::new());
    }
}

#[test]
fn the_search_for_unbounded_nodes_finds_some_in_kubestellars_kinds() {
    let (kind, schema) = schemas(crd::foreign()).remove(0);
    assert!(unbounded(&kind, &schema).contains(&"BindingPolicy.spec.downsync[].resources".to_owned()));
}

#[test]
fn our_kinds_store_no_nulls_and_no_defaults() {
    for (kind, schema) in schemas([crd::ours(), crd::playground()].concat()) {
        walk(&kind, &schema, &mut |path, node| {
            assert!(node["nullable"].is_null(), "{path} is nullable");
            assert!(
                node["default"].is_null(),
                "{path} has a default: a manifest must come back as it was applied"
            );
            let has_null = node["enum"]
                .as_array()
                .is_some_and(|values| values.contains(&Value::Null));
            assert!(!has_null, "{path} may be null");
        });
    }
}

/// Calls `visit` with the path of each rule, and its message.
fn walk_rules(
    crds: Vec<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition>,
    visit: &mut dyn FnMut(&str, &str),
) {
    for (kind, schema) in schemas(crds) {
        walk(&kind, &schema, &mut |path, node| {
            for rule in node["x-kubernetes-validations"].as_array().into_iter().flatten() {
                visit(path, rule["message"].as_str().unwrap_or_default());
            }
        });
    }
}

#[test]
fn every_rule_has_a_message_that_names_the_field() {
    let mut rules = Vec::new();
    walk_rules(crd::ours(), &mut |path, message| {
        let names_field = message.starts_with("spec.") || message.starts_with("metadata.name: ");
        assert!(names_field, "{path}: {message}");
        rules.push(path.to_owned());
    });
    rules.sort();
    let expected = [
        "StagedBindingPolicy",
        "StagedBindingPolicy",
        "StagedBindingPolicy",
        "StagedBindingPolicy.spec.downsync[]",
        "StagedBindingPolicy.spec.stages",
        "StagedBindingPolicy.spec.stages",
        "StagedBindingPolicy.spec.stages[].gates",
        "StagedBindingPolicy.spec.stages[].gates[].limits.memory",
        "StagedBindingPolicy.spec.stages[].gates[].limits.timeout",
        "StagedBindingPolicy.spec.stages[].soak",
    ];
    assert_eq!(rules, expected);
}

/// Gates stand in stages of two kinds.
#[test]
fn a_rule_below_a_list_names_the_field_where_its_own_kind_has_it() {
    let mut below_lists = BTreeSet::new();
    walk_rules([crd::ours(), crd::workloads()].concat(), &mut |path, message| {
        let (kind, field) = path.split_once('.').unwrap_or((path, ""));
        let names_field = message.starts_with("spec.") || message.starts_with("metadata.name: ");
        assert!(names_field, "{path}: {message}");
        if field.contains("[].") {
            let expected = format!("{}: ", field.replace("[]", ""));
            assert!(message.starts_with(&expected), "{path}: {message}");
            below_lists.insert(kind.to_owned());
        }
    });
    assert_eq!(
        below_lists.into_iter().collect::<Vec<_>>(),
        ["StagedBindingPolicy", "YurtAppDaemon"]
    );
}

#[test]
fn our_status_is_a_subresource_and_our_columns_show_where_it_stands() {
    let ours = serde_json::to_value(&crd::ours()[0]).unwrap();
    let version = &ours["spec"]["versions"][0];
    assert_eq!(version["subresources"], json!({"status": {}}));
    let columns = version["additionalPrinterColumns"].as_array().unwrap();
    let of_priority = |priority: Option<i64>| -> Vec<_> {
        let columns = columns.iter().filter(|column| column["priority"].as_i64() == priority);
        columns.map(|column| &column["name"]).collect()
    };
    assert_eq!(of_priority(None), ["Ready", "Stage", "Phase", "Reason", "Age"]);
    assert_eq!(of_priority(Some(1)), ["Clusters", "Message"], "in wide tables only");
    assert_eq!(ours["spec"]["scope"], "Cluster");
    assert_eq!(ours["spec"]["names"]["shortNames"], json!(["sbp"]));
}

#[test]
fn foreign_kinds_are_served_as_their_owners_serve_them() {
    let table = [
        ("bindingpolicies.control.kubestellar.io", "Cluster", true),
        ("bindings.control.kubestellar.io", "Cluster", true),
        ("statuscollectors.control.kubestellar.io", "Cluster", true),
        ("combinedstatuses.control.kubestellar.io", "Namespaced", false),
        ("workstatuses.control.kubestellar.io", "Namespaced", true),
        ("managedclusters.cluster.open-cluster-management.io", "Cluster", true),
    ];
    let foreign = crd::foreign();
    assert_eq!(foreign.len(), table.len());
    for (crd, (name, scope, has_status)) in foreign.iter().zip(table) {
        let crd = serde_json::to_value(crd).unwrap();
        assert_eq!(
            (&crd["metadata"]["name"], &crd["spec"]["scope"]),
            (&json!(name), &json!(scope))
        );
        assert_eq!(
            crd["spec"]["versions"][0]["subresources"].is_object(),
            has_status,
            "{name}"
        );
    }
}

#[test]
fn foreign_schemas_have_no_rule_and_no_bound_of_ours() {
    for (kind, schema) in schemas(crd::foreign()) {
        walk(&kind, &schema, &mut |path, node| {
            for ours in ["x-kubernetes-validations", "maxLength", "maxItems", "maxProperties"] {
                assert!(node[ours].is_null(), "{path} has {ours}");
            }
        });
    }
}

#[test]
fn a_bound_object_is_keyed_without_its_version() {
    let schema = schemas(crd::foreign()).remove(1).1;
    let scope = &schema["properties"]["spec"]["properties"]["workload"]["properties"]["namespaceScope"];
    assert_eq!(
        scope["x-kubernetes-list-map-keys"],
        json!(["group", "resource", "namespace", "name"])
    );
}

#[test]
fn the_playground_serves_each_definition_once() {
    let mut names: Vec<_> = crd::all_for_playground()
        .into_iter()
        .map(|crd| crd.metadata.name.unwrap())
        .collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 11);
    assert!(names.contains(&"simulatedclusters.playground.community.kubestellar.io".to_owned()));
}
