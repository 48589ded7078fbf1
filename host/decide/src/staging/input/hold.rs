//! What is known of whether the control plane holds Bindings back. Must not ask it.

use jiff::Timestamp;
use serde::Deserialize;

/// When a change of a held Binding was last tried without storing it, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HoldFacts {
    /// When the first of the tries began.
    pub asked_at: Timestamp,
    /// What they have shown.
    pub answer: HoldAnswer,
}

/// What the API server says to a change of a held Binding that must be refused.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum HoldAnswer {
    /// Our admission policy refused it.
    Refused,
    /// Nothing refused it.
    Accepted,
    /// Something else refused it, so that it is not known what our policy would have said.
    Unknown {
        /// What it said; holds no part of an object.
        message: String,
    },
}
