//! Sets of field paths, read and written as `FieldsV1`. A step of a path is kept in its serialised form (`f:name`,
//! `k:{…}`, `v:…`), which is also its order; nothing here knows what the fields mean.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A tree of path steps. `member` says that the path ending here is in the set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    member: bool,
    children: BTreeMap<String, FieldSet>,
}

impl FieldSet {
    pub fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    pub fn is_member(&self) -> bool {
        self.member
    }

    /// Puts the path that ends at this node into the set.
    pub fn mark(&mut self) {
        self.member = true;
    }

    /// Takes the path that ends at this node out of the set.
    pub fn unmark(&mut self) {
        self.member = false;
    }

    pub fn children(&self) -> impl Iterator<Item = (&str, &FieldSet)> {
        self.children.iter().map(|(step, child)| (step.as_str(), child))
    }

    pub fn child(&self, step: &str) -> Option<&FieldSet> {
        self.children.get(step)
    }

    pub fn remove(&mut self, step: &str) {
        self.children.remove(step);
    }

    /// Lets `fill` add paths below `step`, and keeps the step only if it did.
    pub fn below(&mut self, step: String, fill: impl FnOnce(&mut FieldSet)) {
        let mut child = self.children.remove(&step).unwrap_or_default();
        fill(&mut child);
        if !child.is_empty() {
            self.children.insert(step, child);
        }
    }

    pub fn union(mut self, other: &FieldSet) -> FieldSet {
        self.member |= other.member;
        for (step, theirs) in &other.children {
            self.below(step.clone(), |mine| *mine = std::mem::take(mine).union(theirs));
        }
        self
    }

    pub fn difference(mut self, other: &FieldSet) -> FieldSet {
        self.member &= !other.member;
        for (step, theirs) in &other.children {
            if self.children.contains_key(step) {
                self.below(step.clone(), |mine| *mine = std::mem::take(mine).difference(theirs));
            }
        }
        self
    }

    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut both = FieldSet {
            member: self.member && other.member,
            children: BTreeMap::new(),
        };
        for (step, mine) in &self.children {
            if let Some(theirs) = other.children.get(step) {
                both.below(step.clone(), |child| *child = mine.intersection(theirs));
            }
        }
        both
    }

    /// Every path of the set as people read it: `.spec.containers[name="a"].image`.
    pub fn paths(&self) -> Vec<String> {
        fn walk(set: &FieldSet, prefix: &str, out: &mut Vec<String>) {
            if set.member {
                out.push(prefix.to_owned());
            }
            for (step, child) in &set.children {
                walk(child, &format!("{prefix}{}", readable(step)), out);
            }
        }
        let mut out = Vec::new();
        walk(self, "", &mut out);
        out
    }

    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        if self.member && !self.children.is_empty() {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (step, child) in &self.children {
            map.insert(step.clone(), child.to_json());
        }
        Value::Object(map)
    }

    /// Reads `FieldsV1`; the root itself is never a member.
    pub fn from_json(value: &Value) -> FieldSet {
        let mut set = node(value);
        set.member = false;
        set
    }
}

fn node(value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    let Some(map) = value.as_object() else { return set };
    for (step, child) in map {
        if step != "." {
            set.children.insert(step.clone(), node(child));
        }
    }
    set.member = map.contains_key(".") || set.children.is_empty();
    set
}

/// A step as people read it.
pub fn readable(step: &str) -> String {
    if let Some(name) = step.strip_prefix("f:") {
        return format!(".{name}");
    }
    if let Some(Ok(Value::Object(keys))) = step.strip_prefix("k:").map(serde_json::from_str::<Value>) {
        let pairs: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
        return format!("[{}]", pairs.join(","));
    }
    format!("[{}]", step.get(2..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::FieldSet;

    #[test]
    fn fields_v1_survives_a_round_trip() {
        let fields = json!({"f:spec": {".": {}, "f:list": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}}}, "v:1": {}}});
        assert_eq!(FieldSet::from_json(&fields).to_json(), fields);
    }

    #[test]
    fn difference_keeps_what_only_the_left_has() {
        let left = FieldSet::from_json(&json!({"f:a": {}, "f:b": {"f:c": {}, "f:d": {}}}));
        let right = FieldSet::from_json(&json!({"f:a": {}, "f:b": {"f:c": {}}}));
        assert_eq!(left.difference(&right).paths(), [".b.d"]);
    }

    #[test]
    fn paths_are_readable() {
        let set = FieldSet::from_json(&json!({"f:list": {"k:{\"name\":\"a\"}": {"f:image": {}}}}));
        assert_eq!(set.paths(), [".list[name=\"a\"].image"]);
    }
}
