//! What the API server held before a commit, as far as rules ask for it. Must not judge.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;
use stagegate_api::{BindingPolicy, StagedBindingPolicySpec, StagedBindingPolicyStatus, annotation};
use stagegate_embedded::Commit;

pub const POLICIES: &str = "stagedbindingpolicies.community.kubestellar.io";
pub const PLACEMENTS: &str = "bindingpolicies.control.kubestellar.io";
pub const BINDINGS: &str = "bindings.control.kubestellar.io";
const CLUSTERS: &str = "managedclusters.cluster.open-cluster-management.io";
const COLLECTORS: &str = "statuscollectors.control.kubestellar.io";
const WORKLOADS: &[&str] = &["deployments.apps"];

/// A commit with its objects as trees.
pub struct Seen<'a> {
    pub commit: &'a Commit,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

impl<'a> Seen<'a> {
    pub fn of(commit: &'a Commit) -> Self {
        let resource = commit.resource.as_str();
        let is_asked_for =
            [POLICIES, PLACEMENTS, BINDINGS, CLUSTERS, COLLECTORS].contains(&resource) || WORKLOADS.contains(&resource);
        Self {
            commit,
            before: is_asked_for.then(|| commit.before()).flatten(),
            after: is_asked_for.then(|| commit.after()).flatten(),
        }
    }

    pub fn place(&self) -> (u64, Timestamp) {
        (self.commit.version, self.commit.at)
    }

    pub fn is_hosts(&self) -> bool {
        let request = self.commit.request();
        request.is_some_and(|request| request.user.starts_with("host"))
    }

    /// The BindingPolicy before and after, if it is one that the host wrote. A write that only makes KubeStellar answer moves nothing.
    pub fn placing(&self) -> Option<(Option<Placed>, Option<Placed>)> {
        if !self.is_hosts() || self.commit.resource != PLACEMENTS {
            return None;
        }
        let placed = |value: &Option<Value>| value.as_ref().and_then(Placed::of);
        let (before, after) = (placed(&self.before), placed(&self.after));
        let moves_nothing = before
            .as_ref()
            .zip(after.as_ref())
            .is_some_and(|(before, after)| before.is_open() && before.is_placed_as(after));
        (!moves_nothing).then_some((before, after))
    }
}

/// A BindingPolicy, as a rule sees it.
#[derive(Clone, Debug)]
pub struct Placed {
    pub name: String,
    pub uid: String,
    pub owners: Vec<String>,
    pub selectors: Vec<LabelSelector>,
    pub revision: Option<String>,
    pub attempt: Option<i64>,
    /// The policy's generation that it was written for.
    pub generation: Option<i64>,
    pub downsync: Value,
}

impl Placed {
    fn of(value: &Value) -> Option<Self> {
        let object: BindingPolicy = serde_json::from_value(value.clone()).ok()?;
        let annotations = object.metadata.annotations.unwrap_or_default();
        let text = |key: &str| annotations.get(key).cloned();
        let token = text(annotation::FENCING_TOKEN);
        Some(Self {
            name: object.metadata.name.unwrap_or_default(),
            uid: object.metadata.uid.unwrap_or_default(),
            owners: object
                .metadata
                .owner_references
                .into_iter()
                .flatten()
                .map(|owner| owner.uid)
                .collect(),
            selectors: object.spec.cluster_selectors,
            revision: text(annotation::REVISION),
            attempt: text(annotation::ATTEMPT).and_then(|text| text.parse().ok()),
            generation: token.and_then(|token| token.split_once('.')?.0.parse().ok()),
            downsync: value["spec"]["downsync"].clone(),
        })
    }

    pub fn is_open(&self) -> bool {
        !self.selectors.is_empty()
    }

    /// Whether the same objects are placed in the same clusters, for the same reason: a selector that is there twice selects no more, and
    /// collectors place nothing.
    fn is_placed_as(&self, other: &Self) -> bool {
        let selects = |one: &Self, another: &Self| one.selectors.iter().all(|known| another.selectors.contains(known));
        selects(self, other)
            && selects(other, self)
            && (&self.uid, &self.owners, &self.revision) == (&other.uid, &other.owners, &other.revision)
            && (self.attempt, self.generation, self.clauses()) == (other.attempt, other.generation, other.clauses())
    }

    fn clauses(&self) -> Value {
        let mut clauses = self.downsync.clone();
        for clause in clauses.as_array_mut().into_iter().flatten() {
            clause.as_object_mut().map(|clause| clause.remove("statusCollectors"));
        }
        clauses
    }

    /// The stage's name, of a placement of the policy of that name.
    pub fn stage_of<'a>(&'a self, policy: &str) -> Option<&'a str> {
        self.name.strip_prefix(policy)?.strip_prefix(".stage.")
    }
}

/// A StagedBindingPolicy through all its generations.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    pub name: String,
    pub generation: i64,
    pub specs: BTreeMap<i64, StagedBindingPolicySpec>,
    /// The generation that its deletion made.
    pub deleted: Option<i64>,
    pub status: Option<StagedBindingPolicyStatus>,
    /// The last status that told of a placement to come, and when.
    pub announced: Option<(Timestamp, StagedBindingPolicyStatus)>,
    /// (stage, revision, attempt, uid of the BindingPolicy) of each open.
    pub opened: BTreeSet<(String, String, i64, String)>,
    /// Stages that have been open at some time.
    pub ever_open: BTreeSet<String>,
}

impl Policy {
    /// What a placement that is made at this time rests on: status if it announces one, however long it has stood so, or the
    /// announcement before what another host has told since. What was read anew may be acted on for so long.
    pub fn told_before_placing(&self, at: Timestamp) -> Option<&StagedBindingPolicyStatus> {
        const READING_IS_WORTH: SignedDuration = SignedDuration::from_secs(30);
        if let Some(status) = self.status.as_ref().filter(|status| Self::is_announcing(status)) {
            return Some(status);
        }
        let (announced_at, status) = self.announced.as_ref()?;
        (at.duration_since(*announced_at) <= READING_IS_WORTH).then_some(status)
    }

    pub fn is_announcing(status: &StagedBindingPolicyStatus) -> bool {
        matches!(status.reason.as_deref(), Some("Opening" | "EvidenceExpired"))
    }

    pub fn told_generation(&self) -> i64 {
        self.status
            .as_ref()
            .and_then(|status| status.observed_generation)
            .unwrap_or_default()
    }
}

/// Everything by uid or name.
#[derive(Default)]
pub struct Replay {
    pub policies: BTreeMap<String, Policy>,
    pub placements: BTreeMap<String, Placed>,
    /// Cluster → labels.
    pub clusters: BTreeMap<String, BTreeMap<String, String>>,
    /// (resource, namespace, name) → each spec and since when.
    pub workloads: BTreeMap<(String, String, String), Vec<(Timestamp, Workload)>>,
    /// What each object was last written to by the host: two writes back, one back.
    pub written: BTreeMap<(String, String, String), Vec<(Timestamp, Value)>>,
}

#[derive(Clone, Debug)]
pub struct Workload {
    pub labels: BTreeMap<String, String>,
    /// Null when it is gone.
    pub spec: Value,
}

impl Replay {
    /// The policy that owns the placement.
    pub fn owner_of(&self, placed: &Placed) -> Option<&Policy> {
        placed.owners.iter().find_map(|uid| self.policies.get(uid))
    }

    /// The policy that owns the BindingPolicy of the Binding's name.
    pub fn owner_of_binding(&self, name: &str) -> Option<&Policy> {
        self.owner_of(self.placements.get(name)?)
    }

    /// The open placements of this policy but the one of that name.
    pub fn others_open<'a>(&'a self, policy: &'a Policy, name: &'a str) -> impl Iterator<Item = (&'a str, &'a Placed)> {
        let others = self
            .placements
            .values()
            .filter(move |other| other.name != name && other.is_open());
        let owned = others.filter(|other| self.owner_of(other).is_some_and(|owner| std::ptr::eq(owner, policy)));
        owned.filter_map(|other| Some((other.stage_of(&policy.name)?, other)))
    }

    pub fn take(&mut self, seen: &Seen<'_>) {
        let commit = seen.commit;
        match commit.resource.as_str() {
            POLICIES => self.take_policy(seen),
            PLACEMENTS => self.take_placement(seen),
            CLUSTERS => match &seen.after {
                Some(after) => {
                    self.clusters.insert(commit.name.clone(), labels(after));
                }
                None => {
                    self.clusters.remove(&commit.name);
                }
            },
            resource if WORKLOADS.contains(&resource) => {
                let key = (resource.to_owned(), commit.namespace.clone(), commit.name.clone());
                let workload = Workload {
                    labels: seen.after.as_ref().map(labels).unwrap_or_default(),
                    spec: seen
                        .after
                        .as_ref()
                        .map(|after| after["spec"].clone())
                        .unwrap_or_default(),
                };
                self.workloads.entry(key).or_default().push((commit.at, workload));
            }
            _ => {}
        }
        self.take_writing(seen);
    }

    fn take_policy(&mut self, seen: &Seen<'_>) {
        let Some(after) = &seen.after else {
            self.policies.remove(&seen.commit.uid);
            return;
        };
        let policy = self.policies.entry(seen.commit.uid.clone()).or_default();
        policy.name.clone_from(&seen.commit.name);
        policy.generation = after["metadata"]["generation"].as_i64().unwrap_or_default();
        if let Ok(spec) = serde_json::from_value(after["spec"].clone()) {
            policy.specs.insert(policy.generation, spec);
        }
        if after["metadata"]["deletionTimestamp"].is_string() {
            policy.deleted.get_or_insert(policy.generation);
        }
        policy.status = serde_json::from_value(after["status"].clone()).ok();
        if let Some(status) = policy.status.as_ref().filter(|status| Policy::is_announcing(status)) {
            policy.announced = Some((seen.commit.at, status.clone()));
        }
    }

    fn take_placement(&mut self, seen: &Seen<'_>) {
        let name = &seen.commit.name;
        let Some(placed) = seen.after.as_ref().and_then(Placed::of) else {
            self.placements.remove(name);
            return;
        };
        let was_open = self.placements.get(name).is_some_and(Placed::is_open);
        let owner = placed
            .owners
            .iter()
            .find(|uid| self.policies.contains_key(*uid))
            .cloned();
        if let Some(policy) = owner.and_then(|uid| self.policies.get_mut(&uid))
            && placed.is_open()
            && let Some(stage) = placed.stage_of(&policy.name).map(str::to_owned)
        {
            policy.ever_open.insert(stage.clone());
            if !was_open && let (Some(revision), Some(attempt)) = (&placed.revision, placed.attempt) {
                policy
                    .opened
                    .insert((stage, revision.clone(), attempt, placed.uid.clone()));
            }
        }
        self.placements.insert(name.clone(), placed);
    }

    fn take_writing(&mut self, seen: &Seen<'_>) {
        let commit = seen.commit;
        let key = (commit.resource.clone(), commit.namespace.clone(), commit.name.clone());
        match &seen.after {
            Some(after) if seen.is_hosts() => {
                let writings = self.written.entry(key).or_default();
                writings.push((commit.at, bare(after)));
                if writings.len() > 2 {
                    writings.remove(0);
                }
            }
            // Anybody else's write of anything is a reason to write again.
            _ => self.written.clear(),
        }
    }
}

/// Without what every write moves.
pub fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
    }
    object
}

fn labels(object: &Value) -> BTreeMap<String, String> {
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    labels
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// As the Kubernetes API conventions have it; an operator that nobody knows selects nothing.
pub fn selects(selectors: &[LabelSelector], labels: &BTreeMap<String, String>) -> bool {
    selectors.iter().any(|selector| {
        let equal = selector
            .match_labels
            .iter()
            .flatten()
            .all(|(key, value)| labels.get(key) == Some(value));
        equal
            && selector.match_expressions.iter().flatten().all(|expression| {
                let value = labels.get(&expression.key);
                let is_in = value.is_some_and(|value| expression.values.iter().flatten().any(|known| known == value));
                match expression.operator.as_str() {
                    "In" => is_in,
                    "NotIn" => !is_in,
                    "Exists" => value.is_some(),
                    "DoesNotExist" => value.is_none(),
                    _ => false,
                }
            })
    })
}
