//! What has to be answered before a stage can be judged. Must not answer anything.

use serde::Serialize;

use super::gate_call::{ConfigKey, GateCall, SourceEntry};
use super::verdict::VerdictKey;
use crate::names::{Digest, ObjectKey};

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Question {
    /// Does this expression compile? Answer: `Facts::compiled`.
    Compile { digest: Digest, text: String, root: Root },
    /// A metadata GET of the object, of which the Binding names this resourceVersion. Answer: `Facts::objects`.
    Object {
        key: ObjectKey,
        version: String,
        resource_version: String,
    },
    /// Evaluate the expression. Answer: `Facts::verdicts`, under the digest of the evidence that was really used: when
    /// the object has moved on, the question stays open and its watch event brings the next one.
    Check {
        key: VerdictKey,
        text: String,
        evidence: Evidence,
    },
    /// Read this entry of a ConfigMap that had this version, verify, compile and describe it. Answer: `Facts::modules`.
    Module { source: SourceEntry, version: String },
    /// Does the component's own schema take this config (JSON text)? Answer: `Facts::configs`.
    Config {
        key: ConfigKey,
        source: SourceEntry,
        config: String,
    },
    /// Run the gate. Answer: `Facts::gate_verdicts`, if every CombinedStatus still has the digest that is named.
    Gate(Box<GateCall>),
    /// Read everything anew from the API server, as [`crate::checks::answers::Read::Anew`] says: nothing is placed on a cache.
    ReadAnew,
}

/// The variables an expression may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Root {
    /// `downsyncClause`: a filter.
    Clause,
    /// `combinedStatus`, and `obj` as its other documented name: a condition.
    CombinedStatus,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Evidence {
    /// The value of `downsyncClause`.
    Clause(serde_json::Value),
    /// The CombinedStatus of this name; its digest is the key's.
    CombinedStatus { namespace: String, name: String },
}
