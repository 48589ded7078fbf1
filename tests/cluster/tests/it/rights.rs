//! The rights that the shipped roles grant against those that were used, over all trials: the same, in both directions. Must run
//! after them.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use anyhow::ensure;
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;
use stagegate_cluster_tests::audit::Right;
use stagegate_cluster_tests::installation::{Kind, rendered};

/// What the hosts of all trials did.
#[derive(Default)]
struct All {
    used: BTreeSet<Right>,
    /// Those that a trial's user had granted besides.
    added: BTreeSet<Right>,
}

/// By the kind of installation.
static ALL: Mutex<[Option<All>; 3]> = Mutex::new([None, None, None]);
/// Reads of whatever policies take along: which kinds these are is the users' affair.
const WORKLOADS: &str = "stagegate-workloads";

/// Adds what one trial's hosts did, under the shipped roles and under rules that its user added to them.
pub fn note(kind: Kind, used: BTreeSet<Right>, added: &[PolicyRule]) {
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all[kind as usize].get_or_insert_default();
    let of_user = used.iter().filter(|right| added.iter().any(|rule| grants(rule, right)));
    all.added.extend(of_user.cloned());
    all.used.extend(used);
}

fn grants(rule: &PolicyRule, right: &Right) -> bool {
    let resource = match right.subresource.as_str() {
        "" => right.resource.clone(),
        part => format!("{}/{part}", right.resource),
    };
    let has = |list: &[String], word: &str| list.iter().any(|one| one == "*" || one == word);
    has(&rule.verbs, &right.verb)
        && has(rule.api_groups.as_deref().unwrap_or_default(), &right.group)
        && has(rule.resources.as_deref().unwrap_or_default(), &resource)
}

/// `whole`: every trial has run, so what was not used is not needed.
///
/// # Errors
/// The difference, in both directions.
pub fn used_is_granted(kind: Kind, whole: bool) -> anyhow::Result<()> {
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(All { used, added }) = all[kind as usize].take() else {
        return Ok(());
    };
    let roles = rendered(kind)?;
    let (of_workloads, granted) = granted(&roles);
    let lines = |name: &str, rights: BTreeSet<&Right>| {
        let lines: Vec<String> = rights.iter().map(|right| format!("  {name}: {right}")).collect();
        lines.join("\n")
    };
    let missing: BTreeSet<&Right> = used
        .iter()
        .filter(|right| !granted.contains(right) && !of_workloads.contains(right) && !added.contains(right))
        .collect();
    let is_unused = |right: &&Right| whole && !used.contains(right) && !is_silent(right);
    let unused: BTreeSet<&Right> = granted.iter().filter(is_unused).collect();
    let reads: BTreeSet<&Right> = used
        .iter()
        .filter(|right| of_workloads.contains(right) && !granted.contains(right))
        .collect();
    eprintln!(
        "{kind:?}: {} rights used of {} granted, and reads of workloads:\n{}",
        used.intersection(&granted).count(),
        granted.len(),
        lines("read", reads)
    );
    ensure!(
        missing.is_empty() && unused.is_empty(),
        "{kind:?}:\n{}\n{}",
        lines("used and not granted", missing),
        lines("granted and not used", unused)
    );
    Ok(())
}

/// What no audit log shows although it is needed: an apply that creates is a patch there, and the right to an owner's finalizers is checked by
/// an admission plugin that is off here.
fn is_silent(right: &Right) -> bool {
    let is_applied = right.verb == "create" && matches!(right.resource.as_str(), "deployments" | "statefulsets");
    is_applied || right.subresource == "finalizers"
}

/// Of workloads, and all others. Only roles that a binding grants to the program count: those for people are bound by people.
fn granted(objects: &[Value]) -> (BTreeSet<Right>, BTreeSet<Right>) {
    let (mut of_workloads, mut others) = (BTreeSet::new(), BTreeSet::new());
    let is_bound = |role: &Value| {
        let (kind, name) = (&role["kind"], &role["metadata"]["name"]);
        let refers = |object: &Value| object["roleRef"]["kind"] == *kind && object["roleRef"]["name"] == *name;
        objects.iter().any(refers)
    };
    for role in objects.iter().filter(|object| is_bound(object)) {
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
