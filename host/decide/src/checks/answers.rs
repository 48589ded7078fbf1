//! What is known when the checks of a stage are evaluated: the time, and the answers to questions so far. Must not evaluate anything.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::gate_call::{ConfigAnswer, ConfigKey, GateNamespaces, GateVerdict, ModuleFacts, Source, SourceEntry};
use super::variables::Variable;
use super::verdict::{Verdict, VerdictKey};
use crate::names::Digest;

/// A view of a controller's facts.
#[derive(Clone, Copy, Debug)]
pub struct Answers<'a> {
    /// The time.
    pub now: Timestamp,
    /// Everything was read from the API server at that time, so only what gates say of this very moment counts.
    pub is_anew: bool,
    /// Since when this process watches without a gap.
    pub watching_since: Option<Timestamp>,
    /// After how long a gate that gave no verdict is asked again.
    pub retry_after: SignedDuration,
    /// Which expressions compile, by the digest of their text.
    pub compiled: &'a BTreeMap<Digest, Compilation>,
    /// What expressions said.
    pub verdicts: &'a BTreeMap<VerdictKey, Verdict>,
    /// Namespaces whose ConfigMaps may be run.
    pub gate_namespaces: &'a GateNamespaces,
    /// The ConfigMaps that gates name, by `namespace/name`; one that is missing here was not looked at.
    pub sources: &'a BTreeMap<String, Source>,
    /// What the ConfigMaps' entries hold.
    pub modules: &'a BTreeMap<SourceEntry, ModuleFacts>,
    /// Whether gates take their configs.
    pub configs: &'a BTreeMap<ConfigKey, ConfigAnswer>,
    /// What gates said.
    pub gate_verdicts: &'a BTreeMap<VerdictKey, GateVerdict>,
}

/// The same of facts to which answers are added.
#[derive(Debug)]
pub struct AnswersMut<'a> {
    /// To [`Question::Compile`](super::question::Question::Compile).
    pub compiled: &'a mut BTreeMap<Digest, Compilation>,
    /// To [`Question::Check`](super::question::Question::Check).
    pub verdicts: &'a mut BTreeMap<VerdictKey, Verdict>,
    /// To [`Question::Module`](super::question::Question::Module).
    pub modules: &'a mut BTreeMap<SourceEntry, ModuleFacts>,
    /// To [`Question::Config`](super::question::Question::Config).
    pub configs: &'a mut BTreeMap<ConfigKey, ConfigAnswer>,
    /// To [`Question::Gate`](super::question::Question::Gate).
    pub gate_verdicts: &'a mut BTreeMap<VerdictKey, GateVerdict>,
}

impl AnswersMut<'_> {
    /// The same for a shorter time.
    pub const fn reborrow(&mut self) -> AnswersMut<'_> {
        AnswersMut {
            compiled: self.compiled,
            verdicts: self.verdicts,
            modules: self.modules,
            configs: self.configs,
            gate_verdicts: self.gate_verdicts,
        }
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
