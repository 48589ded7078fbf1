//! What is known when the checks of a stage are evaluated: the time, and the answers to questions so far. Must not evaluate anything.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::gate_call::{ConfigAnswer, ConfigKey, GateNamespaces, GateVerdict, ModuleFacts, Source, SourceEntry};
use super::variables::Variable;
use super::verdict::{Verdict, VerdictKey};
use crate::names::{Digest, ResourceVersion};

/// A view of a controller's facts.
#[derive(Clone, Copy, Debug)]
pub struct Answers<'a> {
    pub now: Timestamp,
    pub read: &'a Read,
    /// Since when this process watches without a gap.
    pub watching_since: Option<Timestamp>,
    /// After how long a gate that gave no verdict is asked again.
    pub retry_after: SignedDuration,
    /// Which expressions compile, by the digest of their text.
    pub compiled: &'a BTreeMap<Digest, Compilation>,
    pub verdicts: &'a BTreeMap<VerdictKey, Verdict>,
    /// Namespaces whose ConfigMaps may be run.
    pub gate_namespaces: &'a GateNamespaces,
    /// The ConfigMaps that gates name, by `namespace/name`; one that is missing here was not looked at.
    pub sources: &'a BTreeMap<String, Source>,
    /// What the ConfigMaps' entries hold.
    pub modules: &'a BTreeMap<SourceEntry, ModuleFacts>,
    pub configs: &'a BTreeMap<ConfigKey, ConfigAnswer>,
    pub gate_verdicts: &'a BTreeMap<VerdictKey, GateVerdict>,
}

/// Where the facts come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Read {
    /// From watches: may be late, so nothing is placed on it.
    #[default]
    Cached,
    /// The BindingPolicies to judge and the Bindings of open ones were read from the API server after the decision to read them; all
    /// else, reports included, may be late. Enough to remove a placement that shares no cluster with a later one, and for nothing else.
    Placements,
    /// The BindingPolicies to judge and their CombinedStatuses, the Bindings of open ones, collectors and the kept objects' metadata,
    /// read from the API server after the decision to read them; collectors at most a second before, and no older than the
    /// CombinedStatuses. Other Bindings and CombinedStatuses come from the watches, and so do the policy and other BindingPolicies
    /// unless a write was refused: no stage passes on them, these BindingPolicies are as status records them, and a write to an object
    /// is refused if it has changed.
    Anew {
        /// Collection resourceVersion of the CombinedStatus list of that reading.
        baseline: ResourceVersion,
        /// When the reading began; a slow API server may take long. `None`: at the time of the facts.
        #[serde(default)]
        began_at: Option<Timestamp>,
    },
}

impl Read {
    /// Whether a stage may pass, and something be placed, on these facts.
    #[must_use]
    pub const fn is_anew(&self) -> bool {
        matches!(self, Self::Anew { .. })
    }
}

/// Whether an expression compiles.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Compilation {
    /// It does, and names these variables.
    Compiles(BTreeSet<Variable>),
    /// With the place in the text; at most 256 characters.
    Refused(String),
}
