//! The pieces that proof is made of, found in a world by walking it, and what may happen to each: taken away, aged,
//! blanked, replaced by an error's text, doubled, given to something else. Must not expect anything.

use jiff::Timestamp;
use serde_json::{Value, json};
use stagegate_api::Binding;
use stagegate_decide::staging::{Observed, observe};

/// What happens to a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
pub enum How {
    TakenAway,
    /// An older version, generation or time.
    Aged,
    Blanked,
    ErrorText,
    Doubled,
    /// It is about another object, placement or cluster.
    Given,
    /// It is being deleted.
    Leaving,
}

/// One piece, by its JSON pointer, and what becomes of it.
#[derive(Clone, Debug)]
pub struct Change {
    pub at: String,
    pub how: How,
    /// `None`: it is taken away, or it is an entry under another name.
    to: Option<Value>,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {}", self.how, self.at)?;
        self.to.as_ref().map_or(Ok(()), |to| write!(f, " = {to}"))
    }
}

/// What a rollout's proof rests on.
const ROOTS: [&str; 6] = [
    "placements",
    "bindings",
    "combined",
    "collectors",
    "evidenceCollector",
    "sources",
];

/// Everything that may happen to any piece of the world.
pub fn changes(world: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    for root in ROOTS {
        let Some(value) = world.get(root) else { continue };
        let mut at = format!("/{root}");
        if root == "evidenceCollector" {
            walk(value, &mut at, &mut changes);
            continue;
        }
        for (name, entry) in value.as_object().into_iter().flatten() {
            let length = at.len();
            at.push('/');
            at.push_str(&escaped(name));
            push(&mut changes, &at, How::Given, None);
            walk(entry, &mut at, &mut changes);
            at.truncate(length);
        }
    }
    let is_one = |change: &Change| change.to.is_none() || change.to.as_ref() != world.pointer(&change.at);
    changes.retain(is_one);
    // What this process has seen of a Binding follows from the Binding, and a placement is kept by its name.
    let is_kept = |change: &Change| change.at.starts_with("/placements/") && change.at.ends_with("/metadata/name");
    changes.retain(|change| !change.at.contains("/observed") && !is_kept(change));
    changes
}

fn push(changes: &mut Vec<Change>, at: &str, how: How, to: Option<Value>) {
    changes.push(Change {
        at: at.to_owned(),
        how,
        to,
    });
}

fn walk(value: &Value, at: &mut String, changes: &mut Vec<Change>) {
    if value.is_null() {
        return;
    }
    push(changes, at, How::TakenAway, None);
    if at.ends_with("/metadata") {
        let mut leaving = value.clone();
        leaving["deletionTimestamp"] = json!("2026-01-01T00:09:59Z");
        push(changes, at, How::Leaving, Some(leaving));
    }
    errors(value, at, changes);
    let is_decoded = value.get("object").is_some_and(|object| object.get("kind").is_some());
    if is_decoded {
        push(changes, at, How::ErrorText, Some(json!({"invalid": {"error": "torn"}})));
    }
    let members: Vec<(String, &Value)> = match value {
        Value::String(text) => return of_text(text, at, changes),
        Value::Number(number) => {
            push(changes, at, How::Blanked, Some(json!(0)));
            if let Some(number) = number.as_i64() {
                push(changes, at, How::Aged, Some(json!(number - 1)));
            }
            return;
        }
        Value::Array(items) => {
            if let Some(first) = items.first() {
                push(changes, at, How::Blanked, Some(json!([])));
                let doubled: Vec<&Value> = items.iter().chain([first]).collect();
                push(changes, at, How::Doubled, Some(json!(doubled)));
            }
            items
                .iter()
                .enumerate()
                .map(|(index, item)| (index.to_string(), item))
                .collect()
        }
        Value::Object(members) => {
            if !members.is_empty() {
                push(changes, at, How::Blanked, Some(json!({})));
            }
            members.iter().map(|(name, member)| (escaped(name), member)).collect()
        }
        Value::Bool(_) | Value::Null => return,
    };
    for (name, member) in members {
        let length = at.len();
        at.push('/');
        at.push_str(&name);
        walk(member, at, changes);
        at.truncate(length);
    }
}

/// What KubeStellar writes beside a piece that went wrong.
fn errors(value: &Value, at: &str, changes: &mut Vec<Change>) {
    let mut told = |member: &str, errors: Value| {
        let mut with = value.clone();
        with[member] = errors;
        push(changes, at, How::ErrorText, Some(with));
    };
    if value.get("columnNames").is_some() {
        let error = json!({"wec": {"clusterId": "dev-1"}, "columnName": "", "error": "no such key"});
        told("rowErrors", json!([error]));
        told(
            "aggregationErrors",
            json!([{"columnName": "sum", "error": "no such overload"}]),
        );
    }
    if at.starts_with("/bindings/") && at.ends_with("/status") {
        told("errors", json!(["the template cannot be expanded"]));
    }
    if at.starts_with("/collectors/") && value.get("spec").is_some() {
        told("status", json!({"errors": ["the expression does not compile"]}));
    }
}

fn of_text(text: &str, at: &str, changes: &mut Vec<Change>) {
    // An API server numbers the versions of what it stores, and a Binding repeats such a number.
    if at.contains("/workload/") && at.ends_with("/resourceVersion") {
        push(changes, at, How::Given, Some(json!(format!("9{text}"))));
        return push(changes, at, How::Aged, Some(json!("1")));
    }
    push(changes, at, How::Blanked, Some(json!("")));
    push(changes, at, How::ErrorText, Some(json!("failed to evaluate")));
    push(changes, at, How::Given, Some(json!(format!("{text}-other"))));
    if text.parse::<u64>().is_ok() {
        push(changes, at, How::Aged, Some(json!("1")));
    }
    if text.parse::<Timestamp>().is_ok() {
        for older in ["1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z"] {
            push(changes, at, How::Aged, Some(json!(older)));
        }
    }
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

impl Change {
    /// The world after it, with what a process that watches makes of it; `None` where an earlier change took the place away.
    pub fn apply(&self, world: &Value) -> Option<Value> {
        let mut world = world.clone();
        let (parent, name) = self.at.rsplit_once('/')?;
        let name = name.replace("~1", "/").replace("~0", "~");
        match (world.pointer_mut(parent)?, &self.to) {
            (Value::Object(members), Some(to)) => *members.get_mut(&name)? = to.clone(),
            (Value::Object(members), None) => {
                let mut entry = members.remove(&name)?;
                if self.how == How::Given {
                    let other = format!("{name}-other");
                    if parent == "/placements" {
                        entry["object"]["metadata"]["name"] = json!(other);
                    }
                    members.insert(other, entry);
                }
            }
            (Value::Array(items), Some(to)) => *items.get_mut(name.parse::<usize>().ok()?)? = to.clone(),
            (Value::Array(items), None) => {
                let index = name.parse::<usize>().ok().filter(|index| *index < items.len())?;
                items.remove(index);
            }
            _ => return None,
        }
        self.noticed(&mut world);
        Some(world)
    }

    /// Whether it is about a piece that is, holds or is held by the one at `pointer`.
    pub fn touches(&self, pointer: &str) -> bool {
        let within = |inner: &str, outer: &str| {
            inner
                .strip_prefix(outer)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        within(&self.at, pointer) || within(pointer, &self.at)
    }

    /// The object that nobody can tell anything of after it: without its uid, its version, its owner or all of our words.
    pub fn hides(&self) -> Option<&str> {
        let (object, member) = self.at.split_once("/metadata/")?;
        let is_identity = ["uid", "resourceVersion", "ownerReferences"]
            .iter()
            .any(|name| member.starts_with(name));
        (is_identity || member == "annotations").then_some(object)
    }

    /// Whether it is about a member of a `spec`, or about all of them.
    pub fn touches_member(&self, name: &str) -> bool {
        self.at.ends_with("/spec") || self.at.contains(&format!("/spec/{name}"))
    }

    /// A process sees the sets of Bindings and the specs of collectors change.
    fn noticed(&self, world: &mut Value) {
        let now = world["now"].clone();
        let mut parts = self.at.split('/').skip(1);
        let (root, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let is_whole = |last: &str| self.at.rsplit('/').next() == Some(last) || self.at == format!("/{root}");
        let is_of_spec = self.at.contains("/spec") || is_whole("object") || is_whole(name);
        match root {
            "bindings" => {
                let at: Timestamp = serde_json::from_value(now).unwrap();
                let Some(entry) = world["bindings"].get_mut(name) else {
                    return;
                };
                let previous: Option<Observed> = serde_json::from_value(entry["observed"].clone()).ok();
                let binding: Option<Binding> = serde_json::from_value(entry["object"]["object"].clone()).ok();
                entry["observed"] = json!(observe(previous.as_ref(), binding.as_ref(), at));
            }
            "collectors" if is_of_spec => world["collectorsChanged"] = json!({ name: now }),
            "evidenceCollector" if is_of_spec && world["evidenceCollector"].is_object() => {
                world["evidenceCollector"]["oursSince"] = Value::Null;
            }
            _ => {}
        }
    }
}
