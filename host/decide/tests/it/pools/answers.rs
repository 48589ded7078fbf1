//! What the controller would find out, as a test says it, and the talk with the rules until there is a plan. Must not judge.

use std::collections::{BTreeMap, BTreeSet};

use stagegate_decide::checks::{
    Compilation, ConfigAnswer, GateAnswer, GateVerdict, Module, ModuleFacts, Question, Verdict,
};
use stagegate_decide::names::Digest;
use stagegate_decide::pools::{Decision, Facts, Memo, Plan, decide};

use super::world::World;

const ROUNDS_MAX: usize = 24;

/// By the text of a condition, or by the name of a gate's ConfigMap. What is not said passes; `None`: there is no answer.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Conditions that do not compile.
    pub refused: BTreeSet<String>,
    pub conditions: BTreeMap<String, Option<Verdict>>,
    pub modules: BTreeMap<String, Option<Module>>,
    pub configs: BTreeMap<String, Option<ConfigAnswer>>,
    pub gates: BTreeMap<String, Option<GateAnswer>>,
}

impl Told {
    /// Whether the answer is one that lets a stage pass.
    pub fn is_true(&self, condition: &str) -> bool {
        !self.refused.contains(condition) && matches!(self.conditions.get(condition), None | Some(Some(Verdict::True)))
    }

    /// The same of a gate whose ConfigMap is there.
    pub fn passes(&self, gate: &str) -> bool {
        let is_loaded = matches!(self.modules.get(gate), None | Some(Some(Module::Loaded { .. })));
        let fits = matches!(self.configs.get(gate), None | Some(Some(ConfigAnswer::Fits)));
        let passes = match self.gates.get(gate) {
            None => true,
            Some(Some(GateAnswer::Pass { valid_for_ms })) => *valid_for_ms != Some(0),
            Some(_) => false,
        };
        is_loaded && fits && passes
    }

    /// False: there is no answer.
    fn answer(&self, facts: &mut Facts, question: Question) -> bool {
        let now = facts.now;
        let answers = facts.answers_mut();
        match question {
            Question::Compile { digest, text, root } => {
                let named = root.variables().iter().copied().collect();
                let compiled = if self.refused.contains(&text) {
                    Compilation::Refused("unexpected end".to_owned())
                } else {
                    Compilation::Compiles(named)
                };
                answers.compiled.insert(digest, compiled);
                true
            }
            Question::Check { key, text, .. } => {
                let said = self.conditions.get(&text).cloned().unwrap_or(Some(Verdict::True));
                said.is_some_and(|said| answers.verdicts.insert(key, said).is_none())
            }
            Question::Module { source, version } => {
                let digest = Digest::of(&source.name);
                let said = self.modules.get(&source.name).cloned();
                let said = said.unwrap_or(Some(Module::Loaded { digest }));
                let asked_for = version;
                said.is_some_and(|module| {
                    answers.modules.insert(source, ModuleFacts { asked_for, module });
                    true
                })
            }
            Question::Config { key, source, .. } => {
                let said = self
                    .configs
                    .get(&source.name)
                    .cloned()
                    .unwrap_or(Some(ConfigAnswer::Fits));
                said.is_some_and(|said| {
                    answers.configs.insert(key, said);
                    true
                })
            }
            Question::Gate(call) => {
                assert_eq!(call.now, now, "a gate is asked about now");
                let passes = Some(GateAnswer::Pass { valid_for_ms: None });
                let said = self.gates.get(&call.source.name).cloned().unwrap_or(passes);
                said.is_some_and(|answer| {
                    let at = call.now;
                    let evidence = Vec::new();
                    answers
                        .gate_verdicts
                        .insert(call.key, GateVerdict { at, answer, evidence });
                    true
                })
            }
        }
    }
}

/// Asks and answers, and reads when that is wanted, until there is a plan, with the facts that it rests on. `None`: a question has no answer.
pub fn settle(world: &World, mut facts: Facts, told: &Told) -> Option<(Plan, Facts)> {
    for _ in 0..ROUNDS_MAX {
        match decide(&facts, &mut Memo::default()) {
            Decision::Act(plan) => return Some((plan, facts)),
            Decision::FreshRead => {
                assert!(!facts.read.is_anew(), "asked to read anew twice");
                // The answers so far are remembered.
                let Facts {
                    compiled,
                    verdicts,
                    modules,
                    configs,
                    gate_verdicts,
                    ..
                } = facts;
                facts = Facts {
                    compiled,
                    verdicts,
                    modules,
                    configs,
                    gate_verdicts,
                    ..world.read()
                };
            }
            Decision::Ask(questions) => {
                assert!(!questions.is_empty(), "asked nothing");
                for question in questions {
                    if !told.answer(&mut facts, question) {
                        return None;
                    }
                }
            }
        }
    }
    panic!("still asking after {ROUNDS_MAX} rounds")
}
