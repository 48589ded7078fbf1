//! The generations that clusters of a held stage reported last. KubeStellar deletes the reports of held stages when it starts and, while a
//! newer version waits, writes them again only with the next release, so they stay on record. Must not judge what a report means.

use std::collections::{BTreeMap, BTreeSet};

use stagegate_api::{EvidenceRow, ObjectStatus, ReportedGeneration, StageStatus};

use crate::names::ClusterName;
use crate::staging::evidence::acknowledgements::{Requirement, UpdateTracker};
use crate::staging::evidence::binding::Placed;
use crate::staging::evidence::combined_status::Subject;
use crate::staging::evidence::pending::{ByCluster, Pending, names_bytes};
use crate::staging::evidence::reports::at_of;
use crate::staging::input::{
    StageInput, binding_view,
    recorded::{positions, uid},
};

/// The most that this takes in the status of one stage, in bytes of JSON. Most often no names are needed: all clusters have got the same
/// releases.
const REPORTED_BYTES_MAX: usize = 64 * 1024;
/// Of these, what an entry takes without names.
const ENTRY_BYTES: usize = 48;
/// The longest generation that status takes.
const GENERATION_MAX: usize = 64;

/// Notes what the clusters of the set that was accepted last report now of each bound object.
pub(crate) fn note(input: StageInput<'_>, record: &mut StageStatus) {
    let Some(placed) = input.recorded.map(|recorded| Placed::of(input, recorded)) else {
        return;
    };
    let Ok((_, binding)) = placed.binding() else { return };
    let accepted = record.destinations.clone();
    let accepted: BTreeSet<ClusterName<&str>> = accepted.iter().map(|cluster| ClusterName::of(cluster)).collect();
    let positions = positions(&record.objects);
    for bound in binding.spec.workload.objects() {
        let key = binding_view::key(bound);
        let known = placed.facts.objects.get(&key);
        let found = known.and_then(|known| known.found.as_ref());
        let entry = positions.get(&key).map(|at| &mut record.objects[*at]);
        let Some((found, entry)) = found
            .zip(entry)
            .filter(|(found, entry)| found.uid.borrowed() == uid(entry))
        else {
            continue;
        };
        let rows = Subject {
            placed: &placed,
            bound,
            found,
        }
        .rows();
        if !rows.is_empty() && !is_as_recorded(entry, rows) {
            entry.reported_generations = with_rows(entry, rows, &accepted);
        }
    }
    let mut room = REPORTED_BYTES_MAX;
    for entry in &mut record.objects {
        let names = entry.reported_generations.iter().flat_map(|group| &group.clusters);
        let names = names_bytes(names.map(|cluster| ClusterName::of(cluster)));
        let bytes = names + ENTRY_BYTES * entry.reported_generations.len();
        match room.checked_sub(bytes) {
            Some(rest) => room = rest,
            None => entry.reported_generations.clear(),
        }
    }
}

/// Takes them off the record: the stage has clusters that the set before did not have, and an entry without names was not about those, or
/// nothing is held any more, or status has no room.
pub(crate) fn forget(record: &mut StageStatus) {
    for entry in &mut record.objects {
        entry.reported_generations.clear();
    }
}

/// Whether every row has the one generation that is on record of all clusters.
fn is_as_recorded(entry: &ObjectStatus, rows: &[EvidenceRow]) -> bool {
    let [only] = entry.reported_generations.as_slice() else {
        return false;
    };
    let is_it = |row: &EvidenceRow| at_of(row).is_some() && *row.r#gen == *only.observed_generation;
    only.clusters.is_empty() && rows.iter().all(is_it)
}

/// What is on record of the clusters, brought up to date with their rows. One that has lost the object has no generation.
fn with_rows(
    entry: &ObjectStatus,
    rows: &[EvidenceRow],
    accepted: &BTreeSet<ClusterName<&str>>,
) -> Vec<ReportedGeneration> {
    let known = by_cluster(&entry.reported_generations, accepted);
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for cluster in accepted {
        let row = rows.binary_search_by(|row| row.cluster.borrowed().cmp(cluster));
        let generation = match row.ok().map(|at| &rows[at]) {
            Some(row) if row.r#gen.len() <= GENERATION_MAX => at_of(row).map_or("", |_| &*row.r#gen),
            Some(_) => "",
            None => known.get(cluster).copied().unwrap_or_default(),
        };
        groups.entry(generation).or_default().push(cluster.text());
    }
    let most = groups.iter().max_by_key(|(_, clusters)| clusters.len());
    let most = most.map(|(generation, _)| *generation);
    if groups.len() == 1 && most == Some("") {
        return Vec::new();
    }
    let of = |(generation, clusters): (&str, Vec<&str>)| ReportedGeneration {
        observed_generation: generation.to_owned(),
        clusters: if most == Some(generation) {
            Vec::new()
        } else {
            clusters.into_iter().map(str::to_owned).collect()
        },
    };
    groups.into_iter().map(of).collect()
}

fn by_cluster<'a>(
    groups: &'a [ReportedGeneration],
    accepted: &BTreeSet<ClusterName<&'a str>>,
) -> BTreeMap<ClusterName<&'a str>, &'a str> {
    let mut generations = BTreeMap::new();
    for group in groups.iter().filter(|group| group.clusters.is_empty()) {
        generations.extend(accepted.iter().map(|cluster| (*cluster, &*group.observed_generation)));
    }
    for group in groups {
        let names = group.clusters.iter().map(|cluster| ClusterName::of(cluster));
        let names = names.filter(|cluster| accepted.contains(cluster));
        generations.extend(names.map(|cluster| (cluster, &*group.observed_generation)));
    }
    generations.retain(|_, generation| !generation.is_empty());
    generations
}

impl UpdateTracker<'_> {
    /// A held stage has got another body of the object: each of its clusters has to send a report that differs from the last one. Nothing
    /// else shows that it has the new one, neither a time nor silence. `before`: what is on record of the object before the release.
    pub(crate) fn require_new_reports(&self, required: &mut ByCluster, before: Option<&ObjectStatus>) {
        let requirement = Requirement {
            edits: 1,
            // The stage gets it now, whenever the edit was made.
            updated: Some(self.now),
            acknowledged_at: None,
            // Of a cluster without a status nothing shows that the version before has arrived.
            is_first_version: !self.was_never_proven,
        };
        let accepted = self.clusters.all.difference(&self.clusters.new).copied().collect();
        let groups = before.filter(|before| uid(before) == self.found.uid.borrowed());
        let groups = groups.map_or(&[][..], |before| &before.reported_generations);
        let reported = by_cluster(groups, &accepted);
        for (cluster, row) in self.reported_by(&self.clusters.all) {
            match reported.get(&cluster).filter(|_| row.is_none()) {
                Some(generation) if !required.contains_key(cluster.text()) => {
                    let pending = self.required_of(None, requirement);
                    let pending = Pending {
                        unacknowledged: requirement.edits,
                        in_quick_succession: false,
                        observed_generation: (*generation).into(),
                        // A cluster may have moved its generation by itself while there were no reports: only one from after the release counts.
                        reported_at: Some(self.first_not_before(self.now)),
                        ..pending
                    };
                    required.insert(cluster.owned(), pending);
                }
                _ => self.add(required, (cluster, row), requirement),
            }
        }
    }
}
