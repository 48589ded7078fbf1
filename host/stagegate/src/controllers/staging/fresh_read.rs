//! Reads what a placement rests on from the API server itself, and takes the rest from the watches. Must not judge what it reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _};
use stagegate_api::{Binding, BindingPolicy, BoundObject, StagedBindingPolicy, Updates, evidence};
use stagegate_decide::names::{PlacementName, ResourceVersion, StageName};
use stagegate_decide::staging::{
    BindingFacts, Decoded, Facts, Observed, Read, Source, bindings_to_read, is_read_whole, observe,
    placements_to_judge, placements_to_read,
};
use stagegate_runtime::Runtime;
use stagegate_runtime::request::RequestError;
use stagegate_runtime::store::ObjectId;
use stagegate_runtime::watch::order_of;
use tokio::time::Instant;

use super::collector_look::{CollectorLooks, Look};
use super::index::Index;
use super::memory::Memory;
use super::read::{self, Reader, Wanted};
use super::stores::Stores;
use super::{gates_of, gather};
use crate::controllers::gates::sources;
use crate::controllers::kinds::{Guarded, decoded};
use crate::controllers::objects::object_key;

/// Facts, and how old the oldest of them may be.
pub struct Reading {
    pub facts: Facts,
    /// When the first of it was asked for, by a clock that nobody sets.
    pub begun: Instant,
    /// A write was refused since the facts came from the watches, or a BindingPolicy that was read is not the version that the watch has
    /// reported. The watches may be behind, so the policy and all its BindingPolicies are read from the server. Otherwise the policy and the BindingPolicies that [`placements_to_read`] leaves out are not read: the API
    /// server refuses a write to one of them if it has changed, and a plan that moves something writes the policy's status first.
    pub is_watch_late: bool,
}

impl Reading {
    /// Nothing was read yet.
    pub const fn of_watches(facts: Facts, begun: Instant) -> Self {
        Self {
            facts,
            begun,
            is_watch_late: false,
        }
    }
}

/// The policy, if it is there, and the placements under certain names.
type Versions = (
    Option<Guarded<StagedBindingPolicy>>,
    BTreeMap<String, Decoded<BindingPolicy>>,
);

/// What one reading asks the server for.
#[derive(Debug, Default)]
struct Names {
    /// Names of the BindingPolicies to read.
    read: BTreeSet<String>,
    /// Names of the Bindings to read: of open placements, and where stages are held, of all.
    open: BTreeSet<String>,
    /// Names of the placements to judge, whose CombinedStatuses are read.
    judged: BTreeSet<String>,
}

impl Names {
    /// Whether nothing is missing that these facts ask for.
    fn hold_all_of(&self, facts: &Facts) -> bool {
        placements_to_read(facts).is_subset(&self.read)
            && bindings_to_read(facts).is_subset(&self.open)
            && placements_to_judge(facts).is_subset(&self.judged)
    }
}

/// Where to read, and what the watches have reported.
#[derive(Clone, Copy)]
pub struct FreshReader<'a> {
    pub runtime: &'a Runtime,
    pub stores: &'a Stores,
    pub index: &'a Mutex<Index>,
    pub looks: &'a CollectorLooks,
}

impl FreshReader<'_> {
    /// After a refused write: the versions that writes are conditional on, read again. `false`: the policy is gone.
    pub async fn refresh(
        &self,
        policy: &str,
        reading: &mut Reading,
        memory: &mut Memory,
    ) -> Result<bool, RequestError> {
        reading.is_watch_late = true;
        match reading.facts.read {
            Read::Anew { .. } => self.fresh_read(policy, reading, memory).await,
            Read::Placements => self.fresh_placements(policy, reading, memory).await,
            Read::Cached => self.read_versions(policy, &mut reading.facts).await,
        }
    }

    /// What a hold is conditional on: the watch may not have reported the write that refused it.
    async fn read_held(&self, facts: &mut Facts) -> Result<(), RequestError> {
        let names = bindings_to_read(facts);
        let bindings = Reader::new(&self.runtime.client, &self.stores.bindings)
            .each(&names)
            .await?;
        let watched = std::mem::take(&mut facts.bindings);
        self.take_bindings(facts, watched, (&names, bindings));
        Ok(())
    }

    /// Policy and placements: what writes are conditional on.
    async fn read_versions(&self, policy: &str, facts: &mut Facts) -> Result<bool, RequestError> {
        let names = self.names(policy, facts);
        let versions = self.versions((policy, true), &names).await?;
        let is_there = self.take_versions(facts, (&names, versions)).await?;
        if is_there && facts.policy.object.spec.updates == Updates::Staged {
            self.read_held(facts).await?;
        }
        Ok(is_there)
    }

    async fn versions(
        &self,
        (policy, is_watch_late): (&str, bool),
        names: &BTreeSet<String>,
    ) -> Result<Versions, RequestError> {
        let client = &self.runtime.client;
        let policies = Reader::new(client, &self.stores.policies);
        let placements = Reader::new(client, &self.stores.placements);
        let read = async {
            if is_watch_late {
                policies.one(policy).await
            } else {
                Ok(self.stores.policies.named(policy).map(|known| (*known).clone()))
            }
        };
        tokio::try_join!(read, placements.each(names))
    }

    /// Whether one of the BindingPolicies that were read is not the version that the watch has reported: then what this has of the others
    /// may be older still, and together they never were.
    fn is_behind(&self, names: &BTreeSet<String>, (_, read): &Versions) -> bool {
        let is_other = |name: &String| {
            let read = read.get(name).map(Decoded::object);
            let known = self.stores.placements.version_of(&ObjectId::cluster_scoped(name));
            match read {
                None => known.is_some(),
                Some(Some(object)) => known != order_of(object),
                // Its version is not known.
                Some(None) => known.is_none(),
            }
        };
        names.iter().any(is_other)
    }

    /// Whether nothing comes from a watch that is late.
    fn is_all_read(&self, policy: &str, (facts, is_watch_late): (&Facts, bool), names: &Names) -> bool {
        !is_watch_late || self.names(policy, facts).is_subset(&names.read)
    }

    /// `false`: the policy is gone.
    async fn take_versions(
        &self,
        facts: &mut Facts,
        (names, (read, mut placed)): (&BTreeSet<String>, Versions),
    ) -> Result<bool, RequestError> {
        let Some(read) = read else {
            return Ok(false);
        };
        facts.policy = gather::policy_facts(&read);
        let policy = facts.policy.object.name_any();
        self.recover_status(&policy, facts).await?;
        let known = self
            .names(&policy, facts)
            .into_iter()
            .filter(|name| !names.contains(name));
        placed.extend(known.filter_map(|name| {
            let placement = self.stores.placements.named(&name)?;
            Some((name, decoded(&placement)))
        }));
        facts.placements = placed.into_iter().map(|(name, object)| (name.into(), object)).collect();
        facts.now = self.runtime.clock.now();
        Ok(true)
    }

    /// Reads what the removal of a placement that shares no cluster with a later one rests on. If the policy was edited meanwhile, reads
    /// all that a placement rests on, as [`Self::fresh_read`] does. `false`: the policy is gone.
    pub async fn fresh_placements(
        &self,
        policy: &str,
        reading: &mut Reading,
        memory: &mut Memory,
    ) -> Result<bool, RequestError> {
        let generation = reading.facts.policy.object.meta().generation;
        let Reading {
            facts,
            begun,
            is_watch_late,
        } = reading;
        let mut names = Names::default();
        loop {
            *begun = Instant::now();
            self.add_names(policy, (facts, *is_watch_late), &mut names);
            let of_bindings = Reader::new(&self.runtime.client, &self.stores.bindings);
            let (bindings, versions) = tokio::try_join!(
                of_bindings.each(&names.open),
                self.versions((policy, *is_watch_late), &names.read)
            )?;
            facts.read = Read::Placements;
            *is_watch_late |= self.is_behind(&names.read, &versions);
            if !self.take_versions(facts, (&names.read, versions)).await? {
                return Ok(false);
            }
            let rest = gather::placed(self.names(policy, facts), self.stores, self.index);
            facts.combined = rest.combined;
            self.take_bindings(facts, rest.bindings, (&names.open, bindings));
            if facts.policy.object.meta().generation != generation {
                return self.fresh_read(policy, reading, memory).await;
            }
            if names.hold_all_of(facts) && self.is_all_read(policy, (facts, *is_watch_late), &names) {
                return Ok(true);
            }
        }
    }

    /// Adds the names that follow from the facts. Within one reading no name is removed: an answer of the server, even that an object is
    /// absent, must not be replaced by what a watch has reported.
    fn add_names(&self, policy: &str, (facts, is_watch_late): (&Facts, bool), names: &mut Names) {
        names.read.extend(placements_to_read(facts));
        if is_watch_late {
            names.read.extend(self.names(policy, facts));
        }
        names.open.extend(bindings_to_read(facts));
        names.judged.extend(placements_to_judge(facts));
    }

    /// What was read of the open ones, and what the watch has of the others.
    fn take_bindings(
        &self,
        facts: &mut Facts,
        watched: BTreeMap<PlacementName, BindingFacts>,
        (open, read): (&BTreeSet<String>, BTreeMap<String, Decoded<Binding>>),
    ) {
        facts.bindings = watched;
        facts.bindings.retain(|name, _| !open.contains(name.as_str()));
        facts.bindings.extend(self.observed(open, read, facts.now));
    }

    /// Reads what a placement rests on. The CombinedStatuses come first: the version of their list is the baseline that later
    /// evidence must be newer than. The names of all the rest are known already, so it is read concurrently. What no stage passes on is
    /// taken from the watches: the Bindings of BindingPolicies that are not open, the CombinedStatuses of those that are not judged, and
    /// unless a write was refused, the policy and the BindingPolicies that [`placements_to_read`] leaves out. `false`: the policy is gone.
    pub async fn fresh_read(
        &self,
        policy: &str,
        reading: &mut Reading,
        memory: &mut Memory,
    ) -> Result<bool, RequestError> {
        let client = &self.runtime.client;
        let Reading {
            facts,
            begun,
            is_watch_late,
        } = reading;
        let mut names = Names::default();
        loop {
            *begun = Instant::now();
            let began_at = Some(self.runtime.clock.now());
            self.add_names(policy, (facts, *is_watch_late), &mut names);
            let known = self.combined_of(&names.judged);
            let (combined, baseline) =
                read::combined(&Reader::new(client, &self.stores.combined), &names.judged, known).await?;
            let evidence = combined.values().filter_map(Decoded::object).filter_map(order_of).max();
            let config_maps = self.stores.sources.named_by(gates_of(&facts.policy.object));
            let of_bindings = Reader::new(client, &self.stores.bindings);
            let (bindings, versions, look, objects, sources) = tokio::try_join!(
                of_bindings.each(&names.open),
                self.versions((policy, *is_watch_late), &names.read),
                self.looks
                    .look(client, &self.stores.collectors, evidence.unwrap_or_default()),
                // If a Binding has changed meanwhile, the decision asks again: each answer names the version that it is for.
                read::objects((client, &self.runtime.clock), asked_before(facts)),
                sources::read(client, &config_maps),
            )?;
            *begun = look.begun.min(*begun);
            facts.objects.clear();
            for (key, answer) in objects {
                memory.checks.is_to_retry |= answer.refused.is_some();
                memory.note_object(key.clone(), answer.clone());
                facts.objects.insert(key, answer);
            }
            facts.sources = sources;
            memory.checks.is_to_retry |= facts
                .sources
                .values()
                .any(|source| matches!(source, Source::Unread { .. }));
            facts.read = Read::Anew { baseline, began_at };
            *is_watch_late |= self.is_behind(&names.read, &versions);
            if !self.take_versions(facts, (&names.read, versions)).await? {
                return Ok(false);
            }
            let rest = gather::placed(&self.names(policy, facts) - &names.judged, self.stores, self.index);
            facts.combined = rest.combined;
            facts.combined.extend(combined);
            self.take_bindings(facts, rest.bindings, (&names.open, bindings));
            self.take_collectors(facts, &look);
            // An edit that came meanwhile may name ConfigMaps of which nothing was read yet, and a BindingPolicy may be open, or to be
            // judged, although the watch had not reported that.
            let named = self.stores.sources.named_by(gates_of(&facts.policy.object));
            let is_read = names.hold_all_of(facts) && self.is_all_read(policy, (facts, *is_watch_late), &names);
            if is_read && named.is_subset(&config_maps) {
                return Ok(true);
            }
        }
    }

    /// Under which names placements of the policy are or may be, as the facts and the watches have it.
    fn names(&self, policy: &str, facts: &Facts) -> BTreeSet<String> {
        let stages = facts.policy.object.spec.stages.iter();
        let mut names: BTreeSet<String> = stages
            .map(|stage| {
                PlacementName::of(policy, StageName::of(&stage.name))
                    .as_str()
                    .to_owned()
            })
            .collect();
        names.extend(self.index().placements_of(policy));
        names.extend(facts.placements.keys().map(PlacementName::to_string));
        names
    }

    /// What the watch has reported.
    fn combined_of(&self, placements: &BTreeSet<String>) -> BTreeSet<ObjectId> {
        let index = self.index();
        let ids = placements.iter().flat_map(|name| index.combined_of(name));
        ids.cloned().collect()
    }

    /// What was read, together with what the watch has seen of it so far.
    fn observed(
        &self,
        names: &BTreeSet<String>,
        mut read: BTreeMap<String, Decoded<Binding>>,
        now: Timestamp,
    ) -> BTreeMap<PlacementName, BindingFacts> {
        let index = self.index();
        let facts = names.iter().filter_map(|name| {
            let object = read.remove(name);
            let previous = index.observed(name);
            if object.is_none() && previous.is_none() {
                return None;
            }
            let binding = object.as_ref().and_then(|decoded| decoded.object());
            let observed = Observed {
                // `now` is before the read, and transport may have taken the Binding in between.
                taken: previous.and_then(|previous| previous.taken),
                ..observe(previous, binding, now)
            };
            Some((name.clone().into(), BindingFacts { object, observed }))
        });
        facts.collect()
    }

    /// Those that the facts name, and ours.
    fn take_collectors(&self, facts: &mut Facts, look: &Look) {
        let mut named = gather::collectors_named(&facts.policy.object, &facts.placements, &facts.bindings);
        let ours = evidence::collector_name();
        let index = self.index();
        let ours_since = index.evidence_ours_since();
        let changed = named.iter().chain([&ours]);
        facts.collectors_changed = changed
            .filter_map(|name| Some((name.clone(), index.collector_changed(name)?)))
            .collect();
        drop(index);
        facts.evidence_collector = look
            .collectors
            .get(&ours)
            .map(|collector| gather::evidence_facts(collector, ours_since));
        named.remove(&ours);
        facts.collectors = named
            .into_iter()
            .filter_map(|name| {
                let collector = look.collectors.get(&name)?.0.as_ref().ok()?.clone();
                Some((name, collector))
            })
            .collect();
    }

    /// A policy whose spec cannot be read has a status all the same, and writing one must not lose what it says.
    pub async fn recover_status(&self, policy: &str, facts: &mut Facts) -> Result<(), RequestError> {
        if facts.policy.invalid.is_some() {
            let status = read::status(&self.runtime.client, policy).await?;
            Arc::make_mut(&mut facts.policy.object).status = status;
        }
        Ok(())
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The objects of the Bindings that were read before; the decision asks for others.
fn asked_before(facts: &Facts) -> Vec<Wanted> {
    let bindings = facts
        .bindings
        .values()
        .filter_map(|binding| binding.object.as_ref()?.object());
    let objects = bindings.flat_map(|binding| binding.spec.workload.objects());
    let mut wanted: BTreeMap<_, &BoundObject> = BTreeMap::new();
    for object in objects {
        let key = object_key(object);
        if !facts.objects.contains_key(&key) {
            continue;
        }
        // Bindings that are held name older versions: an answer to the newest is one to all.
        let named = |object: &BoundObject| ResourceVersion::from(object.resource_version.as_str());
        let is_newer = |known: &&BoundObject| named(known).is_newer_than(&named(object)) == Some(true);
        if wanted.get(&key).filter(|known| is_newer(known)).is_none() {
            wanted.insert(key, object);
        }
    }
    let wanted = wanted.into_iter().map(|(key, object)| Wanted {
        key,
        version: object.version.clone(),
        resource_version: object.resource_version.clone().into(),
        is_whole: is_read_whole(facts, object),
    });
    wanted.collect()
}
