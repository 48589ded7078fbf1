//! All that the `combine` controller may do to the world.

use serde::Serialize;
use stagegate_api::{BindingStatus, CombinedStatus, StatusCollectorStatus};

use crate::precondition::Precondition;

/// Writes in the order they are made; the first that fails ends the plan, and the facts are read again.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// In the order they are made.
    pub writes: Vec<Write>,
    /// Why nothing can be written although something should; for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// One write. None of them touches a workload object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Write {
    /// Create the namespace for cluster-scoped objects; one that is there by now is fine.
    CreateNamespace {
        /// Of the Namespace.
        name: String,
    },
    /// Create the CombinedStatus; one that is there by now is a conflict.
    Create(CombinedStatus),
    /// Replace the CombinedStatus whole: what others added to it is lost, as with KubeStellar.
    Update {
        /// Of the CombinedStatus.
        precondition: Precondition,
        /// The new one, whole.
        combined_status: CombinedStatus,
    },
    /// Remove a CombinedStatus that nothing asks for any more.
    Delete {
        /// Of the CombinedStatus.
        namespace: String,
        /// Of the CombinedStatus.
        name: String,
        /// Of the CombinedStatus.
        precondition: Precondition,
    },
    /// Replace a StatusCollector's status.
    CollectorStatus {
        /// Of the StatusCollector.
        name: String,
        /// Of the StatusCollector.
        precondition: Precondition,
        /// The new one.
        status: StatusCollectorStatus,
    },
    /// Replace a Binding's status; only the condition about StatusCollectors differs from what is there.
    BindingStatus {
        /// Of the Binding.
        name: String,
        /// Of the Binding.
        precondition: Precondition,
        /// The new one.
        status: BindingStatus,
    },
}
