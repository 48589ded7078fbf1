//! What a Binding's set of objects and clusters did over time, as one process saw it. Must not decide anything.
//!
//! A decision sees one instant; a Binding that was empty for ten milliseconds between two decisions (a restart of
//! KubeStellar) would leave no trace. So the controller calls [`observe`] on every watch event and hands on the result.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use stagegate_api::Binding;

use crate::names::{ClusterName, ResourceVersion, Uid};
use crate::staging::input::binding_view;
use crate::time::later;

/// What the name of a cluster begins with in [`Observed::members`].
const CLUSTER: &str = "cluster ";

/// The set that a Binding has now, since when, and when it last lost something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Observed {
    /// Controller owner uid of the Binding: another one is another placement, with nothing in common.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Uid>,
    /// Objects and clusters together; the resourceVersions in a Binding are not part of its set.
    #[serde(default)]
    pub members: BTreeSet<String>,
    /// When the set last changed, or was first seen.
    pub since: Timestamp,
    /// When this process first saw the Binding with this owner, if its set has changed since; `None`: at `since`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seen: Option<Timestamp>,
    /// When something was last missing from the set that had been in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_at: Option<Timestamp>,
    /// The clusters of the set that it did not have when it was first seen, and when it got each of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub joined: BTreeMap<ClusterName, Timestamp>,
    /// The clusters that the set does not have any more, and when it lost each of them. Kept for as long as the process runs: which of
    /// them still matter depends on when a set was accepted last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left: BTreeMap<ClusterName, Timestamp>,
    /// The objects of the set, by the same names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, NamedVersion>,
    /// Since when the Binding has its generation, as this process has seen it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<SeenGeneration>,
    /// Since when transport has taken this generation, as this process has seen it; `None`: it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<SeenGeneration>,
}

/// A generation of a Binding, and when it was first seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SeenGeneration {
    /// `metadata.generation`.
    pub generation: i64,
    /// When this process first saw it.
    pub since: Timestamp,
}

impl SeenGeneration {
    /// The same one as before, or this one since `now`.
    fn of(generation: Option<i64>, previous: Option<Self>, now: Timestamp) -> Option<Self> {
        let generation = generation?;
        let known = previous.filter(|known| known.generation == generation);
        Some(known.unwrap_or(Self { generation, since: now }))
    }
}

impl Observed {
    /// When this process first saw the Binding with this owner.
    pub fn seen_since(&self) -> Timestamp {
        self.first_seen.unwrap_or(self.since)
    }

    /// By when the Binding had named both a cluster, whose set was accepted at `accepted_at` if it was, and an object, which this process
    /// saw being added at `object` if it did.
    pub fn named_at(
        &self,
        (cluster, accepted_at): (ClusterName<&str>, Option<Timestamp>),
        object: Option<Timestamp>,
    ) -> Timestamp {
        let seen = self
            .joined
            .get(cluster.text())
            .copied()
            .unwrap_or_else(|| self.seen_since());
        let cluster = accepted_at.map_or(seen, |accepted| accepted.min(seen));
        later(object, cluster)
    }
}

/// Which version of an object the Binding names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamedVersion {
    /// Its resourceVersion.
    pub version: ResourceVersion,
    /// Since when; `None`: since before this process saw the Binding for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Since when the Binding names the object, where it has named another version of it before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named_since: Option<Timestamp>,
}

impl NamedVersion {
    fn first(version: ResourceVersion<&str>, since: Option<Timestamp>) -> Self {
        Self {
            version: version.owned(),
            since,
            named_since: None,
        }
    }
}

/// What is known after seeing `binding` (`None`: gone, or not decodable) at `now`.
pub fn observe(previous: Option<&Observed>, binding: Option<&Binding>, now: Timestamp) -> Observed {
    let members = binding.map(members).unwrap_or_default();
    let owner = binding.and_then(binding_view::owner_uid).map(|uid| uid.owned());
    // Binding and transport count the same generations only for one object, but another object of its name has another owner, or was
    // gone for a moment.
    let known = previous.filter(|previous| owner.is_none() || owner == previous.owner);
    let generation = binding.and_then(|binding| binding.metadata.generation);
    let taken = binding
        .and_then(binding_view::taken_generation)
        .filter(|taken| Some(*taken) == generation);
    let written = SeenGeneration::of(generation, known.and_then(|known| known.written), now);
    let taken = SeenGeneration::of(taken, known.and_then(|known| known.taken), now);
    let Some(previous) = previous else {
        return Observed {
            owner,
            members,
            since: now,
            first_seen: None,
            lost_at: None,
            joined: BTreeMap::new(),
            left: BTreeMap::new(),
            versions: versions(binding, |_, version| NamedVersion::first(version, None)),
            written,
            taken,
        };
    };
    // The owner's uid is kept while the Binding is gone, so that its return is recognised as one.
    let owner = owner.or_else(|| previous.owner.clone());
    if owner != previous.owner {
        return Observed {
            owner,
            members,
            since: now,
            first_seen: None,
            lost_at: None,
            joined: BTreeMap::new(),
            left: BTreeMap::new(),
            versions: versions(binding, |_, version| NamedVersion::first(version, Some(now))),
            written,
            taken,
        };
    }
    let versions = versions(binding, |name, version| match previous.versions.get(name) {
        Some(known) if known.version.borrowed() == version => known.clone(),
        Some(known) => NamedVersion {
            named_since: known.named_since.or(known.since).or(Some(previous.seen_since())),
            ..NamedVersion::first(version, Some(now))
        },
        None => NamedVersion::first(version, Some(now)),
    });
    if members == previous.members {
        return Observed {
            versions,
            written,
            taken,
            ..previous.clone()
        };
    }
    let lost = !previous.members.is_subset(&members);
    Observed {
        joined: joined(previous, &members, now),
        left: left(previous, &members, now),
        owner,
        members,
        since: now,
        first_seen: Some(previous.seen_since()),
        lost_at: if lost { Some(now) } else { previous.lost_at },
        versions,
        written,
        taken,
    }
}

fn joined(previous: &Observed, members: &BTreeSet<String>, now: Timestamp) -> BTreeMap<ClusterName, Timestamp> {
    let mut joined = previous.joined.clone();
    joined.extend(
        members
            .difference(&previous.members)
            .filter_map(|member| Some((cluster_of(member)?, now))),
    );
    joined.retain(|cluster, _| members.contains(&format!("{CLUSTER}{cluster}")));
    joined
}

fn cluster_of(member: &str) -> Option<ClusterName> {
    member.strip_prefix(CLUSTER).map(ClusterName::from)
}

fn left(previous: &Observed, members: &BTreeSet<String>, now: Timestamp) -> BTreeMap<ClusterName, Timestamp> {
    let mut left = previous.left.clone();
    let lost = previous.members.difference(members);
    left.extend(lost.filter_map(|member| Some((cluster_of(member)?, now))));
    left.retain(|cluster, _| !members.contains(&format!("{CLUSTER}{cluster}")));
    left
}

fn versions(
    binding: Option<&Binding>,
    seen: impl Fn(&str, ResourceVersion<&str>) -> NamedVersion,
) -> BTreeMap<String, NamedVersion> {
    let named = binding.into_iter().flat_map(binding_view::objects).map(|object| {
        let name = binding_view::key(object).to_string();
        let seen = seen(&name, binding_view::resource_version(object));
        (name, seen)
    });
    named.collect()
}

fn members(binding: &Binding) -> BTreeSet<String> {
    let objects = binding_view::objects(binding)
        .into_iter()
        .map(|object| binding_view::key(object).to_string());
    let clusters = binding_view::destinations(binding)
        .into_iter()
        .map(|cluster| format!("{CLUSTER}{cluster}"));
    objects.chain(clusters).collect()
}
