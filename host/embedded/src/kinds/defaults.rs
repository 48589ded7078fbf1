//! What a real API server fills into built-in kinds that somebody left out (kubernetes/pkg/apis/*/v1/defaults.go), for the kinds that
//! rollouts carry. Must not overwrite what was given.

use serde_json::{Map, Value, json};

use super::kind::Kind;
use crate::admission;

/// Fills in the defaults of the kind.
pub fn fill(kind: &Kind, object: &mut Value) {
    let plural = kind.plural.as_str();
    match (kind.group.as_str(), plural) {
        ("apps", _) | ("batch", "jobs") => {
            if let Some(spec) = at(object, "/spec") {
                fill_workload(plural, spec);
            }
            if let Some(pod) = at(object, "/spec/template/spec") {
                fill_pod(pod);
            }
        }
        ("", "pods") => {
            if let Some(pod) = at(object, "/spec") {
                fill_pod(pod);
            }
        }
        ("", "services") => lay_under(object, json!({"spec": {"type": "ClusterIP"}})),
        ("", "secrets") => {
            lay_under(object, json!({"type": "Opaque"}));
            fold_string_data(object);
        }
        ("", "namespaces") => {
            let name = object["metadata"]["name"].clone();
            let of_all = json!({
                "metadata": {"labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            });
            lay_under(object, of_all);
        }
        (admission::GROUP, admission::POLICIES) => {
            lay_under(object, json!({"spec": {"failurePolicy": "Fail"}}));
            if let Some(resources) = at(object, "/spec/matchConstraints") {
                fill_match(resources);
            }
        }
        (admission::GROUP, admission::BINDINGS) => {
            if let Some(resources) = at(object, "/spec/matchResources") {
                fill_match(resources);
            }
        }
        _ => {}
    }
}

fn fill_match(resources: &mut Value) {
    lay_under(
        resources,
        json!({"namespaceSelector": {}, "objectSelector": {}, "matchPolicy": "Equivalent"}),
    );
    for list in ["resourceRules", "excludeResourceRules"] {
        each(resources, list, |rule| lay_under(rule, json!({"scope": "*"})));
    }
}

fn at<'a>(object: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    object.pointer_mut(path).filter(|found| found.is_object())
}

fn fill_workload(plural: &str, spec: &mut Value) {
    let defaults = match plural {
        "deployments" => json!({
            "replicas": 1, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10, "strategy": {"type": "RollingUpdate"},
        }),
        "statefulsets" => json!({
            "replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate"},
        }),
        "daemonsets" => json!({"revisionHistoryLimit": 10, "updateStrategy": {"type": "RollingUpdate"}}),
        "replicasets" => json!({"replicas": 1}),
        _ => return,
    };
    lay_under(spec, defaults);
    let (strategy, rolling) = match plural {
        "deployments" => ("strategy", json!({"maxSurge": "25%", "maxUnavailable": "25%"})),
        "statefulsets" => ("updateStrategy", json!({"partition": 0})),
        "daemonsets" => ("updateStrategy", json!({"maxSurge": 0, "maxUnavailable": 1})),
        _ => return,
    };
    if spec[strategy]["type"] == "RollingUpdate" {
        lay_under(&mut spec[strategy], json!({"rollingUpdate": rolling}));
    }
}

fn fill_pod(spec: &mut Value) {
    let of_pods = json!({
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "securityContext": {}, "schedulerName": "default-scheduler",
    });
    lay_under(spec, of_pods);
    if spec["serviceAccountName"].is_string() {
        spec["serviceAccount"] = spec["serviceAccountName"].clone();
    }
    for list in ["initContainers", "containers"] {
        each(spec, list, fill_container);
    }
    each(spec, "volumes", |volume| {
        for source in ["configMap", "secret", "projected"] {
            if volume[source].is_object() {
                lay_under(volume, json!({source: {"defaultMode": 420}}));
            }
        }
    });
}

fn fill_container(container: &mut Value) {
    let image = container["image"].as_str().unwrap_or_default();
    let last = image.rsplit('/').next().unwrap_or_default();
    let floats = !last.contains('@') && last.split_once(':').is_none_or(|(_, tag)| tag == "latest");
    let of_containers = json!({
        "imagePullPolicy": if floats { "Always" } else { "IfNotPresent" }, "resources": {},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    });
    lay_under(container, of_containers);
    each(container, "ports", |port| lay_under(port, json!({"protocol": "TCP"})));
    each(container, "env", |variable| {
        if variable["valueFrom"]["fieldRef"].is_object() {
            lay_under(variable, json!({"valueFrom": {"fieldRef": {"apiVersion": "v1"}}}));
        }
    });
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get_mut(probe).filter(|probe| probe.is_object()) else {
            continue;
        };
        let of_probes = json!({"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3});
        lay_under(probe, of_probes);
        if probe["httpGet"].is_object() {
            lay_under(probe, json!({"httpGet": {"path": "/", "scheme": "HTTP"}}));
        }
    }
}

fn each(parent: &mut Value, list: &str, fill: impl Fn(&mut Value)) {
    let items = parent.get_mut(list).and_then(Value::as_array_mut);
    for item in items.into_iter().flatten().filter(|item| item.is_object()) {
        fill(item);
    }
}

/// Puts in what is absent or null; below objects that are there as well.
fn lay_under(value: &mut Value, defaults: Value) {
    match (value, defaults) {
        (Value::Object(map), Value::Object(defaults)) => {
            for (name, default) in defaults {
                lay_under(map.entry(name).or_insert(Value::Null), default);
            }
        }
        (value @ Value::Null, default) => *value = default,
        _ => {}
    }
}

/// `stringData` is written as text and stored as `data`.
fn fold_string_data(object: &mut Value) {
    let Some(Value::Object(texts)) = object.as_object_mut().and_then(|map| map.remove("stringData")) else {
        return;
    };
    let as_data = texts.into_iter().filter_map(|(key, text)| {
        let bytes = k8s_openapi::ByteString(text.as_str()?.as_bytes().to_vec());
        Some((key, serde_json::to_value(bytes).ok()?))
    });
    let as_data: Map<String, Value> = as_data.collect();
    lay_under(object, json!({"data": {}}));
    if let Some(data) = object["data"].as_object_mut() {
        data.extend(as_data);
    }
}
