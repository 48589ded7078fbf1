//! What a decision about a YurtAppDaemon may return.
//!
//! [`Write`] is all that the controller may do to a cluster: read it to know what it can do to a workload.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::Serialize;
use serde_json::Value;
use stagegate_api::Digest;
use stagegate_api::workloads::YurtAppDaemonStatus;

use super::reason::Reason;
use crate::checks::Question;
use crate::precondition::Precondition;

/// What to do now.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Decision {
    /// Read everything from the API server ([`super::Read::Anew`]), and ask again.
    FreshRead,
    /// Answer these, put the answers among the facts, and ask again at once. Never empty.
    Ask(Vec<Question>),
    /// Carry this out.
    Act(Plan),
}

/// What is to be done, and when to look again.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Carried out in this order. One of a workload that is refused stops no other; any other failure ends the plan.
    pub writes: Vec<Write>,
    /// Sent after the write of status.
    pub events: Vec<Event>,
    /// When something becomes true by the passing of time alone.
    pub wake_at: Option<Timestamp>,
    /// No write may begin at this time or later: what the checks said is not known to hold then. `None`: no such bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Timestamp>,
}

/// All that the controller may do to the world.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Write {
    /// Create a ControllerRevision of the template.
    CreateRevision {
        /// Of the object.
        name: String,
        /// One more than the newest.
        number: i64,
        /// What it records.
        data: Value,
    },
    /// Make an older ControllerRevision the newest: the template is what it records.
    RaiseRevision {
        /// Of the object.
        name: String,
        /// Of the object.
        precondition: Precondition,
        /// One more than the newest.
        number: i64,
    },
    /// Delete a ControllerRevision that nothing was made from.
    DeleteRevision {
        /// Of the object.
        name: String,
        /// Of the object.
        precondition: Precondition,
    },
    /// Create or change a pool's workload by server-side apply. It carries the version that it is to have; to be created it carries one
    /// that no object has, so that what is there already is a conflict.
    ApplyChild {
        /// The pool.
        pool: String,
        /// What is to be there.
        object: Value,
        /// Of `object`, without the version.
        digest: Digest,
        /// Others have written its fields so far, and would own what the template does not have any more: they become ours first.
        takes_over: bool,
    },
    /// Make this daemon the controller of a workload that nothing controls.
    AdoptChild {
        /// The workload.
        child: ChildRef,
        /// Its owners with the daemon as the last.
        owners: Vec<OwnerReference>,
    },
    /// Delete a workload whose pool does not match any more, or a second one of a pool.
    DeleteChild(ChildRef),
    /// Replace the daemon's status.
    Status {
        /// Of the daemon.
        precondition: Precondition,
        /// The new one.
        status: Box<YurtAppDaemonStatus>,
    },
}

/// A workload as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildRef {
    /// Of the object.
    pub name: String,
    /// The pool that it was made for.
    pub pool: String,
    /// Of the object.
    pub precondition: Precondition,
}

/// A Kubernetes Event about the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Of type Warning; else Normal.
    pub warning: bool,
    /// One word.
    pub reason: Reason,
    /// At most 1,024 characters.
    pub message: String,
}

/// Writes and waits as they are found.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// To workloads.
    pub writes: Vec<Write>,
    /// Of revisions, last.
    pub prune: Vec<Write>,
    pub wake_at: Option<Timestamp>,
}

impl Draft {
    pub fn is_writing(&self) -> bool {
        !self.writes.is_empty()
    }

    pub fn wake(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }
}
