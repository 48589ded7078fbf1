//! Everything a staging decision may look at, the time and past verdicts included. Must not read anything itself.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use stagegate_api::{Binding, BindingPolicy, CombinedStatusView, StagedBindingPolicy, StatusCollector, Updates};

use crate::checks::answers::{Answers, AnswersMut, Compilation};
use crate::checks::gate_call::{
    ConfigAnswer, ConfigKey, GateNamespaces, GateVerdict, ModuleFacts, Source, SourceEntry,
};
use crate::checks::verdict::{Verdict, VerdictKey};
use crate::names::{Digest, ObjectKey, PlacementName, ResourceVersion, Uid};
use crate::staging::input::hold::HoldFacts;
use crate::staging::input::observed::Observed;

/// One policy and what is known of it at one instant.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Facts {
    /// The time of this decision.
    pub now: Timestamp,
    /// Whether what follows comes from caches or was read for this decision.
    #[serde(default)]
    pub read: Read,
    /// How the controller was started.
    #[serde(default)]
    pub settings: Settings,
    /// Since when this process watches without a gap: what was recorded earlier may have been broken meanwhile.
    #[serde(default)]
    pub watching_since: Option<Timestamp>,
    /// When this process last saw KubeStellar write: a Binding, a CombinedStatus, or a BindingPolicy's observedGeneration.
    #[serde(default)]
    pub kubestellar_seen_at: Option<Timestamp>,
    /// How often the lease changed hands, as far as this process knows; 0 without leader election.
    #[serde(default)]
    pub lease_transitions: u64,
    /// The policy to decide about.
    pub policy: PolicyFacts,
    /// The live StatusCollector under the name of [`evidence_collector`](crate::staging::evidence_collector), and since when it has had our spec.
    #[serde(default)]
    pub evidence_collector: Option<EvidenceCollectorFacts>,
    /// The StatusCollectors that clauses of this policy name and that exist.
    #[serde(default)]
    pub collectors: BTreeMap<String, Arc<StatusCollector>>,
    /// When this process last saw the spec of one of them change: KubeStellar needs up to 5 s to combine anew.
    #[serde(default)]
    pub collectors_changed: BTreeMap<String, Timestamp>,
    /// The BindingPolicies under a name of one of the stages, and all that this policy owns.
    #[serde(default)]
    pub placements: BTreeMap<PlacementName, Decoded<BindingPolicy>>,
    /// The Bindings of those names.
    #[serde(default)]
    pub bindings: BTreeMap<PlacementName, BindingFacts>,
    /// What metadata reads of bound objects answered.
    #[serde(default)]
    pub objects: BTreeMap<ObjectKey, ObjectFacts>,
    /// CombinedStatuses labelled with one of the BindingPolicies, by `namespace/name`.
    #[serde(default)]
    pub combined: BTreeMap<String, Decoded<CombinedStatusView>>,
    /// Which expressions compile, by the digest of their text.
    #[serde(default)]
    pub compiled: BTreeMap<Digest, Compilation>,
    /// Only ever answers to questions; a file of facts holds none.
    #[serde(skip)]
    pub verdicts: BTreeMap<VerdictKey, Verdict>,
    /// Namespaces whose ConfigMaps may be run.
    #[serde(default)]
    pub gate_namespaces: GateNamespaces,
    /// The ConfigMaps that gates of this policy name, by `namespace/name`; one that is missing here was not looked at.
    #[serde(default)]
    pub sources: BTreeMap<String, Source>,
    /// What the ConfigMaps' entries hold.
    #[serde(default)]
    pub modules: BTreeMap<SourceEntry, ModuleFacts>,
    /// Only ever answers to questions, like the two below.
    #[serde(skip)]
    pub configs: BTreeMap<ConfigKey, ConfigAnswer>,
    /// Answers of gates, by what they were asked.
    #[serde(skip)]
    pub gate_verdicts: BTreeMap<VerdictKey, GateVerdict>,
    /// Whether the control plane refuses changes of held Bindings; only ever an answer to a question.
    #[serde(default)]
    pub hold: Option<HoldFacts>,
    /// When this process last saw something else change the policy's status; `None` until that has happened twice in a row.
    #[serde(default)]
    pub contested_at: Option<Timestamp>,
    /// Plans in a row that moved something and came too late to be carried out ([`crate::staging::plan::Plan::not_after`]).
    #[serde(default)]
    pub late_plans: u32,
}

impl Facts {
    /// Whether each stage is held at the versions that were admitted to it.
    pub(crate) fn is_staged(&self) -> bool {
        self.policy.object.spec.updates == Updates::Staged
    }

    /// What the checks of a stage may see of them.
    pub(crate) const fn answers(&self) -> Answers<'_> {
        Answers {
            now: self.now,
            is_anew: self.read.is_anew(),
            watching_since: self.watching_since,
            retry_after: self.settings.settle_after_loss(),
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

/// The most that pending updates of one stage may take in status, in bytes of JSON: a quarter of what the whole status may take.
pub const PENDING_BYTES_MAX: usize = 256 * 1024;
/// Of these, the most that the names of clusters may take.
pub const NAMES_BYTES_MAX: usize = PENDING_BYTES_MAX / 2;

/// Waiting times, which all follow from the settle time in KubeStellar's proportions, so that a fast control plane may be judged
/// faster by one setting; and the room for names in status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// How long a Binding must stay unchanged to count as complete, in milliseconds.
    #[serde(default = "settle_ms")]
    pub settle_ms: i64,
    /// The most that the names of clusters with pending updates may take in the status of one stage, in bytes of JSON. Above that,
    /// clusters of which the same is known share one entry without names.
    #[serde(default = "names_bytes_max")]
    pub names_bytes_max: usize,
}

/// KubeStellar writes a Binding two seconds after the first change; one second is added.
const fn settle_ms() -> i64 {
    3_000
}

const fn names_bytes_max() -> usize {
    NAMES_BYTES_MAX
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            settle_ms: settle_ms(),
            names_bytes_max: names_bytes_max(),
        }
    }
}

impl Settings {
    /// How long a Binding's set must stand unchanged.
    pub fn settle(self) -> SignedDuration {
        SignedDuration::from_millis(self.settle_ms)
    }

    /// The same after something was lost from it: 30 s for a settle time of 3 s. KubeStellar's restart empties Bindings.
    pub const fn settle_after_loss(self) -> SignedDuration {
        SignedDuration::from_millis(self.settle_ms.saturating_mul(10))
    }

    /// How long the evidence collector must have had our spec: 10 s for a settle time of 3 s. KubeStellar recombines
    /// within 5 s of a change of a collector.
    pub fn collector(self) -> SignedDuration {
        SignedDuration::from_millis(self.settle_ms.saturating_mul(10) / 3)
    }

    /// By then a CombinedStatus has come, if it comes: 1 min for a settle time of 3 s. KubeStellar takes 7 s, and longer when it has
    /// much to do.
    pub fn combined(self) -> SignedDuration {
        SignedDuration::from_millis(self.settle_ms.saturating_mul(20))
    }

    /// By then an update has reached a cluster that can be reached: 10 s for a settle time of 3 s. KubeStellar's transport takes up to 7 s.
    pub const fn delivery(self) -> SignedDuration {
        SignedDuration::from_millis(self.settle_ms.saturating_mul(10) / 3)
    }

    /// By then a cluster that can be reached has reported on an object for the first time: 30 s for a settle time of 3 s. A report takes
    /// about 10 s, and longer when KubeStellar has much to do.
    pub const fn first_report(self) -> SignedDuration {
        SignedDuration::from_millis(self.settle_ms.saturating_mul(10))
    }

    /// How long an edit may stay unseen in a cluster, and how long a merged answer must stand: 2 min for a settle time
    /// of 3 s.
    pub fn unseen_update(self) -> SignedDuration {
        SignedDuration::from_millis(self.settle_ms.saturating_mul(40))
    }
}

/// An object that decoded, or why it did not: never a silently missing one.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Decoded<T> {
    /// Shared with whoever watches it: facts are gathered anew for every decision.
    Object(Arc<T>),
    /// It is there, and its fields are not those of its kind.
    Invalid {
        /// Why it could not be decoded; holds no part of the object.
        error: String,
    },
}

impl<T> Decoded<T> {
    /// The object, if it decoded.
    pub fn object(&self) -> Option<&T> {
        match self {
            Self::Object(object) => Some(object.as_ref()),
            Self::Invalid { .. } => None,
        }
    }
}

/// The policy, as stored.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyFacts {
    /// An empty spec where it could not be decoded.
    pub object: Arc<StagedBindingPolicy>,
    /// Set when the stored spec could not be decoded (then `object` holds an empty one).
    #[serde(default)]
    pub invalid: Option<String>,
}

/// The controller's own StatusCollector.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EvidenceCollectorFacts {
    /// As stored.
    pub object: Arc<StatusCollector>,
    /// Since when this process has seen it with our spec without a break.
    #[serde(default)]
    pub ours_since: Option<Timestamp>,
}

/// A stage's Binding, now and as it was.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BindingFacts {
    /// `None`: there is none of this name now (there may have been one: see `observed`).
    pub object: Option<Decoded<Binding>>,
    /// What this process has seen of its set of objects and destinations over time.
    pub observed: Observed,
}

/// The answer to a metadata read of one workload object.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectFacts {
    /// The resourceVersion in the Binding that caused the read: an answer to an older one is out of date.
    pub asked_for: ResourceVersion,
    /// When the read began, by this process's clock; `None`: not known.
    #[serde(default)]
    pub asked_at: Option<Timestamp>,
    /// `None`: not found, or not shown.
    pub found: Option<ObjectMeta>,
    /// Why the server did not show it: this host has no right to read it.
    #[serde(default)]
    pub refused: Option<String>,
}

impl ObjectFacts {
    /// Whether this is as new as what a Binding that names this version saw. Several Bindings name one object, and not
    /// all are brought up to date at once: an answer to the newest is one to all.
    pub fn is_answer_to(&self, resource_version: ResourceVersion<&str>) -> bool {
        let known = [
            Some(&self.asked_for),
            self.found.as_ref().map(|found| &found.resource_version),
        ];
        let is_newer = |known: &ResourceVersion| known.is_newer_than(&resource_version) == Some(true);
        self.asked_for.borrowed() == resource_version || known.into_iter().flatten().any(is_newer)
    }

    /// Whether it says all that a read of the whole object could.
    pub(crate) fn is_whole(&self) -> bool {
        let has_content = |found: &ObjectMeta| found.content_digest.is_some();
        self.refused.is_some() || self.found.as_ref().is_none_or(has_content)
    }
}

/// What a decision needs of the metadata of a workload object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectMeta {
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub resource_version: ResourceVersion,
    /// `None` for kinds that count none (ConfigMap, Secret, Service).
    #[serde(default)]
    pub generation: Option<i64>,
    /// The newest time in managedFields, by the API server's clock and in whole seconds, of a writer that is none of statuses
    /// (as for the mark) and owns more than metadata. An update that only takes fields away may leave no time there.
    #[serde(default)]
    pub edited_at: Option<Timestamp>,
    /// Its creationTimestamp.
    #[serde(default)]
    pub made_at: Option<Timestamp>,
    /// Digest of the metadata without what KubeStellar's status controller and status writers touch (resourceVersion,
    /// the labels `managed-by.kubestellar.io/*`, managedFields entries of manager `Status` or of the status
    /// subresource): for kinds without generation it tells an edit from a status write.
    pub metadata_digest: String,
    /// Of what travels to clusters; `None`: the metadata alone was read.
    #[serde(default)]
    pub content_digest: Option<ContentDigest>,
}

/// Tells two contents of one object apart: all that travels to clusters, which is neither its status nor what the API server or
/// KubeStellar's status controller writes into its metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContentDigest {
    /// Of labels, annotations and the rest of the metadata that travels: clusters report nothing when it alone changes.
    pub metadata: String,
    /// Of all else.
    pub body: String,
}

impl ContentDigest {
    /// Digits of each of the two: 128 bits.
    const DIGITS: usize = 32;

    /// Of these two parts of an object.
    pub fn of(metadata: &impl Serialize, body: &impl Serialize) -> Self {
        let short = |digest: &Digest| digest.as_str().chars().take(Self::DIGITS).collect();
        Self {
            metadata: short(&Digest::of(metadata)),
            body: short(&Digest::of(body)),
        }
    }

    /// Of a content that was not read: it differs from every other.
    pub const fn unknown() -> Self {
        Self {
            metadata: String::new(),
            body: String::new(),
        }
    }

    /// As status has it; `None`: another version of Stagegate wrote it.
    pub fn parse(text: &str) -> Option<Self> {
        let (metadata, body) = text.split_once('.')?;
        Some(Self {
            metadata: metadata.to_owned(),
            body: body.to_owned(),
        })
    }
}

impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.metadata, self.body)
    }
}

impl From<ContentDigest> for String {
    fn from(digest: ContentDigest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for ContentDigest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is no content digest: it has no `.`"))
    }
}
