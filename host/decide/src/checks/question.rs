//! What has to be answered before a stage can be judged. Must not answer anything.

use serde::Serialize;

use super::gate_call::{ConfigKey, GateCall, SourceEntry};
use super::variables::{ConditionEvidence, PoolReport, Root};
use super::verdict::VerdictKey;
use crate::names::Digest;

/// What the controller has to find out about the checks of a stage.
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
