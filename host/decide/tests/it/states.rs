//! Worlds of a rollout in three stages, one for each state it can be in: `tests/edits/states.yaml`, built from the base
//! world, whose first stage stands for any. Must not expect anything.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use stagegate_api::DownsyncClause;
use stagegate_decide::staging::revision_of;

use crate::carry_out::until_still;
use crate::world::{self, Answers, Change, fill};

pub const STAGES: [&str; 3] = ["dev", "test", "prod"];

pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/edits")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Of the policy, in all states.
    spec: Value,
    /// Clauses of an older revision.
    older: Value,
    /// The ConfigMaps of gates.
    sources: Value,
    states: BTreeMap<String, Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    why: String,
    #[serde(default)]
    active: Option<String>,
    stages: BTreeMap<String, StageSetup>,
    /// There is no status yet, or it is another's.
    #[serde(default)]
    status: Option<Value>,
    #[serde(default)]
    set: BTreeMap<String, Value>,
    #[serde(default)]
    unset: Vec<String>,
    /// What has changed since status was written.
    #[serde(default)]
    since: BTreeMap<String, Value>,
    #[serde(default)]
    answers: Answers,
    /// What comes of it when nobody edits anything.
    unedited: Row,
}

/// How a stage stands.
#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum StageSetup {
    /// Nothing of it is placed, and never was.
    Absent,
    /// Its BindingPolicy selects no cluster.
    Closed,
    /// Opened a moment ago: no Binding yet.
    Fresh,
    /// Open, settled and reported.
    Active,
    /// The same, and it has passed.
    Passed,
    /// It has passed, and its placement was removed.
    Gone,
    /// Open, as an older revision had it.
    Old,
    /// Open, as the Go stager left it.
    Unfenced,
}

/// What an edit comes to.
#[derive(Clone, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The writes but those of status, decision by decision: `fence prod; open prod`.
    #[serde(default)]
    pub does: String,
    /// Active stage, phase and reason when nothing is left to do.
    pub ends: String,
    /// The placements then: `dev, test closed, prod old`.
    pub stands: String,
}

pub struct State {
    pub name: String,
    pub world: Value,
    pub answers: Answers,
    pub unedited: Row,
}

/// All states, by name.
pub fn all() -> Vec<State> {
    let text = std::fs::read_to_string(directory().join("states.yaml")).unwrap();
    let file: File = serde_saphyr::from_str(&text).unwrap();
    let build = |(name, written): (&String, &Written)| {
        let world = file.world(written);
        let world = world.unwrap_or_else(|error| panic!("{name} ({}): {error}", written.why));
        // Where nothing is about to happen, status is as it was left.
        let mut world = if written.unedited.does.is_empty() {
            until_still(world, &written.answers).unwrap().world
        } else {
            world
        };
        let since = Change {
            unset: Vec::new(),
            set: written.since.clone(),
        };
        since.apply(&mut world).unwrap();
        State {
            name: name.clone(),
            world,
            answers: written.answers.clone(),
            unedited: written.unedited.clone(),
        }
    };
    file.states.iter().map(build).collect()
}

impl File {
    fn world(&self, written: &Written) -> Result<Value, String> {
        let mut world = world::base();
        world["policy"]["object"]["spec"] = self.spec.clone();
        world["sources"] = self.sources.clone();
        let records: Vec<Value> = STAGES.iter().map(|name| record(name, written.stages[*name])).collect();
        let of_status = json!({
            "observedGeneration": 1, "activeStage": written.active, "phase": "Progressing", "stages": records,
        });
        world["policy"]["object"]["status"] = written.status.clone().unwrap_or(of_status);
        let base = std::mem::take(&mut world["placements"]["shop.stage.dev"]);
        let binding = std::mem::take(&mut world["bindings"]["shop.stage.dev"]);
        let combined = std::mem::take(&mut world["combined"]["default/web-uid.dev-uid"]);
        for member in ["placements", "bindings", "combined"] {
            world[member] = json!({});
        }
        for name in STAGES {
            let setup = written.stages[name];
            let mut placement = named(&base, name);
            placement["object"]["metadata"]["annotations"]["community.kubestellar.io/baseline-version"] =
                baseline(name);
            if let Some(placement) = self.placement(placement, setup) {
                world["placements"][format!("shop.stage.{name}")] = placement;
            }
            if matches!(
                setup,
                StageSetup::Active | StageSetup::Passed | StageSetup::Old | StageSetup::Unfenced
            ) {
                world["bindings"][format!("shop.stage.{name}")] = named(&binding, name);
                world["combined"][format!("default/web-uid.{name}-uid")] = named(&combined, name);
            }
        }
        let change = Change {
            unset: written.unset.clone(),
            set: written.set.clone(),
        };
        change.apply(&mut world)?;
        // The plan that is placed is the one of before any edit.
        let clauses: Vec<DownsyncClause> = serde_json::from_value(self.spec["downsync"].clone()).unwrap();
        fill(&mut world, revision_of(&clauses).as_str());
        Ok(world)
    }

    fn placement(&self, mut entry: Value, setup: StageSetup) -> Option<Value> {
        let object = &mut entry["object"];
        let annotations = &mut object["metadata"]["annotations"];
        match setup {
            StageSetup::Absent | StageSetup::Gone => return None,
            StageSetup::Active | StageSetup::Passed => {}
            StageSetup::Fresh => object["status"]["observedGeneration"] = json!(1),
            StageSetup::Closed => {
                annotations["community.kubestellar.io/attempt"] = json!("0");
                remove(annotations, "community.kubestellar.io/baseline-version");
                remove(&mut object["spec"], "clusterSelectors");
            }
            StageSetup::Old => {
                annotations["community.kubestellar.io/revision"] = json!("older");
                object["spec"]["downsync"] = self.older.clone();
            }
            StageSetup::Unfenced => {
                remove(&mut object["metadata"], "annotations");
                object["spec"]["downsync"] = self.spec["downsync"].clone();
            }
        }
        Some(entry)
    }
}

fn remove(value: &mut Value, member: &str) {
    value.as_object_mut().unwrap().remove(member);
}

/// Where each stage was opened in time: before the one after it.
fn baseline(name: &str) -> Value {
    let place = STAGES.iter().position(|stage| *stage == name).unwrap_or_default();
    json!(["50", "55", "60"][place])
}

/// The base world's first stage under another name.
fn named(value: &Value, name: &str) -> Value {
    let text = |text: &str| text.replace("dev", name);
    match value {
        Value::String(string) => json!(text(string)),
        Value::Array(items) => items.iter().map(|item| named(item, name)).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(key, member)| (text(key), named(member, name)))
            .collect(),
        other => other.clone(),
    }
}

fn record(name: &str, setup: StageSetup) -> Value {
    let of_first = world::base()["policy"]["object"]["status"]["stages"][0].clone();
    let mut record = named(&of_first, name);
    record["objects"][0]["baseline"] = baseline(name);
    let pending = |placement: Value| json!({"name": name, "state": "Pending", "bindingPolicy": placement});
    match setup {
        StageSetup::Absent | StageSetup::Unfenced => return pending(Value::Null),
        StageSetup::Closed | StageSetup::Fresh => return pending(record["bindingPolicy"].clone()),
        StageSetup::Active => {}
        StageSetup::Passed | StageSetup::Gone => {
            record["state"] = json!("Passed");
            record["passedAt"] = json!("2026-01-01T00:05:00Z");
        }
        StageSetup::Old => {
            record["state"] = json!("Outdated");
            record["revision"] = json!("older");
        }
    }
    if setup == StageSetup::Gone {
        remove(&mut record, "bindingPolicy");
    }
    record
}
