//! The facts about one policy from what the watches have brought. Must not send a request: nothing is placed on these
//! facts, they only say whether a reading is worth it.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use stagegate_api::{
    Binding, BindingPolicy, CombinedStatusView, StagedBindingPolicy, StagedBindingPolicySpec, StatusCollector,
    StatusCollectorSpec, evidence,
};
use stagegate_decide::names::{Digest, ObjectKey};
use stagegate_decide::staging::{
    BindingFacts, Compilation, ConfigAnswer, ConfigKey, Decoded, EvidenceCollectorFacts, Facts, GateVerdict,
    ModuleFacts, ObjectFacts, PolicyFacts, Read, Settings, SourceEntry, Verdict, VerdictKey, has_our_spec,
};
use stagegate_runtime::bounded::BoundedMap;
use stagegate_runtime::store::{ObjectId, Store};

use super::gates::sources::Sources;
use super::index::Index;
use super::status_backoff::StatusBackoff;
use super::written::WrittenVersions;
use crate::controllers::kinds::{Guarded, decoded};
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

/// Every kind that staging reads.
pub struct Stores {
    pub policies: Arc<Store<Guarded<StagedBindingPolicy>>>,
    pub placements: Arc<Store<Guarded<BindingPolicy>>>,
    pub bindings: Arc<Store<Guarded<Binding>>>,
    pub collectors: Arc<Store<Guarded<StatusCollector>>>,
    pub combined: Arc<Store<Guarded<CombinedStatusView>>>,
    /// Of these a decision needs none to be listed: a gate without its ConfigMap waits alone.
    pub sources: Arc<Sources>,
}

impl Stores {
    /// Since when no event of any kind can have been missed.
    fn watching_since(&self, now: Timestamp) -> Option<Timestamp> {
        let listed = [
            self.policies.listed_at()?,
            self.placements.listed_at()?,
            self.bindings.listed_at()?,
            self.collectors.listed_at()?,
            self.combined.listed_at()?,
        ];
        let youngest = listed.into_iter().max()?;
        now.checked_sub(SignedDuration::try_from(youngest.elapsed()).ok()?).ok()
    }
}

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

/// `None`: there is no such policy.
pub fn facts(
    name: &str,
    stores: &Stores,
    index: &Mutex<Index>,
    (memory, now, settings): (&Memory, Timestamp, Settings),
) -> Option<Facts> {
    let policy = policy_facts(&*stores.policies.named(name)?);
    let sources = stores.sources.facts(&policy.object);
    let Placed {
        placements,
        bindings,
        combined,
    } = placed(name, stores, index);
    let named = collectors_named(&policy.object, &placements, &bindings);
    let index = index.lock().unwrap_or_else(PoisonError::into_inner);
    let evidence_collector = stores
        .collectors
        .named(&evidence::collector_name())
        .map(|collector| evidence_facts(&collector, index.evidence_ours_since()));
    let collectors_changed = named
        .iter()
        .filter_map(|name| Some((name.clone(), index.collector_changed(name)?)))
        .collect();
    let kubestellar_seen_at = index.kubestellar_seen_at();
    drop(index);
    let collectors = named
        .into_iter()
        .filter_map(|name| {
            stores
                .collectors
                .named(&name)?
                .0
                .as_ref()
                .ok()
                .map(|collector| (name, collector.clone()))
        })
        .collect();
    Some(Facts {
        now,
        read: Read::Cached,
        settings,
        watching_since: stores.watching_since(now),
        kubestellar_seen_at,
        // Whoever knows of the lease says it.
        lease_transitions: 0,
        policy,
        evidence_collector,
        collectors,
        collectors_changed,
        placements,
        bindings,
        objects: memory.objects.iter().cloned().collect(),
        combined,
        compiled: remembered(&memory.compiled),
        verdicts: remembered(&memory.verdicts),
        gate_namespaces: stores.sources.allowed().clone(),
        sources,
        modules: remembered(&memory.modules),
        configs: remembered(&memory.configs),
        gate_verdicts: remembered(&memory.gate_verdicts),
        late_plans: memory.late,
    })
}

/// What there is of a policy's placements, by name.
struct Placed {
    placements: BTreeMap<String, Decoded<BindingPolicy>>,
    bindings: BTreeMap<String, BindingFacts>,
    combined: BTreeMap<String, Decoded<CombinedStatusView>>,
}

/// The watches tell the stores first, so what is unpacked after the index was asked is at least as new as what that said.
fn placed(policy: &str, stores: &Stores, index: &Mutex<Index>) -> Placed {
    let index = index.lock().unwrap_or_else(PoisonError::into_inner);
    let names = index.placements_of(policy);
    let observed = names
        .iter()
        .filter_map(|name| Some((name.clone(), index.observed(name)?.clone())));
    let observed: Vec<_> = observed.collect();
    let ids: Vec<ObjectId> = names.iter().flat_map(|name| index.combined_of(name)).cloned().collect();
    drop(index);
    let placements = names.into_iter().filter_map(|name| {
        let placement = stores.placements.named(&name)?;
        Some((name, decoded(&placement)))
    });
    let bindings = observed.into_iter().map(|(name, observed)| {
        let object = stores.bindings.named(&name).map(|binding| decoded(&binding));
        (name, BindingFacts { object, observed })
    });
    let combined = ids.into_iter().filter_map(|id| {
        let combined = stores.combined.get(&id)?;
        Some((id.to_string(), decoded(&combined)))
    });
    Placed {
        placements: placements.collect(),
        bindings: bindings.collect(),
        combined: combined.collect(),
    }
}

fn remembered<K: Clone + Eq + Hash + Ord, V: Clone>(answers: &BoundedMap<K, V>) -> BTreeMap<K, V> {
    answers
        .iter()
        .map(|(key, answer)| (key.clone(), answer.clone()))
        .collect()
}

pub fn policy_facts(policy: &Guarded<StagedBindingPolicy>) -> PolicyFacts {
    match &policy.0 {
        Ok(object) => PolicyFacts {
            object: object.clone(),
            undecodable: None,
        },
        Err(invalid) => {
            let spec = StagedBindingPolicySpec::default();
            let object = StagedBindingPolicy {
                metadata: invalid.metadata.clone(),
                spec,
                status: None,
            };
            PolicyFacts {
                object: Arc::new(object),
                undecodable: Some(invalid.error.clone()),
            }
        }
    }
}

/// One that does not decode has a spec that is not ours, whatever it is.
pub fn evidence_facts(collector: &Guarded<StatusCollector>, ours_since: Option<Timestamp>) -> EvidenceCollectorFacts {
    let object = match &collector.0 {
        Ok(object) => object.clone(),
        Err(invalid) => {
            let spec = StatusCollectorSpec::default();
            Arc::new(StatusCollector {
                metadata: invalid.metadata.clone(),
                spec,
                status: None,
            })
        }
    };
    let ours_since = ours_since.filter(|_| has_our_spec(&object));
    EvidenceCollectorFacts { object, ours_since }
}

/// All that clauses of the policy, of its placements and of their Bindings name.
pub fn collectors_named(
    policy: &StagedBindingPolicy,
    placements: &BTreeMap<String, Decoded<BindingPolicy>>,
    bindings: &BTreeMap<String, BindingFacts>,
) -> BTreeSet<String> {
    let placed = placements
        .values()
        .filter_map(Decoded::object)
        .flat_map(|placement| &placement.spec.downsync);
    let clauses = policy
        .spec
        .downsync
        .iter()
        .chain(placed)
        .flat_map(|clause| &clause.status_collectors);
    let bound = bindings
        .values()
        .filter_map(|binding| binding.object.as_ref().and_then(Decoded::object));
    let bound = bound
        .flat_map(|binding| binding.spec.workload.objects())
        .flat_map(|object| &object.status_collectors);
    clauses.chain(bound).cloned().collect()
}

pub fn bound_keys(binding: &BindingFacts) -> Vec<ObjectKey> {
    let binding = binding.object.as_ref().and_then(Decoded::object);
    let objects = binding.into_iter().flat_map(|binding| binding.spec.workload.objects());
    objects.map(object_key).collect()
}
