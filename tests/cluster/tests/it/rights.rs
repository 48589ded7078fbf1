//! The rights that the shipped roles grant against those that were used, over all trials: the same, in both directions. Must run
//! after them.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use anyhow::ensure;
use serde_json::Value;
use stagegate_cluster_tests::audit::{Right, Used};
use stagegate_cluster_tests::installation::{Kind, rendered};

/// Beside KubeStellar, and in a plain cluster.
static USED: Mutex<[Option<Used>; 2]> = Mutex::new([None, None]);
/// Reads of whatever policies take along: which kinds these are is the users' affair.
const WORKLOADS: &str = "stagegate-workloads";

/// Adds what one trial's hosts did.
pub fn note(kind: Kind, used: Used) {
    let mut all = USED.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all[usize::from(kind == Kind::PlainCluster)].get_or_insert_default();
    all.rights.extend(used.rights);
    all.refused.extend(used.refused);
}

/// `whole`: every trial has run, so what was not used is not needed.
///
/// # Errors
/// The difference, in both directions.
pub fn used_is_granted(kind: Kind, whole: bool) -> anyhow::Result<()> {
    let mut all = USED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(used) = all[usize::from(kind == Kind::PlainCluster)].take() else {
        return Ok(());
    };
    let roles = rendered(kind)?;
    let (of_workloads, granted) = granted(&roles);
    let lines = |name: &str, rights: BTreeSet<&Right>| {
        let lines: Vec<String> = rights.iter().map(|right| format!("  {name}: {right}")).collect();
        lines.join("\n")
    };
    let missing: BTreeSet<&Right> = used
        .rights
        .iter()
        .filter(|right| !granted.contains(right) && !of_workloads.contains(right))
        .collect();
    let unused: BTreeSet<&Right> = granted
        .iter()
        .filter(|right| whole && !used.rights.contains(right))
        .collect();
    let reads: BTreeSet<&Right> = used
        .rights
        .iter()
        .filter(|right| of_workloads.contains(right) && !granted.contains(right))
        .collect();
    eprintln!(
        "{kind:?}: {} rights used of {} granted, and reads of workloads:\n{}",
        used.rights.intersection(&granted).count(),
        granted.len(),
        lines("read", reads)
    );
    ensure!(
        missing.is_empty() && unused.is_empty() && used.refused.is_empty(),
        "{kind:?}:\n{}\n{}\n{}",
        lines("used and not granted", missing),
        lines("granted and not used", unused),
        lines("refused", used.refused.iter().collect())
    );
    Ok(())
}

/// Of workloads, and all others.
fn granted(objects: &[Value]) -> (BTreeSet<Right>, BTreeSet<Right>) {
    let (mut of_workloads, mut others) = (BTreeSet::new(), BTreeSet::new());
    for role in objects
        .iter()
        .filter(|object| object["kind"] == "Role" || object["kind"] == "ClusterRole")
    {
        let is_of_workloads = role["metadata"]["name"]
            .as_str()
            .is_some_and(|name| name.starts_with(WORKLOADS));
        let into = if is_of_workloads {
            &mut of_workloads
        } else {
            &mut others
        };
        for rule in role["rules"].as_array().into_iter().flatten() {
            into.extend(rights_of(rule));
        }
    }
    (of_workloads, others)
}

fn rights_of(rule: &Value) -> Vec<Right> {
    let texts = |name: &str| -> Vec<String> { serde_json::from_value(rule[name].clone()).unwrap_or_default() };
    let mut rights = Vec::new();
    for verb in texts("verbs") {
        for group in texts("apiGroups") {
            for resource in texts("resources") {
                let (resource, subresource) = resource.split_once('/').unwrap_or((&resource, ""));
                rights.push(Right {
                    verb: verb.clone(),
                    group: group.clone(),
                    resource: resource.to_owned(),
                    subresource: subresource.to_owned(),
                });
            }
        }
    }
    rights
}
