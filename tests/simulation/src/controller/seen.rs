//! What one process knows from its watches: the objects as far as their events have arrived, and what it saw between two
//! decisions. Stands for the shell's stores and index; the simulation has no listeners.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use stagegate_api::{Binding, BindingPolicy, CombinedStatus, StagedBindingPolicy, StatusCollector, evidence, label};
use stagegate_decide::names::{PlacementName, StageName};
use stagegate_decide::staging::{Observed, observe};

use crate::server::Server;
use crate::server::kind::{Entry, Kind, Stored};

/// The kinds that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    Policies,
    Placements,
    Bindings,
    Collectors,
    Combined,
}

impl Watched {
    pub const ALL: [Self; 5] = [
        Self::Policies,
        Self::Placements,
        Self::Bindings,
        Self::Collectors,
        Self::Combined,
    ];
}

/// A kind as one watch has told of it.
#[derive(Clone, Debug)]
pub struct Cache<T> {
    pub objects: BTreeMap<String, Arc<T>>,
    cursor: usize,
    pub seen: u64,
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            cursor: 0,
            seen: 0,
        }
    }
}

/// The name of an object, and what it was and is.
type Changed<T> = (String, Option<Arc<T>>, Option<Arc<T>>);

/// An object before and after.
struct Change<'a, T> {
    key: &'a str,
    before: Option<Arc<T>>,
    after: Option<&'a Arc<T>>,
}

impl<T: Stored> Cache<T> {
    /// The events up to a version, one by one; a list tells only of what there is now.
    fn take(&mut self, kind: &Kind<T>, upto: u64, is_list: bool) -> Vec<Changed<T>> {
        let log: &[Entry<T>] = kind.log();
        let end = log.partition_point(|entry| entry.version <= upto).max(self.cursor);
        let mut entries: Vec<&Entry<T>> = log[self.cursor..end].iter().collect();
        if is_list {
            let mut known = BTreeSet::new();
            entries.reverse();
            entries.retain(|entry| known.insert(entry.key.clone()));
            entries.reverse();
        }
        self.cursor = end;
        self.seen = self.seen.max(upto);
        let mut changes = Vec::with_capacity(entries.len());
        for entry in entries {
            let before = match &entry.after {
                Some(after) => self.objects.insert(entry.key.clone(), after.clone()),
                None => self.objects.remove(&entry.key),
            };
            if before.is_some() || entry.after.is_some() {
                changes.push((entry.key.clone(), before, entry.after.clone()));
            }
        }
        changes
    }
}

#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub policies: Cache<StagedBindingPolicy>,
    pub placements: Cache<BindingPolicy>,
    pub bindings: Cache<Binding>,
    pub collectors: Cache<StatusCollector>,
    pub combined: Cache<CombinedStatus>,
    pub observed: BTreeMap<String, Observed>,
    pub collectors_changed: BTreeMap<String, Timestamp>,
    pub evidence_ours_since: Option<Timestamp>,
    pub kubestellar_seen_at: Option<Timestamp>,
    /// Since when no event of a kind can have been missed.
    pub listed: BTreeMap<Watched, Timestamp>,
}

impl Seen {
    /// Takes in what a watch brings; gives the policies that it touches.
    pub fn take(
        &mut self,
        server: &Server,
        (kind, upto, is_list): (Watched, u64, bool),
        now: Timestamp,
    ) -> BTreeSet<String> {
        if is_list {
            self.listed.insert(kind, now);
        }
        let mut touched = BTreeSet::new();
        match kind {
            Watched::Policies => {
                for (key, ..) in self.policies.take(&server.policies, upto, is_list) {
                    touched.insert(key);
                }
            }
            Watched::Placements => {
                for (key, before, after) in self.placements.take(&server.placements, upto, is_list) {
                    let change = Change {
                        key: &key,
                        before,
                        after: after.as_ref(),
                    };
                    self.placement(&change, now, &mut touched);
                }
            }
            Watched::Bindings => {
                for (key, before, after) in self.bindings.take(&server.bindings, upto, is_list) {
                    let change = Change {
                        key: &key,
                        before,
                        after: after.as_ref(),
                    };
                    self.binding(&change, now);
                    touched.extend(self.policies_of(&key));
                }
            }
            Watched::Collectors => {
                for (key, before, after) in self.collectors.take(&server.collectors, upto, is_list) {
                    let change = Change {
                        key: &key,
                        before,
                        after: after.as_ref(),
                    };
                    self.collector(&change, now);
                    touched.extend(self.policies.objects.keys().cloned());
                }
            }
            Watched::Combined => {
                for (_, before, after) in self.combined.take(&server.combined, upto, is_list) {
                    if before.is_some() && after.is_some() {
                        self.kubestellar_seen_at = Some(now);
                    }
                    for combined in before.iter().chain(&after) {
                        touched.extend(self.policies_of(placement_of(combined)));
                    }
                }
            }
        }
        touched
    }

    fn placement(&mut self, change: &Change<'_, BindingPolicy>, now: Timestamp, touched: &mut BTreeSet<String>) {
        let observed = |object: &BindingPolicy| object.status.as_ref().map(|status| status.observed_generation);
        let after = change.after.and_then(|after| observed(after));
        if after.is_some() && change.before.as_ref().is_some_and(|before| observed(before) != after) {
            self.kubestellar_seen_at = Some(now);
        }
        touched.extend(self.policies_of(change.key));
        let sides = change.before.iter().chain(change.after);
        touched.extend(sides.flat_map(|object| owners(object)));
    }

    fn binding(&mut self, change: &Change<'_, Binding>, now: Timestamp) {
        let generation = change.after.map(|after| after.metadata.generation);
        if let (Some(before), Some(generation)) = (&change.before, generation)
            && before.metadata.generation != generation
        {
            self.kubestellar_seen_at = Some(now);
        }
        let next = observe(self.observed.get(change.key), change.after.map(Arc::as_ref), now);
        self.observed.insert(change.key.to_owned(), next);
    }

    fn collector(&mut self, change: &Change<'_, StatusCollector>, now: Timestamp) {
        let changed = match (&change.before, change.after) {
            (_, None) => {
                self.collectors_changed.remove(change.key);
                None
            }
            (None, Some(after)) => {
                let is_as_created = after.metadata.generation == Some(1);
                let created = after.metadata.creation_timestamp.as_ref().filter(|_| is_as_created);
                Some(created.map_or(now, |created| created.0))
            }
            (Some(before), Some(after)) => (before.spec != after.spec).then_some(now),
        };
        if let Some(changed) = changed {
            self.collectors_changed.insert(change.key.to_owned(), changed);
        }
        if change.key == evidence::collector_name() {
            let is_ours = change
                .after
                .is_some_and(|after| after.spec == *evidence::collector_spec());
            let generation = |collector: &Arc<StatusCollector>| collector.metadata.generation;
            let is_same = change
                .before
                .as_ref()
                .is_none_or(|before| change.after.map(generation) == Some(generation(before)));
            let since = self.evidence_ours_since.filter(|_| is_same).or(Some(now));
            self.evidence_ours_since = since.filter(|_| is_ours);
        }
    }

    /// Under which names placements of the policy are or would be.
    pub fn placements_of(&self, policy: &str) -> BTreeSet<String> {
        let stages = self
            .policies
            .objects
            .get(policy)
            .into_iter()
            .flat_map(|policy| &policy.spec.stages);
        let mut names: BTreeSet<String> = stages
            .map(|stage| {
                PlacementName::of(policy, StageName::of(&stage.name))
                    .as_str()
                    .to_owned()
            })
            .collect();
        let owned = self.placements.objects.iter();
        let owned = owned.filter(|(_, object)| owners(object).any(|owner| owner == policy));
        names.extend(owned.map(|(name, _)| name.clone()));
        names
    }

    fn policies_of<'a>(&'a self, placement: &'a str) -> impl Iterator<Item = String> + 'a {
        let has_stage = move |(name, policy): &(&String, &Arc<StagedBindingPolicy>)| {
            let mut stages = policy.spec.stages.iter();
            stages.any(|stage| PlacementName::of(name, StageName::of(&stage.name)).as_str() == placement)
        };
        let live = self.placements.objects.get(placement);
        let owners = live.into_iter().flat_map(|object| owners(object));
        self.policies
            .objects
            .iter()
            .filter(has_stage)
            .map(|(name, _)| name.clone())
            .chain(owners)
    }

    /// Since when this process watches without a gap.
    pub fn watching_since(&self) -> Option<Timestamp> {
        let listed = Watched::ALL.iter().map(|kind| self.listed.get(kind).copied());
        let listed: Option<Vec<Timestamp>> = listed.collect();
        listed?.into_iter().max()
    }
}

/// The BindingPolicy that a CombinedStatus is of.
pub fn placement_of(combined: &CombinedStatus) -> &str {
    labelled(combined, label::BINDING_POLICY)
}

fn labelled<'a>(combined: &'a CombinedStatus, key: &str) -> &'a str {
    let labels = combined.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(key)).map_or("", String::as_str)
}

fn owners(placement: &BindingPolicy) -> impl Iterator<Item = String> {
    let owners = placement.metadata.owner_references.as_deref().unwrap_or_default();
    let owners = owners.iter().filter(|owner| owner.kind == "StagedBindingPolicy");
    owners.map(|owner| owner.name.clone())
}
