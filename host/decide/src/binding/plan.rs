//! All that the `binding` controller may do to the world.

use serde::Serialize;
use stagegate_api::{Binding, BindingPolicyStatus};

use crate::precondition::Precondition;

/// Writes in the order they are made; the first that fails ends the plan, and the facts are read again.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// In the order they are made.
    pub writes: Vec<Write>,
}

/// One write. None of them goes beyond BindingPolicies (finalizer and status) and Bindings.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Write {
    /// Add [`stagegate_api::BINDING_POLICY_FINALIZER`] to the BindingPolicy.
    AddFinalizer {
        /// Of the BindingPolicy.
        name: String,
        /// Of the BindingPolicy.
        precondition: Precondition,
    },
    /// Remove it, so that the BindingPolicy may go.
    RemoveFinalizer {
        /// Of the BindingPolicy.
        name: String,
        /// Of the BindingPolicy.
        precondition: Precondition,
    },
    /// Create the Binding; one that is there by now is a conflict.
    CreateBinding(Binding),
    /// Replace the Binding's spec and owners.
    UpdateBinding {
        /// Of the Binding.
        precondition: Precondition,
        /// With the new spec and owners.
        binding: Binding,
    },
    /// Replace the BindingPolicy's status; made after the Binding was written.
    PolicyStatus {
        /// Of the BindingPolicy.
        name: String,
        /// Of the BindingPolicy.
        precondition: Precondition,
        /// The new one.
        status: BindingPolicyStatus,
    },
}
