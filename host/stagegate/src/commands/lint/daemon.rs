//! What is wrong with a YurtAppDaemon beyond its schema: what the controller refuses, conditions, and stages that never get a pool. Must
//! not look at NodePools.

use serde_json::Value;
use stagegate_api::workloads::YurtAppDaemon;
use stagegate_decide::pools;
use stagegate_decide::staging::Root;
use stagegate_evaluate::reading;

use super::expression;
use super::finding::Finding;
use super::policy::{Item, items};
use super::requirements::Requirements;
use super::{schema, stages};
use crate::manifests::Manifest;

/// Where a YurtAppDaemon has its stages.
pub const STAGES: &str = "/spec/updateStrategy/stages";

/// A stage whose selector can match something.
struct Stage<'a> {
    name: &'a str,
    /// Of its selector.
    pointer: String,
    pools: Requirements,
}

pub fn findings(manifest: &Manifest) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    if let Some(selector) = member(manifest, "/spec", "nodepoolSelector") {
        findings.extend(stages::of_selector(manifest, &selector).err().flatten());
    }
    let mut earlier: Vec<Stage<'_>> = Vec::new();
    for item in items(manifest, STAGES) {
        findings.extend(stages::without_text(manifest, &item));
        findings.extend(of_condition(manifest, &format!("{}/condition", item.pointer)));
        let Some(selector) = member(manifest, &item.pointer, "nodepoolSelector") else {
            continue;
        };
        match stages::of_selector(manifest, &selector) {
            Ok(readable) => {
                let stage = Stage {
                    name: item.value.get("name").and_then(Value::as_str).unwrap_or_default(),
                    pointer: selector.pointer,
                    pools: Requirements::of(&readable),
                };
                findings.extend(never_gets_a_pool(manifest, &earlier, &stage));
                earlier.push(stage);
            }
            Err(finding) => findings.extend(finding),
        }
    }
    let said: Vec<_> = findings.iter().map(|finding| finding.place.bytes.clone()).collect();
    let refused = mistakes(manifest).into_iter();
    findings.extend(refused.filter(|finding| !said.contains(&finding.place.bytes)));
    findings
}

/// A member that is there, with its JSON pointer.
fn member<'a>(manifest: &'a Manifest, within: &str, name: &str) -> Option<Item<'a>> {
    let pointer = format!("{within}/{name}");
    let value = manifest.value.pointer(&pointer)?;
    Some(Item { pointer, value })
}

fn of_condition(manifest: &Manifest, pointer: &str) -> Vec<Finding> {
    let text = manifest.text_at(pointer);
    if text.is_empty() {
        return Vec::new();
    }
    let constant = reading(text).and_then(|reading| expression::constant(manifest, pointer, (Root::Pools, &reading)));
    let refused = expression::check(manifest, pointer, Root::Pools);
    constant.into_iter().chain(refused).collect()
}

/// A warning at a stage if every pool that it selects certainly belongs to one before it.
fn never_gets_a_pool(manifest: &Manifest, earlier: &[Stage<'_>], stage: &Stage<'_>) -> Option<Finding> {
    // The schema says that two have one name.
    let mut others = earlier.iter().filter(|other| other.name != stage.name);
    let taker = others.find(|other| other.pools.include(&stage.pools))?;
    let (name, other) = (stage.name, taker.name);
    let message = format!(
        "stage {name} never gets a pool: stage {other} before it selects every pool that it selects, and a pool belongs to the first \
         stage that selects it; the update waits there (NoPools)"
    );
    let advice = "give each stage a label that only its pools have, or put the stage that selects fewer pools first";
    Some(Finding::warning(manifest, manifest.place(&stage.pointer), "no-pools", message).advise(advice))
}

/// What the controller would refuse; the schema says it where the manifest is no YurtAppDaemon at all.
fn mistakes(manifest: &Manifest) -> Vec<Finding> {
    let Ok(daemon) = serde_json::from_value::<YurtAppDaemon>(manifest.value.clone()) else {
        return Vec::new();
    };
    let finding = |mistake: String| {
        let field = mistake.split([':', ' ']).next().unwrap_or_default();
        let place = manifest.place(&schema::pointer(field));
        Finding::error(manifest, place, "spec", mistake)
    };
    pools::mistakes(&daemon).into_iter().map(finding).collect()
}
