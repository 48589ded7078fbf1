//! The rule that status calls no update overdue which a cluster has acknowledged as well as it can. Must not judge health.
//!
//! A cluster that loses an object counts generations from 1 when it gets it again, so its report may look like one from before the
//! update. If a reading has shown the cluster without a report since the update, what it reports later is of what it got later.
//!
//! The rules do not hold this yet where an update without a timestamp is pending while KubeStellar starts: they may count it twice, and
//! then wait for one more report than the cluster has a reason to make.

use std::collections::BTreeSet;

use stagegate_api::{ObjectStatus, Reported};
use stagegate_decide::names::{PlacementName, StageName};
use stagegate_decide::staging::{Decoded, Facts};

use crate::clusters::Truth;
use crate::controller::talk::Talk;
use crate::kubestellar::KubeStellar;
use crate::queue::{Millis, millis};
use crate::server::{Content, uid_of};
use crate::versions::{CLOCKS_MS, DELIVERY_MS, UNTOLD_MS, combined_of, judged, seen_at};

/// A cluster, an object, and the version that it should run.
type Told = (String, String, u64);

/// An object and its version.
type Version = (String, u64);

/// What the readings have shown that were acted on.
#[derive(Clone, Debug, Default)]
pub struct Alarm {
    /// In which stage a cluster had no report of an object after its last update. The record of another stage does not learn of it.
    blank: BTreeSet<(String, Told)>,
    /// The stages in which status counted several updates of an object for one cluster, and the object's version at that time.
    several: BTreeSet<(String, Version)>,
}

/// What one reading says of one cluster and one object.
pub(crate) struct Row {
    pub(crate) told: Told,
    object_name: String,
    content: Content,
    create_only: bool,
    pub(crate) truth: Option<Truth>,
    /// The CombinedStatus says that the cluster has reported nothing.
    is_blank: bool,
    /// When the version was made, or when the process saw the Binding name it, which may be much later.
    delivered_from: Millis,
}

impl Row {
    fn version(&self) -> Version {
        let (_, object, content) = &self.told;
        (object.clone(), *content)
    }
}

impl Alarm {
    /// All that a reading led to was done.
    pub fn finished(&mut self, talk: &Talk, kubestellar: &KubeStellar) {
        let now = millis(talk.facts.now);
        let mut stages = talk.facts.policy.object.spec.stages.iter();
        let active = talk.facts.policy.object.status.as_ref();
        let active = active.and_then(|status| status.active_stage.as_deref());
        let Some(stage) = stages.find(|stage| Some(stage.name.as_str()) == active) else {
            return;
        };
        let records = talk.facts.policy.object.status.iter().flat_map(|status| &status.stages);
        let objects = records
            .filter(|record| record.name == stage.name)
            .flat_map(|record| &record.objects);
        let has_several =
            |object: &&ObjectStatus| object.pending_updates.iter().any(|pending| pending.unacknowledged > 1);
        let several: BTreeSet<String> = objects.filter(has_several).map(|object| object.name.clone()).collect();
        for row in rows(talk, &stage.name, kubestellar) {
            if several.contains(&row.object_name) {
                self.several.insert((stage.name.clone(), row.version()));
            }
            if row.is_blank && now >= row.content.made_at + CLOCKS_MS {
                self.blank.insert((stage.name.clone(), row.told));
            }
        }
    }

    /// Whether every cluster of the stage has acknowledged all it can, so that nothing can be overdue.
    pub fn is_false(&self, talk: &Talk, stage: &str, kubestellar: &KubeStellar) -> Option<String> {
        // What is pending for a cluster by the record of another stage becomes pending anew here, whatever it has reported since.
        let status = talk.facts.policy.object.status.as_ref();
        let mut others = status.into_iter().flat_map(|status| &status.stages);
        let is_pending = |object: &ObjectStatus| !object.pending_updates.is_empty();
        if others.any(|other| other.name != stage && other.objects.iter().any(is_pending)) {
            return None;
        }
        let rows = rows(talk, stage, kubestellar);
        let is_counted_twice = |row: &Row| self.several.contains(&(stage.to_owned(), row.version()));
        if rows.iter().any(is_counted_twice) {
            return None;
        }
        // Of several updates reports tell less: some stay pending until the object is updated once more. Contents are numbered.
        let objects: BTreeSet<&String> = rows.iter().map(|row| &row.told.1).collect();
        let has_several = |row: &Row| usize::try_from(row.content.id).map_or(true, |id| id > objects.len() + 1);
        if rows.iter().any(has_several) {
            return None;
        }
        let has_acknowledged = |row: &Row| {
            let replaced = row.content.replaced;
            let is_alone = replaced.is_some_and(|before| row.content.made_at - before >= UNTOLD_MS);
            row.truth.is_some_and(|truth| {
                let is_late = truth.at > row.delivered_from + DELIVERY_MS + CLOCKS_MS;
                truth.content == row.content.id && is_late && is_alone
            })
        };
        // That a cluster lost the object unseen shows nowhere.
        let is_known = |row: &Row| {
            let was_blank = self.blank.contains(&(stage.to_owned(), row.told.clone()));
            has_acknowledged(row) && !row.create_only && was_blank
        };
        let first = rows.first().filter(|_| rows.iter().all(is_known))?;
        let (cluster, object, _) = &first.told;
        Some(format!(
            "cluster {cluster} has lost {object}, got it again and reported on it"
        ))
    }
}

/// What a reading says of each cluster and object of a stage.
pub(crate) fn rows(talk: &Talk, stage: &str, kubestellar: &KubeStellar) -> Vec<Row> {
    let facts: &Facts = &talk.facts;
    let name = PlacementName::of(talk.policy(), StageName::of(stage));
    let placement = facts.placements.get(name.as_str()).and_then(Decoded::object);
    let binding = facts.bindings.get(name.as_str());
    let binding = binding.and_then(|binding| binding.object.as_ref()?.object());
    let Some((placement, binding)) = placement.zip(binding) else {
        return Vec::new();
    };
    // What an older generation has brought says nothing of this one.
    let observed = placement.status.as_ref().map(|status| status.observed_generation);
    if observed != placement.metadata.generation {
        return Vec::new();
    }
    let mut rows: Vec<Row> = Vec::new();
    for object in binding.spec.workload.objects() {
        let Some((key, content)) = judged(talk, None, object) else {
            continue;
        };
        let version = combined_of(facts, &key, uid_of(&placement.metadata))
            .and_then(|view| view.metadata.resource_version.clone());
        let says_nothing = |cluster: &str| {
            let view = combined_of(facts, &key, uid_of(&placement.metadata));
            let results = view.into_iter().flat_map(|view| &view.evidence);
            let mut rows = results.flat_map(|found| &found.rows);
            rows.any(|row| row.cluster.borrowed().text() == cluster && !matches!(row.at, Reported::At { .. }))
        };
        let Some(basis) = version.and_then(|version| kubestellar.basis.get(&version)) else {
            return Vec::new();
        };
        for destination in &binding.spec.destinations {
            let cluster = &destination.cluster_id;
            rows.push(Row {
                told: (cluster.clone(), key.to_string(), content.id),
                object_name: key.name.clone(),
                content,
                create_only: object.create_only,
                truth: basis.get(cluster).copied(),
                is_blank: says_nothing(cluster),
                delivered_from: seen_at(facts, name.as_str(), &key)
                    .map_or(content.made_at, |seen| seen.max(content.made_at)),
            });
        }
    }
    rows
}
