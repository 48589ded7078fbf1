//! Which policies an event touches, and which objects belong to a policy. Must not hold objects themselves, but for the
//! short memory of what Bindings and the evidence collector did between two decisions.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _};
use stagegate_api::{
    Binding, BindingPolicy, CombinedStatusView, StagedBindingPolicy, StatusCollector, Updates, evidence, label,
};
use stagegate_decide::names::{PlacementName, StageName};
use stagegate_decide::staging::{Observed, observe};
use stagegate_runtime::few::Few;
use stagegate_runtime::links::Links;
use stagegate_runtime::store::{Change, ObjectId};

use crate::controllers::kinds::Guarded;

#[derive(Debug, Default)]
pub struct Index {
    policies: BTreeSet<String>,
    /// Policy → the names of its stages' placements.
    stages: Links,
    /// Placement → the policies among its owners, by name.
    owners: Links,
    /// Policy or placement → the collectors that its clauses name.
    policy_collectors: Links,
    placement_collectors: Links,
    /// BindingPolicy name → its CombinedStatuses.
    combined: BTreeMap<String, Few<ObjectId>>,
    observed: BTreeMap<String, Observed>,
    evidence_ours_since: Option<Timestamp>,
    /// When the spec of a collector last changed; its creation counts.
    collectors_changed: BTreeMap<String, Timestamp>,
    /// When KubeStellar was last seen writing. Only changes count: objects of the first list may be of any age.
    kubestellar_seen_at: Option<Timestamp>,
}

impl Index {
    pub fn policy(&mut self, change: &Change<'_, Guarded<StagedBindingPolicy>>) -> Vec<String> {
        let name = &change.id.name;
        let after = change.after.and_then(|guarded| guarded.object());
        let stages = after.map(|policy| {
            let stages = policy.spec.stages.iter();
            let names = stages.map(|stage| PlacementName::of(name, StageName::of(&stage.name)));
            let observer = (policy.spec.updates == Updates::Staged).then(|| PlacementName::of_versions(name));
            names.chain(observer).map(|name| name.as_str().to_owned()).collect()
        });
        let left: Vec<String> = self.stages.of(name).cloned().collect();
        self.stages.set(name, stages.unwrap_or_default());
        for placement in left {
            let empty = self
                .observed
                .get(&placement)
                .is_some_and(|observed| observed.members.is_empty());
            if empty && self.policies_of(&placement).next().is_none() {
                self.observed.remove(&placement);
            }
        }
        let clauses = after.map(|policy| policy.spec.downsync.as_slice()).unwrap_or_default();
        self.policy_collectors.set(
            name,
            clauses
                .iter()
                .flat_map(|clause| clause.status_collectors.clone())
                .collect(),
        );
        if change.after.is_some() {
            self.policies.insert(name.clone());
        } else {
            self.policies.remove(name);
        }
        vec![name.clone()]
    }

    pub fn placement(&mut self, change: &Change<'_, Guarded<BindingPolicy>>, now: Timestamp) -> Vec<String> {
        let name = &change.id.name;
        let observed = |guarded: &Guarded<BindingPolicy>| Some(guarded.object()?.status.as_ref()?.observed_generation);
        let after = change.after.and_then(|after| observed(after));
        if after.is_some() && change.before().is_some_and(|before| observed(&before) != after) {
            self.kubestellar_seen_at = Some(now);
        }
        let mut touched: BTreeSet<String> = self.policies_of(name).collect();
        let owners = change.after.map(|guarded| owners(guarded).collect());
        self.owners.set(name, owners.unwrap_or_default());
        let spec = change
            .after
            .and_then(|guarded| guarded.object())
            .map(|placement| &placement.spec);
        let clauses = spec.map(|spec| spec.downsync.as_slice()).unwrap_or_default();
        self.placement_collectors.set(
            name,
            clauses
                .iter()
                .flat_map(|clause| clause.status_collectors.clone())
                .collect(),
        );
        touched.extend(self.policies_of(name));
        touched.into_iter().collect()
    }

    pub fn binding(&mut self, change: &Change<'_, Guarded<Binding>>, now: Timestamp) -> Vec<String> {
        let name = &change.id.name;
        let binding = change.after.and_then(|guarded| guarded.object());
        let generation = binding.map(|binding| binding.metadata.generation);
        if generation.is_some()
            && change
                .before()
                .is_some_and(|before| Some(before.meta().generation) != generation)
        {
            self.kubestellar_seen_at = Some(now);
        }
        let observed = observe(self.observed.get(name), binding, now);
        self.observed.insert(name.clone(), observed);
        let touched: Vec<String> = self.policies_of(name).collect();
        if change.after.is_none() && touched.is_empty() {
            self.observed.remove(name);
        }
        touched
    }

    pub fn collector(&mut self, change: &Change<'_, Guarded<StatusCollector>>, now: Timestamp) -> Vec<String> {
        let name = &change.id.name;
        self.note_collector_change(change, now);
        if *name == evidence::collector_name() {
            let collector = change.after.and_then(|guarded| guarded.object());
            let ours = collector.is_some_and(|collector| collector.spec == *evidence::collector_spec());
            // Put back between two lists it looks as it did, but for its generation.
            let generation = |guarded: &Guarded<StatusCollector>| guarded.meta().generation;
            let is_same = change
                .before()
                .is_none_or(|before| change.after.map(|after| generation(after)) == Some(generation(&before)));
            self.evidence_ours_since = if ours {
                self.evidence_ours_since.filter(|_| is_same).or(Some(now))
            } else {
                None
            };
            return self.policies.iter().cloned().collect();
        }
        let mut touched: BTreeSet<String> = self.policy_collectors.naming(name).cloned().collect();
        for placement in self.placement_collectors.naming(name) {
            touched.extend(self.policies_of(placement));
        }
        touched.into_iter().collect()
    }

    fn note_collector_change(&mut self, change: &Change<'_, Guarded<StatusCollector>>, now: Timestamp) {
        let name = &change.id.name;
        let spec = |guarded: &Guarded<StatusCollector>| guarded.object().map(|collector| collector.spec.clone());
        match (change.before(), change.after) {
            (_, None) => {
                self.collectors_changed.remove(name);
            }
            (None, Some(after)) => {
                // One that was ever edited may have been just now, while nobody watched.
                let is_as_created = after.meta().generation == Some(1);
                let created = after.meta().creation_timestamp.as_ref().filter(|_| is_as_created);
                self.collectors_changed
                    .insert(name.clone(), created.map_or(now, |created| created.0));
            }
            (Some(before), Some(after)) if spec(&before) != spec(after) => {
                self.collectors_changed.insert(name.clone(), now);
            }
            _ => {}
        }
    }

    pub fn combined(&mut self, change: &Change<'_, Guarded<CombinedStatusView>>, now: Timestamp) -> Vec<String> {
        if change.before.is_some() && change.after.is_some() {
            self.kubestellar_seen_at = Some(now);
        }
        let label = |guarded: &Guarded<CombinedStatusView>| guarded.labels().get(label::BINDING_POLICY).cloned();
        let after = change.after.and_then(|guarded| label(guarded));
        let is_known = |name: &String| self.combined.get(name).is_some_and(|ids| ids.contains(change.id));
        if let Some(name) = after.as_ref().filter(|name| is_known(name)) {
            // It has moved to no other one, as nearly always.
            return self.policies_of(name).collect();
        }
        let before = change.before().and_then(|guarded| label(&guarded));
        if let Some(name) = &before
            && let Some(ids) = self.combined.get_mut(name)
        {
            ids.remove(change.id);
            if ids.is_empty() {
                self.combined.remove(name);
            }
        }
        if let Some(name) = &after {
            self.combined.entry(name.clone()).or_default().insert(change.id.clone());
        }
        let touched: BTreeSet<String> = before
            .iter()
            .chain(&after)
            .flat_map(|name| self.policies_of(name))
            .collect();
        touched.into_iter().collect()
    }

    /// The names under which placements of the policy are, or would be.
    pub fn placements_of(&self, policy: &str) -> BTreeSet<String> {
        self.stages
            .of(policy)
            .chain(self.owners.naming(policy))
            .cloned()
            .collect()
    }

    pub fn combined_of(&self, placement: &str) -> impl Iterator<Item = &ObjectId> {
        self.combined.get(placement).into_iter().flatten()
    }

    pub fn observed(&self, binding: &str) -> Option<&Observed> {
        self.observed.get(binding)
    }

    pub fn collector_changed(&self, name: &str) -> Option<Timestamp> {
        self.collectors_changed.get(name).copied()
    }

    pub fn kubestellar_seen_at(&self) -> Option<Timestamp> {
        self.kubestellar_seen_at
    }

    pub fn evidence_ours_since(&self) -> Option<Timestamp> {
        self.evidence_ours_since
    }

    fn policies_of(&self, placement: &str) -> impl Iterator<Item = String> {
        let policies: BTreeSet<&String> = self.stages.naming(placement).chain(self.owners.of(placement)).collect();
        policies.into_iter().cloned().collect::<Vec<_>>().into_iter()
    }
}

fn owners(placement: &Guarded<BindingPolicy>) -> impl Iterator<Item = String> {
    let owners = placement.owner_references().iter();
    owners
        .filter(|owner| owner.kind == "StagedBindingPolicy")
        .map(|owner| owner.name.clone())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::{Change, Guarded, Index, ObjectId, StatusCollector};

    fn collector(generation: i64) -> Arc<Guarded<StatusCollector>> {
        let value = json!({
            "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "StatusCollector",
            "metadata": {"name": "available", "uid": "u", "resourceVersion": "9", "generation": generation, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"limit": 20},
        });
        Arc::new(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn a_collector_that_was_edited_before_this_process_began_counts_as_just_edited() {
        let now: jiff::Timestamp = "2026-02-01T00:00:00Z".parse().unwrap();
        for (generation, changed) in [(1, "2026-01-01T00:00:00Z"), (2, "2026-02-01T00:00:00Z")] {
            let (mut index, after) = (Index::default(), collector(generation));
            let id = ObjectId::cluster_scoped("available");
            let change = Change {
                id: &id,
                before: None,
                after: Some(&after),
            };
            index.collector(&change, now);
            assert_eq!(index.collector_changed("available"), Some(changed.parse().unwrap()));
        }
    }
}
