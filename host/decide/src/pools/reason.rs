//! The reason words of a YurtAppDaemon's status and Events: a closed list.

use serde::Serialize;

/// Why a YurtAppDaemon is where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Reason {
    /// Every workload is of the template and rolled out.
    RolledOut,
    /// A workload is missing, of an older revision, or not rolled out yet.
    RollingOut,
    /// `spec.updateStrategy.paused` is true, and pools have older revisions.
    Paused,
    /// No pool matches `spec.nodepoolSelector`, or none belongs to a stage.
    NoPools,
    /// All pools are gone at once: workloads are deleted only if NodePools are still served after a while.
    PoolsGone,
    /// NodePools cannot be listed.
    NodePoolsUnknown,
    /// The API server serves no NodePool.
    NodePoolsUnserved,
    /// A field of the spec is wrong.
    InvalidSpec,
    /// The API server refused a ControllerRevision.
    RevisionRefused,
    /// The API server refused a workload.
    WorkloadRefused,
    /// A workload cannot be made for a pool: its name is too long, or the name of the workload is taken.
    PoolSkipped,
    /// Nothing is wrong: the reason of conditions that are False because there is nothing to tell.
    NoFailure,
}

impl Reason {
    /// As status and Events have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RolledOut => "RolledOut",
            Self::RollingOut => "RollingOut",
            Self::Paused => "Paused",
            Self::NoPools => "NoPools",
            Self::PoolsGone => "PoolsGone",
            Self::NodePoolsUnknown => "NodePoolsUnknown",
            Self::NodePoolsUnserved => "NodePoolsUnserved",
            Self::InvalidSpec => "InvalidSpec",
            Self::RevisionRefused => "RevisionRefused",
            Self::WorkloadRefused => "WorkloadRefused",
            Self::PoolSkipped => "PoolSkipped",
            Self::NoFailure => "NoFailure",
        }
    }
}
