//! Runs `tests/cases/*.yaml`: a changed base world, what is answered to questions, and what must come of it.
//!
//! A case: `why` (the sentence it proves), `in` (named changes of the base world, from `tests/cases/worlds`), `set` and
//! `unset` (JSON pointers into it), `answers`, `anew` (what is different when everything is read anew), `expect`, and
//! `then`: further steps, each in the world that the step before left with its status written and its answers known.
//! Only what `expect` names is compared, and every sentence must be safe to show on a terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Value, json};
use stagegate_decide::names::Digest;
use stagegate_decide::staging::{Facts, GateCall, Plan};

use crate::carry_out::carry_out;
use crate::rules;
use crate::world::{self, Answers, Change, Outcome, directory, fill, short, status_after};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    why: String,
    #[serde(default, rename = "in")]
    worlds: Vec<String>,
    #[serde(default)]
    set: BTreeMap<String, Value>,
    #[serde(default)]
    unset: Vec<String>,
    #[serde(default)]
    answers: Answers,
    #[serde(default)]
    anew: BTreeMap<String, Value>,
    expect: Expect,
    #[serde(default)]
    then: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    #[serde(default)]
    set: BTreeMap<String, Value>,
    #[serde(default)]
    unset: Vec<String>,
    /// Without, those of the step before.
    answers: Option<Answers>,
    #[serde(default)]
    anew: BTreeMap<String, Value>,
    /// The process is a new one: it has no answers yet.
    #[serde(default)]
    restarted: bool,
    /// All writes of the previous step were made, and not only that of status.
    #[serde(default, rename = "carriedOut")]
    carried_out: bool,
    expect: Expect,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Expect {
    /// All writes, in order, as [`short`] names them.
    writes: Option<Vec<String>>,
    phase: Option<String>,
    reason: Option<String>,
    /// A part of the Progressing condition's message.
    #[serde(default)]
    says: Vec<String>,
    active: Option<String>,
    /// Condition type → `True Reason` or `False Reason`.
    #[serde(default)]
    conditions: BTreeMap<String, String>,
    /// Reasons of all Events, in order.
    events: Option<Vec<String>>,
    /// Reasons of the Events of type `Warning`, in order.
    warnings: Option<Vec<String>>,
    /// JSON pointers into the status as it is afterwards; `null`: not there.
    #[serde(default)]
    status: BTreeMap<String, Value>,
    /// JSON pointers into the writes as JSON.
    #[serde(default)]
    write: BTreeMap<String, Value>,
    /// Kinds of questions that were asked, each once.
    asked: Option<BTreeSet<String>>,
    /// The values that filters were asked about.
    clauses: Option<Vec<Value>>,
    /// The instants at which gates were asked, each as `<ConfigMap> at <time>`, in order.
    calls: Option<Vec<String>>,
    /// JSON pointers into the last call of a gate.
    #[serde(default)]
    call: BTreeMap<String, Value>,
    /// How long after `now` the writes may begin.
    not_after_ms: Option<i64>,
    #[serde(default)]
    may_be_written_any_time: bool,
    wake_after_ms: Option<i64>,
    #[serde(default)]
    never_wakes: bool,
}

#[test]
#[allow(clippy::disallowed_methods, reason = "which case is run is up to who runs the test")]
fn every_case_holds() {
    let mut cases = cases();
    if let Ok(wanted) = std::env::var("STAGEGATE_CASE") {
        cases.retain(|(name, _)| *name == wanted);
        assert!(!cases.is_empty(), "STAGEGATE_CASE: tests/cases has no {wanted}.yaml");
    }
    let mut failures = Vec::new();
    for (name, case) in &cases {
        let failed = run(case).unwrap_or_else(|failure| vec![failure]);
        failures.extend(
            failed
                .into_iter()
                .map(|failure| format!("{name} ({}): {failure}", case.why)),
        );
    }
    assert!(
        failures.is_empty(),
        "{} failures in {} cases:\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}

fn cases() -> Vec<(String, Case)> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.retain(|path| path.is_file() && !path.ends_with("base.yaml"));
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let case = serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap());
        let case = case.unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, case)
    };
    paths.into_iter().map(read).collect()
}

/// Where the cases begin, for what must hold in all of them.
pub fn beginnings() -> Vec<(String, Value, Answers, Change)> {
    static ALL: LazyLock<Vec<(String, Value, Answers, Change)>> = LazyLock::new(|| {
        let begin = |(name, case): (String, Case)| (name, case.world().unwrap(), case.answers, anew(&case.anew));
        cases().into_iter().map(begin).collect()
    });
    ALL.clone()
}

/// The pointers that a case sets or unsets in the worlds it is made of; of what is added to a list, and of rows, the list.
pub fn made_different() -> BTreeMap<String, Vec<String>> {
    let list = |pointer: String| match pointer.split_once("/rows/") {
        Some((results, _)) => format!("{results}/rows"),
        None => pointer.trim_end_matches("/-").to_owned(),
    };
    let pointers = |(name, case): (String, Case)| {
        let pointers = case.set.into_keys().chain(case.unset);
        (name, pointers.map(list).collect())
    };
    cases().into_iter().map(pointers).collect()
}

impl Case {
    fn world(&self) -> Result<Value, String> {
        let mut world = world::base();
        for name in &self.worlds {
            Change::named(name)?.apply(&mut world)?;
        }
        Change {
            unset: self.unset.clone(),
            set: self.set.clone(),
        }
        .apply(&mut world)?;
        Ok(world)
    }

    fn begin(&self) -> Result<Outcome, String> {
        world::settle(self.world()?, None, &self.answers, &anew(&self.anew))
    }

    /// Runs all steps, calls `look` with each from the second on and its number, and gives the outcome of the last.
    fn follow(&self, mut look: impl FnMut(usize, &Step, &Outcome)) -> Result<Outcome, String> {
        let mut outcome = self.begin()?;
        let mut answers = self.answers.clone();
        for (number, step) in (2..).zip(&self.then) {
            let mut world = outcome.world.clone();
            if step.carried_out {
                world = carry_out(world, &outcome.plan).map_err(|failure| format!("step {number}: {failure}"))?;
            } else {
                world["policy"]["object"]["status"] = world::joined(&status_after(&outcome.plan, &outcome.facts));
            }
            Change {
                unset: step.unset.clone(),
                set: step.set.clone(),
            }
            .apply(&mut world)
            .map_err(|failure| format!("step {number}: {failure}"))?;
            if let Some(changed) = &step.answers {
                answers = changed.clone();
            }
            let known: Option<&Facts> = (!step.restarted).then_some(&outcome.facts);
            outcome = world::settle(world, known, &answers, &anew(&step.anew))?;
            look(number, step, &outcome);
        }
        Ok(outcome)
    }
}

fn run(case: &Case) -> Result<Vec<String>, String> {
    let mut failures = check(&case.expect, &case.begin()?);
    case.follow(|number, step, outcome| {
        let failed = check(&step.expect, outcome);
        failures.extend(failed.into_iter().map(|failure| format!("step {number}: {failure}")));
    })?;
    Ok(failures)
}

/// The policy as the case of this name leaves it, with its status.
pub fn policy_after(name: &str) -> Value {
    let (_, case) = cases()
        .into_iter()
        .find(|(known, _)| known == name)
        .unwrap_or_else(|| panic!("no case {name}"));
    let outcome = case.follow(|_, _, _| {}).unwrap();
    let mut policy = json!(outcome.facts.policy.object);
    policy["apiVersion"] = json!("community.kubestellar.io/v1alpha1");
    policy["kind"] = json!("StagedBindingPolicy");
    policy["status"] = json!(status_after(&outcome.plan, &outcome.facts));
    policy
}

fn anew(set: &BTreeMap<String, Value>) -> Change {
    Change {
        unset: Vec::new(),
        set: set.clone(),
    }
}

fn check(expect: &Expect, outcome: &Outcome) -> Vec<String> {
    let Outcome {
        plan,
        facts,
        asked,
        clauses,
        calls,
        ..
    } = outcome;
    let mut failures = Vec::new();
    let own_plan = stagegate_decide::staging::revision_of(&facts.policy.object.spec.downsync).to_string();
    let mut want = |what: &str, wanted: Value, found: Value| {
        let mut wanted = wanted;
        fill(&mut wanted, &own_plan);
        if wanted != found {
            failures.push(format!("{what}: wanted {wanted}, found {found}"));
        }
    };
    let status = status_after(plan, facts);
    let json_status = world::joined(&status);
    if let Some(writes) = &expect.writes {
        want(
            "writes",
            json!(writes),
            json!(plan.writes.iter().map(short).collect::<Vec<_>>()),
        );
    }
    for (what, wanted, found) in [
        ("phase", &expect.phase, &json_status["phase"]),
        ("reason", &expect.reason, &json_status["reason"]),
        ("active", &expect.active, &json_status["activeStage"]),
    ] {
        if let Some(wanted) = wanted {
            want(what, json!(wanted), found.clone());
        }
    }
    for (type_, wanted) in &expect.conditions {
        let found = status.conditions.iter().find(|condition| condition.type_ == *type_);
        let found = found.map_or(Value::Null, |found| json!(format!("{} {}", found.status, found.reason)));
        want(type_, json!(wanted), found);
    }
    if let Some(events) = &expect.events {
        want(
            "events",
            json!(events),
            json!(plan.events.iter().map(|event| &event.reason).collect::<Vec<_>>()),
        );
    }
    if let Some(warnings) = &expect.warnings {
        let found = plan.events.iter().filter(|event| event.warning);
        want(
            "warnings",
            json!(warnings),
            json!(found.map(|event| &event.reason).collect::<Vec<_>>()),
        );
    }
    for (pointer, wanted) in &expect.status {
        want(
            pointer,
            wanted.clone(),
            json_status.pointer(pointer).cloned().unwrap_or_default(),
        );
    }
    let writes = json!(plan.writes);
    for (pointer, wanted) in &expect.write {
        want(
            pointer,
            wanted.clone(),
            writes.pointer(pointer).cloned().unwrap_or_default(),
        );
    }
    if let Some(wanted) = &expect.asked {
        want("asked", json!(wanted), json!(asked));
    }
    if let Some(wanted) = &expect.clauses {
        want("clauses", json!(wanted), json!(clauses));
    }
    failures.extend(check_calls(expect, calls));
    failures.extend(check_time_and_words(expect, plan, facts));
    failures.extend(rules::unprintable(plan, facts));
    failures
}

/// When gates were asked, and what.
fn check_calls(expect: &Expect, calls: &[GateCall]) -> Vec<String> {
    let mut failures = Vec::new();
    if let Some(wanted) = &expect.calls {
        let found: Vec<String> = calls
            .iter()
            .map(|call| format!("{} at {}", call.source.name, call.now))
            .collect();
        if *wanted != found {
            failures.push(format!("calls: wanted {wanted:?}, found {found:?}"));
        }
    }
    let last_call = json!(calls.last());
    for (pointer, wanted) in &expect.call {
        let found = last_call.pointer(pointer).cloned().unwrap_or_default();
        if found != *wanted {
            failures.push(format!("call {pointer}: wanted {wanted}, found {found}"));
        }
    }
    failures
}

/// When it wakes, and what the Progressing condition says.
fn check_time_and_words(expect: &Expect, plan: &Plan, facts: &Facts) -> Vec<String> {
    let mut failures = Vec::new();
    let wake = plan
        .wake_at
        .map(|at| i64::try_from(at.duration_since(facts.now).as_millis()).unwrap());
    let is_as_wanted = match expect.wake_after_ms {
        Some(wanted) => wake == Some(wanted),
        None => wake.is_none() || !expect.never_wakes,
    };
    if !is_as_wanted {
        failures.push(format!("wakes after {wake:?} ms"));
    }
    let not_after = plan
        .not_after
        .map(|at| i64::try_from(at.duration_since(facts.now).as_millis()).unwrap());
    let is_bounded_as_wanted = match expect.not_after_ms {
        Some(wanted) => not_after == Some(wanted),
        None => not_after.is_none() || !expect.may_be_written_any_time,
    };
    if !is_bounded_as_wanted {
        failures.push(format!("may be written for {not_after:?} ms"));
    }
    let status = status_after(plan, facts);
    let progressing = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Progressing");
    let message = progressing.map_or("", |found| found.message.as_str());
    let unsaid = expect.says.iter().filter(|part| !message.contains(*part));
    failures.extend(unsaid.map(|part| format!("wanted {part:?} in {message:?}")));
    failures
}

#[test]
fn a_digest_is_the_same_for_the_same_value() {
    assert_eq!(
        Digest::of(&json!({"b": 1, "a": 2})),
        Digest::of(&json!({"a": 2, "b": 1}))
    );
}
