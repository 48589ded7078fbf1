//! Answers about checks that are remembered between two decisions about one object, within bounds. All of it may be lost.

use std::collections::BTreeMap;
use std::hash::Hash;

use stagegate_decide::checks::{
    AnswersMut, Compilation, ConfigAnswer, ConfigKey, GateVerdict, ModuleFacts, SourceEntry, Verdict, VerdictKey,
};
use stagegate_decide::names::Digest;
use stagegate_runtime::bounded::BoundedMap;

/// Verdicts remembered for a policy: some attempts of the largest number of objects a status can record.
const VERDICTS_MAX: usize = 4096;
/// Expressions remembered for a policy: those of 32 stages, some edits long.
const COMPILATIONS_MAX: usize = 256;
/// Components and configs of gates remembered for a policy: those of 32 stages of 8 gates, some edits long.
const GATES_MAX: usize = 1024;
/// Verdicts of gates remembered for a policy: those of the active stage's 8 gates, some rounds long. All go into the facts
/// of each round.
const GATE_VERDICTS_MAX: usize = 64;

/// Answers that stay true: each is kept under what it was asked about.
pub struct CheckMemory {
    pub compiled: BoundedMap<Digest, Compilation>,
    pub verdicts: BoundedMap<VerdictKey, Verdict>,
    pub modules: BoundedMap<SourceEntry, ModuleFacts>,
    pub configs: BoundedMap<ConfigKey, ConfigAnswer>,
    pub gate_verdicts: BoundedMap<VerdictKey, GateVerdict>,
    /// Tries in a row to show a gate evidence that had moved on by then.
    pub moves: u32,
    /// Something was answered that need not be so the next time: an evaluation ran out of time, a sandbox broke, a reading was refused.
    /// It is tried again though no event may come.
    pub is_to_retry: bool,
}

impl Default for CheckMemory {
    fn default() -> Self {
        Self {
            compiled: BoundedMap::new(COMPILATIONS_MAX),
            verdicts: BoundedMap::new(VERDICTS_MAX),
            modules: BoundedMap::new(GATES_MAX),
            configs: BoundedMap::new(GATES_MAX),
            gate_verdicts: BoundedMap::new(GATE_VERDICTS_MAX),
            moves: 0,
            is_to_retry: false,
        }
    }
}

impl CheckMemory {
    /// Puts everything into facts.
    pub fn fill(&self, answers: AnswersMut<'_>) {
        fill(&self.compiled, answers.compiled);
        fill(&self.verdicts, answers.verdicts);
        fill(&self.modules, answers.modules);
        fill(&self.configs, answers.configs);
        fill(&self.gate_verdicts, answers.gate_verdicts);
    }
}

fn fill<K: Clone + Eq + Hash + Ord, V: Clone>(known: &BoundedMap<K, V>, facts: &mut BTreeMap<K, V>) {
    facts.extend(known.iter().map(|(key, answer)| (key.clone(), answer.clone())));
}
