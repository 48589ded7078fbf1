//! The facts about one policy from what the watches have brought. Must not send a request: no stage passes on evidence from here. It
//! says whether a reading is worth it, and gives what a reading does not read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use stagegate_api::{
    BindingPolicy, CombinedStatusView, StagedBindingPolicy, StagedBindingPolicySpec, StatusCollector,
    StatusCollectorSpec, evidence,
};
use stagegate_decide::names::PlacementName;
use stagegate_decide::staging::{
    BindingFacts, Decoded, EvidenceCollectorFacts, Facts, PolicyFacts, Read, Settings, has_our_spec,
};
use stagegate_runtime::store::ObjectId;

use super::gates_of;
use super::index::Index;
use super::memory::Memory;
use super::stores::Stores;
use crate::controllers::kinds::{Guarded, decoded};

/// `None`: there is no such policy.
pub fn facts(
    name: &str,
    stores: &Stores,
    index: &Mutex<Index>,
    (memory, now, settings): (&Memory, Timestamp, Settings),
) -> Option<Facts> {
    let policy = policy_facts(&*stores.policies.named(name)?);
    let sources = stores.sources.facts(gates_of(&policy.object));
    let Placed {
        placements,
        bindings,
        combined,
    } = placed(names_of(name, index), stores, index);
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
    let mut facts = Facts {
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
        objects: memory.objects(),
        combined,
        compiled: BTreeMap::new(),
        verdicts: BTreeMap::new(),
        gate_namespaces: stores.sources.allowed().clone(),
        sources,
        modules: BTreeMap::new(),
        configs: BTreeMap::new(),
        gate_verdicts: BTreeMap::new(),
        // Whoever has asked says it.
        hold: None,
        // The session says it.
        contested_at: None,
        late_plans: memory.late,
    };
    memory.checks.fill(facts.answers_mut());
    Some(facts)
}

/// What there is of placements, by name.
pub struct Placed {
    pub placements: BTreeMap<PlacementName, Decoded<BindingPolicy>>,
    pub bindings: BTreeMap<PlacementName, BindingFacts>,
    pub combined: BTreeMap<String, Decoded<CombinedStatusView>>,
}

fn names_of(policy: &str, index: &Mutex<Index>) -> BTreeSet<String> {
    let index = index.lock().unwrap_or_else(PoisonError::into_inner);
    index.placements_of(policy)
}

/// The watches tell the stores first, so what is unpacked after the index was asked is at least as new as what that said.
pub fn placed(names: BTreeSet<String>, stores: &Stores, index: &Mutex<Index>) -> Placed {
    let index = index.lock().unwrap_or_else(PoisonError::into_inner);
    let observed = names
        .iter()
        .filter_map(|name| Some((name.clone(), index.observed(name)?.clone())));
    let observed: Vec<_> = observed.collect();
    let ids: Vec<ObjectId> = names.iter().flat_map(|name| index.combined_of(name)).cloned().collect();
    drop(index);
    let placements = names.into_iter().filter_map(|name| {
        let placement = stores.placements.named(&name)?;
        Some((name.into(), decoded(&placement)))
    });
    let bindings = observed.into_iter().map(|(name, observed)| {
        let object = stores.bindings.named(&name).map(|binding| decoded(&binding));
        (name.into(), BindingFacts { object, observed })
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

pub fn policy_facts(policy: &Guarded<StagedBindingPolicy>) -> PolicyFacts {
    match &policy.0 {
        Ok(object) => PolicyFacts {
            object: object.clone(),
            invalid: None,
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
                invalid: Some(invalid.error.clone()),
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
    placements: &BTreeMap<PlacementName, Decoded<BindingPolicy>>,
    bindings: &BTreeMap<PlacementName, BindingFacts>,
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
