//! What a decision may return: questions, or writes and Events and when to look again.
//!
//! [`Write`] is the whole blast radius of staging: read it to know what the controller can do to a cluster.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use stagegate_api::{BindingPolicy, BindingPolicySpec, StagedBindingPolicyStatus, StatusCollector};

use crate::checks::reason::Reason;
use crate::names::PlacementName;
use crate::precondition::Precondition;
use crate::staging::question::Question;

/// What to do about one policy now.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Decision {
    /// Answer these, put the answers among the facts, and ask again at once. Never empty.
    Ask(Vec<Question>),
    /// Carry this out.
    Act(Plan),
}

/// What is to be done, and when to look again.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Carried out in this order; the first that fails ends it, and facts are gathered anew.
    pub writes: Vec<Write>,
    /// Written after the write that they are about.
    pub events: Vec<Event>,
    /// When something becomes true by the passing of time alone.
    pub wake_at: Option<Timestamp>,
    /// No write may begin at this time or later: what they rest on is not known to hold then. `None`: no such bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Timestamp>,
}

/// All that staging may do to the world.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Write {
    /// Create our StatusCollector. A name that is taken by then is left alone.
    CreateEvidenceCollector(StatusCollector),
    /// Put its spec back.
    RestoreEvidenceCollector {
        /// Of the StatusCollector.
        precondition: Precondition,
        /// With our spec.
        collector: StatusCollector,
    },
    /// Create a stage's BindingPolicy without cluster selectors: it selects no cluster.
    CreateClosed(BindingPolicy),
    /// Give a closed one its selectors: the only write that brings a workload to new clusters for a new stage.
    Open(Placement),
    /// Change clauses or selectors of an open one in place.
    Update(Placement),
    /// Take over one that the Go stager made: annotations and our collector, the same clauses and clusters.
    Adopt(Placement),
    /// Change a BindingPolicy without placing anything else: raise its fencing token, so that an older process cannot open or change it;
    /// bring a closed one's clauses up to date; or change a closed or open one only so that KubeStellar has to write.
    Fence(Placement),
    /// Let a held Binding of an open placement name other versions: KubeStellar writes them, and its transport brings them to the clusters.
    Release(Hold),
    /// Hold a Binding at the versions that it names, or hold one that names no cluster at those that its stage is to have.
    Hold(Hold),
    /// Hold a Binding no more: the policy's updates are immediate.
    Unhold {
        /// Of the Binding.
        name: PlacementName,
        /// Of the Binding.
        precondition: Precondition,
    },
    /// Remove the BindingPolicy of a stage that was left, or of a closed one nobody needs.
    Remove {
        /// Of the BindingPolicy.
        name: PlacementName,
        /// Of the BindingPolicy.
        precondition: Precondition,
    },
    /// Write status; `precondition` is the policy's own.
    Status {
        /// Of the policy.
        precondition: Precondition,
        /// The new one.
        status: Box<StagedBindingPolicyStatus>,
    },
}

impl Write {
    /// Whether it may bring a workload to a cluster.
    pub const fn places(&self) -> bool {
        matches!(
            self,
            Self::Open(_) | Self::Update(_) | Self::Adopt(_) | Self::Release(_) | Self::Unhold { .. }
        )
    }
}

/// What a Binding may name from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// Of the Binding.
    pub name: PlacementName,
    /// Of the Binding.
    pub precondition: Precondition,
    /// The value of [`stagegate_api::ADMITTED_VERSIONS`].
    pub versions: String,
}

/// A change of one BindingPolicy: its spec and our annotations are replaced, all else of it is kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Of the BindingPolicy.
    pub name: PlacementName,
    /// Of the BindingPolicy.
    pub precondition: Precondition,
    /// The new one.
    pub spec: BindingPolicySpec,
    /// Ours; those of others stay.
    pub annotations: BTreeMap<String, String>,
}

/// A Kubernetes Event about the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Of type Warning; else Normal.
    pub warning: bool,
    /// The reason word that the Event has.
    pub reason: Reason,
    /// At most 1,024 characters (events.k8s.io).
    pub message: String,
}
