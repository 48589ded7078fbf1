//! Runs `tests/cases/*.yaml`: a changed base world, what is answered to questions, and what must come of it.
//!
//! A case: `why` (the sentence it proves), `set` and `unset` (JSON pointers into the base world), `answers`, `anew`
//! (what has changed when everything is read anew), and `expect`. What `expect` does not name is not looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use stagegate_api::{DownsyncClause, StagedBindingPolicyStatus, evidence};
use stagegate_decide::names::{Digest, ObjectKey};
use stagegate_decide::staging::{
    Compilation, Decision, Evidence, Facts, ObjectFacts, ObjectMeta, Plan, Question, Read, Root, Verdict, Write, decide, plan_of,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    why: String,
    /// Applied before the base world's own values, in the order of the pointers.
    #[serde(default)]
    set: BTreeMap<String, Value>,
    #[serde(default)]
    unset: Vec<String>,
    #[serde(default)]
    answers: Answers,
    #[serde(default)]
    anew: BTreeMap<String, Value>,
    expect: Expect,
}

/// What the shell would find out. Defaults: everything compiles, filters keep Deployments, conditions are true, and
/// each object is as the Binding names it, at generation 1.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Answers {
    #[serde(default)]
    refused: BTreeMap<String, String>,
    #[serde(default)]
    filter: BTreeMap<String, Verdict>,
    condition: Option<Verdict>,
    /// By the CombinedStatus's `namespace/name`, before `condition`.
    #[serde(default)]
    conditions: BTreeMap<String, Verdict>,
    /// `null`: not found.
    #[serde(default)]
    objects: BTreeMap<ObjectKey, Option<ObjectMeta>>,
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
    /// JSON pointers into the status as it is afterwards; `null`: not there.
    #[serde(default)]
    status: BTreeMap<String, Value>,
    /// JSON pointers into the writes as JSON.
    #[serde(default)]
    write: BTreeMap<String, Value>,
    /// Kinds of questions that were asked, each once.
    asked: Option<BTreeSet<String>>,
    wake_after_ms: Option<i64>,
    never_wakes: Option<bool>,
}

const ROUNDS_MAX: usize = 16;

#[test]
fn every_case_holds() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let base = read(&directory.join("base.yaml"));
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut failures = Vec::new();
    let mut count = 0;
    for path in paths.iter().filter(|path| !path.ends_with("base.yaml")) {
        count += 1;
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).unwrap();
        match serde_saphyr::from_str::<Case>(&text) {
            Ok(case) => failures.extend(run(&case, &base).into_iter().map(|failure| format!("{name} ({}): {failure}", case.why))),
            Err(error) => failures.push(format!("{name}: {error}")),
        }
    }
    assert!(failures.is_empty(), "{} of {count} cases:\n{}", failures.len(), failures.join("\n"));
    println!("{count} cases");
}

fn read(path: &Path) -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn run(case: &Case, base: &Value) -> Vec<String> {
    let mut world = base.clone();
    let applied = change(&mut world, &case.set, &case.unset);
    if let Err(failure) = applied {
        return vec![failure];
    }
    let facts = match facts(world.clone()) {
        Ok(facts) => facts,
        Err(failure) => return vec![failure],
    };
    match settle(facts, world, case) {
        Ok((plan, facts, asked)) => check(&case.expect, &plan, &facts, &asked),
        Err(failure) => vec![failure],
    }
}

fn change(world: &mut Value, set: &BTreeMap<String, Value>, unset: &[String]) -> Result<(), String> {
    for pointer in unset {
        let (parent, name) = split(pointer)?;
        match world.pointer_mut(parent) {
            Some(Value::Object(members)) if members.contains_key(&name) => drop(members.remove(&name)),
            Some(Value::Array(items)) if name.parse::<usize>().is_ok_and(|index| index < items.len()) => {
                items.remove(name.parse().unwrap());
            }
            _ => return Err(format!("nothing at {pointer} to unset")),
        }
    }
    for (pointer, value) in set {
        let (parent, name) = split(pointer)?;
        match world.pointer_mut(parent) {
            Some(Value::Object(members)) => drop(members.insert(name, value.clone())),
            Some(Value::Array(items)) if name == "-" => items.push(value.clone()),
            Some(Value::Array(items)) => match name.parse::<usize>().ok().and_then(|index| items.get_mut(index)) {
                Some(item) => *item = value.clone(),
                None => return Err(format!("no item at {pointer}")),
            },
            _ => return Err(format!("nothing at {parent} to set {name} in")),
        }
    }
    Ok(())
}

fn split(pointer: &str) -> Result<(&str, String), String> {
    let (parent, name) = pointer.rsplit_once('/').ok_or_else(|| format!("{pointer} is no JSON pointer"))?;
    Ok((parent, name.replace("~1", "/").replace("~0", "~")))
}

fn facts(mut world: Value) -> Result<Facts, String> {
    let plan = world
        .pointer("/policy/object/spec/downsync")
        .and_then(|clauses| serde_json::from_value::<Vec<DownsyncClause>>(clauses.clone()).ok())
        .map_or_else(|| "no plan".to_owned(), |clauses| plan_of(&clauses).to_string());
    fill(&mut world, &plan);
    serde_json::from_value(world).map_err(|error| format!("the world is no facts: {error}"))
}

/// Puts in what cannot be written down: digests and our collector.
fn fill(value: &mut Value, plan: &str) {
    match value {
        Value::String(text) if text == "$plan" => plan.clone_into(text),
        Value::String(text) if text == "$evidence" => *text = evidence::collector_name(),
        Value::String(text) if text == "$evidenceSpec" => *value = json!(evidence::collector_spec()),
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, plan)),
        Value::Object(members) => members.values_mut().for_each(|member| fill(member, plan)),
        _ => {}
    }
}

/// Asks and answers until there is a plan.
fn settle(mut facts: Facts, mut world: Value, case: &Case) -> Result<(Plan, Facts, BTreeSet<String>), String> {
    let mut asked = BTreeSet::new();
    for _ in 0..ROUNDS_MAX {
        let questions = match decide(&facts) {
            Decision::Act(plan) => return Ok((plan, facts, asked)),
            Decision::Ask(questions) if questions.is_empty() => return Err("asked nothing".to_owned()),
            Decision::Ask(questions) => questions,
        };
        for question in questions {
            asked.insert(kind(&question).to_owned());
            if question == Question::ReadAnew {
                if facts.read != Read::Cached {
                    return Err("asked to read anew twice".to_owned());
                }
                change(&mut world, &case.anew, &[])?;
                let known = facts;
                facts = self::facts(world.clone())?;
                facts.read = Read::Anew { baseline: "500".to_owned() };
                facts.compiled = known.compiled;
                facts.verdicts = known.verdicts;
            } else {
                answer(&mut facts, question, &case.answers);
            }
        }
    }
    Err(format!("still asking after {ROUNDS_MAX} rounds"))
}

fn kind(question: &Question) -> &'static str {
    match question {
        Question::Compile { root: Root::Clause, .. } => "compile filter",
        Question::Compile { root: Root::CombinedStatus, .. } => "compile condition",
        Question::Object { .. } => "object",
        Question::Check { evidence: Evidence::Clause(_), .. } => "filter",
        Question::Check { evidence: Evidence::CombinedStatus { .. }, .. } => "condition",
        Question::ReadAnew => "read anew",
    }
}

fn answer(facts: &mut Facts, question: Question, answers: &Answers) {
    match question {
        Question::Compile { digest, text, .. } => {
            let refused = answers.refused.get(&text).cloned();
            facts.compiled.insert(digest, refused.map_or(Compilation::Compiles, Compilation::Refused));
        }
        Question::Object { key, resource_version, .. } => {
            let found = answers.objects.get(&key).cloned().unwrap_or_else(|| {
                let uid = format!("{}-uid", key.name);
                let generation = (!matches!(key.resource.as_str(), "configmaps" | "services")).then_some(1);
                Some(ObjectMeta { uid, resource_version: resource_version.clone(), generation, mark: "first".to_owned() })
            });
            facts.objects.insert(key, ObjectFacts { asked_for: resource_version, found });
        }
        Question::Check { key, evidence, .. } => {
            let verdict = match evidence {
                Evidence::Clause(clause) => {
                    let name = clause["name"].as_str().unwrap_or_default();
                    let keeps = if clause["resource"] == "deployments" { Verdict::True } else { Verdict::False };
                    answers.filter.get(name).cloned().unwrap_or(keeps)
                }
                Evidence::CombinedStatus { namespace, name } => {
                    let own = answers.conditions.get(&format!("{namespace}/{name}")).cloned();
                    own.or_else(|| answers.condition.clone()).unwrap_or(Verdict::True)
                }
            };
            facts.verdicts.insert(key, verdict);
        }
        Question::ReadAnew => {}
    }
}

/// A write as one readable word and a name.
fn short(write: &Write) -> String {
    match write {
        Write::CreateEvidenceCollector(_) => "create collector".to_owned(),
        Write::RestoreEvidenceCollector { .. } => "restore collector".to_owned(),
        Write::CreateClosed(policy) => format!("create {}", policy.metadata.name.as_deref().unwrap_or_default()),
        Write::Open(placement) => format!("open {}", placement.name),
        Write::Update(placement) => format!("update {}", placement.name),
        Write::Adopt(placement) => format!("adopt {}", placement.name),
        Write::Stamp(placement) => format!("stamp {}", placement.name),
        Write::Remove { name, .. } => format!("remove {name}"),
        Write::Status { .. } => "status".to_owned(),
    }
}

fn check(expect: &Expect, plan: &Plan, facts: &Facts, asked: &BTreeSet<String>) -> Vec<String> {
    let mut failures = Vec::new();
    let mut want = |what: &str, wanted: Value, found: Value| {
        if wanted != found {
            failures.push(format!("{what}: wanted {wanted}, found {found}"));
        }
    };
    let status = status_after(plan, facts);
    let json_status = json!(status);
    if let Some(writes) = &expect.writes {
        want("writes", json!(writes), json!(plan.writes.iter().map(short).collect::<Vec<_>>()));
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
        want(type_, json!(wanted), found.map_or(Value::Null, |found| json!(format!("{} {}", found.status, found.reason))));
    }
    if let Some(events) = &expect.events {
        want("events", json!(events), json!(plan.events.iter().map(|event| &event.reason).collect::<Vec<_>>()));
    }
    for (pointer, wanted) in &expect.status {
        want(pointer, wanted.clone(), json_status.pointer(pointer).cloned().unwrap_or_default());
    }
    let writes = json!(plan.writes);
    for (pointer, wanted) in &expect.write {
        want(pointer, wanted.clone(), writes.pointer(pointer).cloned().unwrap_or_default());
    }
    if let Some(wanted) = &expect.asked {
        want("asked", json!(wanted), json!(asked));
    }
    let wake = plan.wake_at.map(|at| i64::try_from(at.duration_since(facts.now).as_millis()).unwrap());
    if let Some(wanted) = expect.wake_after_ms {
        want("wake after", json!(wanted), json!(wake));
    }
    if expect.never_wakes == Some(true) {
        want("wake after", Value::Null, json!(wake));
    }
    let message = status.conditions.iter().find(|condition| condition.type_ == "Progressing").map_or("", |found| found.message.as_str());
    failures.extend(expect.says.iter().filter(|part| !message.contains(*part)).map(|part| format!("wanted {part:?} in {message:?}")));
    failures
}

fn status_after(plan: &Plan, facts: &Facts) -> StagedBindingPolicyStatus {
    let written = plan.writes.iter().find_map(|write| match write {
        Write::Status { status, .. } => Some(status.as_ref().clone()),
        _ => None,
    });
    written.or_else(|| facts.policy.object.status.clone()).unwrap_or_default()
}

#[test]
fn a_digest_is_the_same_for_the_same_value() {
    assert_eq!(Digest::of(&json!({"b": 1, "a": 2})), Digest::of(&json!({"a": 2, "b": 1})));
}
