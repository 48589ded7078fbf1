//! What has to be found out about a policy before there can be a plan. Must not answer anything.

use jiff::Timestamp;
use serde::Serialize;

use crate::checks;
use crate::names::{ObjectKey, PlacementName, ResourceVersion};

/// What the controller has to find out before there can be a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Question {
    /// A GET of the object, of which the Binding names this resourceVersion. Answer: `Facts::objects`.
    Object {
        /// Which object.
        key: ObjectKey,
        /// Of its API, as the Binding names it.
        version: String,
        /// That the Binding names.
        resource_version: ResourceVersion,
        /// Whether all of it is to be read, for the digest of what travels to clusters; else its metadata alone.
        is_whole: bool,
    },
    /// Does the control plane refuse a change of this held Binding to versions that are not admitted? Answer: `Facts::hold`.
    Hold {
        /// A Binding that is held.
        binding: PlacementName,
        /// An answer from before this time is too old.
        not_before: Timestamp,
    },
    /// Read again from the API server, as [`super::Read::Anew`] says: cached facts never justify a placement.
    FreshRead,
    /// Read again from the API server, as [`super::Read::Placements`] says, once all else is answered.
    FreshPlacements,
    /// What a stage's checks ask.
    #[serde(untagged)]
    OfChecks(checks::Question),
}

impl From<checks::Question> for Question {
    fn from(question: checks::Question) -> Self {
        Self::OfChecks(question)
    }
}
