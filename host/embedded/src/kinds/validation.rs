//! What a real API server refuses of built-in kinds beyond their types (kubernetes/pkg/apis/*/validation), for the kinds that rollouts
//! carry and that users of the playground write. Must not look at metadata, which all kinds share.

use serde_json::{Map, Value, json};

use super::crd;
use super::kind::{DEFINITIONS_GROUP, Kind};
use crate::admission;
use crate::cause::Cause;
use crate::labels::selects;
use crate::names::{CONFIG_KEY, is_config_key};

/// Most bytes of all values of a ConfigMap or Secret together (Kubernetes API: 1 MiB).
const DATA_BYTES_MAX: usize = 1 << 20;

/// Members that a Secret of a type must have; one list suffices.
const SECRET_MEMBERS: &[(&str, &[&str])] = &[
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
];

/// What is wrong with an object beyond its metadata and types; `old` is what it replaces.
pub fn causes(kind: &Kind, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "configmaps") => config(object, old, &mut causes),
        ("", "secrets") => secret(object, old, &mut causes),
        ("apps", "deployments" | "statefulsets" | "daemonsets" | "replicasets") => {
            workload(object, &mut causes);
            if let Some(old) = old.filter(|old| old["spec"]["selector"] != object["spec"]["selector"]) {
                debug_assert!(old.is_object(), "it was stored");
                causes.push(raw("spec.selector", &object["spec"]["selector"], "field is immutable"));
            }
            replicas(&object["status"], &mut causes);
        }
        ("coordination.k8s.io", "leases") => {
            let spec = &object["spec"];
            above(spec, ("spec", "leaseDurationSeconds", 1), &mut causes);
            above(spec, ("spec", "leaseTransitions", 0), &mut causes);
        }
        (admission::GROUP, admission::POLICIES) => {
            causes.extend(admission::Policy::compile(object).err().into_iter().flatten());
        }
        (admission::GROUP, admission::BINDINGS) => causes.extend(admission::binding_causes(object)),
        (DEFINITIONS_GROUP, _) => causes.extend(old.map(|old| crd::immutable(object, old)).unwrap_or_default()),
        _ => {}
    }
    causes
}

fn members<'a>(object: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object[name].as_object().into_iter().flatten()
}

fn config(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let (mut bytes, binary) = (0, &object["binaryData"]);
    for (key, value) in members(object, "data") {
        config_key("data", key, causes);
        if binary.get(key).is_some() {
            let why = "duplicate of key present in binaryData";
            causes.push(Cause::invalid(format!("data[{key}]"), &Value::from(key.as_str()), why));
        }
        bytes += value.as_str().map_or(0, str::len);
    }
    for (key, value) in members(object, "binaryData") {
        config_key("binaryData", key, causes);
        bytes += unpacked(value);
    }
    limited(bytes, causes);
    frozen(object, old, &["data", "binaryData"], causes);
}

fn secret(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let mut bytes = 0;
    for (key, value) in members(object, "data") {
        config_key("data", key, causes);
        bytes += unpacked(value);
    }
    limited(bytes, causes);
    let wanted = SECRET_MEMBERS.iter().find(|(type_, _)| object["type"] == **type_);
    for key in wanted.into_iter().flat_map(|(_, keys)| *keys) {
        if object["data"].get(key).is_none() {
            causes.push(Cause::required(format!("data[{key}]"), ""));
        }
    }
    if old.is_some_and(|old| old["type"] != object["type"]) {
        causes.push(Cause::immutable("type", &object["type"]));
    }
    frozen(object, old, &["data"], causes);
}

fn config_key(member: &str, key: &str, causes: &mut Vec<Cause>) {
    if !is_config_key(key) {
        causes.push(Cause::invalid(
            format!("{member}[{key}]"),
            &Value::from(key),
            CONFIG_KEY,
        ));
    }
}

fn limited(bytes: usize, causes: &mut Vec<Cause>) {
    if bytes > DATA_BYTES_MAX {
        // The object as a whole.
        causes.push(Cause::too_long("[]", DATA_BYTES_MAX));
    }
}

/// Bytes that a text in base64 stands for.
fn unpacked(base64: &Value) -> usize {
    base64.as_str().unwrap_or_default().trim_end_matches('=').len() * 3 / 4
}

fn frozen(object: &Value, old: Option<&Value>, parts: &[&str], causes: &mut Vec<Cause>) {
    let Some(old) = old.filter(|old| old["immutable"] == true) else {
        return;
    };
    let why = "field is immutable when `immutable` is set";
    if object["immutable"] != true {
        causes.push(Cause::forbidden("immutable", why));
    }
    let changed = parts.iter().filter(|part| old[**part] != object[**part]);
    causes.extend(changed.map(|part| Cause::forbidden(*part, why)));
}

fn workload(object: &Value, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    above(spec, ("spec", "replicas", 0), causes);
    let (selector, labels) = (&spec["selector"], &spec["template"]["metadata"]["labels"]);
    if selector.is_null() {
        causes.push(Cause::required("spec.selector", ""));
    } else if selector.as_object().is_some_and(Map::is_empty) {
        causes.push(raw(
            "spec.selector",
            selector,
            "empty selector is invalid for deployment",
        ));
    }
    if selector.is_null() || !selects(selector, labels) {
        let why = "`selector` does not match template `labels`";
        causes.push(raw("spec.template.metadata.labels", labels, why));
    }
    if spec["template"]["spec"]["containers"]
        .as_array()
        .is_none_or(Vec::is_empty)
    {
        causes.push(Cause::required("spec.template.spec.containers", ""));
    }
}

fn replicas(status: &Value, causes: &mut Vec<Cause>) {
    let count = |name: &str| status[name].as_i64().unwrap_or(0);
    let (all, ready, available) = (count("replicas"), count("readyReplicas"), count("availableReplicas"));
    let mut most = |(field, found): (&str, i64), limit: i64, of: &str| {
        if found > limit {
            let why = format!("cannot be greater than {of}");
            causes.push(Cause::invalid(format!("status.{field}"), &json!(found), why));
        }
    };
    most(("updatedReplicas", count("updatedReplicas")), all, "status.replicas");
    most(("readyReplicas", ready), all, "status.replicas");
    most(("availableReplicas", available), all, "status.replicas");
    most(("availableReplicas", available), ready, "readyReplicas");
}

fn above(spec: &Value, (path, field, least): (&str, &str, i64), causes: &mut Vec<Cause>) {
    if spec[field].as_i64().is_some_and(|found| found < least) {
        let why = match least {
            1 => "must be greater than 0",
            _ => "must be greater than or equal to 0",
        };
        causes.push(Cause::invalid(format!("{path}.{field}"), &spec[field], why));
    }
}

/// Selectors and labels are shown whole: they are no secrets.
fn raw(field: &str, value: &Value, why: &str) -> Cause {
    Cause {
        message: format!("Invalid value: {value}: {why}"),
        ..Cause::invalid(field, &Value::Null, why)
    }
}
