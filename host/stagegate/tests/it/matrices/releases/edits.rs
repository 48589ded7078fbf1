//! Every kind of edit, each at calls of a release of version 2: in the end all stages have what is newest.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{ends, some_of, undisturbed, until_call};
use crate::harness::{Call, Pace, WELL, World, image, workload};
use crate::matrices::{Matrix, broken, in_virtual_time};

/// Between the two halves of an edit that is taken back.
const HALVES_APART_S: u64 = 5;
/// So many calls follow one another, and an edit is made at one of them.
const CALLS_TO_AN_EDIT: u64 = 6;

type Change = fn(&mut Value);

enum Edit {
    /// A merge patch of the Deployment.
    Workload(fn() -> Value),
    /// The Deployment is deleted, and made again with version 2 so many seconds later.
    MadeAgain(u64),
    /// Of the policy's spec.
    Policy(Change),
    /// And then another one.
    PolicyTwice(Change, Change),
}

/// What slipped in between KubeStellar's write and transport's reading is no news to the cluster when it is released: it has to be
/// something else.
const OVERDUE: &[&str] = &["UpdateAcknowledgementOverdue"];
/// A cluster that has version 2 already has nothing to report about the object that was made again.
const SAME_AGAIN: &[&str] = &["UpdateAcknowledgementOverdue", "NotReported", "CombinedStatusMissing"];

/// An edit, and the reasons of status for which a person may have to do what it says.
struct Row(&'static str, Edit, &'static [&'static str]);

const OF_THE_WORKLOAD: &[Row] = &[
    Row("version 2 is taken back", Edit::Workload(|| image("web", 1)), OVERDUE),
    Row("version 3", Edit::Workload(|| image("web", 3)), OVERDUE),
    Row(
        "a label",
        Edit::Workload(|| json!({"metadata": {"labels": {"team": "a"}}})),
        OVERDUE,
    ),
    Row("deleted and made again at once", Edit::MadeAgain(0), SAME_AGAIN),
    Row("deleted and made again later", Edit::MadeAgain(7), SAME_AGAIN),
];

const OF_THE_POLICY: &[Row] = &[
    Row(
        "a pause",
        Edit::PolicyTwice(
            |spec| spec["paused"] = json!(true),
            |spec| spec["paused"] = json!(false),
        ),
        &[],
    ),
    Row(
        "other conditions",
        Edit::Policy(|spec| each(spec, "condition", &json!(format!("({WELL}) && true")))),
        &[],
    ),
    Row("a soak", Edit::Policy(|spec| each(spec, "soak", &json!("5s"))), &[]),
    Row(
        "a filter",
        Edit::Policy(|spec| each(spec, "filter", &json!("downsyncClause.resource == \"deployments\""))),
        &[],
    ),
    Row(
        "a third stage",
        Edit::Policy(|spec| stages(spec).push(stage("prod"))),
        &[],
    ),
    Row(
        "the second stage is taken out",
        Edit::Policy(|spec| drop(stages(spec).pop())),
        &["ActiveStageRemoved"],
    ),
    Row(
        "immediate updates",
        Edit::Policy(|spec| spec["updates"] = json!("Immediate")),
        &[],
    ),
    Row(
        "immediate updates for a while",
        Edit::PolicyTwice(
            |spec| spec["updates"] = json!("Immediate"),
            |spec| spec["updates"] = json!("Staged"),
        ),
        &[],
    ),
];

#[test]
fn whatever_the_workload_is_edited_to_at_any_call_of_a_release_all_stages_get_it() {
    edit_at_calls("edits of the workload in a release", OF_THE_WORKLOAD);
}

#[test]
fn whatever_the_policy_is_edited_to_at_any_call_of_a_release_all_stages_get_version_2() {
    edit_at_calls("edits of the policy in a release", OF_THE_POLICY);
}

fn edit_at_calls(name: &str, rows: &[Row]) {
    let calls = undisturbed(Pace::Fast);
    let mut matrix = Matrix::new(name);
    let mut helped = BTreeMap::<String, usize>::new();
    for (seed, row) in (0..).zip(rows) {
        for nth in some_of(&calls, CALLS_TO_AN_EDIT, seed) {
            let outcome = in_virtual_time(edited(row, nth));
            for reason in outcome.iter().flatten() {
                *helped.entry(format!("{}, {reason}", row.0)).or_default() += 1;
            }
            let Call { method, target } = &calls[nth - 1];
            let case = || format!("{} before call {nth} of {}, {method} {target}", row.0, calls.len());
            matrix.add(case, outcome.map(drop));
        }
    }
    crate::tell(&format!("{name}: a person had to act on {helped:?}"));
    matrix.end();
}

/// The reasons of status that a person had to act on.
async fn edited(Row(_, edit, reasons): &Row, nth: usize) -> Result<Vec<&'static str>, String> {
    let mut world = until_call(Pace::Fast, nth).await;
    edit.begin(&world).await;
    world.tap.flow_again();
    edit.go_on(&world).await;
    let ended = ends(&world, reasons).await;
    let events = world.events("web").await;
    broken(&mut world)?;
    let helped = ended?;
    if *reasons == OVERDUE && !helped.is_empty() && !events.contains_key("DeliveryUnproven") {
        return Err("overdue, and no Event says that something may have slipped in".to_owned());
    }
    Ok(helped)
}

fn stages(spec: &mut Value) -> &mut Vec<Value> {
    spec["stages"].as_array_mut().unwrap()
}

fn stage(env: &str) -> Value {
    json!({"name": env, "clusterSelectors": [{"matchLabels": {"env": env}}], "condition": WELL})
}

fn each(spec: &mut Value, member: &str, value: &Value) {
    for stage in stages(spec) {
        stage[member] = value.clone();
    }
}

impl Edit {
    async fn begin(&self, world: &World) {
        match self {
            Self::Workload(patch) => world.edit_deployment("web", patch()).await,
            Self::MadeAgain(later_s) => {
                world.delete(&world.deployments(), "web").await;
                if *later_s == 0 {
                    make_again(world).await;
                }
            }
            Self::Policy(change) | Self::PolicyTwice(change, _) => put(world, *change).await,
        }
    }

    async fn go_on(&self, world: &World) {
        match self {
            Self::Workload(_) | Self::Policy(_) | Self::MadeAgain(0) => {}
            Self::MadeAgain(later_s) => {
                world.pass(*later_s).await;
                make_again(world).await;
            }
            Self::PolicyTwice(_, change) => {
                world.pass(HALVES_APART_S).await;
                put(world, *change).await;
            }
        }
    }
}

async fn make_again(world: &World) {
    world.apply(&workload("web").replace("web:1", "web:2")).await;
}

async fn put(world: &World, change: Change) {
    let mut spec = json!(world.policies().get("web").await.unwrap().spec);
    change(&mut spec);
    world.edit_policy("web", json!({"spec": spec})).await;
}
