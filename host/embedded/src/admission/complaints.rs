//! What a real API server refuses of policies and bindings beside expressions that do not compile, in its words
//! (kubernetes/pkg/apis/admissionregistration/validation); and what this server refuses because it cannot do it. Must not compile.

use std::collections::BTreeSet;

use serde_json::Value;

use super::policy::{items, text};
use crate::cause::Cause;
use crate::labels;
use crate::names::{NameRule, is_qualified_name, qualified_name_complaint};

/// As many as Kubernetes takes.
const CONDITIONS_MAX: usize = 64;

/// Each is known to all after it, so the work grows with the square of their number; Kubernetes has no limit.
pub(super) const VARIABLES_MAX: usize = 256;

const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];
const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];
/// No names in CEL.
const RESERVED: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Of a policy's spec.
pub(super) fn of_policy(spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    one_of(
        &spec["failurePolicy"],
        ("spec.failurePolicy", &["Fail", "Ignore"]),
        &mut causes,
    );
    if !spec["paramKind"].is_null() {
        causes.push(Cause::forbidden(
            "spec.paramKind",
            "this server evaluates no parameters",
        ));
    }
    if spec["matchConstraints"].is_null() {
        causes.push(Cause::required("spec.matchConstraints", ""));
    } else {
        let resources = &spec["matchConstraints"];
        if items(resources, "resourceRules").is_empty() {
            causes.push(Cause::required("spec.matchConstraints.resourceRules", ""));
        }
        of_resources(resources, "spec.matchConstraints", &mut causes);
    }
    of_conditions(items(spec, "matchConditions"), &mut causes);
    let variables = items(spec, "variables");
    if variables.len() > VARIABLES_MAX {
        let count = variables.len().try_into().unwrap_or(u64::MAX);
        causes.push(Cause::too_many("spec.variables", count, VARIABLES_MAX as u64));
    }
    for (index, variable) in variables.iter().enumerate() {
        of_variable(variable, &format!("spec.variables[{index}]"), &mut causes);
    }
    let annotated = !items(spec, "auditAnnotations").is_empty();
    if annotated {
        let why = "this server has no audit log to annotate";
        causes.push(Cause::forbidden("spec.auditAnnotations", why));
    }
    if !annotated && items(spec, "validations").is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        causes.push(Cause::required("spec.validations", why));
        causes.push(Cause::required("spec.auditAnnotations", why));
    }
    for (index, validation) in items(spec, "validations").iter().enumerate() {
        of_validation(validation, &format!("spec.validations[{index}]"), &mut causes);
    }
    causes
}

/// Of a binding that was completed with defaults.
pub fn binding_causes(object: &Value) -> Vec<Cause> {
    let spec = &object["spec"];
    let mut causes = Vec::new();
    match spec["policyName"].as_str().unwrap_or_default() {
        "" => causes.push(Cause::required("spec.policyName", "")),
        name => {
            let complaints = match NameRule::Subdomain.accepts(name) {
                true => Vec::new(),
                false => NameRule::Subdomain.complaints(name),
            };
            let shown = Value::from(name);
            causes.extend(
                complaints
                    .into_iter()
                    .map(|why| Cause::invalid("spec.policyName", &shown, why)),
            );
        }
    }
    if !spec["paramRef"].is_null() {
        causes.push(Cause::forbidden("spec.paramRef", "this server evaluates no parameters"));
    }
    if spec["matchResources"].is_object() {
        of_resources(&spec["matchResources"], "spec.matchResources", &mut causes);
    }
    let actions = items(spec, "validationActions");
    if actions.is_empty() {
        let why = "at least one validation action is required";
        causes.push(Cause::required("spec.validationActions", why));
    }
    let mut seen = BTreeSet::new();
    for (index, action) in actions.iter().enumerate() {
        let path = format!("spec.validationActions[{index}]");
        one_of(action, (&path, ACTIONS), &mut causes);
        let shown = action.to_string();
        if seen.contains(&shown) {
            causes.push(Cause::duplicate(path, &shown));
        }
        seen.insert(shown);
    }
    let has = |action: &str| actions.iter().any(|given| given == action);
    if has("Deny") && has("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                   response and headers serves no purpose)";
        causes.push(whole(("spec.validationActions", &spec["validationActions"]), why));
    }
    causes
}

fn of_conditions(conditions: &[Value], causes: &mut Vec<Cause>) {
    if conditions.len() > CONDITIONS_MAX {
        let count = conditions.len().try_into().unwrap_or(u64::MAX);
        causes.push(Cause::too_many("spec.matchConditions", count, CONDITIONS_MAX as u64));
    }
    let mut names = BTreeSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let at = |member: &str| format!("spec.matchConditions[{index}].{member}");
        if text(condition, "expression").is_none() {
            causes.push(Cause::required(at("expression"), ""));
        }
        match condition["name"].as_str().unwrap_or_default() {
            "" => causes.push(Cause::required(at("name"), "")),
            name if !is_qualified_name(name) => {
                causes.push(Cause::invalid(
                    at("name"),
                    &condition["name"],
                    qualified_name_complaint(name),
                ));
            }
            name if !names.insert(name) => {
                causes.push(Cause::duplicate(at("name"), &condition["name"].to_string()));
            }
            _ => {}
        }
    }
}

fn of_variable(variable: &Value, path: &str, causes: &mut Vec<Cause>) {
    let is_identifier = |name: &str| {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        name.chars().all(word) && !name.starts_with(|c: char| c.is_ascii_digit()) && !RESERVED.contains(&name)
    };
    match variable["name"].as_str().unwrap_or_default() {
        "" => causes.push(Cause::required(format!("{path}.name"), "name is not specified")),
        name if !is_identifier(name) => {
            let why = "must be a valid CEL identifier";
            causes.push(Cause::invalid(format!("{path}.name"), &variable["name"], why));
        }
        _ => {}
    }
    if text(variable, "expression").is_none() {
        let why = "expression is not specified";
        causes.push(Cause::required(format!("{path}.expression"), why));
    }
}

fn of_validation(validation: &Value, path: &str, causes: &mut Vec<Cause>) {
    if text(validation, "expression").is_none() {
        let why = "expression is not specified";
        causes.push(Cause::required(format!("{path}.expression"), why));
    }
    for member in ["messageExpression", "message"] {
        let given = validation[member].as_str().unwrap_or_default();
        let wrong = match given.trim() {
            "" if !given.is_empty() => Some("must be non-empty if specified"),
            given if member == "message" && given.contains('\n') => Some("must not contain line breaks"),
            _ => None,
        };
        let wrong = wrong.map(|why| Cause::invalid(format!("{path}.{member}"), &validation[member], why));
        causes.extend(wrong);
    }
    one_of(&validation["reason"], (&format!("{path}.reason"), REASONS), causes);
}

fn of_resources(resources: &Value, path: &str, causes: &mut Vec<Cause>) {
    let policies = &["Equivalent", "Exact"];
    one_of(
        &resources["matchPolicy"],
        (&format!("{path}.matchPolicy"), policies),
        causes,
    );
    for selector in ["namespaceSelector", "objectSelector"] {
        causes.extend(labels::causes(&resources[selector], &format!("{path}.{selector}")));
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in items(resources, list).iter().enumerate() {
            of_rule(rule, &format!("{path}.{list}[{index}]"), causes);
        }
    }
}

fn of_rule(rule: &Value, path: &str, causes: &mut Vec<Cause>) {
    let names = items(rule, "resourceNames");
    let mut seen = BTreeSet::new();
    for (index, name) in names.iter().enumerate() {
        let shown = name.to_string();
        if seen.contains(&shown) {
            causes.push(Cause::duplicate(format!("{path}.resourceNames[{index}]"), &shown));
        }
        seen.insert(shown);
    }
    for (list, called) in [
        ("operations", "operations"),
        ("apiGroups", "API groups"),
        ("apiVersions", "API versions"),
    ] {
        let (values, path) = (items(rule, list), format!("{path}.{list}"));
        if values.is_empty() {
            causes.push(Cause::required(&path, ""));
        }
        if values.len() > 1 && values.iter().any(|value| value == "*") {
            let why = format!("if '*' is present, must not specify other {called}");
            causes.push(whole((&path, &rule[list]), &why));
        }
        for (index, value) in values.iter().enumerate() {
            let path = format!("{path}[{index}]");
            match list {
                "operations" => one_of(value, (&path, OPERATIONS), causes),
                "apiVersions" if value == "" => causes.push(Cause::required(path, "")),
                _ => {}
            }
        }
    }
    of_rule_resources(rule, &format!("{path}.resources"), causes);
    one_of(&rule["scope"], (&format!("{path}.scope"), SCOPES), causes);
}

fn of_rule_resources(rule: &Value, path: &str, causes: &mut Vec<Cause>) {
    let resources: Vec<&str> = items(rule, "resources").iter().filter_map(Value::as_str).collect();
    if resources.is_empty() {
        causes.push(Cause::required(path, ""));
    }
    let (mut whole_resources, mut whole_subresources) = (BTreeSet::new(), BTreeSet::new());
    for (index, resource) in resources.iter().enumerate() {
        let at = format!("{path}[{index}]");
        if resource.is_empty() {
            causes.push(Cause::required(at, ""));
            continue;
        }
        let Some((plural, subresource)) = resource.split_once('/') else {
            continue;
        };
        let mut covered = |by: String| {
            let why = format!("if '{by}' is present, must not specify {resource}");
            causes.push(Cause::invalid(&at, &Value::from(*resource), why));
        };
        if whole_resources.contains(plural) {
            covered(format!("{plural}/*"));
        }
        if whole_subresources.contains(subresource) {
            covered(format!("*/{subresource}"));
        }
        if subresource == "*" {
            whole_resources.insert(plural);
        }
        if plural == "*" {
            whole_subresources.insert(subresource);
        }
    }
    let has = |wanted: &str| resources.contains(&wanted);
    let plain = resources.iter().filter(|resource| !resource.contains('/')).count();
    if has("*/*") && resources.len() > 1 {
        let why = "if '*/*' is present, must not specify other resources";
        causes.push(whole((path, &rule["resources"]), why));
    }
    if has("*") && plain > 1 {
        let why = "if '*' is present, must not specify other resources without subresources";
        causes.push(whole((path, &rule["resources"]), why));
    }
}

/// That a value is absent is said by whoever requires it.
fn one_of(value: &Value, (path, supported): (&str, &[&str]), causes: &mut Vec<Cause>) {
    if !value.is_null() && !value.as_str().is_some_and(|value| supported.contains(&value)) {
        causes.push(Cause::not_supported(path, &value.to_string(), supported));
    }
}

/// Shows the list whole: words of a policy are no secrets.
fn whole((path, value): (&str, &Value), why: &str) -> Cause {
    Cause {
        message: format!("Invalid value: {value}: {why}"),
        ..Cause::invalid(path, &Value::Null, why)
    }
}
