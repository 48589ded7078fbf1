//! The rules that no run may break, checked against what the clusters really run. Must neither decide nor be asked by what does.
//!
//! A stage passes wrongly if some cluster has not reported that it runs the right version well; that it does is not enough. A
//! controller can know only what the API server holds. So each cluster is judged as it was when it made the report behind the
//! CombinedStatus that the controller read last before the write, and the right version is the one that the object had at that
//! read. What status says of the active stage before it passes is judged in the same way ([`Oracle::said`]).
//!
//! Six things cannot be known from there and break no rule:
//! - which update a cluster has acknowledged, if something in the cluster scales the object too;
//! - which update a report is about that was made after the last one, or so shortly before it that the clocks may differ:
//!   transport may have merged updates, or the cluster has gone out of reach with an earlier one. It counts after two minutes
//!   without another report; after updates within two minutes only if the report was made when the last one was delivered;
//! - whether a report of the first generation is about an older object of the same name, if the policy was made anew less than
//!   two minutes before the object or after it;
//! - where two policies place an object: whether a report was made before or after an update within five seconds of it, because
//!   the clocks may differ;
//! - whether an update that only removes fields has reached a cluster: it leaves no timestamp. It counts as delivered two minutes
//!   after it was made. So does an update that is older than the placement, if the policy was created shortly before the update
//!   or after it. A cluster that was unreachable for that long still has an older version, and without a record from before the
//!   update nothing shows that;
//! - where two policies place an object and one of the placements is removed: that a cluster that has acknowledged the right
//!   version returns to the one that the remaining placement had delivered. Only the inventory shows that.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use stagegate_api::{
    BindingPolicy, BindingSpec, BoundObject, CombinedStatus, Phase, StageHealth, StageState, StagedBindingPolicyStatus,
    UnacknowledgedUpdates,
};
use stagegate_decide::binding::Selector;
use stagegate_decide::names::{ObjectKey, PlacementName, StageName};
use stagegate_decide::staging::{Decoded, Facts, Plan, Read, Reason, Write};

use crate::claims::Claims;
use crate::clusters::{Fleet, Truth};
use crate::controller::talk::Talk;
use crate::coverage::{Coverage, Reached};
use crate::kubestellar::{KubeStellar, is_what_is_selected};
use crate::queue::{Millis, millis};
use crate::server::{Content, Server, uid_of};
use crate::users::BROKEN_FILTER;

/// A status never has more than this, in bytes of JSON.
const STATUS_BYTES_MAX: usize = 1024 * 1024;

/// Reports and updates have whole seconds, and the clocks of two API servers may differ by the settle time.
const CLOCKS_MS: Millis = 5_000;

/// How long after an update that left no timestamp whatever the cluster runs counts as that update.
const UNTOLD_MS: Millis = 120_000;

/// By then an update has reached a cluster that can be reached.
const DELIVERY_MS: Millis = 10_000;

/// How long after a restart of KubeStellar a Binding may still follow an older spec of its BindingPolicy.
const AWAY_MS: Millis = 60_000;

/// A rule that was broken.
#[derive(Clone, Debug)]
pub struct Violation {
    pub rule: &'static str,
    pub text: String,
    /// Those of the decision that broke it, if one did.
    pub facts: Option<Box<Facts>>,
}

#[derive(Clone, Debug, Default)]
pub struct Oracle {
    pub violation: Option<Violation>,
    /// Clusters and the objects in them that something other than the workload's owner has scaled: the acknowledged generation
    /// may come from the scaling, and status says so.
    pub scaled: BTreeSet<(String, String)>,
    /// Two policies place the same objects.
    has_two_policies: bool,
    opened: BTreeSet<(String, i64)>,
    claims: Claims,
    pub coverage: Coverage,
}

/// What has to be proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    /// Each cluster has the right version.
    Versions,
    /// It runs well, too, and the condition is true.
    All,
}

/// The parts of the world that tell what is true.
pub type Parts<'a> = (&'a KubeStellar, &'a Fleet, &'a Server);

impl Oracle {
    #[must_use]
    pub fn of(has_two_policies: bool) -> Self {
        Self {
            has_two_policies,
            ..Self::default()
        }
    }

    /// A decision has come to a plan.
    pub fn looked(&mut self, facts: &Facts, plan: &Plan) {
        self.note(Claims::in_plan(plan, facts), facts);
        let written = plan.writes.iter().find_map(|write| match write {
            Write::Status { status, .. } => Some(&**status),
            _ => None,
        });
        let Some(status) = written.or(facts.policy.object.status.as_ref()) else {
            return;
        };
        if let Some(reason) = &status.reason {
            self.coverage.note(Reached::Reason(reason.clone()));
        }
        for stage in &status.stages {
            self.coverage.note(Reached::State(format!("{:?}", stage.state)));
        }
    }

    /// What status says of the active stage rests on proofs, too: a stage soaks only if all would let it pass, and is called unwell
    /// only if every cluster has the right version.
    pub fn said(&mut self, talk: &Talk, plan: &Plan, parts: Parts<'_>) {
        let facts = &talk.facts;
        let written = plan.writes.iter().find_map(|write| match write {
            Write::Status { status, .. } => Some(&**status),
            _ => None,
        });
        let status = written.or(facts.policy.object.status.as_ref());
        // Of a generation that nobody has looked at nothing is said, and after completion nothing is proven anew.
        let is_of_it = |status: &&StagedBindingPolicyStatus| {
            status.observed_generation == facts.policy.object.metadata.generation
                && status.phase != Some(Phase::Completed)
        };
        let Some(status) = status.filter(is_of_it) else { return };
        let reason = status.reason.as_deref().unwrap_or_default();
        let is = |reasons: &[Reason]| reasons.iter().any(|known| known.as_str() == reason);
        let is_about = if is(&[Reason::Soaking, Reason::KubeStellarSilent]) {
            Proof::All
        } else if is(&[Reason::Unhealthy, Reason::ConditionFalse, Reason::ConditionError]) {
            Proof::Versions
        } else {
            return;
        };
        let stage = status.active_stage.as_deref();
        let broken = stage.and_then(|stage| promoted((talk, stage, is_about), self, parts));
        let broken = broken.map(|(rule, text)| (rule, format!("status says {reason}: {text}")));
        self.note(broken, facts);
    }

    /// The rule that this write would break, with the server as it is before.
    pub fn judge(&self, (talk, plan, write): (&Talk, &Plan, &Write), parts: Parts<'_>) -> Option<Violation> {
        let facts = &talk.facts;
        let broken = match write {
            Write::Status { status, .. } => {
                let bytes = serde_json::to_vec(status).map_or(0, |text| text.len());
                if bytes > STATUS_BYTES_MAX {
                    Some(("bounded", format!("status has {bytes} bytes")))
                } else {
                    newly_passed(facts, write)
                        .iter()
                        .find_map(|stage| promoted((talk, stage, Proof::All), self, parts))
                }
            }
            Write::Open(placement) => self.opens((talk, plan), placement, parts),
            Write::Update(placement) | Write::Adopt(placement) | Write::Fence(placement) => {
                foreign(facts, placement.name.as_str(), parts.2)
            }
            Write::Remove { name, .. } => {
                foreign(facts, name.as_str(), parts.2).or_else(|| uncovered((facts, plan), name.as_str(), parts))
            }
            _ => None,
        };
        let is_cached = matches!(facts.read, Read::Cached) && write.places();
        let broken = broken.or_else(|| self.claims.in_order(write, facts, parts.2));
        let broken = broken.or_else(|| is_cached.then(|| ("fresh", "something is placed on cached facts".to_owned())));
        broken.map(|(rule, text)| Violation {
            rule,
            text,
            facts: Some(Box::new(facts.clone())),
        })
    }

    /// All writes of a plan were carried out.
    pub fn finished(&mut self, facts: &Facts, plan: &Plan) {
        let broken = self.claims.carried_out(plan, facts);
        self.note(broken, facts);
    }

    fn note(&mut self, broken: Option<(&'static str, String)>, facts: &Facts) {
        if let Some((rule, text)) = broken
            && self.violation.is_none()
        {
            self.violation = Some(Violation {
                rule,
                text,
                facts: Some(Box::new(facts.clone())),
            });
        }
    }

    /// The write was carried out.
    pub fn written(&mut self, write: &Write, violation: Option<Violation>) {
        if let Write::Open(placement) = write {
            self.opened.insert(attempt_of(placement));
        }
        if self.violation.is_none() {
            self.violation = violation;
        }
    }

    fn opens(
        &self,
        (talk, plan): (&Talk, &Plan),
        placement: &stagegate_decide::staging::Placement,
        parts: Parts<'_>,
    ) -> Option<(&'static str, String)> {
        let facts = &talk.facts;
        if self.opened.contains(&attempt_of(placement)) {
            return Some(("once", format!("{} is opened twice in one attempt", placement.name)));
        }
        let policy = talk.policy();
        let stages = &facts.policy.object.spec.stages;
        let position = stages
            .iter()
            .position(|stage| PlacementName::of(policy, StageName::of(&stage.name)) == placement.name)?;
        let before = position.checked_sub(1).map(|before| &stages[before].name)?;
        let wanted = placement.annotations.get(stagegate_api::annotation::REVISION);
        let recorded = facts
            .policy
            .object
            .status
            .as_ref()?
            .stages
            .iter()
            .find(|stage| stage.name == *before);
        let has_passed =
            recorded.is_some_and(|stage| stage.state == StageState::Passed && stage.revision.as_ref() == wanted);
        let is_judged = plan
            .writes
            .iter()
            .any(|write| newly_passed(facts, write).contains(before));
        let is_foreign = foreign(facts, placement.name.as_str(), parts.2);
        is_foreign.or_else(|| {
            if has_passed || is_judged {
                None
            } else {
                promoted((talk, before, Proof::All), self, parts)
            }
        })
    }
}

fn attempt_of(placement: &stagegate_decide::staging::Placement) -> (String, i64) {
    let attempt = placement.annotations.get(stagegate_api::annotation::ATTEMPT);
    let attempt = attempt.and_then(|text| text.parse().ok()).unwrap_or_default();
    (placement.precondition.uid.to_string(), attempt)
}

fn newly_passed(facts: &Facts, write: &Write) -> Vec<String> {
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
                .is_some_and(|live| !live.spec.cluster_selectors.is_empty())
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

fn foreign(facts: &Facts, name: &str, server: &Server) -> Option<(&'static str, String)> {
    let uid = uid_of(&facts.policy.object.metadata);
    let live = server.placements.get(name)?;
    let owners = live.metadata.owner_references.as_deref().unwrap_or_default();
    (!owners.iter().any(|owner| owner.uid == uid)).then(|| ("own", format!("{name} is not owned by the policy")))
}

/// Whether every cluster of the stage ran each judged object's version well when it last reported, as far as the reading shows.
fn promoted(
    (talk, stage, proof): (&Talk, &str, Proof),
    oracle: &Oracle,
    parts: Parts<'_>,
) -> Option<(&'static str, String)> {
    let facts = &talk.facts;
    let mut stages = facts.policy.object.spec.stages.iter();
    let spec = stages.find(|known| known.name == stage)?;
    let name = PlacementName::of(talk.policy(), StageName::of(stage));
    let is_judged = spec.health == StageHealth::Required || spec.condition.is_some();
    let broken = |text: &str| Some(("promotion", format!("stage {stage} passes {text}")));
    if is_judged && spec.filter.as_deref() == Some(BROKEN_FILTER) {
        return broken("and its filter has no value");
    }
    // One that only waits is asked nothing about versions.
    if spec.unacknowledged_updates == UnacknowledgedUpdates::Ignore || !is_judged {
        return None;
    }
    let placement = facts.placements.get(name.as_str()).and_then(Decoded::object)?;
    let binding = facts.bindings.get(name.as_str());
    let Some(binding) = binding.and_then(|binding| binding.object.as_ref()?.object()) else {
        return broken("and it has no Binding");
    };
    if binding.spec.destinations.is_empty() {
        return broken("without clusters");
    }
    if is_of_older_spec(facts, (placement, &binding.spec), parts) {
        return broken("on a set that was resolved before the last change of its placement");
    }
    for object in binding.spec.workload.objects() {
        let Some((key, content)) = judged(talk, spec.filter.as_deref(), object) else {
            continue;
        };
        let version = version_of_reports(facts, &key, uid_of(&placement.metadata));
        if proof == Proof::All && spec.condition.is_some() && !has_replicas(parts.2, version.as_deref()) {
            return broken(&format!("and its condition is not true for {key}"));
        }
        let basis = version.as_ref().and_then(|version| parts.0.basis.get(version));
        let told = Told {
            path: format!("{}/{}", key.namespace.as_deref().unwrap_or_default(), key.name),
            content,
            create_only: object.create_only,
            is_untold: is_untold(facts, placement, content) || is_without_history(facts, content),
            now: millis(facts.now) + CLOCKS_MS,
        };
        for destination in &binding.spec.destinations {
            let cluster = &destination.cluster_id;
            let truth = basis.and_then(|basis| basis.get(cluster));
            let is_well = truth.is_some_and(|truth| truth.is_well)
                || spec.health == StageHealth::Ignored
                || proof == Proof::Versions;
            if !(is_well && truth.is_some_and(|truth| told.is_version(truth, cluster, oracle))) {
                return broken(&format!(
                    "at version {} of {key}, and cluster {cluster} last told of {truth:?}",
                    content.id
                ));
            }
        }
    }
    None
}

/// An object as it should run.
struct Told {
    path: String,
    content: Content,
    create_only: bool,
    /// No time tells of its last update, or nothing is known from before it.
    is_untold: bool,
    now: Millis,
}

impl Told {
    /// Whether the report is of the object's version, as far as anybody could know.
    fn is_version(&self, truth: &Truth, cluster: &str, oracle: &Oracle) -> bool {
        let made_at = self.content.made_at;
        let is_scaled = || oracle.scaled.contains(&(cluster.to_owned(), self.path.clone()));
        let is_alone = self.content.replaced.is_none_or(|before| made_at - before >= UNTOLD_MS);
        let since = if is_alone {
            made_at - CLOCKS_MS
        } else {
            made_at + DELIVERY_MS
        };
        let is_merged = truth.at >= since && self.now - truth.at >= UNTOLD_MS;
        let is_shared =
            oracle.has_two_policies && ((truth.at - made_at).abs() <= CLOCKS_MS || truth.newest >= self.content.id);
        truth.content == self.content.id || self.create_only || self.is_untold || is_merged || is_shared || is_scaled()
    }
}

fn is_untold(facts: &Facts, placement: &BindingPolicy, content: Content) -> bool {
    let made_at = |meta: &ObjectMeta| meta.creation_timestamp.as_ref().map_or(0, |time| millis(time.0));
    let policy_since = made_at(&facts.policy.object.metadata);
    let is_unremembered = content.is_untimed
        || (content.made_at < made_at(&placement.metadata) + 1_000 && content.made_at < policy_since + UNTOLD_MS);
    is_unremembered && millis(facts.now) + CLOCKS_MS - content.made_at >= UNTOLD_MS
}

/// Whether the object has had one version, and the policy was made anew too late to know an older object of its name. The first
/// policy is there from the beginning.
fn is_without_history(facts: &Facts, content: Content) -> bool {
    let policy = facts.policy.object.metadata.creation_timestamp.as_ref();
    let made_anew = policy.map(|time| millis(time.0)).filter(|made| *made > 1_000);
    content.replaced.is_none() && made_anew.is_some_and(|made| content.made_at < made + UNTOLD_MS)
}

/// Whether KubeStellar has not resolved the placement since its last change, and its status says so, or nothing excuses that.
fn is_of_older_spec(
    facts: &Facts,
    (placement, bound): (&BindingPolicy, &BindingSpec),
    (kubestellar, _, server): Parts<'_>,
) -> bool {
    let name = placement.metadata.name.as_deref().unwrap_or_default();
    // A watch may be late.
    let is_read = !matches!(facts.read, Read::Cached);
    let resolved = kubestellar.resolved.get(name);
    let is_older = is_read && resolved.is_some_and(|resolved| *resolved != placement.spec);
    let observed = placement.status.as_ref().map(|status| status.observed_generation);
    let is_excused = was_away(kubestellar, server) && observed == placement.metadata.generation;
    is_older && !is_excused && !is_what_is_selected(placement, bound, server)
}

/// Whether the condition is true of the CombinedStatus of this version.
fn has_replicas(server: &Server, version: Option<&str>) -> bool {
    let log = server.combined.log().iter().rev();
    let mut stored = log.filter_map(|entry| entry.after.as_deref());
    stored
        .find(|stored| stored.metadata.resource_version.as_deref() == version)
        .is_some_and(|stored| crate::controller::talk::has_replicas(stored) == Some(true))
}

/// KubeStellar may copy a generation that it has not resolved, and go down then: no wait is long enough for that.
fn was_away(kubestellar: &KubeStellar, server: &Server) -> bool {
    kubestellar.process > 0 && millis(server.counter.now) < kubestellar.down_until + AWAY_MS
}

/// The object's kind and version, if it is one that clusters can report on and the filter keeps.
fn judged(talk: &Talk, filter: Option<&str>, object: &BoundObject) -> Option<(ObjectKey, Content)> {
    let key = ObjectKey {
        group: object.group.clone(),
        resource: object.resource.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    };
    let (resource, content) = *talk.contents.get(&key)?;
    let is_kept = filter.is_none_or(|filter| filter.contains(&key.resource));
    (is_kept && resource.counts_replicas()).then_some((key, content))
}

/// The version of the CombinedStatus that the reading found.
fn version_of_reports(facts: &Facts, key: &ObjectKey, placement: &str) -> Option<String> {
    let uid = &facts.objects.get(key)?.found.as_ref()?.uid;
    let namespace = CombinedStatus::namespace_of(key.namespace.as_deref());
    let id = format!("{namespace}/{}", CombinedStatus::name_of(uid.as_str(), placement));
    facts.combined.get(&id)?.object()?.metadata.resource_version.clone()
}

/// Whether a cluster that another stage selects would lose the workload before KubeStellar names it there. Whether the workload
/// has then arrived cannot be told: both placements would show the same reports, and status says so.
fn uncovered(
    (facts, plan): (&Facts, &Plan),
    name: &str,
    (kubestellar, _, server): Parts<'_>,
) -> Option<(&'static str, String)> {
    let leaving = server
        .placements
        .get(name)
        .filter(|live| !live.spec.cluster_selectors.is_empty())?;
    let binding = server.bindings.get(name)?;
    let uid = uid_of(&facts.policy.object.metadata);
    let is_owned = |meta: &ObjectMeta| {
        let owners = meta.owner_references.as_deref().unwrap_or_default();
        meta.name != leaving.metadata.name && owners.iter().any(|owner| owner.uid == uid)
    };
    // One that the same revision opens or changes was not at the revision: what is taken away here is what the stage before it took over.
    let is_new = |name: &str| {
        let mut writes = plan.writes.iter();
        writes.any(|write| {
            matches!(write, Write::Open(placement) | Write::Update(placement) | Write::Adopt(placement)
                if placement.name.as_str() == name)
        })
    };
    // The policy is not responsible for selectors that somebody else has written to a placement.
    let is_as_wanted = |later: &stagegate_api::BindingPolicy| {
        let policy = facts.policy.object.metadata.name.as_deref().unwrap_or_default();
        let mut stages = facts.policy.object.spec.stages.iter();
        stages.any(|stage| {
            let is_its =
                Some(PlacementName::of(policy, StageName::of(&stage.name)).as_str()) == later.metadata.name.as_deref();
            is_its && stage.cluster_selectors == later.spec.cluster_selectors
        })
    };
    let owned = server
        .placements
        .all()
        .filter(|(name, later)| is_owned(&later.metadata) && !is_new(name) && is_as_wanted(later));
    for (other, later) in owned {
        let selectors: Vec<Selector> = later
            .spec
            .cluster_selectors
            .iter()
            .filter_map(|selector| Selector::try_from(selector).ok())
            .collect();
        let is_older = kubestellar
            .resolved
            .get(other)
            .is_none_or(|resolved| *resolved != later.spec);
        if is_older && was_away(kubestellar, server) {
            continue;
        }
        let bound = server.bindings.get(other);
        let read = facts
            .bindings
            .get(other.as_str())
            .and_then(|entry| entry.object.as_ref()?.object());
        for destination in &binding.spec.destinations {
            // No controller reads the inventory, so none knows a cluster that a user has moved and no Binding names yet.
            let cluster = server
                .clusters
                .get(&destination.cluster_id)
                .filter(|cluster| !cluster.is_moved);
            let is_selected =
                cluster.is_some_and(|cluster| selectors.iter().any(|selector| selector.matches(&cluster.labels())));
            // A restart of KubeStellar may have emptied the Binding since it was read, and writes cannot be conditional on one.
            let is_named = bound.is_some_and(|bound| bound.spec.destinations.contains(destination))
                || read.is_some_and(|read| read.spec.destinations.contains(destination));
            if is_selected && !is_named {
                let cluster = &destination.cluster_id;
                return Some((
                    "covered",
                    format!("{name} is removed before {other} has cluster {cluster}"),
                ));
            }
        }
    }
    None
}
