//! The generations that clusters of a held stage reported last. KubeStellar deletes the reports of held stages when it starts, and writes
//! them again with the next release, so they stay on record. Must not judge what a report means.

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

/// The most that the names of clusters take for this in the status of one stage, in bytes of JSON. Most often no names are needed: all
/// clusters have got the same releases.
const NAMES_BYTES_MAX: usize = 16 * 1024;

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
        if !rows.is_empty() {
            entry.reported_generations = with_rows(entry, rows, &accepted);
        }
    }
    let mut room = NAMES_BYTES_MAX;
    for entry in &mut record.objects {
        let names = entry.reported_generations.iter().flat_map(|group| &group.clusters);
        let bytes = names_bytes(names.map(|cluster| ClusterName::of(cluster)));
        match room.checked_sub(bytes) {
            Some(rest) => room = rest,
            None => entry.reported_generations.clear(),
        }
    }
}

/// Other clusters than those that were accepted before: an entry without names was not about them.
pub(crate) fn forget(record: &mut StageStatus) {
    for entry in &mut record.objects {
        entry.reported_generations.clear();
    }
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
            Some(row) => at_of(row).map_or("", |_| &*row.r#gen),
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
                        ..pending
                    };
                    required.insert(cluster.owned(), pending);
                }
                _ => self.add(required, (cluster, row), requirement),
            }
        }
    }
}
