//! The fields in which two objects differ, as sets. It compares by typing, so that an item of a keyed list is found
//! wherever it moved to, and leaves out what no manager may own.

use std::collections::BTreeMap;

use serde_json::Value;

use super::set::FieldSet;
use super::typing::{Merge, Typing, field_step, item_step};

/// What an edit added, modified and removed.
#[derive(Default)]
pub struct Changes {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
}

/// Fields of `metadata` that belong to the server and are owned by nobody.
const SERVER_METADATA: &[&str] = &[
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
];

impl Changes {
    pub fn between(old: &Value, new: &Value, typing: Typing<'_>) -> Changes {
        let mut changes = Changes::default();
        let mut cursor = [&mut changes.added, &mut changes.modified, &mut changes.removed];
        compare(
            &mut cursor,
            Pair {
                old: Some(old),
                new: Some(new),
            },
            typing,
        );
        changes.added = without_server_fields(changes.added);
        changes.modified = without_server_fields(changes.modified);
        changes.removed = without_server_fields(changes.removed);
        changes
    }

    /// Everything the edit put into the object.
    pub fn written(&self) -> FieldSet {
        self.added.clone().union(&self.modified)
    }
}

/// Drops what the server owns.
pub(super) fn without_server_fields(mut set: FieldSet) -> FieldSet {
    set.remove("f:apiVersion");
    set.remove("f:kind");
    set.below("f:metadata".to_owned(), |metadata| {
        for field in SERVER_METADATA {
            metadata.remove(&field_step(field));
        }
        metadata.unmark();
    });
    set
}

/// The leaves of an applied configuration: scalars, atomic and empty values, and every item of an addressable list.
pub(super) fn leaves(value: &Value, typing: Typing<'_>) -> FieldSet {
    let mut set = FieldSet::default();
    add_leaves(&mut set, value, typing);
    set
}

fn add_leaves(set: &mut FieldSet, value: &Value, typing: Typing<'_>) {
    match value {
        Value::Object(map) if !map.is_empty() && !typing.is_atomic_map() => {
            for (name, child) in map {
                set.below(field_step(name), |below| add_leaves(below, child, typing.field(name)));
            }
        }
        Value::Array(items) if !items.is_empty() && !matches!(typing.list(), Merge::Atomic) => {
            for item in items {
                if let Some(step) = item_step(typing.list(), item) {
                    set.below(step, |below| {
                        below.mark();
                        if item.is_object() {
                            add_leaves(below, item, typing.item());
                        }
                    });
                }
            }
        }
        _ => set.mark(),
    }
}

/// Marks the value and everything addressable inside it.
fn mark_all(set: &mut FieldSet, value: &Value, typing: Typing<'_>) {
    set.mark();
    match value {
        Value::Object(map) if !typing.is_atomic_map() => {
            for (name, child) in map {
                set.below(field_step(name), |below| mark_all(below, child, typing.field(name)));
            }
        }
        Value::Array(items) => {
            for item in items {
                if let Some(step) = item_step(typing.list(), item) {
                    set.below(step, |below| mark_all(below, item, typing.item()));
                }
            }
        }
        _ => {}
    }
}

#[derive(Clone, Copy)]
struct Pair<'a> {
    old: Option<&'a Value>,
    new: Option<&'a Value>,
}

/// The same node in the three sets: added, modified, removed.
type Cursor<'s> = [&'s mut FieldSet; 3];

fn descend(cursor: &mut Cursor<'_>, step: &str, visit: impl FnOnce(&mut Cursor<'_>)) {
    let mut children: [FieldSet; 3] = Default::default();
    for (child, set) in children.iter_mut().zip(cursor.iter_mut()) {
        set.below(step.to_owned(), |below| *child = std::mem::take(below));
    }
    let [added, modified, removed] = &mut children;
    visit(&mut [added, modified, removed]);
    for (child, set) in children.into_iter().zip(cursor.iter_mut()) {
        set.below(step.to_owned(), |below| *below = child);
    }
}

fn compare(cursor: &mut Cursor<'_>, pair: Pair<'_>, typing: Typing<'_>) {
    let (old, new) = match (pair.old, pair.new) {
        (Some(old), Some(new)) if old == new => return,
        (Some(old), Some(new)) => (old, new),
        (None, Some(new)) => return mark_all(cursor[0], new, typing),
        (Some(old), None) => return mark_all(cursor[2], old, typing),
        (None, None) => return,
    };
    match (old, new) {
        (Value::Object(old), Value::Object(new)) if !typing.is_atomic_map() => {
            let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                let pair = Pair {
                    old: old.get(name),
                    new: new.get(name),
                };
                descend(cursor, &field_step(name), |below| {
                    compare(below, pair, typing.field(name))
                });
            }
        }
        (Value::Array(old), Value::Array(new)) if !matches!(typing.list(), Merge::Atomic) => {
            let mut items: BTreeMap<String, Pair<'_>> = BTreeMap::new();
            for item in old {
                if let Some(step) = item_step(typing.list(), item) {
                    items.entry(step).or_insert(Pair { old: None, new: None }).old = Some(item);
                }
            }
            for item in new {
                if let Some(step) = item_step(typing.list(), item) {
                    items.entry(step).or_insert(Pair { old: None, new: None }).new = Some(item);
                }
            }
            for (step, pair) in items {
                descend(cursor, &step, |below| compare(below, pair, typing.item()));
            }
        }
        _ => mark_all(cursor[1], new, typing),
    }
}
