//! Given the same inputs at the same times, the simulation's KubeStellar writes what the real one wrote: every version, in order.
//!
//! `tests/cluster` makes the recordings; what they leave out (times of conditions, order of rows, row errors) is left out here
//! too. The garbage collector is not part of KubeStellar: here it works at the times at which something was removed in the
//! recording. If a process that starts sees several things for the first time, chance decides their order; one of many orders
//! must give the recording.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};
use stagegate_api::{BindingPolicy, StatusCollector, evidence};
use stagegate_simulation::clusters::running::Status;
use stagegate_simulation::queue::timestamp;
use stagegate_simulation::server::kind::{Kind, Stored, uid_of};
use stagegate_simulation::world::World;

#[path = "../../../cluster/tests/it/recordings/format.rs"]
mod format;

use format::{Input, Millis, Numbers, RecordedWrite, Recording, Roles, changes};

/// Requests, watches and the garbage collector take that long together, on a machine that does other work meanwhile.
const TOLERANCE_MS: Millis = 500;
/// When the first input comes: clusters have been seen by then.
const BEGUN: Millis = 1_000;
const LOOK_MS: Millis = 10;
/// How many random orders of seeing things are tried: all of `ALL_OF` must give the recording; after a restart, one of `ANY_OF`.
const ALL_OF: u64 = 10;
const ANY_OF: u64 = 100;

#[test]
fn what_kubestellar_wrote_is_what_the_simulations_writes() {
    let recordings = recordings();
    assert!(recordings.len() >= 8, "only {} recordings", recordings.len());
    let mut faults = Vec::new();
    for (name, recording) in &recordings {
        let is_restart = |input: &Input| matches!(input, Input::Restart { .. });
        let fault = if recording.inputs.iter().any(|done| is_restart(&done.input)) {
            let tried = (0..ANY_OF).map(|seed| compare(recording, &played(name, recording, seed)));
            let mut tried: Vec<Option<String>> = tried.collect();
            if tried.iter().any(Option::is_none) {
                None
            } else {
                tried.swap_remove(0)
            }
        } else {
            (0..ALL_OF).find_map(|seed| compare(recording, &played(name, recording, seed)))
        };
        faults.extend(fault.map(|fault| format!("{name}: {}\n{fault}", recording.about)));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

fn recordings() -> Vec<(String, Recording)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cluster/recordings");
    let files = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let names = paths.iter().filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(".recorded.json")?;
        let recording = serde_json::from_slice(&std::fs::read(path).unwrap());
        Some((
            name.to_owned(),
            recording.unwrap_or_else(|error| panic!("{name}: {error}")),
        ))
    });
    names.collect()
}

/// What the simulation's KubeStellar writes.
fn played(own: &str, recording: &Recording, seed: u64) -> Vec<RecordedWrite> {
    let mut world = World::bare(seed);
    let mut roles = Roles::default();
    let removed = recording.written.iter().filter(|written| written.is.is_null());
    let mut log = Log {
        removed: removed.map(|written| (written.at, written.object.clone())).collect(),
        ..Log::default()
    };
    let clusters = recording.clusters.clone();
    let begin = |world: &mut World| {
        for (name, labels) in clusters {
            world.add_cluster(&name, labels);
        }
    };
    world.change_at(0, begin).unwrap();
    for done in &recording.inputs {
        log.follow((&mut world, &roles), done.at);
        let input = |world: &mut World| carry_out(world, (own, &done.input), &mut roles);
        world.change_at(BEGUN + done.at, input).unwrap();
    }
    log.follow((&mut world, &roles), recording.end);
    changes(log.versions.iter().map(|(at, kind, object, is_gone)| {
        let (object, is) = roles.shown(kind, object);
        let is = if *is_gone { Value::Null } else { is };
        RecordedWrite { at: *at, object, is }
    }))
}

fn carry_out(world: &mut World, (own, input): (&str, &Input), roles: &mut Roles) {
    let key = |name: &str| format!("{own}/{name}");
    let counter = &mut world.server.counter;
    match input {
        Input::Place { name, spec } => {
            let placements = &mut world.server.placements;
            let change = |object: &mut BindingPolicy| object.spec = spec.clone();
            let placed = match placements.get(name) {
                Some(_) => placements.update(counter, (name, None), change),
                None => placements.create(counter, BindingPolicy::new(name, spec.clone())),
            };
            roles.note(name, &json!(placed.unwrap().metadata));
        }
        Input::Displace(name) => world.server.placements.delete(counter, (name, None)).unwrap(),
        Input::Make { name, replicas, labels } => {
            let metadata = ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(own.to_owned()),
                labels: Some(labels.clone()),
                ..ObjectMeta::default()
            };
            world.add_deployment(metadata, *replicas);
            roles.note(name, &json!(world.server.workloads.get(&key(name)).unwrap().metadata));
        }
        Input::Edit { name, replicas } => {
            world.set_replicas(&key(name), *replicas);
            roles.note(name, &json!(world.server.workloads.get(&key(name)).unwrap().metadata));
        }
        Input::Remove(name) => world.server.workloads.delete(counter, (&key(name), None)).unwrap(),
        Input::Label { cluster, key, value } => {
            let labelled = world.server.clusters.update(counter, (cluster, None), |cluster| {
                let labels = cluster.metadata.labels.get_or_insert_default();
                labels.insert(key.clone(), value.clone());
            });
            labelled.unwrap();
        }
        Input::Collect { name, spec } => {
            let spec = spec.clone().unwrap_or_else(|| evidence::collector_spec().clone());
            let collectors = &mut world.server.collectors;
            let change = |object: &mut StatusCollector| object.spec = spec.clone();
            let collected = match collectors.get(name) {
                Some(_) => collectors.update(counter, (name, None), change),
                None => collectors.create(counter, StatusCollector::new(name, spec.clone())),
            };
            collected.unwrap();
        }
        Input::Forget(name) => world.server.collectors.delete(counter, (name, None)).unwrap(),
        Input::Report { from, of, status } => {
            roles.note_report(from, &whole_seconds(world));
            world.set_report((from, &key(of)), Some(status_of(status)));
        }
        Input::Withdraw { from, of } => world.set_report((from, &key(of)), None),
        Input::Restart { down_ms } => world.restart_kubestellar(*down_ms),
    }
}

/// Of these objects, those whose owner is gone.
fn collect_garbage(world: &mut World, (due, roles): (&[&str], &Roles)) {
    fn orphans<T: Stored + Serialize>(
        of: &Kind<T>,
        live: &BTreeSet<&str>,
        is_due: impl Fn(&Value) -> bool,
    ) -> Vec<String> {
        let is_orphan = |object: &T| {
            let mut owners = object.meta().owner_references.iter().flatten();
            !owners.any(|owner| live.contains(owner.uid.as_str()))
        };
        let orphans = of
            .all()
            .filter(|(_, object)| is_orphan(object) && is_due(&json!(***object)));
        orphans.map(|(key, _)| key.clone()).collect()
    }
    let server = &mut world.server;
    let is_due = |kind: &str, object: &Value| due.contains(&roles.shown(kind, object).0.as_str());
    let placements = server
        .placements
        .all()
        .map(|(_, object)| uid_of(&object.metadata))
        .collect();
    let bindings = orphans(&server.bindings, &placements, |object| is_due("Binding", object));
    let workloads = server
        .workloads
        .all()
        .map(|(_, object)| uid_of(&object.metadata))
        .collect();
    let combined = orphans(&server.combined, &workloads, |object| is_due("CombinedStatus", object));
    for key in bindings {
        server.bindings.delete(&mut server.counter, (&key, None)).unwrap();
    }
    for key in combined {
        server.combined.delete(&mut server.counter, (&key, None)).unwrap();
    }
}

fn whole_seconds(world: &World) -> String {
    let seconds = timestamp(world.queue.now()).as_second();
    jiff::Timestamp::from_second(seconds).unwrap().to_string()
}

fn status_of(numbers: &Numbers) -> Status {
    const CONDITIONS: [&str; 4] = [
        "Available=True",
        "Available=False",
        "Progressing=True",
        "Progressing=True:NewReplicaSetAvailable",
    ];
    let conditions = numbers.conditions.iter();
    let known = |text: &String| CONDITIONS.into_iter().find(|known| known == text).unwrap();
    Status {
        observed_generation: Some(numbers.generation),
        total: numbers.total,
        updated: numbers.updated,
        ready: numbers.ready,
        available: numbers.available,
        conditions: conditions.map(known).collect(),
        is_uncounted: false,
    }
}

/// Every version of what KubeStellar writes, with its time.
#[derive(Default)]
struct Log {
    versions: Vec<(Millis, &'static str, Value, bool)>,
    read: [usize; 3],
    last: BTreeMap<String, Value>,
    /// When something was removed in the recording.
    removed: Vec<(Millis, String)>,
}

impl Log {
    /// Up to this time of the recording.
    fn follow(&mut self, (world, roles): (&mut World, &Roles), until: Millis) {
        let mut at = world.queue.now() - BEGUN;
        while at < until {
            at = (at + LOOK_MS).min(until);
            world.run_until(BEGUN + at).unwrap();
            let due = self
                .removed
                .iter()
                .filter(|(removed, _)| (0..TOLERANCE_MS).contains(&(at - removed)));
            let due: Vec<&str> = due.map(|(_, object)| object.as_str()).collect();
            if !due.is_empty() {
                let collect = |world: &mut World| collect_garbage(world, (&due, roles));
                world.change_at(BEGUN + at, collect).unwrap();
            }
            self.read(world, at);
        }
    }

    fn read(&mut self, world: &World, at: Millis) {
        let [placements, bindings, combined] = self.read;
        self.read = [
            self.take((&world.server.placements, placements), ("BindingPolicy", at)),
            self.take((&world.server.bindings, bindings), ("Binding", at)),
            self.take((&world.server.combined, combined), ("CombinedStatus", at)),
        ];
    }

    fn take<T: Stored + Serialize>(
        &mut self,
        (of, from): (&Kind<T>, usize),
        (kind, at): (&'static str, Millis),
    ) -> usize {
        for entry in &of.log()[from..] {
            let key = format!("{kind} {}", entry.key);
            let object = match &entry.after {
                Some(after) => json!(**after),
                None => self.last.get(&key).cloned().unwrap_or_default(),
            };
            self.versions.push((at, kind, object.clone(), entry.after.is_none()));
            self.last.insert(key, object);
        }
        of.log().len()
    }
}

/// The first difference of each object.
fn compare(recording: &Recording, played: &[RecordedWrite]) -> Option<String> {
    let of = |versions: &[RecordedWrite]| {
        let mut by_object: BTreeMap<String, Vec<RecordedWrite>> = BTreeMap::new();
        for version in versions {
            by_object
                .entry(version.object.clone())
                .or_default()
                .push(version.clone());
        }
        by_object
    };
    let (real, model) = (of(&recording.written), of(played));
    let objects: BTreeSet<&String> = real.keys().chain(model.keys()).collect();
    let faults = objects.into_iter().filter_map(|object| {
        let none = Vec::new();
        let (real, model) = (real.get(object).unwrap_or(&none), model.get(object).unwrap_or(&none));
        let count = real.len().max(model.len());
        let first = (0..count).find(|at| !is_alike(real.get(*at), model.get(*at)))?;
        let shown = |version: Option<&RecordedWrite>| {
            version.map_or("nothing more".to_owned(), |one| format!("{} ms: {}", one.at, one.is))
        };
        let text = [real.get(first), model.get(first)].map(shown);
        Some(format!(
            "{object}, version {}\n  KubeStellar {}\n  simulation  {}",
            first + 1,
            text[0],
            text[1]
        ))
    });
    let faults: Vec<String> = faults.collect();
    (!faults.is_empty()).then(|| faults.join("\n"))
}

fn is_alike(real: Option<&RecordedWrite>, model: Option<&RecordedWrite>) -> bool {
    match (real, model) {
        (Some(real), Some(model)) => real.is == model.is && (real.at - model.at).abs() <= TOLERANCE_MS,
        _ => false,
    }
}
