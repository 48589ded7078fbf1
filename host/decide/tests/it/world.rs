//! A world as a file: the facts of one instant as YAML, changes to it by JSON pointers, and what a shell would answer
//! to questions about it. Must not expect anything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use stagegate_api::{DownsyncClause, EvidencePiece, StagedBindingPolicyStatus, evidence};
use stagegate_decide::checks;
use stagegate_decide::names::{Digest, ObjectKey, ResourceVersion};
use stagegate_decide::staging::{
    Compilation, ConditionEvidence, ConfigAnswer, ContentDigest, Decision, Decoded, Evidence, Facts, GateAnswer,
    GateCall, GateVerdict, HoldAnswer, HoldFacts, Module, ModuleFacts, ObjectFacts, ObjectMeta, Plan, Question, Read,
    Root, SourceEntry, Variable, Verdict, Write, decide, open_placements, placements_to_read, revision_of,
};

const ROUNDS_MAX: usize = 16;
/// The version of the CombinedStatus list that a reading anew answers with.
pub const BASELINE: &str = "500";

pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

pub fn base() -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(directory().join("base.yaml")).unwrap()).unwrap()
}

/// What a case makes different, removals first.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    #[serde(default)]
    pub unset: Vec<String>,
    /// In the order of the pointers, so that a member can be set in what was just put in.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
}

impl Change {
    /// A change that many cases start from: `tests/cases/worlds/<name>.yaml`.
    pub fn named(name: &str) -> Result<Self, String> {
        let path = directory().join("worlds").join(format!("{name}.yaml"));
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_saphyr::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    pub fn apply(&self, world: &mut Value) -> Result<(), String> {
        for pointer in &self.unset {
            let (parent, name) = split(pointer)?;
            match world.pointer_mut(parent) {
                Some(Value::Object(members)) if members.contains_key(&name) => drop(members.remove(&name)),
                Some(Value::Array(items)) if name.parse::<usize>().is_ok_and(|index| index < items.len()) => {
                    items.remove(name.parse().unwrap());
                }
                _ => return Err(format!("nothing at {pointer} to unset")),
            }
        }
        for (pointer, value) in &self.set {
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
}

fn split(pointer: &str) -> Result<(&str, String), String> {
    let (parent, name) = pointer
        .rsplit_once('/')
        .ok_or_else(|| format!("{pointer} is no JSON pointer"))?;
    Ok((parent, name.replace("~1", "/").replace("~0", "~")))
}

/// The facts that a world is.
pub fn facts(world: Value) -> Result<Facts, String> {
    serde_json::from_value(filled(world)).map_err(|error| format!("the world is no facts: {error}"))
}

/// A world with all that a file cannot hold. KubeStellar has just written something, unless the file says when
/// (`kubestellarSeenAt`; `null`: never).
pub fn filled(mut world: Value) -> Value {
    let now = world["now"].clone();
    if let Some(members) = world.as_object_mut() {
        members.entry("kubestellarSeenAt").or_insert(now);
    }
    let revision = world
        .pointer("/policy/object/spec/downsync")
        .and_then(|clauses| serde_json::from_value::<Vec<DownsyncClause>>(clauses.clone()).ok())
        .map_or_else(|| "no revision".to_owned(), |clauses| revision_of(&clauses).to_string());
    fill(&mut world, &revision);
    if let Some(status) = world.pointer_mut("/policy/object/status") {
        store(status);
    }
    world
}

/// The members of a stage's record that are stored in `tracking`. The files have them in the record.
const TRACKED: [&str; 4] = ["unsettledSince", "namedClusters", "objects", "eventReasons"];

fn store(status: &mut Value) {
    let mut tracking = Vec::new();
    let stages = status.get_mut("stages").and_then(Value::as_array_mut);
    for stage in stages.into_iter().flatten() {
        let Some(stage) = stage.as_object_mut() else { continue };
        let mut tracked = Map::from_iter([("stage".to_owned(), stage.get("name").cloned().unwrap_or_default())]);
        tracked.extend(TRACKED.iter().filter_map(|name| stage.remove_entry(*name)));
        if tracked.len() > 1 {
            tracking.push(Value::Object(tracked));
        }
    }
    if let Some(status) = status.as_object_mut()
        && !tracking.is_empty()
    {
        status.insert("tracking".to_owned(), Value::Array(tracking));
    }
}

/// A status as the files have it.
pub fn joined(status: &StagedBindingPolicyStatus) -> Value {
    let mut status = json!(status);
    let tracking = status.as_object_mut().and_then(|status| status.remove("tracking"));
    for tracked in tracking.as_ref().and_then(Value::as_array).into_iter().flatten() {
        let stages = status.get_mut("stages").and_then(Value::as_array_mut);
        for stage in stages
            .into_iter()
            .flatten()
            .filter(|stage| stage["name"] == tracked["stage"])
        {
            for name in TRACKED {
                if let Some(member) = tracked.get(name) {
                    stage[name] = member.clone();
                }
            }
        }
    }
    status
}

/// Puts in what cannot be written down: digests (`{$revisionOf: clauses}` for other clauses) and our collector.
pub fn fill(value: &mut Value, revision: &str) {
    match value {
        Value::String(text) if text == "$revision" => revision.clone_into(text),
        Value::String(text) if text == "$evidence" => *text = evidence::collector_name(),
        Value::String(text) if text == "$evidenceSpec" => *value = json!(evidence::collector_spec()),
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, revision)),
        Value::Object(members) => match members.get("$revisionOf").cloned() {
            Some(clauses) => {
                // A test may have torn them.
                let clauses = serde_json::from_value::<Vec<DownsyncClause>>(clauses);
                *value = clauses.map_or(json!("no revision"), |clauses| json!(revision_of(&clauses)));
            }
            None => members.values_mut().for_each(|member| fill(member, revision)),
        },
        _ => {}
    }
}

/// What the shell would find out. Defaults: everything compiles, filters keep Deployments, conditions are true, and
/// each object is as the Binding names it, at generation 1.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Answers {
    #[serde(default)]
    pub refused: BTreeMap<String, String>,
    #[serde(default)]
    pub filter: BTreeMap<String, Verdict>,
    pub condition: Option<Verdict>,
    /// By the CombinedStatus's `namespace/name`, before `condition`.
    #[serde(default)]
    pub conditions: BTreeMap<String, Verdict>,
    /// `null`: not found.
    #[serde(default)]
    pub objects: BTreeMap<ObjectKey, Option<ObjectMeta>>,
    /// Why the host may not read them.
    #[serde(default)]
    pub forbidden: BTreeMap<ObjectKey, String>,
    /// By entry. Without: it loads, and its digest is that of its version.
    #[serde(default)]
    pub modules: BTreeMap<SourceEntry, Module>,
    /// Of all configs. Without: they fit.
    pub config: Option<ConfigAnswer>,
    /// By the name of its ConfigMap. Without: it passes for good.
    #[serde(default)]
    pub gates: BTreeMap<String, GateAnswer>,
    /// What gates say from a time on.
    pub later: Option<Later>,
    /// What every verdict rests on.
    #[serde(default)]
    pub evidence: Vec<EvidencePiece>,
    /// To a change of a held Binding. Without: it is refused, as it must be.
    pub hold: Option<HoldAnswer>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Later {
    pub from: Timestamp,
    pub gates: BTreeMap<String, GateAnswer>,
}

/// What came of asking and answering.
pub struct Outcome {
    pub plan: Plan,
    pub facts: Facts,
    /// Kinds of questions, each once.
    pub asked: BTreeSet<String>,
    /// The values that filters were asked about, in order.
    pub clauses: Vec<Value>,
    /// The calls of gates, in order.
    pub calls: Vec<GateCall>,

    /// As it was when the plan came of it.
    pub world: Value,
}

/// Whether the write brings a workload somewhere or takes one away.
fn moves(write: &Write, facts: &Facts) -> bool {
    let is_open = |name: &str| {
        let placement = facts.placements.get(name).and_then(Decoded::object);
        placement.is_some_and(|placement| !placement.spec.cluster_selectors.is_empty())
    };
    write.places() || matches!(write, Write::Remove { name, .. } if is_open(name.as_str()))
}

/// Asks and answers until there is a plan. `known` are answers from before, as a shell keeps them; `anew` is what is
/// different when everything is read anew.
pub fn settle(mut world: Value, known: Option<&Facts>, answers: &Answers, anew: &Change) -> Result<Outcome, String> {
    let mut facts = facts(world.clone())?;
    if let Some(known) = known {
        facts.compiled.clone_from(&known.compiled);
        facts.verdicts.clone_from(&known.verdicts);
        facts.objects.clone_from(&known.objects);
        facts.modules.clone_from(&known.modules);
        facts.configs.clone_from(&known.configs);
        facts.gate_verdicts.clone_from(&known.gate_verdicts);
    }
    let (mut asked, mut clauses, mut calls) = (BTreeSet::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS_MAX {
        let questions = match decide(&facts) {
            Decision::Act(plan) if facts.read == Read::Cached && plan.writes.iter().any(|it| moves(it, &facts)) => {
                return Err("moved something on cached facts".to_owned());
            }
            Decision::Act(plan) if !facts.read.is_anew() && plan.writes.iter().any(Write::places) => {
                return Err("placed something on cached evidence".to_owned());
            }
            Decision::Act(plan) => {
                return Ok(Outcome {
                    plan,
                    facts,
                    asked,
                    clauses,
                    calls,
                    world,
                });
            }
            Decision::Ask(questions) if questions.is_empty() => return Err("asked nothing".to_owned()),
            Decision::Ask(questions) => questions,
        };
        let is_of_placements_alone = questions == [Question::FreshPlacements];
        for question in questions {
            if question == Question::FreshPlacements && !is_of_placements_alone {
                continue;
            }
            asked.insert(kind(&question).to_owned());
            if question == Question::FreshRead {
                if facts.read.is_anew() {
                    return Err("asked to read anew twice".to_owned());
                }
                anew.apply(&mut world)?;
                facts = fresh_read(&world, facts)?;
            } else if question == Question::FreshPlacements {
                if facts.read != Read::Cached {
                    return Err("asked to read placements twice".to_owned());
                }
                let mut read = world.clone();
                anew.apply(&mut read)?;
                facts = fresh_placements(&read, facts)?;
            } else {
                if let Question::OfChecks(checks::Question::Check {
                    evidence: Evidence::Clause(clause),
                    ..
                }) = &question
                {
                    clauses.push(clause.clone());
                }
                if let Question::OfChecks(checks::Question::Gate(call)) = &question {
                    calls.push((**call).clone());
                }
                answer(&mut facts, question, answers);
            }
        }
    }
    Err(format!("still asking after {ROUNDS_MAX} rounds"))
}

fn kind(question: &Question) -> &'static str {
    match question {
        Question::OfChecks(checks::Question::Compile { root: Root::Clause, .. }) => "compile filter",
        Question::OfChecks(checks::Question::Compile { .. }) => "compile condition",
        Question::Object { .. } => "object",
        Question::OfChecks(checks::Question::Check {
            evidence: Evidence::Clause(_),
            ..
        }) => "filter",
        Question::OfChecks(checks::Question::Check { .. }) => "condition",
        Question::OfChecks(checks::Question::Module { .. }) => "module",
        Question::OfChecks(checks::Question::Config { .. }) => "config",
        Question::OfChecks(checks::Question::Gate(_)) => "gate",
        Question::Hold { .. } => "hold",
        Question::FreshRead => "read anew",
        Question::FreshPlacements => "read placements",
    }
}

pub fn answer(facts: &mut Facts, question: Question, answers: &Answers) {
    match question {
        Question::OfChecks(checks::Question::Compile { digest, text, root }) => {
            let refused = answers.refused.get(&text).cloned();
            let named = root.variables().iter().copied();
            let mut named: BTreeSet<Variable> = named.filter(|variable| text.contains(variable.name())).collect();
            // The conditions of most cases say only what their answer is.
            if named.is_empty() && text != "1 == 1" {
                named.insert(Variable::Obj);
            }
            facts.compiled.insert(
                digest,
                refused.map_or(Compilation::Compiles(named), Compilation::Refused),
            );
        }
        Question::Object {
            key,
            resource_version,
            is_whole,
            ..
        } => answer_object(facts, (key, resource_version, is_whole), answers),
        Question::OfChecks(checks::Question::Check { key, evidence, .. }) => {
            let verdict = match evidence {
                Evidence::Clause(clause) => {
                    let name = clause["name"].as_str().unwrap_or_default();
                    let keeps = if clause["resource"] == "deployments" {
                        Verdict::True
                    } else {
                        Verdict::False { because: None }
                    };
                    answers.filter.get(name).cloned().unwrap_or(keeps)
                }
                Evidence::Condition(seen) => condition(&seen, answers),
                Evidence::Pools(_) => unreachable!("staging asks about no pools"),
            };
            facts.verdicts.insert(key, verdict);
        }
        Question::OfChecks(checks::Question::Module { source, version }) => {
            let loaded = || Module::Loaded {
                digest: Digest::of(&version),
            };
            let module = answers.modules.get(&source).cloned().unwrap_or_else(loaded);
            let asked_for = version;
            facts.modules.insert(source, ModuleFacts { asked_for, module });
        }
        Question::OfChecks(checks::Question::Config { key, .. }) => {
            let answer = answers.config.clone().unwrap_or(ConfigAnswer::Fits);
            facts.configs.insert(key, answer);
        }
        Question::OfChecks(checks::Question::Gate(call)) => {
            let later = answers.later.as_ref().filter(|later| later.from <= call.now);
            let gates = later.map_or(&answers.gates, |later| &later.gates);
            let gate = gates.get(&call.source.name).cloned();
            let verdict = GateVerdict {
                at: call.now,
                answer: gate.unwrap_or(GateAnswer::Pass { valid_for_ms: None }),
                evidence: answers.evidence.clone(),
            };
            facts.gate_verdicts.insert(call.key, verdict);
        }
        Question::Hold { .. } => {
            facts.hold = Some(HoldFacts {
                asked_at: facts.now,
                answer: answers.hold.clone().unwrap_or(HoldAnswer::Refused),
            });
        }
        Question::FreshRead | Question::FreshPlacements => {}
    }
}

fn answer_object(
    facts: &mut Facts,
    (key, resource_version, is_whole): (ObjectKey, ResourceVersion, bool),
    answers: &Answers,
) {
    let refused = answers.forbidden.get(&key).cloned();
    let found = answers.objects.get(&key).cloned().unwrap_or_else(|| {
        let uid = format!("{}-uid", key.name);
        let generation = (!matches!(key.resource.as_str(), "configmaps" | "services")).then_some(1);
        Some(ObjectMeta {
            uid: uid.into(),
            resource_version: resource_version.clone(),
            generation,
            edited_at: None,
            made_at: None,
            metadata_digest: "first".to_owned(),
            content_digest: None,
        })
    });
    let mut found = found.filter(|_| refused.is_none());
    if let Some(found) = found
        .as_mut()
        .filter(|found| is_whole && found.content_digest.is_none())
    {
        found.content_digest = Some(ContentDigest::of(&"first", &"first"));
    }
    let asked_at = Some(facts.now);
    facts.objects.insert(
        key,
        ObjectFacts {
            asked_for: resource_version,
            asked_at,
            found,
            refused,
        },
    );
}

/// What the case says of the CombinedStatus, or without one what `clusters.all(c, c.available >= 2)` says.
fn condition(seen: &ConditionEvidence, answers: &Answers) -> Verdict {
    if let Some(combined) = &seen.combined {
        let own = answers
            .conditions
            .get(&format!("{}/{}", combined.namespace, combined.name));
        return own.or(answers.condition.as_ref()).cloned().unwrap_or(Verdict::True);
    }
    let clusters = seen.clusters.iter().flatten();
    let enough: Option<Vec<bool>> = clusters
        .map(|cluster| cluster.available.map(|available| available >= 2))
        .collect();
    match enough {
        None => Verdict::Unknown {
            message: "no such key: available".to_owned(),
        },
        Some(enough) if enough.iter().all(|enough| *enough) => Verdict::True,
        Some(_) => Verdict::False { because: None },
    }
}

/// A write as one readable word and a name.
pub fn short(write: &Write) -> String {
    match write {
        Write::CreateEvidenceCollector(_) => "create collector".to_owned(),
        Write::RestoreEvidenceCollector { .. } => "restore collector".to_owned(),
        Write::CreateClosed(policy) => format!("create {}", policy.metadata.name.as_deref().unwrap_or_default()),
        Write::Open(placement) => format!("open {}", placement.name),
        Write::Update(placement) => format!("update {}", placement.name),
        Write::Adopt(placement) => format!("adopt {}", placement.name),
        Write::Fence(placement) => format!("fence {}", placement.name),
        Write::Release(hold) => format!("release {}", hold.name),
        Write::Hold(hold) => format!("hold {}", hold.name),
        Write::Unhold { name, .. } => format!("unhold {name}"),
        Write::Remove { name, .. } => format!("remove {name}"),
        Write::Status { .. } => "status".to_owned(),
    }
}

pub fn status_after(plan: &Plan, facts: &Facts) -> StagedBindingPolicyStatus {
    let written = plan.writes.iter().find_map(|write| match write {
        Write::Status { status, .. } => Some(status.as_ref().clone()),
        _ => None,
    });
    written
        .or_else(|| facts.policy.object.status.clone())
        .unwrap_or_default()
}

/// The facts of the world as a reading gives them; answers about expressions and gates stay, and so does what a reading leaves out.
pub fn fresh_read(world: &Value, known: Facts) -> Result<Facts, String> {
    let facts = read_of(facts(world.clone())?, &known);
    Ok(Facts {
        read: Read::Anew {
            baseline: BASELINE.into(),
            began_at: None,
        },
        modules: known.modules,
        configs: known.configs,
        gate_verdicts: known.gate_verdicts,
        compiled: known.compiled,
        verdicts: known.verdicts,
        ..facts
    })
}

/// The known facts with the placements and Bindings that a reading of these asks for.
pub fn fresh_placements(world: &Value, known: Facts) -> Result<Facts, String> {
    let Facts {
        now,
        policy,
        placements,
        bindings,
        ..
    } = read_of(facts(world.clone())?, &known);
    Ok(Facts {
        now,
        read: Read::Placements,
        policy,
        placements,
        bindings,
        ..known
    })
}

/// BindingPolicies and Bindings that a reading does not ask for are as the watches have reported them.
fn read_of(mut read: Facts, known: &Facts) -> Facts {
    let (names, open) = (placements_to_read(known), open_placements(known));
    read.placements.retain(|name, _| names.contains(name.as_str()));
    let unread = known
        .placements
        .iter()
        .filter(|(name, _)| !names.contains(name.as_str()));
    read.placements
        .extend(unread.map(|(name, object)| (name.clone(), object.clone())));
    read.bindings.retain(|name, _| open.contains(name.as_str()));
    let unread = known.bindings.iter().filter(|(name, _)| !open.contains(name.as_str()));
    read.bindings
        .extend(unread.map(|(name, binding)| (name.clone(), binding.clone())));
    read
}
