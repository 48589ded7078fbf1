//! What is known when a YurtAppDaemon is decided on. Must not judge.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube::core::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;
use stagegate_api::Digest;
use stagegate_api::workloads::{WorkloadView, YurtAppDaemon};

use k8s_openapi::api::core::v1::Taint;

use crate::checks::{
    Answers, AnswersMut, Compilation, ConfigAnswer, ConfigKey, GateNamespaces, GateVerdict, ModuleFacts, Source,
    SourceEntry, Verdict, VerdictKey,
};
use crate::names::{ResourceVersion, Uid};

/// Everything that is known.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The time.
    pub now: Timestamp,
    /// Where the facts come from.
    pub read: Read,
    /// The object itself.
    pub daemon: Arc<YurtAppDaemon>,
    /// The pools of the cluster.
    pub pools: NodePools,
    /// Since when no pool matches, as far as this process has seen; `None`: some do.
    pub no_pools_since: Option<Timestamp>,
    /// NodePools that are not there although a workload was made for them, and since when, as far as this process has seen.
    pub gone_since: BTreeMap<String, Timestamp>,
    /// Workloads of the daemon's kind in its namespace, by name: those with a pool's label or, after a reading, all.
    pub children: Arc<BTreeMap<String, Child>>,
    /// ControllerRevisions: after a reading all of the namespace, else the daemon's of the last reading, of which only what they record still
    /// counts; before there was one, none.
    pub revisions: Vec<Revision>,
    /// Workloads that the API server refused, by pool.
    pub refused: BTreeMap<String, Refusal>,
    /// The revision that the API server refused.
    pub refused_revision: Option<Refusal>,
    /// What was applied last to each workload, by name.
    pub applied: BTreeMap<String, Applied>,
    /// Since when this process watches without a gap: what was recorded earlier may have been broken meanwhile.
    pub watching_since: Option<Timestamp>,
    /// After how long a gate that gave no verdict is asked again.
    pub retry_after: SignedDuration,
    /// Which expressions compile, by the digest of their text.
    pub compiled: BTreeMap<Digest, Compilation>,
    /// What expressions said.
    pub verdicts: BTreeMap<VerdictKey, Verdict>,
    /// Namespaces whose ConfigMaps may be run.
    pub gate_namespaces: GateNamespaces,
    /// The ConfigMaps that gates name, by `namespace/name`; one that is missing here was not looked at.
    pub sources: BTreeMap<String, Source>,
    /// What the ConfigMaps' entries hold.
    pub modules: BTreeMap<SourceEntry, ModuleFacts>,
    /// Whether gates take their configs.
    pub configs: BTreeMap<ConfigKey, ConfigAnswer>,
    /// What gates said.
    pub gate_verdicts: BTreeMap<VerdictKey, GateVerdict>,
}

impl Facts {
    /// Those about checks.
    pub(super) const fn answers(&self) -> Answers<'_> {
        Answers {
            now: self.now,
            is_anew: self.read.is_anew(),
            watching_since: self.watching_since,
            retry_after: self.retry_after,
            compiled: &self.compiled,
            verdicts: &self.verdicts,
            gate_namespaces: &self.gate_namespaces,
            sources: &self.sources,
            modules: &self.modules,
            configs: &self.configs,
            gate_verdicts: &self.gate_verdicts,
        }
    }

    /// Where answers to the questions of checks go.
    pub const fn answers_mut(&mut self) -> AnswersMut<'_> {
        AnswersMut {
            compiled: &mut self.compiled,
            verdicts: &mut self.verdicts,
            modules: &mut self.modules,
            configs: &mut self.configs,
            gate_verdicts: &mut self.gate_verdicts,
        }
    }
}

/// Where the facts come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Read {
    /// From watches: may be late, so nothing is written to workloads and revisions.
    #[default]
    Cached,
    /// The daemon, the pools, the workloads of its kind in its namespace and its ControllerRevisions were read from the API server.
    Anew {
        /// When the reading began.
        began_at: Timestamp,
    },
}

impl Read {
    /// Whether workloads and revisions may be written.
    pub const fn is_anew(self) -> bool {
        matches!(self, Self::Anew { .. })
    }
}

/// The NodePools of the cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum NodePools {
    /// All of them, by name.
    Known(Arc<BTreeMap<String, Pool>>),
    /// They were not listed yet, or cannot be.
    Unread {
        /// Why not.
        why: String,
    },
    /// The API server serves no such kind.
    Unserved,
}

/// A NodePool.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pool {
    /// Of the NodePool.
    pub labels: BTreeMap<String, String>,
    /// That its nodes have.
    pub taints: Vec<Taint>,
    /// Its spec cannot be read, so its taints are not known.
    pub is_invalid: bool,
}

/// A workload.
#[derive(Clone, Debug)]
pub enum Child {
    /// As far as it is looked at.
    Known(Arc<WorkloadView>),
    /// It does not decode.
    Invalid {
        /// What could be read.
        metadata: Box<ObjectMeta>,
    },
}

impl Child {
    /// Of the object.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Known(view) => &view.metadata,
            Self::Invalid { metadata, .. } => metadata,
        }
    }
}

/// A ControllerRevision.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Revision {
    /// Of the object.
    pub name: String,
    /// Of the object.
    pub uid: Uid,
    /// Of the object.
    pub resource_version: ResourceVersion,
    /// Of the object that controls it.
    pub owner: Option<Uid>,
    /// Grows with each template that becomes the newest.
    pub number: i64,
    /// What it records.
    pub data: Value,
}

/// A workload that the API server refused to create or to change.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// Of the workload as it was to be.
    pub digest: Digest,
    /// The code and the fields, never the server's message: it quotes values.
    pub cause: String,
    /// Before this time the same workload is not tried again.
    pub retry_at: Timestamp,
}

/// The last apply to a workload.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    /// Of the workload as it was to be.
    pub digest: Digest,
    /// When.
    pub at: Timestamp,
    /// How often that very workload was applied in a row, each time soon after the one before.
    pub times: u32,
}
