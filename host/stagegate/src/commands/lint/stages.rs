//! What is wrong with the clusters that stages select, as far as the selectors alone tell. Must not look at a cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;
use stagegate_decide::selector::Selector;

use super::finding::Finding;
use super::policy::{Item, STAGES, items};
use super::requirements::Requirements;
use super::updates;
use crate::manifests::Manifest;

/// A stage's selectors that can be read and are not contradictory.
struct Stage<'a> {
    name: &'a str,
    pointer: String,
    selectors: Vec<Requirements>,
    selects_all: bool,
}

pub fn findings(manifest: &Manifest) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut stages: Vec<Stage<'_>> = Vec::new();
    for item in items(manifest, STAGES) {
        let (stage, found) = of_stage(manifest, &item);
        findings.extend(found);
        findings.extend(stages.iter().filter_map(|earlier| shared(manifest, earlier, &stage)));
        stages.push(stage);
    }
    findings
}

/// An expression without a text: the API server drops one with nothing behind it, and the controller refuses an empty one.
pub fn without_text(manifest: &Manifest, item: &Item<'_>) -> Vec<Finding> {
    let is_empty = |value: &Value| value.is_null() || value.as_str() == Some("");
    let is_without = |name: &&str| item.value.get(*name).is_some_and(is_empty);
    let empty = ["filter", "condition"].into_iter().filter(is_without);
    empty
        .map(|name| {
            let place = manifest.place(&format!("{}/{name}", item.pointer));
            let message = format!("{name} is empty: remove it, or write an expression");
            Finding::error(manifest, place, "empty-expression", message)
        })
        .collect()
}

/// What is wrong with each selector of a list: it cannot be read, or it matches nothing.
pub fn of_selectors(manifest: &Manifest, pointer: &str) -> (Vec<LabelSelector>, Vec<Finding>) {
    let (mut readable, mut findings) = (Vec::new(), Vec::new());
    for item in items(manifest, pointer) {
        match of_selector(manifest, &item) {
            Ok(selector) => readable.push(selector),
            Err(finding) => findings.extend(finding),
        }
    }
    (readable, findings)
}

/// A selector that can match something, or what is wrong with it; nothing where the schema says that it is none at all.
pub fn of_selector(manifest: &Manifest, item: &Item<'_>) -> Result<LabelSelector, Option<Finding>> {
    let selector = serde_json::from_value::<LabelSelector>(item.value.clone()).map_err(|_cause| None)?;
    let place = || manifest.place(&item.pointer);
    if let Err(error) = Selector::try_from(&selector) {
        let message = format!("the selector cannot be read: {error}");
        return Err(Some(Finding::error(manifest, place(), "selector", message)));
    }
    if let Some(contradiction) = Requirements::of(&selector).contradiction() {
        let message = format!("the selector matches nothing: {contradiction}");
        return Err(Some(Finding::warning(manifest, place(), "selector", message)));
    }
    Ok(selector)
}

fn of_stage<'a>(manifest: &'a Manifest, item: &Item<'a>) -> (Stage<'a>, Vec<Finding>) {
    let name = item.value.get("name").and_then(Value::as_str).unwrap_or_default();
    let pointer = format!("{}/clusterSelectors", item.pointer);
    let (selectors, mut findings) = of_selectors(manifest, &pointer);
    findings.extend(without_text(manifest, item));
    let place = || manifest.place(&pointer);
    let selects_all = selectors.contains(&LabelSelector::default());
    if items(manifest, &pointer).is_empty() {
        let message = format!("stage {name} has no clusterSelectors, so it selects no cluster and waits");
        let advice = "add some, for example `clusterSelectors: [{matchLabels: {env: dev}}]`";
        findings.push(Finding::warning(manifest, place(), "no-clusters", message).advise(advice));
    } else if selects_all {
        let message = format!("stage {name} selects every cluster, those of all other stages too");
        let advice = "name a label that only the clusters of this stage have";
        findings.push(Finding::warning(manifest, place(), "every-cluster", message).advise(advice));
    }
    let selectors = selectors.iter().map(Requirements::of).collect();
    let stage = Stage {
        name,
        pointer,
        selectors,
        selects_all,
    };
    (stage, findings)
}

/// The same where one of the two selects all clusters. That it does is said already, and only staged updates need more than that.
fn with_all(manifest: &Manifest, earlier: &Stage<'_>, later: &Stage<'_>) -> Option<Finding> {
    let (all, other) = if earlier.selects_all {
        (earlier, later)
    } else {
        (later, earlier)
    };
    let is_empty = other.selectors.is_empty() && !other.selects_all;
    let fact = format!("all clusters of stage {} belong to stage {}, too", other.name, all.name);
    let place = manifest.place(&later.pointer);
    (updates::are_staged(manifest) && !is_empty).then(|| updates::shared(manifest, place, &fact))
}

/// A warning at the later stage if every cluster that one selector of a stage selects is certainly in the other stage, too.
fn shared(manifest: &Manifest, earlier: &Stage<'_>, later: &Stage<'_>) -> Option<Finding> {
    // The schema says that two have one name.
    if earlier.name == later.name {
        return None;
    }
    if earlier.selects_all || later.selects_all {
        return with_all(manifest, earlier, later);
    }
    let within = |inner: &Stage<'_>, outer: &Stage<'_>| {
        let is_in_outer = |inner: &Requirements| outer.selectors.iter().any(|outer| outer.include(inner));
        inner.selectors.iter().any(is_in_outer)
    };
    let (one, other) = (earlier.name, later.name);
    let inclusions = (within(later, earlier), within(earlier, later));
    let fact = match inclusions {
        (true, true) => format!("stages {one} and {other} select the same clusters"),
        (true, false) => format!("some clusters of stage {other} belong to stage {one}, too"),
        (false, true) => format!("some clusters of stage {one} belong to stage {other}, too"),
        (false, false) => return None,
    };
    let place = manifest.place(&later.pointer);
    if updates::are_staged(manifest) {
        return Some(updates::shared(manifest, place, &fact));
    }
    let before = match inclusions {
        (true, true) => format!(", before stage {other} opens"),
        _ => String::new(),
    };
    let message = format!("{fact}: they get the workload with stage {one}{before}");
    let advice = "give each stage a label that only its clusters have, unless they are meant to share these";
    Some(Finding::warning(manifest, place, "shared-clusters", message).advise(advice))
}
