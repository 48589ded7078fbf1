//! What is remembered of one policy between two decisions, within bounds. Must not read anything.

use std::collections::{BTreeMap, BTreeSet};

use stagegate_decide::names::ObjectKey;
use stagegate_decide::staging::{BindingFacts, Decoded, Facts, ObjectFacts};

use super::contention::Contention;
use super::status_backoff::StatusBackoff;
use super::written::WrittenVersions;
use crate::controllers::checks::memory::CheckMemory;
use crate::controllers::objects::object_key;

/// Verdicts remembered for each object that is bound now: its filter's and its condition's, a few changes of evidence long. What is
/// remembered goes into the facts of each round.
const VERDICTS_PER_OBJECT: usize = 8;
/// Answers about one policy that stay true: each is kept under what it was asked about.
#[derive(Default)]
pub struct Memory {
    objects: Vec<(ObjectKey, ObjectFacts)>,
    pub checks: CheckMemory,
    /// For how long status is left as it is.
    pub status_backoff: StatusBackoff,
    /// Who else writes the policy's status.
    pub contention: Contention,
    /// What the watches have still to tell of.
    pub written: WrittenVersions,
    /// Plans in a row that came too late to be carried out.
    pub late: u32,
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
        self.checks.verdicts.shorten(VERDICTS_PER_OBJECT * (named.len() + 1));
    }
}

fn bound_keys(binding: &BindingFacts) -> Vec<ObjectKey> {
    let binding = binding.object.as_ref().and_then(Decoded::object);
    let objects = binding.into_iter().flat_map(|binding| binding.spec.workload.objects());
    objects.map(object_key).collect()
}
