//! KubeStellar 0.30, made of the host's own rules for translation and combination and of what the real one does besides: it waits
//! 2 s before it writes a Binding and 5 s before it writes a CombinedStatus, copies a generation that it has not resolved yet,
//! works from a cache that fills up in any order after a restart, and does not rewrite a CombinedStatus in which only errors have
//! changed. What it writes is compared with what the real one wrote (`tests/it/recordings.rs`). Must not know stages.

mod binding;
mod combine;
mod status;

pub use binding::is_what_is_selected;
pub use combine::{AVAILABLE, DESIRED};

use std::collections::{BTreeMap, BTreeSet};

use stagegate_api::{BindingPolicySpec, StatusCollectorSpec};
use stagegate_decide::binding::{Candidate, Cluster};

use crate::clusters::{Fleet, Truth};
use crate::queue::Millis;
use crate::seeded::Seeded;
use crate::server::Server;

use self::binding::Resolution;
use self::status::Combination;

pub const FINALIZER: &str = "bindingpolicy.kubestellar.io/kscontroller";
/// From the first change to the write of the Binding; later changes do not postpone it.
const DEBOUNCE_MS: Millis = 2_000;
/// The same for CombinedStatuses, and for the condition that reports missing StatusCollectors.
const COMBINE_MS: Millis = 5_000;
const RETRY_MS: Millis = 100;
/// How long after its start a process has looked at all Bindings.
const LISTED_MS: Millis = 150;
/// How much later than the controller of Bindings the controller of statuses starts.
const STATUS_AFTER_MS: Millis = 3_000;

/// Something to do, in the process that planned it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// The process has begun: it lists what there is, in any order.
    Begin(Start),
    SeePlacement(String),
    SeeBinding(String),
    SeeObject(String),
    SeeInventory,
    SeeCollector(String),
    /// A cluster's, about an object.
    SeeReport(String, String),
    SeeCombined(String),
    /// The time has come that a change was waiting for.
    Sync(String),
    /// The controller of statuses learns that a Binding was written, or that its BindingPolicy is gone.
    Note(String),
    /// The same, for the sake of its StatusCollectors.
    NoteAgain(String),
    /// A CombinedStatus, by `namespace/name`.
    Combine(String),
}

/// A task and when it is to be done.
pub type Planned = (Millis, Task);

#[derive(Clone, Debug, Default)]
pub struct KubeStellar {
    /// Which process of it is at work: tasks of earlier ones are void.
    pub process: u64,
    pub down_until: Millis,
    /// Since when it has been away without a break.
    pub down_from: Millis,
    status_from: Millis,
    resolutions: BTreeMap<String, Resolution>,
    /// Objects as the cache has them, with their uids.
    objects: BTreeMap<String, (String, Candidate)>,
    clusters: Vec<Cluster>,
    to_sync: BTreeSet<String>,
    /// By Binding, then by object.
    combinations: BTreeMap<String, BTreeMap<String, Combination>>,
    collectors: BTreeMap<String, StatusCollectorSpec>,
    to_combine: BTreeSet<String>,
    to_note: BTreeSet<String>,
    /// What the rows of a CombinedStatus rest on, by its resourceVersion and cluster. For the oracle alone.
    pub basis: BTreeMap<String, BTreeMap<String, Truth>>,
    /// The spec that the Binding of this name was last resolved from. For the oracle alone.
    pub resolved: BTreeMap<String, BindingPolicySpec>,
    /// When a Binding first named a version of an object. For the oracle alone.
    pub named: BTreeMap<u64, Millis>,
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
        let down_until = now + start.down_ms;
        *self = Self {
            process: self.process + 1,
            down_until,
            down_from: if now < self.down_until { self.down_from } else { now },
            status_from: down_until + STATUS_AFTER_MS,
            basis: std::mem::take(&mut self.basis),
            resolved: std::mem::take(&mut self.resolved),
            named: std::mem::take(&mut self.named),
            ..Self::default()
        };
        vec![(self.down_until, Task::Begin(start))]
    }

    /// A process starts with empty resolutions and looks at the Bindings before any object, so it empties the Bindings.
    fn begin(&mut self, server: &Server, (start, now): (Start, Millis), chance: &mut Seeded) -> Vec<Planned> {
        let mut planned = vec![(now + chance.between(0, start.inventory_ms), Task::SeeInventory)];
        for (name, live) in server.placements.all() {
            if live.metadata.deletion_timestamp.is_none() {
                self.resolutions.insert(name.clone(), Resolution::of(live));
            }
            planned.push((now + chance.between(0, LISTED_MS), Task::SeePlacement(name.clone())));
        }
        for (name, _) in server.bindings.all() {
            planned.push((now + chance.between(0, LISTED_MS), Task::SeeBinding(name.clone())));
        }
        for (key, _) in server.workloads.all() {
            let delay = LISTED_MS + chance.between(0, start.objects_ms);
            planned.push((now + delay, Task::SeeObject(key.clone())));
        }
        // After the Bindings that were written until then.
        for (name, _) in server.collectors.all() {
            planned.push((self.status_from + 1, Task::SeeCollector(name.clone())));
        }
        for (key, _) in server.combined.all() {
            planned.push((self.status_from, Task::SeeCombined(key.clone())));
        }
        planned
    }

    pub fn work(
        &mut self,
        server: &mut Server,
        (fleet, chance): (&Fleet, &mut Seeded),
        (task, now): (Task, Millis),
    ) -> Vec<Planned> {
        if task.is_of_statuses() && now < self.status_from {
            return vec![(self.status_from, task)];
        }
        match task {
            Task::Begin(start) => self.begin(server, (start, now), chance),
            Task::SeePlacement(name) => self.see_placement(server, name, now),
            Task::SeeObject(key) => self.see_object(server, key, now),
            Task::SeeInventory => self.see_inventory(server, now),
            // A change of the Binding is answered at once.
            Task::SeeBinding(name) => self.sync(server, &name, now),
            Task::Sync(name) => {
                self.to_sync.remove(&name);
                self.sync(server, &name, now)
            }
            Task::SeeCollector(name) => self.see_collector(server, fleet, (&name, now)),
            Task::SeeReport(cluster, key) => self.see_report(server, fleet, (&cluster, &key, now)),
            Task::SeeCombined(key) => self.plan_combine(key, now).into_iter().collect(),
            Task::Note(name) => self.note(server, fleet, (&name, now)),
            Task::NoteAgain(name) => {
                self.to_note.remove(&name);
                self.note(server, fleet, (&name, now))
            }
            Task::Combine(key) => {
                self.to_combine.remove(&key);
                self.combine(server, &key, now)
            }
        }
    }

    fn plan_sync(&mut self, name: String, now: Millis) -> Option<Planned> {
        self.to_sync
            .insert(name.clone())
            .then_some((now + DEBOUNCE_MS, Task::Sync(name)))
    }

    fn plan_combine(&mut self, key: String, now: Millis) -> Option<Planned> {
        self.to_combine
            .insert(key.clone())
            .then_some((now + COMBINE_MS, Task::Combine(key)))
    }

    fn plan_note(&mut self, name: String, now: Millis) -> Option<Planned> {
        self.to_note
            .insert(name.clone())
            .then_some((now + COMBINE_MS, Task::NoteAgain(name)))
    }
}

impl Task {
    const fn is_of_statuses(&self) -> bool {
        matches!(
            self,
            Self::SeeCollector(_)
                | Self::SeeReport(..)
                | Self::SeeCombined(_)
                | Self::Note(_)
                | Self::NoteAgain(_)
                | Self::Combine(_)
        )
    }
}
