//! What has to be answered before a stage can be judged. Must not answer anything.

use jiff::Timestamp;
use serde::Serialize;

use super::gate_call::{ConfigKey, GateCall, SourceEntry};
use super::variables::{ConditionEvidence, PoolReport, Root};
use super::verdict::VerdictKey;
use crate::names::{Digest, ObjectKey, PlacementName, ResourceVersion};

/// What the controller has to find out before there can be a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Question {
    /// Does this expression compile? Answer: `Facts::compiled`.
    Compile {
        /// What the answer belongs to.
        digest: Digest,
        /// The expression.
        text: String,
        /// Which variables it may use.
        root: Root,
    },
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
    /// Evaluate the expression. Answer: `Facts::verdicts`, under the digest of the evidence that was really used: when
    /// the object has moved on, the question stays open and its watch event brings the next one.
    Check {
        /// What the answer belongs to.
        key: VerdictKey,
        /// The expression.
        text: String,
        /// What its variables hold.
        evidence: Evidence,
    },
    /// Read this entry of a ConfigMap that had this version, verify, compile and describe it. Answer: `Facts::modules`.
    Module {
        /// Where the component is.
        source: SourceEntry,
        /// What the answer belongs to.
        version: String,
    },
    /// Does the component's own schema take this config (JSON text)? Answer: `Facts::configs`.
    Config {
        /// What the answer belongs to.
        key: ConfigKey,
        /// Where the component is.
        source: SourceEntry,
        /// JSON text.
        config: String,
    },
    /// Run the gate. Answer: `Facts::gate_verdicts`, if every CombinedStatus still has the digest that is named.
    Gate(Box<GateCall>),
    /// Does the control plane refuse a change of this held Binding to versions that are not admitted? Answer: `Facts::hold`.
    Hold {
        /// A Binding that is held.
        binding: PlacementName,
        /// An answer from before this time is too old.
        not_before: Timestamp,
    },
    /// Read again from the API server, as [`crate::staging::Read::Anew`] says: cached facts never justify a placement.
    FreshRead,
    /// Read again from the API server, as [`crate::staging::Read::Placements`] says, once all else is answered.
    FreshPlacements,
}

/// What the variables of an expression hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Evidence {
    /// The value of `downsyncClause`.
    Clause(serde_json::Value),
    /// What a condition names; its digest is the key's.
    Condition(Box<ConditionEvidence>),
    /// The value of `pools`.
    Pools(Vec<PoolReport>),
}
