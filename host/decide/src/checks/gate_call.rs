//! What is known and asked of gates: sources, modules, configs, calls and their verdicts. Must not judge.
//!
//! A gate goes through three questions: [`Question::Module`](super::question::Question::Module) (which component is in the ConfigMap, does it load),
//! [`Question::Config`](super::question::Question::Config) (does its schema take the config), [`Question::Gate`](super::question::Question::Gate) (what does it say).

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use stagegate_api::{ConfigMapEntry, EvidencePiece};

use crate::checks::verdict::VerdictKey;
use crate::names::{Digest, ObjectKey};

/// Namespaces whose ConfigMaps may be run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GateNamespaces {
    /// The playground's.
    All,
    Only(BTreeSet<String>),
}

impl Default for GateNamespaces {
    fn default() -> Self {
        Self::Only(BTreeSet::from(["stagegate-gates".to_owned()]))
    }
}

impl GateNamespaces {
    pub fn allow(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(namespace),
        }
    }
}

/// A ConfigMap that a gate names, by `namespace/name` among the facts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Source {
    /// `version` is `<uid>/<resourceVersion>`: another one may hold another component.
    Present { version: String },
    /// Known not to be there.
    Absent,
    /// Nobody could look: it was not listed yet, or reading it is refused.
    Unread { message: String },
}

/// The answer to [`Question::Module`](super::question::Question::Module).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModuleFacts {
    /// The version that caused the question: an answer to an older one is out of date.
    pub asked_for: String,
    pub module: Module,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Module {
    /// Compiled within the limits, and it has described itself.
    Loaded {
        /// Of the unpacked component.
        digest: Digest,
    },
    /// The ConfigMap has no such key.
    KeyMissing,
    /// It will not load, whatever is tried: at most 256 characters, lower case, with what to do.
    Refused { message: String },
    /// It could not be tried; the same question is asked again at `retry_at`.
    Failed { message: String, retry_at: Timestamp },
}

/// A component and a config, by their digests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigKey {
    pub module: Digest,
    pub config: Digest,
}

impl Serialize for ConfigKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{} {}", self.module, self.config))
    }
}

/// The answer to [`Question::Config`](super::question::Question::Config).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ConfigAnswer {
    Fits,
    /// Which member is wrong and why: at most 256 characters.
    Refused {
        message: String,
    },
    /// The component could not be asked; the same question is asked again at `retry_at`.
    Failed {
        message: String,
        retry_at: Timestamp,
    },
}

/// One call of a gate, all of it but the contents of the CombinedStatuses, which are named by their digests.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateCall {
    /// Its evidence digest is that of everything below but `now` and `source`.
    pub key: VerdictKey,
    /// Where the component was found, in case it has to be read again.
    pub source: SourceEntry,
    /// Digest of the component.
    pub module: Digest,
    /// The time of the judgement: of all checks of this round.
    pub now: Timestamp,
    pub timeout_ms: u32,
    pub memory_mib: u32,
    pub request: GateRequest,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateRequest {
    pub policy: String,
    pub stage: String,
    pub attempt: i64,
    /// JSON text with sorted keys.
    pub config: String,
    pub objects: Vec<GateObject>,
    pub destinations: Vec<GateDestination>,
    /// Of this round, in order.
    pub earlier: Vec<EarlierVerdict>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateObject {
    pub key: ObjectKey,
    pub uid: String,
    pub generation: Option<i64>,
    pub combined: CombinedRef,
}

/// A CombinedStatus whose results have this digest; another one is no answer to the question.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CombinedRef {
    pub namespace: String,
    pub name: String,
    pub digest: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateDestination {
    pub name: String,
    /// One for each object, in their order.
    pub evidence: Vec<GateEvidenceRow>,
}

/// Numbers are absent where the cluster's status has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateEvidenceRow {
    /// `None`: there, without a status, for a kind that has none.
    pub reported_at: Option<Timestamp>,
    pub generation: Option<i64>,
    pub ready: Option<i64>,
    pub available: Option<i64>,
    pub total: Option<i64>,
    pub updated: Option<i64>,
    pub health: GateHealth,
}

/// The verdict of the health rules. Their text is for people, so gates do not see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum GateHealth {
    Healthy,
    Progressing,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EarlierVerdict {
    pub name: String,
    pub outcome: stagegate_api::Outcome,
    pub reason: String,
}

/// The answer to [`Question::Gate`](super::question::Question::Gate).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GateVerdict {
    /// The `now` that it was asked with.
    pub at: Timestamp,
    pub answer: GateAnswer,
    #[serde(default)]
    pub evidence: Vec<EvidencePiece>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum GateAnswer {
    Pass {
        /// `None`: as long as nothing changes.
        #[serde(default)]
        valid_for_ms: Option<u64>,
    },
    Hold {
        reason: String,
        #[serde(default)]
        retry_after_ms: Option<u64>,
    },
    Fail {
        reason: String,
    },
    /// No verdict: a trap, a limit, a time-out, an answer that is none. Asked again after a while.
    Unknown {
        message: String,
    },
}

/// An entry of a ConfigMap, as `namespace/name key`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SourceEntry {
    pub namespace: String,
    pub name: String,
    pub key: String,
}

impl SourceEntry {
    /// `namespace/name`: the name of its ConfigMap among the facts.
    pub fn config_map(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl From<&ConfigMapEntry> for SourceEntry {
    fn from(entry: &ConfigMapEntry) -> Self {
        Self {
            namespace: entry.namespace.clone(),
            name: entry.name.clone(),
            key: entry.key.clone(),
        }
    }
}

impl fmt::Display for SourceEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} {}", self.namespace, self.name, self.key)
    }
}

impl From<SourceEntry> for String {
    fn from(entry: SourceEntry) -> Self {
        entry.to_string()
    }
}

impl TryFrom<String> for SourceEntry {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parts = text
            .split_once('/')
            .and_then(|(namespace, rest)| Some((namespace, rest.split_once(' ')?)));
        let (namespace, (name, key)) = parts.ok_or_else(|| format!("{text:?} is not `namespace/name key`"))?;
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            key: key.to_owned(),
        })
    }
}
