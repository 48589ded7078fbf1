//! What has to be true of a stage that passes, besides the versions: its set, what its condition is about, the time of its soak and
//! KubeStellar's sign of life. Must not ask what the rules have decided.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use stagegate_api::{BindingPolicy, BindingSpec, BoundObject, ObjectStatus, StageState, StageStatus, annotation};
use stagegate_decide::names::{PlacementName, StageName};
use stagegate_decide::selector::Selector;
use stagegate_decide::staging::{Decoded, Facts, Plan, Write};

use crate::clusters::Truth;
use crate::controller::COLLECTOR;
use crate::kubestellar::{AVAILABLE, KubeStellar};
use crate::queue::{Millis, millis};
use crate::server::{Server, Workload, uid_of};
use crate::users::FILTER_FOR_ONE;

/// KubeStellar counts as silent after half of that; the rest is for a reading that takes long.
const SILENT_MS: Millis = 70_000;
/// The clocks of two leaders may differ by this, and soaks begin at whole seconds.
const LEADERS_MS: Millis = 12_000;

/// What is wrong with the set itself, whatever runs.
pub fn of_set(
    facts: &Facts,
    stage: &str,
    (placement, owner): (&BindingPolicy, Option<&str>),
    (bound, kubestellar, server): (&BindingSpec, &KubeStellar, &Server),
) -> Option<String> {
    if bound.destinations.is_empty() {
        return Some("without clusters".to_owned());
    }
    if bound.workload.objects().next().is_none() {
        return Some("without objects".to_owned());
    }
    let is_there = |uid: &str| server.placements.all().any(|(_, live)| uid_of(&live.metadata) == uid);
    if owner.is_some_and(|owner| owner != uid_of(&placement.metadata) && !is_there(owner)) {
        return Some("on the Binding of a BindingPolicy that is gone".to_owned());
    }
    let record = facts
        .policy
        .object
        .status
        .as_ref()?
        .stages
        .iter()
        .find(|known| known.name == stage)?;
    let is_its = |live: &stagegate_api::BindingPolicyRef| live.uid == uid_of(&placement.metadata);
    // After two restarts the set may have stood still between them, with nothing to tell that from a finished change.
    let may_tell = kubestellar.process <= 1 && record.binding_policy.as_ref().is_some_and(is_its);
    let lost = lost(record, (placement, bound), server).filter(|_| may_tell)?;
    Some(format!("without {lost}, which it had and which is still selected"))
}

/// A cluster or an object that the stage had, that has not been touched since, and that the Binding does not name.
fn lost(record: &StageStatus, (placement, bound): (&BindingPolicy, &BindingSpec), server: &Server) -> Option<String> {
    let selectors = placement.spec.cluster_selectors.iter();
    let selectors: Vec<Selector> = selectors.filter_map(|one| Selector::try_from(one).ok()).collect();
    let is_selected = |name: &str| {
        let cluster = server.clusters.get(name).filter(|cluster| !cluster.is_moved);
        cluster.is_some_and(|cluster| selectors.iter().any(|one| one.matches(&cluster.labels())))
    };
    let named: BTreeSet<&str> = bound.destinations.iter().map(|one| one.cluster_id.as_str()).collect();
    let mut clusters = record.destinations.iter();
    if let Some(lost) = clusters.find(|name| is_selected(name) && !named.contains(name.as_str())) {
        return Some(format!("cluster {lost}"));
    }
    let objects: BTreeSet<(&str, &str)> = bound.workload.objects().map(name_of).collect();
    let is_accepted = |known: &&ObjectStatus| known.baseline.is_some();
    let mut known = record.objects.iter().filter(is_accepted);
    let lost = known.find(|known| {
        let path = (known.namespace.as_deref().unwrap_or_default(), known.name.as_str());
        is_untouched(server, path, &known.uid) && !objects.contains(&path)
    })?;
    Some(format!("object {}", lost.name))
}

fn name_of(object: &BoundObject) -> (&str, &str) {
    (object.namespace.as_deref().unwrap_or_default(), &object.name)
}

/// Whether the object is there and has been selected by its labels since it was made.
fn is_untouched(server: &Server, (namespace, name): (&str, &str), uid: &str) -> bool {
    let key = format!("{namespace}/{name}");
    let is_labelled = |object: &Workload| {
        let labels = object.metadata.labels.as_ref();
        labels
            .and_then(|labels| labels.get("app"))
            .is_some_and(|app| app == "web")
    };
    let mut log = server.workloads.log().iter().filter(|entry| entry.key == key);
    let is_there = server
        .workloads
        .get(&key)
        .is_some_and(|live| uid_of(&live.metadata) == uid);
    is_there && log.all(|entry| entry.after.as_deref().is_some_and(is_labelled))
}

/// Whether the condition, which is about what is available, is false of what the cluster last told.
pub fn is_unavailable(facts: &Facts, truth: Option<&Truth>) -> bool {
    let asks =
        |collector: &stagegate_api::StatusCollector| collector.spec.select.iter().any(|column| column.def == AVAILABLE);
    facts.collectors.get(COLLECTOR).is_some_and(|collector| asks(collector))
        && truth.is_none_or(|truth| truth.available < 1)
}

/// Whether the CombinedStatus of this version was written before the placement had all of its StatusCollectors for the first time, after
/// a set of it had been accepted. Those that are not there give no results, so they change nothing.
pub fn is_older_than_question(placement: &BindingPolicy, version: Option<&str>, server: &Server) -> bool {
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<u64>().ok());
    let Some(told_at) = number(version) else { return false };
    let (name, uid) = (
        placement.metadata.name.as_deref().unwrap_or_default(),
        uid_of(&placement.metadata),
    );
    let read_at = number(placement.metadata.resource_version.as_deref()).unwrap_or_default();
    let named = |stored: &BindingPolicy| -> BTreeSet<String> {
        let clauses = stored.spec.downsync.iter();
        let names = clauses.flat_map(|clause| clause.status_collectors.iter().cloned());
        names.filter(|name| server.collectors.get(name).is_some()).collect()
    };
    let asked = named(placement);
    // Whether all was asked before it was written, and since when it is.
    let (mut is_first, mut was_asked, mut asked_since) = (true, false, None);
    for entry in server
        .placements
        .log()
        .iter()
        .filter(|entry| entry.key == name && entry.version <= read_at)
    {
        let Some(stored) = entry.after.as_deref().filter(|stored| uid_of(&stored.metadata) == uid) else {
            continue;
        };
        if asked.is_subset(&named(stored)) {
            was_asked |= is_first || entry.version <= told_at;
            asked_since = asked_since.or(Some(entry.version));
        }
        is_first = false;
    }
    let Some(asked_since) = asked_since.filter(|_| !was_asked) else {
        return false;
    };
    let is_accepted = |stage: &StageStatus| {
        stage.settled_at.is_some() && stage.binding_policy.as_ref().is_some_and(|live| live.uid == uid)
    };
    let mut before = server
        .policies
        .log()
        .iter()
        .take_while(|entry| entry.version < asked_since);
    before.any(|entry| {
        let status = entry.after.as_deref().and_then(|policy| policy.status.as_ref());
        status.is_some_and(|status| status.stages.iter().any(is_accepted))
    })
}

/// Whether the filter has no value for an object of the set.
pub fn has_no_value(filter: Option<&str>, bound: &BindingSpec) -> bool {
    filter == Some(FILTER_FOR_ONE) && bound.workload.objects().any(|object| object.name != "web")
}

/// Whether status tells of other clusters than the ones that the stage passes on.
fn tells_of_others(stage: &StageStatus, bound: &BindingSpec) -> Option<String> {
    let told: BTreeSet<&str> = stage.destinations.iter().map(String::as_str).collect();
    let named: BTreeSet<&str> = bound.destinations.iter().map(|one| one.cluster_id.as_str()).collect();
    (told != named).then(|| format!("stage {} passes in {named:?}, and status names {told:?}", stage.name))
}

/// Whether status names other clusters for the stage than it passes in.
pub fn told(facts: &Facts, plan: &Plan, stage: &str) -> Option<(&'static str, String)> {
    let status = plan.writes.iter().find_map(|write| match write {
        Write::Status { status, .. } => Some(&**status),
        _ => None,
    });
    let status = status.or(facts.policy.object.status.as_ref())?;
    let record = status.stages.iter().find(|known| known.name == stage)?;
    let policy = facts.policy.object.metadata.name.as_deref().unwrap_or_default();
    let name = PlacementName::of(policy, StageName::of(stage));
    let binding = facts.bindings.get(name.as_str())?.object.as_ref()?.object()?;
    tells_of_others(record, &binding.spec).map(|text| ("told", text))
}

/// The stages that a write lets pass.
pub fn newly_passed(facts: &Facts, write: &Write) -> Vec<String> {
    let Write::Status { status, .. } = write else {
        return Vec::new();
    };
    let before = facts.policy.object.status.as_ref();
    let had_passed = |stage: &stagegate_api::StageStatus| {
        before.is_some_and(|before| {
            let mut stages = before.stages.iter();
            stages
                .any(|old| old.name == stage.name && old.state == StageState::Passed && old.revision == stage.revision)
        })
    };
    // A later stage that is open has been opened because this one passed: that was judged then.
    let is_left = |position: usize| {
        let stages = facts.policy.object.spec.stages.get(position + 1..).unwrap_or_default();
        let policy = facts.policy.object.metadata.name.as_deref().unwrap_or_default();
        stages.iter().any(|later| {
            let live = facts
                .placements
                .get(PlacementName::of(policy, StageName::of(&later.name)).as_str());
            live.and_then(Decoded::object)
                .is_some_and(|live| !live.spec.cluster_selectors.is_empty() && is_attempted(live))
        })
    };
    let position = |name: &str| {
        facts
            .policy
            .object
            .spec
            .stages
            .iter()
            .position(|stage| stage.name == name)
    };
    let passed = status
        .stages
        .iter()
        .filter(|stage| stage.state == StageState::Passed && !had_passed(stage));
    let passed = passed.filter(|stage| position(&stage.name).is_some_and(|position| !is_left(position)));
    passed.map(|stage| stage.name.clone()).collect()
}

/// Whether we have opened it. What a person has opened has no attempt.
pub fn is_attempted(placement: &BindingPolicy) -> bool {
    let attempt = placement.annotations().get(annotation::ATTEMPT);
    attempt.is_some_and(|attempt| attempt != "0")
}

pub fn names_our_collector(placement: &BindingPolicy) -> bool {
    let mut clauses = placement.spec.downsync.iter();
    clauses.any(|clause| {
        clause
            .status_collectors
            .contains(&stagegate_api::evidence::collector_name())
    })
}

/// How long KubeStellar has been away, if that is so long that it may be down.
pub fn silence(kubestellar: &KubeStellar, server: &Server) -> Option<Millis> {
    let now = millis(server.counter.now);
    let away = now - kubestellar.down_from;
    (kubestellar.down_until > now && away > SILENT_MS).then_some(away)
}

/// When the stages with a soak were last found unproven, in decisions that were carried out.
#[derive(Clone, Debug, Default)]
pub struct Soaks {
    broken: BTreeMap<(String, String), Millis>,
    /// Of the decision that each policy's process is carrying out.
    found: BTreeMap<String, (String, Millis)>,
    /// The active stage of each policy, and since when: until then no decision was about it.
    active: BTreeMap<String, (String, Millis)>,
    /// As the decision that is being carried out has it.
    decided: BTreeMap<String, (String, Millis)>,
}

impl Soaks {
    /// A decision was made while this stage was active.
    pub fn look(&mut self, facts: &Facts, stage: &str, (is_proven, now): (bool, Millis)) {
        let policy = uid_of(&facts.policy.object.metadata).to_owned();
        if is_proven {
            self.found.remove(&policy);
        } else {
            self.found.insert(policy, (stage.to_owned(), now));
        }
    }

    /// A decision has this active stage; `None`: it was not made on all that is stored.
    pub fn note_active(&mut self, facts: &Facts, stage: Option<&str>, now: Millis) {
        let policy = uid_of(&facts.policy.object.metadata).to_owned();
        match stage {
            Some(stage) => self.decided.insert(policy, (stage.to_owned(), now)),
            None => self.decided.remove(&policy),
        };
    }

    /// All of it was done, so status tells of what was found.
    pub fn finished(&mut self, facts: &Facts) {
        let policy = uid_of(&facts.policy.object.metadata).to_owned();
        if let Some(decided) = self.decided.remove(&policy) {
            let active = self.active.entry(policy.clone()).or_insert_with(|| decided.clone());
            if active.0 != decided.0 {
                *active = decided;
            }
        }
        if let Some((stage, at)) = self.found.remove(&policy) {
            self.broken.insert((policy, stage), at);
        }
    }

    /// Whether the stage was found unproven within its soak.
    pub fn broken_within(&self, facts: &Facts, (stage, now): (&str, Millis)) -> Option<String> {
        let mut stages = facts.policy.object.spec.stages.iter();
        let soak = stages.find(|known| known.name == stage)?.soak.as_deref()?;
        let soak = millis_of(soak)?;
        let policy = uid_of(&facts.policy.object.metadata).to_owned();
        let is_within = |at: Millis| now - at < soak - LEADERS_MS;
        if self
            .active
            .get(&policy)
            .is_some_and(|(active, since)| active == stage && is_within(*since))
        {
            return Some(format!(
                "stage {stage} passes, and within its soak another stage was the active one"
            ));
        }
        let at = *self.broken.get(&(policy, stage.to_owned()))?;
        is_within(at).then(|| format!("stage {stage} passes, and within its soak it was unproven"))
    }
}

/// `10s`, `1m`: as the users of this world write it.
fn millis_of(soak: &str) -> Option<Millis> {
    let number = |text: &str| text.parse::<Millis>().ok();
    let seconds = soak.strip_suffix('s').and_then(number);
    seconds
        .or_else(|| soak.strip_suffix('m').and_then(number).map(|minutes| minutes * 60))
        .map(|seconds| seconds * 1_000)
}
