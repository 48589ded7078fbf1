//! What is remembered of one policy between two decisions, within bounds. Must not read anything.

use std::collections::{BTreeMap, BTreeSet};

use stagegate_decide::names::{Digest, ObjectKey};
use stagegate_decide::staging::{
    BindingFacts, Compilation, ConfigAnswer, ConfigKey, Decoded, Facts, GateVerdict, ModuleFacts, ObjectFacts,
    SourceEntry, Verdict, VerdictKey,
};
use stagegate_runtime::bounded::BoundedMap;

use super::status_backoff::StatusBackoff;
use super::written::WrittenVersions;
use crate::controllers::objects::object_key;

/// Verdicts remembered for a policy: some attempts of the largest number of objects a status can record.
const VERDICTS_MAX: usize = 4096;
/// And no more for each object that is bound now: its filter's and its condition's, a few changes of evidence long. What is
/// remembered goes into the facts of each round.
const VERDICTS_PER_OBJECT: usize = 8;
/// Expressions remembered for a policy: those of 32 stages, some edits long.
const COMPILATIONS_MAX: usize = 256;
/// Components and configs of gates remembered for a policy: those of 32 stages of 8 gates, some edits long.
const GATES_MAX: usize = 1024;
/// Verdicts of gates remembered for a policy: those of the active stage's 8 gates, some rounds long. All go into the facts
/// of each round.
const GATE_VERDICTS_MAX: usize = 64;

/// Answers about one policy that stay true: each is kept under what it was asked about.
pub struct Memory {
    objects: Vec<(ObjectKey, ObjectFacts)>,
    pub compiled: BoundedMap<Digest, Compilation>,
    pub verdicts: BoundedMap<VerdictKey, Verdict>,
    pub modules: BoundedMap<SourceEntry, ModuleFacts>,
    pub configs: BoundedMap<ConfigKey, ConfigAnswer>,
    pub gate_verdicts: BoundedMap<VerdictKey, GateVerdict>,
    /// Who else writes the policy's status.
    pub status_backoff: StatusBackoff,
    /// What the watches have still to tell of.
    pub written: WrittenVersions,
    /// Plans in a row that came too late to be carried out.
    pub late: u32,
    /// Tries in a row to show a gate evidence that had moved on by then.
    pub moves: u32,
    /// This reconcile was told what need not be so the next time: an evaluation ran out of time, a sandbox broke, a
    /// reading was refused. It is tried again though no event may come.
    pub is_to_retry: bool,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            objects: Vec::new(),
            compiled: BoundedMap::new(COMPILATIONS_MAX),
            verdicts: BoundedMap::new(VERDICTS_MAX),
            modules: BoundedMap::new(GATES_MAX),
            configs: BoundedMap::new(GATES_MAX),
            gate_verdicts: BoundedMap::new(GATE_VERDICTS_MAX),
            status_backoff: StatusBackoff::default(),
            written: WrittenVersions::default(),
            late: 0,
            moves: 0,
            is_to_retry: false,
        }
    }
}

impl Memory {
    /// What was read of each object.
    pub fn objects(&self) -> BTreeMap<ObjectKey, ObjectFacts> {
        self.objects.iter().cloned().collect()
    }

    /// Remembers what was read of an object.
    pub fn note_object(&mut self, key: ObjectKey, answer: ObjectFacts) {
        // In the order of the keys. Most policies have one or two, and a tree of one has room for eleven.
        match self.objects.binary_search_by(|(known, _)| known.cmp(&key)) {
            Ok(at) => self.objects[at].1 = answer,
            Err(at) => self.objects.insert(at, (key, answer)),
        }
    }

    /// Forgets the objects that no Binding of `facts` names any more, and the verdicts over evidence that has long moved on.
    pub fn prune(&mut self, facts: &Facts) {
        let named: BTreeSet<ObjectKey> = facts.bindings.values().flat_map(bound_keys).collect();
        // An object that was not found may have come since without its Binding having moved.
        self.objects
            .retain(|(key, answer)| named.contains(key) && answer.found.is_some());
        self.objects.shrink_to_fit();
        self.verdicts.shorten(VERDICTS_PER_OBJECT * (named.len() + 1));
    }
}

fn bound_keys(binding: &BindingFacts) -> Vec<ObjectKey> {
    let binding = binding.object.as_ref().and_then(Decoded::object);
    let objects = binding.into_iter().flat_map(|binding| binding.spec.workload.objects());
    objects.map(object_key).collect()
}
