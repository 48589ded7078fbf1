//! Which ControllerRevision the template is, and which ones are kept. Must not look at pools.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use serde_json::{Map, Value, json};
use stagegate_api::Digest;
use stagegate_api::workloads::{REVISION_HASH, TemplateType};

use super::children::Children;
use super::facts::{Facts, Revision};
use super::plan::Write;
use super::render::Source;
use super::spec::Checked;
use crate::names::Uid;
use crate::precondition::Precondition;

/// Most characters of a revision's name: it is the value of a label.
const NAME_CHARS_MAX: usize = 63;
/// Characters of the hash at its end.
const HASH_CHARS: usize = 10;
/// Names that are tried before the rest is left to the next decision.
const NAMES_MAX: i32 = 100;

/// The revision that workloads are to be made from.
pub(super) struct Target {
    pub name: String,
    pub number: i64,
    /// Empty for one that is not created yet, or that was not read since.
    pub uid: Uid,
    pub collision_count: Option<i32>,
    /// What makes it the newest.
    pub write: Option<Write>,
}

/// The revision of the template as it is now. `None`: the revisions have to be read first.
pub(super) fn target(facts: &Facts, checked: &Checked<'_>) -> Option<Target> {
    let status = facts.daemon.status.as_ref();
    let collisions = status.and_then(|status| status.collision_count);
    if !facts.read.is_anew() {
        let is_of_now =
            |generation: Option<i64>| generation.is_some() && generation == facts.daemon.metadata.generation;
        let status = status.filter(|status| is_of_now(status.observed_generation))?;
        let name = status.update_revision.clone()?;
        let known = own(facts).find(|revision| revision.name == name)?;
        return Some(Target {
            name,
            number: known.number,
            uid: known.uid.clone(),
            collision_count: collisions,
            write: None,
        });
    }
    let data = data_of(checked);
    let wanted = compared(&data);
    let own = || own(facts);
    let newest = own().map(|revision| revision.number).max().unwrap_or_default();
    let equal = own().filter(|revision| compared(&revision.data) == wanted);
    if let Some(found) = equal.max_by_key(|revision| revision.number) {
        let is_newest = found.number == newest;
        return Some(Target {
            name: found.name.clone(),
            uid: found.uid.clone(),
            number: if is_newest {
                found.number
            } else {
                newest.saturating_add(1)
            },
            collision_count: collisions,
            write: (!is_newest).then(|| Write::RaiseRevision {
                name: found.name.clone(),
                precondition: precondition(found),
                number: newest.saturating_add(1),
            }),
        });
    }
    let first = collisions.unwrap_or_default().max(0);
    let names = (first..first.saturating_add(NAMES_MAX)).map(|count| (count, name_of(facts, &wanted, count)));
    let is_taken = |name: &str| facts.revisions.iter().any(|revision| revision.name == name);
    let mut free = names.filter(|(_, name)| !is_taken(name));
    let (count, name) = free.next()?;
    Some(Target {
        number: newest.saturating_add(1),
        uid: String::new().into(),
        collision_count: if count == 0 { collisions } else { Some(count) },
        write: Some(Write::CreateRevision {
            name: name.clone(),
            number: newest.saturating_add(1),
            data,
        }),
        name,
    })
}

/// The daemon's revisions that nothing was made from, beyond those that are kept.
pub(super) fn prunable(
    facts: &Facts,
    checked: &Checked<'_>,
    (children, is_settled): (&Children<'_>, bool),
    target: &str,
) -> Vec<Write> {
    let mut live: BTreeSet<&str> = children
        .own()
        .filter_map(|child| Some(child.metadata.labels.as_ref()?.get(REVISION_HASH)?.as_str()))
        .collect();
    live.insert(target);
    // Once all pools have settled at the target, that is the current one.
    if let Some(status) = facts.daemon.status.as_ref().filter(|_| !is_settled) {
        live.insert(&status.current_revision);
    }
    let mut old: Vec<&Revision> = own(facts)
        .filter(|revision| !live.contains(revision.name.as_str()))
        .collect();
    old.sort_by_key(|revision| revision.number);
    let surplus = old.len().saturating_sub(checked.history_limit);
    old.into_iter()
        .take(surplus)
        .map(|revision| Write::DeleteRevision {
            name: revision.name.clone(),
            precondition: precondition(revision),
        })
        .collect()
}

fn own(facts: &Facts) -> impl Iterator<Item = &Revision> + '_ {
    let uid = facts.daemon.metadata.uid.as_deref().unwrap_or_default();
    let is_own = move |revision: &&Revision| revision.owner.as_ref().is_some_and(|owner| owner.as_str() == uid);
    facts.revisions.iter().filter(is_own)
}

fn precondition(revision: &Revision) -> Precondition {
    Precondition {
        uid: revision.uid.clone(),
        resource_version: revision.resource_version.clone(),
    }
}

/// What the daemon's revision of this name records. `None`: it is not known, or is of another kind.
pub(super) fn recorded<'a>(facts: &'a Facts, checked: &Checked<'_>, name: &'a str) -> Option<Source<'a>> {
    let revision = own(facts).find(|revision| revision.name == name)?;
    let templates = revision.data.get("spec")?.get("workloadTemplate")?;
    let template = templates.get(member_of(checked.kind))?.as_object()?;
    Some(Source {
        name,
        number: Some(revision.number),
        template,
    })
}

/// As OpenYurt records it.
fn data_of(checked: &Checked<'_>) -> Value {
    json!({"spec": {"workloadTemplate": {"$patch": "replace", member_of(checked.kind): checked.template}}})
}

const fn member_of(kind: TemplateType) -> &'static str {
    match kind {
        TemplateType::Deployment => "deploymentTemplate",
        TemplateType::StatefulSet => "statefulSetTemplate",
    }
}

fn name_of(facts: &Facts, data: &Value, count: i32) -> String {
    let hash: String = Digest::of(&(data, count)).as_str().chars().take(HASH_CHARS).collect();
    let daemon = facts.daemon.name_any();
    let head: String = daemon.chars().take(NAME_CHARS_MAX - HASH_CHARS - 1).collect();
    format!("{}-{hash}", head.trim_end_matches(['-', '.']))
}

/// Members that Go's encoder writes as empty objects where nothing is set; elsewhere an empty object has a meaning of its own.
const EMPTY_WHERE_UNSET: &[&str] = &["metadata", "resources", "status", "strategy", "updateStrategy"];

/// Without what Go's encoder writes for unset members.
fn compared(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let members = map.iter().map(|(key, value)| (key.clone(), compared(value)));
            let is_set = |(key, value): &(String, Value)| match value {
                Value::Null => false,
                Value::Object(map) => !map.is_empty() || !EMPTY_WHERE_UNSET.contains(&key.as_str()),
                _ => true,
            };
            members.filter(is_set).collect::<Map<_, _>>().into()
        }
        Value::Array(list) => list.iter().map(compared).collect(),
        other => other.clone(),
    }
}
