//! What is known and asked of gates: sources, modules, configs, calls and their verdicts. Must not judge.
//!
//! A gate goes through three questions: [`Question::Module`](super::question::Question::Module) (which component is in the ConfigMap, does it load),
//! [`Question::Config`](super::question::Question::Config) (does its schema take the config), [`Question::Gate`](super::question::Question::Gate) (what does it say).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use stagegate_api::{ConfigMapEntry, EvidencePiece};

use crate::checks::reason::Reason;
use crate::checks::verdict::VerdictKey;
use crate::names::{Digest, ObjectKey, StageName, Uid};

/// Namespaces whose ConfigMaps may be run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GateNamespaces {
    /// The playground's.
    All,
    /// These, and no other.
    Only(BTreeSet<String>),
}

impl Default for GateNamespaces {
    fn default() -> Self {
        Self::Only(BTreeSet::from(["stagegate-gates".to_owned()]))
    }
}

impl GateNamespaces {
    /// Whether a ConfigMap there may be run.
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
    Present {
        /// Compared, never ordered.
        version: String,
    },
    /// Known not to be there.
    Absent,
    /// Nobody could look: it was not listed yet, or reading it is refused.
    Unread {
        /// Why not.
        message: String,
    },
}

/// The answer to [`Question::Module`](super::question::Question::Module).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModuleFacts {
    /// The version that caused the question: an answer to an older one is out of date.
    pub asked_for: String,
    /// What became of it.
    pub module: Module,
}

/// What became of reading, compiling and describing a component.
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
    Refused {
        /// For people.
        message: String,
    },
    /// It could not be tried; the same question is asked again at `retry_at`.
    Failed {
        /// Why not.
        message: String,
        /// When to ask again.
        retry_at: Timestamp,
    },
}

/// A component and a config, by their digests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigKey {
    /// Of the component.
    pub module: Digest,
    /// Of the config.
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
    /// The component takes it.
    Fits,
    /// Which member is wrong and why: at most 256 characters.
    Refused {
        /// Why not.
        message: String,
    },
    /// The component could not be asked; the same question is asked again at `retry_at`.
    Failed {
        /// Why not, at most 256 characters.
        message: String,
        /// When to ask again.
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
    /// The longest time of the call, in milliseconds.
    pub timeout_ms: u32,
    /// The most linear memory of the call, in MiB.
    pub memory_mib: u32,
    /// What the gate is shown.
    pub request: GateRequest,
}

/// What a gate is shown of the rollout; `wit/gate.wit` says what each member means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateRequest {
    /// Name of the StagedBindingPolicy, or of the YurtAppDaemon with its namespace.
    pub policy: String,
    /// The stage.
    pub stage: StageName,
    /// Which placement of the stage this is, counted from 1; of a YurtAppDaemon the number of the ControllerRevision.
    pub attempt: i64,
    /// JSON text with sorted keys.
    pub config: String,
    /// The kept objects that clusters report on, in the order of their keys.
    pub objects: Vec<GateObject>,
    /// What the stage goes to, by name.
    pub destinations: Vec<GateDestination>,
    /// Of this round, in order.
    pub earlier: Vec<EarlierVerdict>,
}

/// An object that a gate is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateObject {
    /// Which one.
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.generation`; `None` for a kind that counts none.
    pub generation: Option<i64>,
    /// The results about it.
    #[serde(rename = "combined")]
    pub shown: Shown,
}

/// Where the results are that a gate is shown about an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Shown {
    /// Those of its StatusCollectors.
    CombinedStatus(CombinedRef),
    /// One result with the counts of each destination.
    Destinations {
        /// Of the result.
        collector: &'static str,
        /// Of the column with the names of the destinations.
        column: &'static str,
    },
}

/// A CombinedStatus whose results have this digest; another one is no answer to the question.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CombinedRef {
    /// Of the CombinedStatus.
    pub namespace: String,
    /// Of the CombinedStatus.
    pub name: String,
    /// Of its results.
    pub digest: String,
}

/// A cluster or a pool that a gate is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateDestination {
    /// As KubeStellar calls the cluster, or of the NodePool.
    pub name: String,
    /// Of the NodePool; those of clusters are not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// One for each object, in their order.
    pub evidence: Vec<GateEvidenceRow>,
}

/// Numbers are absent where the status has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateEvidenceRow {
    /// `None`: there, without a status, for a kind that has none.
    pub reported_at: Option<Timestamp>,
    /// `status.observedGeneration` there.
    pub generation: Option<i64>,
    /// Replicas that are ready.
    pub ready: Option<i64>,
    /// Replicas that are available.
    pub available: Option<i64>,
    /// Replicas there are.
    pub total: Option<i64>,
    /// Replicas of the current Pod template.
    pub updated: Option<i64>,
    /// Whether it runs as it should.
    pub health: GateHealth,
}

/// The verdict of the health rules. Their text is for people, so gates do not see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum GateHealth {
    /// It runs as it should.
    Healthy,
    /// It may come to that by itself.
    Progressing,
    /// It will not come to that by itself.
    Failed,
}

/// A check of the same stage and round that comes before the gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EarlierVerdict {
    /// As in `status.stages[].checks[].name`.
    pub name: String,
    /// What it said.
    pub outcome: stagegate_api::Outcome,
    /// Why.
    pub reason: Reason,
}

/// The answer to [`Question::Gate`](super::question::Question::Gate).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GateVerdict {
    /// The `now` that it was asked with.
    pub at: Timestamp,
    /// What the gate said, or why it said nothing.
    pub answer: GateAnswer,
    /// What it shows people, as it gave it.
    #[serde(default)]
    pub evidence: Vec<EvidencePiece>,
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum GateAnswer {
    /// The gate lets the stage pass.
    Pass {
        /// `None`: as long as nothing changes.
        #[serde(default)]
        valid_for_ms: Option<u64>,
    },
    /// The gate holds the stage for now.
    Hold {
        /// For people.
        reason: String,
        /// `None`: after the usual time.
        #[serde(default)]
        retry_after_ms: Option<u64>,
    },
    /// The gate says that this attempt will never pass.
    Fail {
        /// For people.
        reason: String,
    },
    /// No verdict: a trap, a limit, a timeout, an answer that is none. Asked again after a while.
    Unknown {
        /// Why, at most 256 characters.
        message: String,
    },
}

/// An entry of a ConfigMap, as `namespace/name key`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SourceEntry {
    /// Of the ConfigMap.
    pub namespace: String,
    /// Of the ConfigMap.
    pub name: String,
    /// Below `binaryData`.
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
