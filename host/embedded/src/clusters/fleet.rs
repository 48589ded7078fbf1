//! What each simulated cluster holds and what it is to hold, in memory. Must not call the API server or read the time.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use stagegate_api::{SimulatedClusterSpec, SourceRef};

use super::transport::{BringerVersion, Cargo, Work};
use super::truth::{Change, Fared, ObjectRef, Presence, Present, Truth};
use crate::health::{self, Health, Patient, RunningReplicas, soundness};

/// An object in a cluster, there or not.
pub(super) type ObjectInCluster = (String, ObjectRef);

#[derive(Default)]
pub(super) struct Fleet {
    clusters: BTreeMap<String, Cluster>,
    /// By place: what each Binding brings there. (Where the clusters are fed by ManifestWorks, each of those stands for a Binding of its own.)
    wanted: BTreeMap<ObjectInCluster, BTreeMap<String, Carrier>>,
    /// By Binding: the places it reaches, so that a change costs what it touches.
    reach: BTreeMap<String, BTreeSet<ObjectInCluster>>,
    /// When to look at which place: its report may be due.
    agenda: BTreeSet<(Timestamp, ObjectInCluster)>,
    hand_overs: u64,
    history: Vec<Change>,
    fared: Vec<Fared>,
    /// Where in `fared` the last entry of a place is.
    last_fared: BTreeMap<ObjectInCluster, usize>,
}

struct Cluster {
    spec: SimulatedClusterSpec,
    edited_at: Timestamp,
    objects: BTreeMap<ObjectRef, Held>,
}

/// What stands for a ManifestWork: an object on its way to a cluster.
struct Carrier {
    /// That it was written for.
    bringer: BringerVersion,
    /// Of the object that it carries; the carrier is named after it.
    object_uid: Option<String>,
    /// Counts hand-overs: of several Bindings' contents the latest wins.
    order: u64,
    create_only: bool,
    cargo: Cargo,
}

struct Held {
    cargo: Cargo,
    /// Counted by the cluster, from 1 with each creation.
    generation: i64,
    created_at: Timestamp,
    changed_at: Timestamp,
    /// What was running of it when it was last changed.
    before: RunningReplicas,
}

impl Held {
    fn patient<'a>(&'a self, object: &'a ObjectRef) -> Patient<'a> {
        Patient {
            group: &object.group,
            kind: &self.cargo.kind,
            namespace: object.namespace.as_deref(),
            name: &object.name,
            manifest: &self.cargo.manifest,
            generation: self.cargo.counts.then_some(self.generation),
            changed_at: self.changed_at,
            before: &self.before,
        }
    }
}

/// What the agent of a cluster would say about a place.
pub(super) enum Finding {
    /// Nothing is to be said or changed.
    Silent,
    Gone,
    Report(Box<(SourceRef, Health)>),
}

impl Fleet {
    pub(super) fn is_reachable(&self, cluster: &str) -> bool {
        self.clusters
            .get(cluster)
            .is_some_and(|cluster| !cluster.spec.unreachable)
    }

    /// Returns the Bindings that have to look again: those of a cluster that is new here.
    pub(super) fn set_cluster(&mut self, name: &str, spec: SimulatedClusterSpec, now: Timestamp) -> BTreeSet<String> {
        let is_new = !self.clusters.contains_key(name);
        let bereft = if is_new {
            self.lose_carriers(name)
        } else {
            BTreeSet::new()
        };
        let cluster = self.clusters.entry(name.to_owned()).or_insert_with(|| Cluster {
            spec: SimulatedClusterSpec::default(),
            edited_at: now,
            objects: BTreeMap::new(),
        });
        cluster.spec = spec;
        cluster.edited_at = now;
        for place in self.places_of(name) {
            self.settle(&place, now);
            self.agenda.insert((now, place));
        }
        bereft
    }

    /// Its carriers go with it: a cluster that comes back gets what is there then. Returns the Bindings that had some.
    pub(super) fn remove_cluster(&mut self, name: &str, now: Timestamp) -> BTreeSet<String> {
        let cluster = self.clusters.remove(name);
        for object in cluster.into_iter().flat_map(|cluster| cluster.objects.into_keys()) {
            self.note((name.to_owned(), object), Presence::Absent, now);
        }
        self.lose_carriers(name)
    }

    /// Takes away whatever is on its way to a cluster. Returns the Bindings that bring it.
    fn lose_carriers(&mut self, cluster: &str) -> BTreeSet<String> {
        let mut bereft = BTreeSet::new();
        self.wanted.retain(|(destination, _), carriers| {
            let is_lost = destination == cluster;
            if is_lost {
                bereft.extend(carriers.keys().cloned());
            }
            !is_lost
        });
        bereft
    }

    /// Brings what a Binding says to its clusters and takes away what nobody brings any more. An object that two Bindings
    /// bring stays when one of them lets go.
    ///
    /// A carrier that is there is written again only for another generation of the Binding or another object of the name: its contents
    /// are not compared. One that is missing is made of what was just read.
    pub(super) fn hand_over(&mut self, binding: &str, work: Work, now: Timestamp) {
        self.hand_overs += 1;
        let mut left = self.reach.remove(binding).unwrap_or_default();
        let (mut reached, mut written) = (BTreeSet::new(), Vec::new());
        for item in work.items {
            for cluster in &work.destinations {
                let place = (cluster.clone(), item.object.clone());
                left.remove(&place);
                let carriers = self.wanted.entry(place.clone()).or_default();
                let is_current = |carrier: &Carrier| carrier.bringer == work.bringer && carrier.object_uid == item.uid;
                if !carriers.get(binding).is_some_and(is_current) {
                    let carrier = Carrier {
                        bringer: work.bringer.clone(),
                        object_uid: item.uid.clone(),
                        order: self.hand_overs,
                        create_only: item.create_only,
                        cargo: item.cargo.clone(),
                    };
                    carriers.insert(binding.to_owned(), carrier);
                    written.push(place.clone());
                }
                reached.insert(place);
            }
        }
        for place in &left {
            self.forget(binding, place);
        }
        for place in left.iter().chain(&written) {
            self.settle(place, now);
        }
        self.reach.insert(binding.to_owned(), reached);
    }

    /// The Bindings that bring an object to a cluster.
    pub(super) fn bindings_of(&self, place: &ObjectInCluster) -> Vec<String> {
        let carriers = self.wanted.get(place);
        carriers.into_iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    /// Takes a carrier away, and with it the object, unless another Binding brings it. Whether it was there.
    pub(super) fn lose_carrier(&mut self, binding: &str, place: &ObjectInCluster, now: Timestamp) -> bool {
        let is_there = self
            .wanted
            .get(place)
            .is_some_and(|carriers| carriers.contains_key(binding));
        if is_there {
            self.forget(binding, place);
            self.settle(place, now);
        }
        is_there
    }

    /// Takes away what an earlier Binding of the name brought.
    pub(super) fn withdraw_earlier(&mut self, binding: &str, current: &BringerVersion, now: Timestamp) {
        let is_earlier = |carrier: &Carrier| !carrier.bringer.is_same_bringer(current);
        let reached = self.reach.get(binding).into_iter().flatten();
        let carried = |place: &&ObjectInCluster| self.wanted.get(*place).and_then(|carriers| carriers.get(binding));
        let earlier: Vec<_> = reached
            .filter(|place| carried(place).is_some_and(is_earlier))
            .cloned()
            .collect();
        for place in earlier {
            self.forget(binding, &place);
            self.settle(&place, now);
        }
    }

    pub(super) fn withdraw(&mut self, binding: &str, now: Timestamp) {
        for place in self.reach.remove(binding).unwrap_or_default() {
            self.forget(binding, &place);
            self.settle(&place, now);
        }
    }

    /// Whether the object was there to be made anew.
    pub(super) fn remake(&mut self, cluster: &str, object: &ObjectRef, now: Timestamp) -> bool {
        let place = (cluster.to_owned(), object.clone());
        let Some(held) = self
            .clusters
            .get_mut(cluster)
            .and_then(|cluster| cluster.objects.get_mut(object))
        else {
            return false;
        };
        (held.generation, held.created_at, held.changed_at) = (1, now, now);
        held.before = RunningReplicas::default();
        self.note(place.clone(), Presence::Absent, now);
        self.note(place, Presence::Present, now);
        true
    }

    /// The next place whose time has come.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Option<ObjectInCluster> {
        let due = self.agenda.first().is_some_and(|(at, _)| *at <= now);
        due.then(|| self.agenda.pop_first()).flatten().map(|(_, place)| place)
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.agenda.first().map(|(at, _)| *at)
    }

    pub(super) fn look_again(&mut self, place: ObjectInCluster, at: Timestamp) {
        self.agenda.insert((at, place));
    }

    pub(super) fn examine(&mut self, place: &ObjectInCluster, now: Timestamp) -> Finding {
        let (name, object) = place;
        let Some(cluster) = self.clusters.get(name) else {
            return Finding::Gone;
        };
        if cluster.spec.unreachable {
            return Finding::Silent;
        }
        let Some(held) = cluster.objects.get(object) else {
            return Finding::Gone;
        };
        if !health::is_reported(&object.group, &held.cargo.kind) {
            return Finding::Silent;
        }
        let patient = held.patient(object);
        let mut health = health::examine(&patient, &cluster.spec, now);
        health.since = health.since.max(cluster.edited_at);
        let fared = Fared {
            at: health.since,
            cluster: name.clone(),
            object: object.clone(),
            generation: patient.generation,
            spec: held.cargo.manifest.get("spec").cloned().unwrap_or_default(),
            is_healthy: soundness::is_healthy(&patient, health.status.as_ref()),
            status: health.status.clone(),
        };
        let source = SourceRef {
            group: object.group.clone(),
            version: held.cargo.version.clone(),
            resource: object.resource.clone(),
            kind: held.cargo.kind.clone(),
            namespace: object.namespace.clone().unwrap_or_default(),
            name: object.name.clone(),
        };
        self.take_down(place, fared);
        Finding::Report(Box::new((source, health)))
    }

    /// Notes how an object fares now, if that is new.
    fn take_down(&mut self, place: &ObjectInCluster, fared: Fared) {
        let last = self.last_fared.get(place).and_then(|index| self.fared.get(*index));
        let is_new = last.is_none_or(|last| {
            (last.generation, &last.spec, &last.status) != (fared.generation, &fared.spec, &fared.status)
        });
        if is_new {
            self.last_fared.insert(place.clone(), self.fared.len());
            self.fared.push(fared);
        }
    }

    pub(super) fn truth(&self) -> Truth {
        let present = |held: &Held| Present {
            generation: held.cargo.counts.then_some(held.generation),
            digest: digest(&held.cargo.manifest),
            since: held.created_at,
        };
        let objects = |cluster: &Cluster| {
            cluster
                .objects
                .iter()
                .map(|(object, held)| (object.clone(), present(held)))
                .collect::<BTreeMap<_, _>>()
        };
        Truth {
            clusters: self
                .clusters
                .iter()
                .map(|(name, cluster)| (name.clone(), objects(cluster)))
                .collect(),
            history: self.history.clone(),
            fared: self.fared.clone(),
        }
    }

    /// Makes a cluster hold what is wanted of it at one place.
    fn settle(&mut self, place: &ObjectInCluster, now: Timestamp) {
        let Some(cluster) = self
            .clusters
            .get_mut(&place.0)
            .filter(|cluster| !cluster.spec.unreachable)
        else {
            return;
        };
        let carriers = self.wanted.get(place);
        // Of an object that is held back by one Binding and changed by another, the change wins.
        let chosen = carriers.and_then(|all| all.values().max_by_key(|carrier| (!carrier.create_only, carrier.order)));
        let Some(carrier) = chosen else {
            if cluster.objects.remove(&place.1).is_some() {
                self.note(place.clone(), Presence::Absent, now);
            }
            return;
        };
        let Some(held) = cluster.objects.get_mut(&place.1) else {
            let held = Held {
                cargo: carrier.cargo.clone(),
                generation: 1,
                created_at: now,
                changed_at: now,
                before: RunningReplicas::default(),
            };
            cluster.objects.insert(place.1.clone(), held);
            self.note(place.clone(), Presence::Present, now);
            return;
        };
        if carrier.create_only || held.cargo.manifest == carrier.cargo.manifest {
            return;
        }
        if without_metadata(&held.cargo.manifest) != without_metadata(&carrier.cargo.manifest) {
            held.before = health::running(&held.patient(&place.1), &cluster.spec, (&carrier.cargo.manifest, now));
            held.generation += 1;
            held.changed_at = now;
        }
        held.cargo = carrier.cargo.clone();
        self.agenda.insert((now, place.clone()));
    }

    fn forget(&mut self, binding: &str, place: &ObjectInCluster) {
        if let Some(carriers) = self.wanted.get_mut(place) {
            carriers.remove(binding);
            if carriers.is_empty() {
                self.wanted.remove(place);
            }
        }
    }

    fn note(&mut self, place: ObjectInCluster, presence: Presence, now: Timestamp) {
        let (cluster, object) = place.clone();
        self.history.push(Change {
            at: now,
            cluster,
            object,
            presence,
        });
        self.agenda.insert((now, place));
    }

    /// All places of a cluster, held or wanted.
    fn places_of(&self, name: &str) -> BTreeSet<ObjectInCluster> {
        let held = self
            .clusters
            .get(name)
            .into_iter()
            .flat_map(|cluster| cluster.objects.keys());
        let wanted = self.wanted.keys().filter(|(cluster, _)| cluster == name).cloned();
        held.map(|object| (name.to_owned(), object.clone()))
            .chain(wanted)
            .collect()
    }
}

fn without_metadata(manifest: &Value) -> Vec<(&String, &Value)> {
    manifest
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(member, _)| *member != "metadata")
        .collect()
}

fn digest(manifest: &Value) -> String {
    Sha256::digest(manifest.to_string())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
