//! What stands under a stage's name: nothing, somebody else's BindingPolicy, or one of ours, closed or open.
//!
//! Must not decide what to do about any.

use std::collections::BTreeSet;

use crate::staging::input::clauses::revision_of;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource as _, ResourceExt as _};
use stagegate_api::{BindingPolicy, StagedBindingPolicy, annotation};

use crate::names::{Digest, PlacementName, ResourceVersion, Uid};
use crate::precondition::Precondition;
use crate::staging::input::facts::{Decoded, Facts};

#[derive(Clone, Debug)]
pub enum Slot<'a> {
    Absent,
    /// It is there, but nobody can tell what it says.
    Invalid(&'a str),
    /// Not owned by this policy: never touched.
    Foreign,
    /// Ours, being deleted.
    Leaving(OwnedPlacement<'a>),
    /// Ours, without cluster selectors: it selects no cluster.
    Closed(OwnedPlacement<'a>),
    /// Ours, placing the workload.
    Open(OwnedPlacement<'a>),
}

/// A BindingPolicy of ours and what its annotations say.
#[derive(Clone, Debug)]
pub struct OwnedPlacement<'a> {
    pub object: &'a BindingPolicy,
    /// Its annotation, or the revision of the clauses it really has where the Go stager made it.
    pub revision: Digest,
    /// It has no annotations of ours: the Go stager made it.
    pub is_unstamped: bool,
    pub attempt: i64,
    pub baseline: Option<ResourceVersion<&'a str>>,
    /// As in [`annotation::OPENED_AT_VERSION`].
    pub opened: Option<ResourceVersion<&'a str>>,
    pub token: Option<FencingToken>,
}

/// coordination.k8s.io/v1: `leaseTransitions` is an int32.
const TRANSITIONS_MAX: u64 = i32::MAX.cast_unsigned() as u64;

/// Raised on every edit of the policy and every new leader, on closed placements, and on open ones by a pause: an open, or a change in
/// place, that was decided earlier then fails, and a process whose own view is older writes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FencingToken {
    pub generation: i64,
    pub lease_transitions: u64,
}

impl FencingToken {
    pub fn of(facts: &Facts) -> Self {
        Self {
            generation: facts.policy.object.meta().generation.unwrap_or_default(),
            lease_transitions: facts.lease_transitions,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (generation, lease_transitions) = text.split_once('.')?;
        let lease_transitions = lease_transitions.parse().ok()?;
        // A Lease counts to 2^31 - 1. A count after which there is no other would be ahead of every leader for good.
        (lease_transitions < TRANSITIONS_MAX).then_some(())?;
        Some(Self {
            generation: generation.parse().ok()?,
            lease_transitions,
        })
    }
}

impl std::fmt::Display for FencingToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.generation, self.lease_transitions)
    }
}

impl<'a> Slot<'a> {
    pub fn of(facts: &'a Facts, name: &PlacementName) -> Self {
        match facts.placements.get(name) {
            None => Self::Absent,
            Some(Decoded::Invalid { error }) => Self::Invalid(error),
            Some(Decoded::Object(object)) => Self::of_object(facts, object),
        }
    }

    pub fn of_object(facts: &Facts, object: &'a BindingPolicy) -> Self {
        if !is_owned(facts, object) {
            return Self::Foreign;
        }
        let own = OwnedPlacement::of(object);
        if object.meta().deletion_timestamp.is_some() {
            return Self::Leaving(own);
        }
        if !is_identified(object.meta()) {
            return Self::Invalid("it has no uid or no resourceVersion");
        }
        if selects_clusters(object) {
            Self::Open(own)
        } else {
            Self::Closed(own)
        }
    }

    /// The placement of ours, closed or open.
    pub fn own(&self) -> Option<&OwnedPlacement<'a>> {
        match self {
            Self::Closed(own) | Self::Open(own) => Some(own),
            _ => None,
        }
    }

    pub fn open(&self) -> Option<&OwnedPlacement<'a>> {
        match self {
            Self::Open(own) => Some(own),
            _ => None,
        }
    }

    /// Whether something may be placed under this name that cannot be seen now.
    pub fn may_be_open(&self) -> bool {
        matches!(self, Self::Invalid(_) | Self::Foreign)
    }

    pub fn closed(&self) -> Option<&OwnedPlacement<'a>> {
        match self {
            Self::Closed(own) => Some(own),
            _ => None,
        }
    }
}

impl<'a> OwnedPlacement<'a> {
    fn of(object: &'a BindingPolicy) -> Self {
        let text = |key: &str| object.annotations().get(key).map(String::as_str);
        let revision = text(annotation::REVISION);
        Self {
            object,
            revision: revision.map_or_else(|| revision_of(&object.spec.downsync), Digest::from_text),
            is_unstamped: revision.is_none(),
            attempt: text(annotation::ATTEMPT)
                .and_then(|attempt| attempt.parse().ok())
                .unwrap_or_default(),
            baseline: text(annotation::BASELINE_VERSION).map(ResourceVersion::of),
            opened: text(annotation::OPENED_AT_VERSION).map(ResourceVersion::of),
            token: text(annotation::FENCING_TOKEN).and_then(FencingToken::parse),
        }
    }

    /// Its last change while it was open was of its clauses or clusters, not only of the versions that are admitted.
    pub fn is_changed_in_place(&self) -> bool {
        let replaced = self.object.annotations().get(annotation::REPLACED);
        replaced.is_some_and(|replaced| !replaced.is_empty())
    }

    /// Its last change while it was open was only of the versions that are admitted.
    pub fn is_released_in_place(&self) -> bool {
        let replaced = self.object.annotations().get(annotation::REPLACED);
        replaced.is_some_and(String::is_empty)
    }

    pub fn uid(&self) -> Uid<&'a str> {
        Uid::of(self.object.meta().uid.as_deref().unwrap_or_default())
    }

    pub fn precondition(&self) -> Precondition {
        precondition(self.object.meta())
    }

    /// KubeStellar's status names the BindingPolicy's current generation; the Binding may still be of an older one.
    pub fn is_synced(&self) -> bool {
        let observed = self.object.status.as_ref().map(|status| status.observed_generation);
        observed.is_some() && observed == self.object.meta().generation
    }
}

/// The names of the Bindings that a reading reads: those of open placements and, where stages are held, those that tell what is admitted
/// and what there is to admit.
pub fn bindings_to_read(facts: &Facts) -> BTreeSet<String> {
    let mut names = open_placements(facts);
    if facts.is_staged() {
        names.extend(facts.placements.keys().map(ToString::to_string));
    }
    names
}

/// The names of the BindingPolicies that place something, or may do so: all but those that can be read and select no cluster.
pub fn open_placements(facts: &Facts) -> BTreeSet<String> {
    let placements = facts.placements.iter();
    let open = placements.filter(|(_, placement)| placement.object().is_none_or(selects_clusters));
    open.map(|(name, _)| name.to_string()).collect()
}

fn selects_clusters(object: &BindingPolicy) -> bool {
    !object.spec.cluster_selectors.is_empty()
}

/// Any owner with the policy's uid will do: the Go stager's references are not all controllers.
pub fn is_owned(facts: &Facts, object: &BindingPolicy) -> bool {
    let uid = facts.policy.object.meta().uid.as_deref().unwrap_or_default();
    !uid.is_empty() && object.owner_references().iter().any(|owner| owner.uid == uid)
}

/// The policy as owner: its deletion removes the placements, `--cascade=orphan` leaves them.
pub fn owner_of(policy: &StagedBindingPolicy) -> OwnerReference {
    OwnerReference {
        api_version: StagedBindingPolicy::api_version(&()).into_owned(),
        kind: StagedBindingPolicy::kind(&()).into_owned(),
        name: policy.name_any(),
        uid: policy.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(false),
    }
}

/// Whether a write to it can be conditional; what the API server stores always can.
pub fn is_identified(meta: &ObjectMeta) -> bool {
    let is_there = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    is_there(&meta.uid) && is_there(&meta.resource_version)
}

pub fn precondition(meta: &ObjectMeta) -> Precondition {
    Precondition {
        uid: meta.uid.clone().unwrap_or_default().into(),
        resource_version: meta.resource_version.clone().unwrap_or_default().into(),
    }
}
