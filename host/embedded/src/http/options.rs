//! What a query may ask of each verb, and the refusals of what it may not (apimachinery's validation of options). Must not act on any of it.

use std::fmt::Display;

use serde_json::{Value, json};

use super::call::Call;
use crate::cause::Cause;
use crate::refusal::Refusal;

const MANAGER_BYTES_MAX: usize = 128;

const GROUP: &str = "meta.k8s.io";

/// Checks everything that the verb's options may get wrong.
pub(super) fn check(verb: &str, call: &Call) -> Result<(), Refusal> {
    let (kind, causes) = match verb {
        "list" | "watch" => {
            numbers(call)?;
            let causes = if verb == "list" { list(call) } else { watch(call) };
            ("ListOptions", causes)
        }
        "create" => ("CreateOptions", of_writes(call)),
        "update" => ("UpdateOptions", of_writes(call)),
        "patch" | "apply" => ("PatchOptions", patch(verb, call)),
        "delete" | "deletecollection" => ("DeleteOptions", delete(call, &Value::Null)),
        _ => return Ok(()),
    };
    refuse(kind, &causes)
}

/// The same for what a deletion says in its body.
pub(super) fn check_deletion(call: &Call, body: &Value) -> Result<(), Refusal> {
    let kind = body["kind"].as_str().unwrap_or("DeleteOptions");
    if kind != "DeleteOptions" {
        let version = body["apiVersion"].as_str().unwrap_or_default();
        let message =
            format!("no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:110\"");
        return Err(Refusal::unexplained(message));
    }
    refuse("DeleteOptions", &delete(call, body))
}

fn refuse(kind: &str, causes: &[Cause]) -> Result<(), Refusal> {
    match causes {
        [] => Ok(()),
        causes => Err(Refusal::invalid_as((GROUP, kind), "", causes)),
    }
}

fn numbers(call: &Call) -> Result<(), Refusal> {
    let wrong = ["limit", "timeoutSeconds"]
        .into_iter()
        .map(|name| call.query(name))
        .find(|text| !text.is_empty() && text.parse::<i64>().is_err());
    wrong.map_or(Ok(()), |text| {
        let message = format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
        Err(Refusal::bad_request(message))
    })
}

fn forbidden(field: &str, why: impl Display) -> Cause {
    Cause::forbidden(field, why)
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn list(call: &Call) -> Vec<Cause> {
    let (field, mut causes) = ("resourceVersionMatch", Vec::new());
    let (match_, version) = (call.query(field), call.query("resourceVersion"));
    if !match_.is_empty() {
        if version.is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            causes.push(forbidden(field, why));
        }
        if !call.query("continue").is_empty() {
            causes.push(forbidden(
                field,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        if !matches!(match_, "Exact" | "NotOlderThan") {
            causes.push(Cause::not_supported(
                field,
                &quoted(match_),
                &["Exact", "NotOlderThan", ""],
            ));
        }
        if match_ == "Exact" && version == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            causes.push(forbidden(field, why));
        }
    }
    if !call.query("sendInitialEvents").is_empty() {
        causes.push(forbidden(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        ));
    }
    causes
}

fn watch(call: &Call) -> Vec<Cause> {
    let (field, mut causes) = ("resourceVersionMatch", Vec::new());
    let match_ = call.query(field);
    let initial = !call.query("sendInitialEvents").is_empty();
    if initial && match_ != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        causes.push(forbidden(field, why));
    }
    if !match_.is_empty() {
        if !initial {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            causes.push(forbidden(field, why));
        }
        if match_ != "NotOlderThan" {
            causes.push(Cause::not_supported(field, &quoted(match_), &["NotOlderThan"]));
        }
    }
    if !call.query("continue").is_empty() {
        causes.push(forbidden(
            field,
            "resourceVersionMatch is forbidden when continue is provided",
        ));
    }
    causes
}

fn of_writes(call: &Call) -> Vec<Cause> {
    let mut causes = Vec::new();
    if call.query("fieldManager").len() > MANAGER_BYTES_MAX {
        causes.push(Cause::too_long("fieldManager", MANAGER_BYTES_MAX));
    }
    causes.extend(dry_run(call));
    let validation = call.query("fieldValidation");
    if !matches!(validation, "" | "Ignore" | "Strict" | "Warn") {
        let supported = ["", "Ignore", "Strict", "Warn"];
        causes.push(Cause::not_supported("fieldValidation", &quoted(validation), &supported));
    }
    causes
}

fn dry_run(call: &Call) -> Option<Cause> {
    let stage = call.query("dryRun");
    let shown = json!([stage]).to_string();
    (!matches!(stage, "" | "All")).then(|| Cause::not_supported("dryRun", &shown, &["All"]))
}

fn patch(verb: &str, call: &Call) -> Vec<Cause> {
    let mut causes = Vec::new();
    if verb == "apply" && call.query("fieldManager").is_empty() {
        causes.push(Cause::required("fieldManager", "is required for apply patch"));
    } else if verb != "apply" && !call.query("force").is_empty() {
        causes.push(forbidden("force", "may not be specified for non-apply patch"));
    }
    causes.extend(of_writes(call));
    causes
}

fn delete(call: &Call, body: &Value) -> Vec<Cause> {
    let field = "propagationPolicy";
    let policy = body[field].as_str().unwrap_or(call.query(field));
    let orphans = !body["orphanDependents"].is_null() || !call.query("orphanDependents").is_empty();
    let mut causes = Vec::new();
    if orphans && !policy.is_empty() {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        causes.push(Cause::invalid(field, &Value::from(policy), why));
    } else if !matches!(policy, "" | "Foreground" | "Background" | "Orphan") {
        let supported = ["Foreground", "Background", "Orphan", "nil"];
        causes.push(Cause::not_supported(field, &quoted(policy), &supported));
    }
    causes.extend(dry_run(call));
    causes
}
