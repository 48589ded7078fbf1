//! KubeStellar 0.30, by the host's own rules for translation and combination, with what the real one does besides: it waits 2 s
//! before it writes a Binding and 5 s before it writes a CombinedStatus, copies a generation that it has not resolved, works
//! from a cache that fills up in any order after a restart, and does not write again for errors alone. Must not know stages.

mod combine;

pub use combine::AVAILABLE;

use std::collections::{BTreeMap, BTreeSet};

use stagegate_api::{BindingPolicy, BindingPolicySpec};
use stagegate_decide::binding::{self, Candidate, Imitation, Write};

use crate::clusters::{Fleet, Truth};
use crate::queue::Millis;
use crate::seeded::Seeded;
use crate::server::Server;

pub const FINALIZER: &str = stagegate_api::BINDING_POLICY_FINALIZER;
/// From the first change to the Binding's write; later changes do not move it.
const DEBOUNCE_MS: Millis = 2_000;
/// The same of CombinedStatuses.
const COMBINE_MS: Millis = 5_000;
const RETRY_MS: Millis = 100;

/// Something to do, in the process that planned it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// The process has begun: it lists what there is, in any order.
    Begin(Start),
    SeePlacement(String),
    SeeObject(String),
    SeeInventory,
    Sync(String),
    /// An object and a BindingPolicy.
    Combine(String, String),
}

/// A task and when it is to be done.
pub type Planned = (Millis, Task);

#[derive(Clone, Debug, Default)]
pub struct KubeStellar {
    /// Which process of it is at work: tasks of earlier ones are void.
    pub process: u64,
    pub down_until: Millis,
    known: BTreeMap<String, BindingPolicySpec>,
    objects: BTreeMap<String, Candidate>,
    clusters: Vec<binding::Cluster>,
    to_sync: BTreeSet<String>,
    to_combine: BTreeSet<(String, String)>,
    combined_at: BTreeMap<(String, String), Millis>,
    /// What the rows of a CombinedStatus rest on, by its resourceVersion and cluster. For the oracle alone.
    pub basis: BTreeMap<String, BTreeMap<String, Truth>>,
    /// The spec that the Binding of this name was last resolved from. For the oracle alone.
    pub resolved: BTreeMap<String, BindingPolicySpec>,
}

/// How long a start takes to see things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    pub down_ms: Millis,
    pub inventory_ms: Millis,
    pub objects_ms: Millis,
}

impl KubeStellar {
    /// The process ends and another one begins, which knows nothing.
    pub fn restart(&mut self, (start, now): (Start, Millis)) -> Vec<Planned> {
        *self = Self {
            process: self.process + 1,
            down_until: now + start.down_ms,
            basis: std::mem::take(&mut self.basis),
            resolved: std::mem::take(&mut self.resolved),
            ..Self::default()
        };
        vec![(self.down_until, Task::Begin(start))]
    }

    fn begin(server: &Server, (start, now): (Start, Millis), chance: &mut Seeded) -> Vec<Planned> {
        let mut planned = vec![(now + chance.between(0, start.inventory_ms), Task::SeeInventory)];
        for (name, _) in server.placements.all() {
            planned.push((now + chance.between(0, 300), Task::SeePlacement(name.clone())));
        }
        for (key, _) in server.workloads.all() {
            planned.push((now + chance.between(0, start.objects_ms), Task::SeeObject(key.clone())));
            for (name, _) in server.bindings.all() {
                planned.push((now + COMBINE_MS, Task::Combine(key.clone(), name.clone())));
            }
        }
        planned
    }

    pub fn work(
        &mut self,
        server: &mut Server,
        (fleet, chance): (&Fleet, &mut Seeded),
        (task, now): (Task, Millis),
    ) -> Vec<Planned> {
        match task {
            Task::Begin(start) => Self::begin(server, (start, now), chance),
            Task::SeePlacement(name) => self.see_placement(server, name, now),
            Task::SeeObject(key) => {
                match server.workloads.get(&key) {
                    Some(object) => drop(self.objects.insert(key, object.candidate())),
                    None => drop(self.objects.remove(&key)),
                }
                self.sync_all(now)
            }
            Task::SeeInventory => {
                let clusters = server.clusters.all().map(|(name, cluster)| binding::Cluster {
                    name: name.clone(),
                    labels: cluster.labels(),
                });
                self.clusters = clusters.collect();
                self.sync_all(now)
            }
            Task::Sync(name) => {
                self.to_sync.remove(&name);
                self.sync(server, &name, now)
            }
            Task::Combine(key, name) => {
                self.to_combine.remove(&(key.clone(), name.clone()));
                let written = self.combine(server, fleet, (&key, &name));
                if written == Some(true) {
                    self.combined_at.insert((key.clone(), name.clone()), now);
                }
                if written.is_none() {
                    self.plan_combine(&key, &name, now).into_iter().collect()
                } else {
                    Vec::new()
                }
            }
        }
    }

    fn see_placement(&mut self, server: &mut Server, name: String, now: Millis) -> Vec<Planned> {
        let Some(live) = server.placements.get(&name).cloned() else {
            self.known.remove(&name);
            return Vec::new();
        };
        let finalizers = live.metadata.finalizers.clone().unwrap_or_default();
        let has_finalizer = finalizers.iter().any(|finalizer| finalizer == FINALIZER);
        let is_leaving = live.metadata.deletion_timestamp.is_some();
        if is_leaving == has_finalizer {
            let _written = server.placements.update(&mut server.counter, (&name, None), |object| {
                let mut finalizers = finalizers;
                finalizers.retain(|finalizer| finalizer != FINALIZER);
                if !is_leaving {
                    finalizers.push(FINALIZER.to_owned());
                }
                object.metadata.finalizers = Some(finalizers).filter(|list| !list.is_empty());
            });
        }
        if is_leaving {
            self.known.remove(&name);
            return Vec::new();
        }
        self.known.insert(name.clone(), live.spec.clone());
        self.plan_sync(name, now).into_iter().collect()
    }

    fn sync_all(&mut self, now: Millis) -> Vec<Planned> {
        let names: Vec<String> = self.known.keys().cloned().collect();
        names.into_iter().filter_map(|name| self.plan_sync(name, now)).collect()
    }

    fn plan_sync(&mut self, name: String, now: Millis) -> Option<Planned> {
        self.to_sync
            .insert(name.clone())
            .then_some((now + DEBOUNCE_MS, Task::Sync(name)))
    }

    /// A change within 5 s of a write is written 5 s after that.
    pub fn plan_combine(&mut self, key: &str, name: &str, now: Millis) -> Option<Planned> {
        let pair = (key.to_owned(), name.to_owned());
        let last = self.combined_at.get(&pair).copied();
        let due = last.map_or(now, |last| last.max(now - COMBINE_MS)) + COMBINE_MS;
        self.to_combine
            .insert(pair.clone())
            .then_some((due.max(now), Task::Combine(pair.0, pair.1)))
    }

    /// The Binding as far as things are known, and the generation that the BindingPolicy has by then.
    fn sync(&mut self, server: &mut Server, name: &str, now: Millis) -> Vec<Planned> {
        let (Some(spec), Some(live)) = (self.known.get(name), server.placements.get(name)) else {
            return Vec::new();
        };
        let policy = BindingPolicy {
            spec: spec.clone(),
            ..BindingPolicy::clone(live)
        };
        let objects: Vec<Candidate> = self.objects.values().cloned().collect();
        let current = server.bindings.get(name).cloned();
        let facts = binding::Facts {
            policy: &policy,
            objects: &objects,
            namespaces: &BTreeMap::new(),
            clusters: &self.clusters,
            binding: current.as_deref(),
            imitation: Imitation::default(),
        };
        let mut is_refused = false;
        for write in binding::decide(&facts).writes {
            let result = match write {
                Write::CreateBinding(binding) => server.bindings.create(&mut server.counter, binding).map(drop),
                Write::UpdateBinding { precondition, binding } => server
                    .bindings
                    .update(&mut server.counter, (name, Some(&precondition)), |object| {
                        object.spec = binding.spec;
                        object.metadata.owner_references = binding.metadata.owner_references;
                    })
                    .map(drop),
                Write::PolicyStatus {
                    precondition, status, ..
                } => server
                    .placements
                    .update(&mut server.counter, (name, Some(&precondition)), |object| {
                        object.status = Some(status);
                    })
                    .map(drop),
                // Done where the BindingPolicy was seen.
                Write::AddFinalizer { .. } | Write::RemoveFinalizer { .. } => Ok(()),
            };
            if result.is_err() {
                is_refused = true;
                break;
            }
        }
        if !is_refused {
            self.resolved.insert(name.to_owned(), policy.spec);
        } else if self.to_sync.insert(name.to_owned()) {
            return vec![(now + RETRY_MS, Task::Sync(name.to_owned()))];
        }
        Vec::new()
    }
}
