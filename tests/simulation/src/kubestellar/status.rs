//! What is kept between a cluster's report and the CombinedStatus that tells of it. Values are computed when a report, a
//! StatusCollector or a destination comes, and written later. Must not compute them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use stagegate_api::{CombinedStatus, STATUS_COLLECTORS_AVAILABLE, StatusCollectorSpec};
use stagegate_decide::combine::{Evaluation, WorkloadObject};

use super::binding::Selected;
use super::{KubeStellar, Planned};
use crate::clusters::{Fleet, Truth};
use crate::queue::Millis;
use crate::server::{Resource, Server};

/// All that is known about one object of one Binding.
#[derive(Clone, Debug, Default)]
pub(super) struct Combination {
    /// Its uid is from when the Binding first named it: KubeStellar does not look the uid up again while the Binding names it.
    pub object: WorkloadObject,
    pub policy_uid: String,
    pub destinations: BTreeSet<String>,
    /// `None`: the Binding names one that is not there.
    pub collectors: BTreeMap<String, Option<Noted>>,
    /// What the reports rest on that were last computed. For the oracle alone.
    pub truths: BTreeMap<String, Truth>,
}

/// A StatusCollector and what it gave for each cluster.
#[derive(Clone, Debug)]
pub(super) struct Noted {
    pub spec: StatusCollectorSpec,
    pub evaluations: BTreeMap<String, Evaluation>,
}

/// What has to be done after a Binding was noted.
#[derive(Clone, Copy, Default)]
struct Changes {
    is_less: bool,
    is_more: bool,
}

impl Combination {
    fn of(selected: &Selected, policy_uid: &str) -> Self {
        let bound = &selected.bound;
        Self {
            object: WorkloadObject {
                uid: selected.uid.clone(),
                group: bound.group.clone(),
                version: bound.version.clone(),
                kind: Resource::of(&bound.resource).map_or("", Resource::kind).to_owned(),
                resource: bound.resource.clone(),
                namespace: bound.namespace.clone(),
                name: bound.name.clone(),
            },
            policy_uid: policy_uid.to_owned(),
            ..Self::default()
        }
    }

    /// Of the CombinedStatus.
    pub fn key(&self) -> String {
        let namespace = CombinedStatus::namespace_of(self.object.namespace.as_deref());
        let name = CombinedStatus::name_of(&self.object.uid, &self.policy_uid);
        format!("{namespace}/{name}")
    }

    fn update(
        &mut self,
        (selected, destinations): (&Selected, &BTreeSet<String>),
        known: &BTreeMap<String, StatusCollectorSpec>,
    ) -> Changes {
        let mut changes = Changes::default();
        let named = &selected.bound.status_collectors;
        let before = self.collectors.len();
        self.collectors.retain(|name, _| named.contains(name));
        changes.is_less |= self.collectors.len() < before;
        for name in named {
            self.collectors.entry(name.clone()).or_insert_with(|| {
                changes.is_more = true;
                known.get(name).cloned().map(Noted::of)
            });
        }
        changes.is_less |= !self.destinations.is_subset(destinations);
        changes.is_more |= !destinations.is_subset(&self.destinations);
        for noted in self.collectors.values_mut().flatten() {
            noted.evaluations.retain(|cluster, _| destinations.contains(cluster));
        }
        self.destinations.clone_from(destinations);
        changes
    }
}

impl Noted {
    pub const fn of(spec: StatusCollectorSpec) -> Self {
        Self {
            spec,
            evaluations: BTreeMap::new(),
        }
    }
}

impl KubeStellar {
    /// Updates the combinations of a Binding from what is resolved now, not from what the Binding says.
    pub(super) fn note(&mut self, server: &mut Server, fleet: &Fleet, (name, now): (&str, Millis)) -> Vec<Planned> {
        let before = self.combinations.remove(name).unwrap_or_default();
        let mut to_combine = Vec::new();
        let Some(resolution) = self.resolutions.get(name) else {
            to_combine.extend(before.values().map(Combination::key));
            return self.plan_combines(to_combine, now);
        };
        let destinations = resolution.destinations();
        let mut after = BTreeMap::new();
        for (key, selected) in &resolution.objects {
            if selected.bound.status_collectors.is_empty() {
                continue;
            }
            let known = before.get(key).cloned();
            let is_new = known.is_none();
            let mut one = known.unwrap_or_else(|| Combination::of(selected, &resolution.uid));
            let changes = one.update((selected, &destinations), &self.collectors);
            let mut has_changed = is_new || changes.is_less;
            if changes.is_more {
                for cluster in &destinations {
                    has_changed |= one.evaluate(server, fleet, cluster);
                }
            }
            if has_changed {
                to_combine.push(one.key());
            }
            after.insert(key.clone(), one);
        }
        let is_gone = |(key, _): &(&String, &Combination)| !after.contains_key(*key);
        to_combine.extend(before.iter().filter(is_gone).map(|(_, one)| one.key()));
        if !after.is_empty() {
            self.combinations.insert(name.to_owned(), after);
        }
        self.tell_of_collectors(server, name);
        self.plan_combines(to_combine, now)
    }

    fn plan_combines(&mut self, keys: Vec<String>, now: Millis) -> Vec<Planned> {
        keys.into_iter().filter_map(|key| self.plan_combine(key, now)).collect()
    }

    /// The one condition of a Binding. The BindingPolicy gets it with the next look at the Binding.
    fn tell_of_collectors(&self, server: &mut Server, name: &str) {
        let combinations = self.combinations.get(name).into_iter().flat_map(BTreeMap::values);
        let named = combinations.flat_map(|one| &one.collectors);
        let missing: BTreeSet<&str> = named
            .filter(|(_, noted)| noted.is_none())
            .map(|(collector, _)| collector.as_str())
            .collect();
        let (status, reason, message) = if missing.is_empty() {
            (
                "True",
                "ReconcileSuccess",
                "All StatusCollector(s) are available".to_owned(),
            )
        } else {
            let missing = Vec::from_iter(missing).join(" ");
            (
                "False",
                "ReconcileError",
                format!("Missing StatusCollector(s) [{missing}]"),
            )
        };
        let last_transition_time = server.counter.time();
        let _written = server.bindings.update(&mut server.counter, (name, None), |binding| {
            let conditions = &mut binding.status.get_or_insert_default().conditions;
            let is_it = |known: &&Condition| known.type_ == STATUS_COLLECTORS_AVAILABLE;
            if conditions
                .iter()
                .find(is_it)
                .is_some_and(|known| known.message == message)
            {
                return;
            }
            *conditions = vec![Condition {
                type_: STATUS_COLLECTORS_AVAILABLE.to_owned(),
                status: status.to_owned(),
                reason: reason.to_owned(),
                message,
                last_transition_time,
                observed_generation: None,
            }];
        });
    }

    pub(super) fn see_collector(
        &mut self,
        server: &Server,
        fleet: &Fleet,
        (name, now): (&str, Millis),
    ) -> Vec<Planned> {
        let live = server.collectors.get(name).map(|collector| collector.spec.clone());
        if live.is_some() && self.collectors.get(name) == live.as_ref() {
            return Vec::new();
        }
        let (mut to_combine, mut to_note) = (Vec::new(), Vec::new());
        for (binding, combinations) in &mut self.combinations {
            for one in combinations.values_mut() {
                let Some(noted) = one.collectors.get_mut(name) else {
                    continue;
                };
                let has_changed = match &live {
                    None if noted.is_none() => continue,
                    None => {
                        *noted = None;
                        true
                    }
                    Some(spec) if noted.as_ref().is_some_and(|noted| noted.spec == *spec) => continue,
                    Some(spec) => {
                        *noted = Some(Noted::of(spec.clone()));
                        let clusters = one.destinations.clone();
                        let evaluated = clusters.iter().map(|cluster| one.evaluate(server, fleet, cluster));
                        evaluated.fold(false, |any, changed| any | changed)
                    }
                };
                if has_changed {
                    to_combine.push(one.key());
                }
                to_note.push(binding.clone());
            }
        }
        match live {
            Some(spec) => drop(self.collectors.insert(name.to_owned(), spec)),
            None => drop(self.collectors.remove(name)),
        }
        let mut planned = self.plan_combines(to_combine, now);
        planned.extend(to_note.into_iter().filter_map(|binding| self.plan_note(binding, now)));
        planned
    }

    pub(super) fn see_report(
        &mut self,
        server: &Server,
        fleet: &Fleet,
        (cluster, key, now): (&str, &str, Millis),
    ) -> Vec<Planned> {
        let mut to_combine = Vec::new();
        for combinations in self.combinations.values_mut() {
            let Some(one) = combinations.get_mut(key) else {
                continue;
            };
            if one.destinations.contains(cluster) && one.evaluate(server, fleet, cluster) {
                to_combine.push(one.key());
            }
        }
        self.plan_combines(to_combine, now)
    }

    /// The combination that a CombinedStatus of this key tells of, and its Binding.
    pub(super) fn combination(&self, key: &str) -> Option<(&str, &Combination)> {
        let all = self.combinations.iter();
        let mut all = all.flat_map(|(binding, of)| of.values().map(move |one| (binding.as_str(), one)));
        all.find(|(_, one)| one.key() == key)
    }
}
