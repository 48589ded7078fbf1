//! The clusters: what KubeStellar's transport hands to them, what they run, and what they report. Must not know stages.

pub mod running;

use std::collections::{BTreeMap, BTreeSet};

use crate::queue::Millis;
use crate::server::{Content, Resource, Server};
use running::{Running, Status};

/// What one Binding brings of an object to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cargo {
    pub resource: Resource,
    pub content: Content,
    pub create_only: bool,
    /// Which hand-over it came with: the last one counts where several Bindings bring an object.
    handed: u64,
}

/// The last that a cluster said of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub status: Option<Status>,
    /// Seconds since 1970; `None` where there is no status that anybody could own.
    pub at: Option<i64>,
    pub truth: Truth,
}

/// What really ran when a report was made. Only the oracle may look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truth {
    pub at: Millis,
    pub content: u64,
    pub is_well: bool,
    /// The newest version that the cluster has run since it has the object.
    pub newest: u64,
    /// How many replicas were available.
    pub available: i64,
    /// The report says that the rollout has been given up.
    pub has_failed: bool,
    /// The generation that the report names; 0 if it names none.
    pub generation: i64,
    /// Until when the cluster's agent had applied all that had arrived.
    pub applied_until: Millis,
}

#[derive(Clone, Debug, Default)]
pub struct Member {
    /// Nothing arrives and nothing is reported before.
    pub unreachable_until: Millis,
    /// KubeStellar has started and not yet learned what the cluster has reported.
    pub is_unlisted: bool,
    /// Nothing that has arrived is applied before.
    pub applies_from: Millis,
    /// Since when the agent has applied nothing; valid until the later of `applies_from` and `unreachable_until`.
    unapplied_since: Millis,
    works: BTreeMap<String, BTreeMap<String, Cargo>>,
    pub running: BTreeMap<String, Running>,
    pub reports: BTreeMap<String, Report>,
}

#[derive(Clone, Debug, Default)]
pub struct Fleet {
    pub members: BTreeMap<String, Member>,
    handed: u64,
}

impl Fleet {
    /// The transport takes what the Binding says now; gives the clusters that have something to do.
    pub fn hand_over(&mut self, server: &Server, binding: &str) -> BTreeSet<String> {
        self.handed += 1;
        let handed = self.handed;
        let live = server.bindings.get(binding);
        let live = live.filter(|live| live.metadata.deletion_timestamp.is_none());
        let destinations: BTreeSet<&str> = live
            .map(|live| {
                live.spec
                    .destinations
                    .iter()
                    .map(|one| one.cluster_id.as_str())
                    .collect()
            })
            .unwrap_or_default();
        let mut touched = BTreeSet::new();
        for (name, member) in &mut self.members {
            let old = member.works.remove(binding);
            let Some(live) = live.filter(|_| destinations.contains(name.as_str())) else {
                if old.is_some() {
                    touched.insert(name.clone());
                }
                continue;
            };
            let mut old = old.unwrap_or_default();
            let mut work = BTreeMap::new();
            for bound in live.spec.workload.objects() {
                let key = format!("{}/{}", bound.namespace.as_deref().unwrap_or_default(), bound.name);
                let before = old.remove(&key);
                let cargo = server.workloads.get(&key).map(|object| Cargo {
                    resource: object.resource,
                    content: object.content,
                    create_only: bound.create_only,
                    handed,
                });
                // Of an object that is gone from the server a cluster keeps what it has.
                let cargo = match (cargo, before) {
                    (Some(cargo), Some(before)) if cargo.content == before.content => Some(Cargo {
                        handed: before.handed,
                        ..cargo
                    }),
                    (cargo, before) => cargo.or(before),
                };
                if let Some(cargo) = cargo {
                    work.insert(key, cargo);
                }
            }
            member.works.insert(binding.to_owned(), work);
            touched.insert(name.clone());
        }
        touched
    }
}

impl Member {
    /// Whether the transport has brought something of this Binding.
    #[must_use]
    pub fn has_work_of(&self, binding: &str) -> bool {
        self.works.get(binding).is_some_and(|work| !work.is_empty())
    }

    /// The cluster's agent applies nothing for a while.
    pub fn apply_nothing(&mut self, now: Millis, for_ms: Millis) {
        self.unapplied_since = self.applied_until(now);
        self.applies_from = self.applies_from.max(now + for_ms);
    }

    /// Nothing reaches the cluster for a while, and nothing comes from it.
    pub fn be_unreachable(&mut self, now: Millis, for_ms: Millis) {
        self.unapplied_since = self.applied_until(now);
        self.unreachable_until = self.unreachable_until.max(now + for_ms);
    }

    /// A cluster that has just come back has not applied yet what was there for it.
    fn applied_until(&self, now: Millis) -> Millis {
        if self.applies_from > now || self.unreachable_until >= now {
            self.unapplied_since
        } else {
            now
        }
    }

    /// The cluster's agent makes of the works what they say; gives the objects whose status may have changed.
    pub fn apply(&mut self, now: Millis, mut observed_after: impl FnMut() -> Millis) -> Vec<String> {
        let mut desired: BTreeMap<&String, &Cargo> = BTreeMap::new();
        for (key, cargo) in self.works.values().flatten() {
            // One that is only created never changes what is there; another one does.
            let rank = |cargo: &Cargo| (!cargo.create_only, cargo.handed);
            let known = desired.entry(key).or_insert(cargo);
            if rank(known) < rank(cargo) {
                *known = cargo;
            }
        }
        let mut touched: Vec<String> = Vec::new();
        self.running.retain(|key, _| {
            let is_kept = desired.contains_key(key);
            if !is_kept {
                touched.push(key.clone());
            }
            is_kept
        });
        for (key, cargo) in desired {
            match self.running.get_mut(key) {
                None => {
                    let new = Running {
                        resource: cargo.resource,
                        content: cargo.content,
                        generation: 1,
                        begun_at: now,
                        observed_after: observed_after(),
                        before: Status::default(),
                        content_before: 0,
                        was_well_before: false,
                        newest: cargo.content.id,
                        scaled: None,
                        is_sick: false,
                    };
                    self.running.insert(key.clone(), new);
                }
                Some(running) if running.content != cargo.content && !cargo.create_only => {
                    running.roll(now, observed_after(), |running| {
                        running.content = cargo.content;
                        running.newest = running.newest.max(cargo.content.id);
                        // What is applied sets the number of replicas again, as server-side apply with force does.
                        running.scaled = None;
                        running.is_sick = false;
                    });
                }
                Some(_) => continue,
            }
            touched.push(key.clone());
        }
        touched
    }

    /// The agent reports on the object if its status has changed. If the object is gone, it removes the report.
    pub fn report(&mut self, key: &str, now: (Millis, i64)) -> bool {
        let (now, seconds) = now;
        let Some(running) = self.running.get(key) else {
            return self.reports.remove(key).is_some();
        };
        if !running.resource.is_returned() {
            return false;
        }
        let status = running.status(now).filter(|status| *status != Status::default());
        let truth = Truth {
            at: now,
            content: running.observed_content(now),
            is_well: running.observed_well(now),
            newest: running.newest,
            available: status.as_ref().map_or(0, |status| status.available),
            has_failed: status.as_ref().is_some_and(Status::has_failed),
            generation: status
                .as_ref()
                .and_then(|status| status.observed_generation)
                .unwrap_or_default(),
            applied_until: self.applied_until(now),
        };
        let known = self.reports.get(key);
        if known.is_some_and(|known| known.status == status) {
            return false;
        }
        let at = status.is_some().then_some(seconds);
        self.reports.insert(key.to_owned(), Report { status, at, truth });
        true
    }
}
