//! The reason words of a YurtAppDaemon's status and Events: a closed list.

use serde::{Serialize, Serializer};

use crate::checks;

/// Why a YurtAppDaemon is where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// A check of the active stage has this reason.
    Check(checks::Reason),
}

impl Reason {
    /// Those that are no reason of a check.
    const OWN: [Self; 12] = [
        Self::RolledOut,
        Self::RollingOut,
        Self::Paused,
        Self::NoPools,
        Self::PoolsGone,
        Self::NodePoolsUnknown,
        Self::NodePoolsUnserved,
        Self::InvalidSpec,
        Self::RevisionRefused,
        Self::WorkloadRefused,
        Self::PoolSkipped,
        Self::NoFailure,
    ];

    /// The reason of this word; `None`: another version of Stagegate wrote it.
    pub fn named(word: &str) -> Option<Self> {
        let own = Self::OWN.into_iter().find(|reason| reason.as_str() == word);
        own.or_else(|| checks::Reason::named(word).map(Self::Check))
    }

    /// What a person can do about it, in one or more sentences; `None`: nothing has to be done. The message beside the reason is about the
    /// case at hand and may name more.
    pub const fn advice(self) -> Option<&'static str> {
        Some(match self {
            Self::RolledOut | Self::NoFailure => return None,
            Self::RollingOut => "Wait. If it lasts, look at the workload of the pool that the message names.",
            Self::Paused => "Set `spec.updateStrategy.paused` to false when the update is to go on.",
            Self::NoPools => "Label a NodePool, correct the selector, or remove the stage that the message names.",
            Self::PoolsGone => "If this is not intended, restore the NodePools or their labels at once.",
            Self::NodePoolsUnknown => {
                "Wait: it takes seconds. If it lasts, check the rights of the controller: see deploy/README.md."
            }
            Self::NodePoolsUnserved => "Install OpenYurt, which brings the definition of NodePool.",
            Self::InvalidSpec => {
                "Correct the fields that the message names; `stagegate lint` checks a YurtAppDaemon before you apply it."
            }
            Self::RevisionRefused => {
                "Correct what refuses the ControllerRevision: a quota, an admission policy, or a right that is missing."
            }
            Self::WorkloadRefused => {
                "Correct the template, or what refuses the workload, such as a quota or an admission policy."
            }
            Self::PoolSkipped => "Do what the message says.",
            Self::Check(reason) => return advice_of_check(reason),
        })
    }

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
            Self::Check(reason) => reason.as_str(),
        }
    }

    /// Whether an Event is sent when it becomes the reason.
    pub(super) const fn is_notable(self) -> bool {
        match self {
            Self::RollingOut | Self::NoPools | Self::Paused | Self::NoFailure => false,
            Self::Check(reason) => reason.is_notable(),
            _ => true,
        }
    }

    /// Whether that Event is a Warning.
    pub(super) fn is_warning(self) -> bool {
        match self {
            Self::RolledOut => false,
            Self::Check(reason) => reason.is_warning(),
            other => other.is_notable(),
        }
    }
}

/// Where the advice to the author of a policy names what a YurtAppDaemon does not have, another one.
const fn advice_of_check(reason: checks::Reason) -> Option<&'static str> {
    Some(match reason {
        checks::Reason::InvalidExpression => {
            "Correct the expression that the message names; `stagegate lint` checks it before you apply it, and `stagegate cel --root pools` \
             tries it on workloads."
        }
        checks::Reason::ConditionFalse => {
            "Wait until the workloads are as the condition asks for, or correct the template or \
             `spec.updateStrategy.stages[].condition`."
        }
        checks::Reason::ConditionError => {
            "Correct `spec.updateStrategy.stages[].condition`; `stagegate cel --root pools` tries it on workloads."
        }
        checks::Reason::GateFailed => {
            "Find out why the gate refuses. To have it called again, edit its entry in the YurtAppDaemon, or `spec.workloadTemplate`."
        }
        other => return other.advice(),
    })
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
