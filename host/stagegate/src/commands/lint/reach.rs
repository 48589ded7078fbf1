//! Clauses that match nothing: by the kinds that they name, by their selectors, or because none of the workload among the files has what
//! they ask for. Must not say that anything is missing from a cluster.

use serde_json::Value;
use stagegate_api::DownsyncClause;
use stagegate_decide::binding::{Clauses, is_watched};
use stagegate_decide::counted::counted;
use stagegate_decide::staging::Variable;
use stagegate_evaluate::{Comparison, Written, meant, reading};

use super::beside::{Beside, Workload};
use super::clauses::list;
use super::finding::Finding;
use super::kinds::Kinds;
use super::policy::{Item, STAGES, items};
use super::stages::of_selectors;
use crate::manifests::Manifest;

pub fn findings(manifest: &Manifest, beside: &Beside, kinds: &Kinds) -> Vec<Finding> {
    let clauses = items(manifest, "/spec/downsync");
    if clauses.is_empty() {
        let place = manifest.place("/spec/downsync");
        let message = "spec.downsync has no clause, so that nothing is placed";
        let advice = "add one, for example `- objectSelectors: [{matchLabels: {app: shop}}]`";
        return vec![Finding::warning(manifest, place, "no-clauses", message).advise(advice)];
    }
    let mut findings = compared_resources(manifest, kinds);
    for clause in &clauses {
        let mut found = resources(manifest, clause, kinds);
        for member in ["objectSelectors", "namespaceSelectors"] {
            found.extend(of_selectors(manifest, &format!("{}/{member}", clause.pointer)).1);
        }
        if found.is_empty() {
            found.extend(unmatched(manifest, clause, beside));
        }
        findings.extend(found);
    }
    findings
}

/// Resources that there are not in the clause's group.
fn resources(manifest: &Manifest, clause: &Item<'_>, kinds: &Kinds) -> Vec<Finding> {
    let group = clause.value.get("apiGroup").and_then(Value::as_str);
    let named = list(clause.value, "resources").into_iter().enumerate();
    let named = named.filter_map(|(index, resource)| Some((index, resource.as_str().filter(|name| *name != "*")?)));
    named
        .filter_map(|(index, resource)| {
            let (message, advice) = impossible(group, resource, kinds)?;
            let place = manifest.place(&format!("{}/resources/{index}", clause.pointer));
            Some(Finding::warning(manifest, place, "no-such-resource", message).advise(advice))
        })
        .collect()
}

/// Words that a filter or a condition compares with an object's resource and that are none.
fn compared_resources(manifest: &Manifest, kinds: &Kinds) -> Vec<Finding> {
    let mut findings = Vec::new();
    for stage in items(manifest, STAGES) {
        for member in ["filter", "condition"] {
            let text = stage.value.get(member).and_then(Value::as_str);
            let comparisons = text.and_then(reading).map(|reading| reading.comparisons);
            let pointer = format!("{}/{member}", stage.pointer);
            let found = |comparison: &Comparison| {
                let (Written::Text(word), true) = (&comparison.with, is_of_resource(comparison)) else {
                    return None;
                };
                let near = kinds.meant(word).filter(|_| kinds.groups_of(word).is_empty())?;
                let message = format!(
                    "{word:?} is not a resource of Kubernetes, so it differs from the resource of every object: resources are \
                     lower-case plurals"
                );
                let place = comparison.place;
                let place = manifest.place_within(&pointer, place.line as usize, place.column as usize);
                let finding = Finding::warning(manifest, place, "no-such-resource", message);
                Some(finding.advise(format!("did you mean {near:?}?")))
            };
            findings.extend(comparisons.iter().flatten().filter_map(found));
        }
    }
    findings
}

fn is_of_resource(comparison: &Comparison) -> bool {
    let of_object = [Variable::Object, Variable::DownsyncClause].map(Variable::name);
    let root = comparison.root.as_deref();
    comparison.member == "resource" && comparison.list.is_none() && root.is_some_and(|root| of_object.contains(&root))
}

fn impossible(group: Option<&str>, resource: &str, kinds: &Kinds) -> Option<(String, String)> {
    let groups = kinds.groups_of(resource);
    if groups.is_empty() {
        let near = kinds.meant(resource)?;
        let message = format!("{resource:?} is not a resource of Kubernetes: resources are lower-case plurals");
        return Some((message, format!("did you mean {near:?}?")));
    }
    let mut of_group = groups.iter().filter(|known| group.is_none_or(|group| group == **known));
    let is_in_group = of_group.clone().next().is_some();
    match group {
        Some(group) if !is_in_group && kinds.has_group(group) => {
            let shown: Vec<String> = groups.iter().map(|group| format!("{group:?}")).collect();
            let message = format!("API group {group:?} has no {resource}: the clause matches none");
            Some((
                message,
                format!("write `apiGroup: {}`, or remove apiGroup", shown.join(" or ")),
            ))
        }
        _ if is_in_group && of_group.all(|group| !is_watched(group, resource)) => {
            let message = format!("KubeStellar never places {resource}");
            Some((message, "remove it from resources".to_owned()))
        }
        _ => None,
    }
}

/// A clause that matches none of the workload among the files.
fn unmatched(manifest: &Manifest, clause: &Item<'_>, beside: &Beside) -> Option<Finding> {
    let read: DownsyncClause = serde_json::from_value(clause.value.clone()).ok()?;
    let is_matched = |object: &Workload| matches(clause.value, object, beside);
    if beside.workload.is_empty() || beside.workload.iter().any(is_matched) {
        return None;
    }
    let message = format!(
        "the clause matches none of the {} among the files",
        counted(beside.workload.len(), "object")
    );
    let (pointer, advice) = wrong_label(&read, beside).map_or_else(
        || {
            (
                String::new(),
                "correct the clause, or give lint the manifests that it selects".to_owned(),
            )
        },
        |(pointer, advice)| (pointer, advice),
    );
    let place = manifest.place(&format!("{}{pointer}", clause.pointer));
    Some(Finding::warning(manifest, place, "matches-nothing", message).advise(advice))
}

/// As KubeStellar would match it; what the files leave open counts as a match. A clause that cannot be read matches nothing.
pub fn matches(clause: &Value, object: &Workload, beside: &Beside) -> bool {
    let Ok(mut clause) = serde_json::from_value::<DownsyncClause>(clause.clone()) else {
        return false;
    };
    if object.is_of_any_namespace {
        clause.namespaces = None;
    }
    let namespace = object.candidate.namespace.as_deref().unwrap_or_default();
    let is_known = beside.namespaces.contains_key(namespace);
    if object.is_of_any_namespace || (object.candidate.namespace.is_some() && !is_known) {
        clause.namespace_selectors = None;
    }
    let bound = Clauses::new(std::slice::from_ref(&clause)).bind(&object.candidate, &beside.namespaces);
    bound.is_some()
}

/// Where a label is that no object has, and the one that was probably meant.
fn wrong_label(clause: &DownsyncClause, beside: &Beside) -> Option<(String, String)> {
    let all = || beside.workload.iter().flat_map(|object| &object.candidate.labels);
    let selectors = clause.object_selectors.iter().flatten().enumerate();
    selectors
        .flat_map(|(index, selector)| selector.match_labels.iter().flatten().map(move |label| (index, label)))
        .find_map(|(index, (key, value))| {
            if all().any(|label| label == (key, value)) {
                return None;
            }
            let escaped = key.replace('~', "~0").replace('/', "~1");
            let pointer = format!("/objectSelectors/{index}/matchLabels/{escaped}");
            let values = || {
                all()
                    .filter(|(known, _)| *known == key)
                    .map(|(_, value)| value.as_str())
            };
            let near = match values().next() {
                Some(_) => meant(value, values()).map(|near| format!("{key}={near}")),
                None => meant(key, all().map(|(known, _)| known.as_str())).map(|near| format!("{near}={value}")),
            };
            let said = format!("no object has the label {key}={value}");
            let advice = match near {
                Some(near) => format!("{said}; did you mean {near}?"),
                None => said,
            };
            Some((pointer, advice))
        })
}
