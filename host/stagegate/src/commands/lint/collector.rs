//! What is wrong with a StatusCollector beyond its schema: KubeStellar's own rules, which it tells only in the status,
//! and expressions that hurt it.

use serde_json::Value;

use super::expression;
use super::finding::Finding;
use crate::manifests::Manifest;

const AGGREGATORS: [&str; 5] = ["AVG", "COUNT", "MAX", "MIN", "SUM"];

pub fn findings(manifest: &Manifest) -> Vec<Finding> {
    let mut findings = shape(manifest);
    findings.extend(combined_fields(manifest));
    for pointer in expressions(manifest) {
        findings.extend(of_expression(manifest, &pointer));
    }
    for index in 0..len(manifest, "/spec/groupBy") {
        let pointer = format!("/spec/groupBy/{index}/def");
        if expression::is_a_collection(manifest.text_at(&pointer)) {
            let message = "groups by a map or list: KubeStellar's controller panics on such a key, and no row of \
             this collector ever counts";
            let advice = "group by a string, number or bool, for example one label";
            findings.push(Finding::error(manifest, manifest.place(&pointer), "group-by-map", message).advise(advice));
        }
    }
    findings
}

fn shape(manifest: &Manifest) -> Vec<Finding> {
    let has = |member: &str| len(manifest, &format!("/spec/{member}")) > 0;
    let mut findings = Vec::new();
    let mut error = |member: &str, rule, message: &str, advice: &str| {
        let place = manifest.place(&format!("/spec/{member}"));
        findings.push(Finding::error(manifest, place, rule, message).advise(advice));
    };
    if has("select") && (has("combinedFields") || has("groupBy")) {
        let message = "select together with combinedFields or groupBy: KubeStellar treats the collector as absent";
        error("select", "select-and-combine", message, "make two collectors of it");
    }
    if has("groupBy") && !has("combinedFields") {
        let message = "groupBy without combinedFields: KubeStellar treats the collector as absent";
        error(
            "groupBy",
            "group-by-alone",
            message,
            "say what is combined in each group",
        );
    }
    if manifest.value.pointer("/spec").is_some() && manifest.value.pointer("/spec/limit").is_none() {
        error(
            "limit",
            "limit",
            "spec.limit is missing: the API server refuses the object",
            "add `limit: 20`",
        );
    }
    if manifest.value.pointer("/spec").is_some() && !has("select") && !has("combinedFields") {
        let place = manifest.place("/spec");
        let message = "neither select nor combinedFields: every result is one empty row";
        findings.push(Finding::warning(manifest, place, "no-columns", message));
    }
    findings
}

fn combined_fields(manifest: &Manifest) -> Vec<Finding> {
    let mut findings = Vec::new();
    for index in 0..len(manifest, "/spec/combinedFields") {
        let pointer = format!("/spec/combinedFields/{index}");
        let aggregator = manifest.text_at(&format!("{pointer}/type"));
        let has_subject = manifest.value.pointer(&format!("{pointer}/subject")).is_some();
        let place = manifest.place(&format!("{pointer}/type"));
        if !AGGREGATORS.contains(&aggregator) {
            let message = format!("unknown type {aggregator:?}: the column would be Null, with an error beside it");
            let advice = format!("one of {}", AGGREGATORS.join(", "));
            findings.push(Finding::error(manifest, place, "aggregator", message).advise(advice));
        } else if (aggregator == "COUNT") == has_subject {
            let message = match has_subject {
                true => "COUNT counts rows and takes no subject: KubeStellar treats the collector as absent".to_owned(),
                false => format!("{aggregator} without subject: KubeStellar treats the collector as absent"),
            };
            findings.push(Finding::error(manifest, place, "subject", message));
        }
    }
    findings
}

fn of_expression(manifest: &Manifest, pointer: &str) -> Vec<Finding> {
    let text = manifest.text_at(pointer);
    let place = || manifest.place(pointer);
    let mut findings: Vec<Finding> = expression::of_collector(manifest, pointer).into_iter().collect();
    if let Some(variable) = expression::endless_in_kubestellar(text) {
        let message = format!(
            "a longer word containing {variable:?} comes before {variable:?} itself: KubeStellar (up to v0.30) \
            scans such an \
             expression for ever and combines no status any more"
        );
        let advice = "use the variable first, or write the member as `returned.status[\"…\"]` after it";
        findings.push(Finding::warning(manifest, place(), "kubestellar-endless-scan", message).advise(advice));
    }
    if let Some(function) = expression::unknown_to_kubestellar(text) {
        let message = format!("{function}() is unknown to KubeStellar, which then treats the collector as absent");
        let advice = "use CEL's standard functions and macros only";
        findings.push(Finding::warning(manifest, place(), "kubestellar-function", message).advise(advice));
    }
    findings
}

fn expressions(manifest: &Manifest) -> Vec<String> {
    let listed = [("groupBy", "def"), ("combinedFields", "subject"), ("select", "def")];
    let of_list = |(list, member): (&str, &str)| -> Vec<String> {
        (0..len(manifest, &format!("/spec/{list}")))
            .map(|index| format!("/spec/{list}/{index}/{member}"))
            .collect()
    };
    let mut pointers = vec!["/spec/filter".to_owned()];
    pointers.extend(listed.into_iter().flat_map(of_list));
    pointers.retain(|pointer| manifest.value.pointer(pointer).is_some_and(Value::is_string));
    pointers
}

fn len(manifest: &Manifest, pointer: &str) -> usize {
    manifest
        .value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(0, Vec::len)
}
