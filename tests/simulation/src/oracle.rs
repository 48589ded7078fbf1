//! The rules that no run may break, checked against what the clusters really run. Must neither decide nor be asked by what does.
//!
//! A stage passes wrongly if some cluster has not reported that it runs the right version well; that it does is not enough. A
//! controller can know only what the API server holds. So each cluster is judged as it was when it made the report behind the
//! CombinedStatus that the controller read last before the write, and the right version is the one that the object had at that
//! read. What status says of the active stage before it passes is judged in the same way ([`Oracle::said`]), unless the process has
//! read an older policy, or older reports than the ones that status rests on, or leaves status as it is because its clock is behind or
//! it has just started.
//!
//! Eight things cannot be known from there, or the rules do not hold there yet, and break no rule:
//! - which update a cluster has acknowledged, if something in the cluster scales the object too;
//! - which update a report is about that was made after the last one, or so shortly before it that the clocks may differ:
//!   transport may have merged updates, or the cluster has gone out of reach with an earlier one. It counts after two minutes
//!   without another report; after updates within two minutes only if the report was made when the last one was delivered;
//! - whether a report of the first generation is about an older object of the same name, if the policy was made anew less than
//!   two minutes before the object or after it; a report of a later one counts two minutes after the object was made;
//! - which update a report is about, if the policy was made anew less than two minutes after an update: the policy before may
//!   have known that a cluster has not acknowledged that one. Nor which of the last two updates a report is about, if the policy was
//!   made anew between them: a cluster that has been out of reach since before the first one reports once more than the policy can
//!   know. Such a report counts two minutes after the last update, and at once if every cluster had reported before that update;
//! - where two policies place an object: whether a report was made before or after an update within five seconds of it, because
//!   the clocks may differ; and whether the first report of a cluster is about an older object of the same name and the same generation,
//!   which only the other policy had placed there;
//! - whether an update that only removes fields has reached a cluster: it leaves no timestamp. It counts as delivered two minutes
//!   after it was made. So does an update that is older than the placement, if the policy was created shortly before the update
//!   or after it. A cluster that was unreachable for that long still has an older version, and without a record from before the
//!   update nothing shows that. If the policy was made anew, an update without a timestamp counts at once if it was made before the placement;
//! - whether a cluster still has what another placement of the policy brought, if its agent has applied nothing since before this one
//!   was made, and goes on to report: if the update is older than the opening, a report counts two minutes after the opening. One made within
//!   ten seconds of the opening, or of the Binding's naming the object, counts at once, as a new cluster's would, if the update was no longer
//!   recent then, or was made less than two minutes after the policy was made anew, or before that;
//! - where two policies place an object and one of the placements is removed: that a cluster that has acknowledged the right
//!   version returns to the one that the remaining placement had delivered. Only the inventory shows that.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use stagegate_api::{Phase, StageState, StagedBindingPolicy, StagedBindingPolicyStatus};
use stagegate_decide::names::{PlacementName, StageName};
use stagegate_decide::selector::Selector;
use stagegate_decide::staging::{Facts, Plan, Reason, Write};

use crate::alarm::Alarm;
use crate::claims::Claims;
use crate::clusters::Fleet;
use crate::controller::talk::Talk;
use crate::coverage::{Coverage, Reached};
use crate::gate_rules::GateRules;
use crate::joins::Joins;
use crate::kubestellar::KubeStellar;
use crate::placement_rules::PlacementRules;
use crate::proofs::{self, Soaks, newly_passed};
use crate::queue::{Millis, millis};
use crate::server::{Server, uid_of};
use crate::versions::{Proof, promoted, was_away};
use crate::waits::{Waits, invented, left_names};

/// A status never has more than this, in bytes of JSON.
const STATUS_BYTES_MAX: usize = 1024 * 1024;

/// How long a process that has just started leaves status as it is: the settle time, for which it must see Bindings unchanged.
const SETTLE_MS: Millis = 3_000;

/// How many times in a row status may be written while nothing else is: time alone changes it about once a second while the silences of
/// many clusters end.
const REPEATED_MAX: usize = 40;

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
    pub(crate) has_two_policies: bool,
    opened: BTreeSet<(String, i64)>,
    /// When each placement, by its uid, was first opened.
    pub(crate) opened_at: BTreeMap<String, Millis>,
    /// Clusters, objects and versions that counted as delivered once. A later report of what the cluster had before, as when it
    /// comes back, does not tell that they were not.
    pub(crate) merged: RefCell<BTreeSet<(String, String, u64)>>,
    claims: Claims,
    waits: Waits,
    pub(crate) alarm: Alarm,
    pub(crate) joins: Joins,
    soaks: Soaks,
    read: ReadRows,
    repeated: RepeatedWrites,
    /// A watch may have told of things long after they happened.
    pub watches_are_late: bool,
    pub(crate) gates: GateRules,
    pub(crate) placements: PlacementRules,
    pub coverage: Coverage,
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
        let (facts, now) = (&talk.facts, millis(parts.2.counter.now));
        if let Some(read) = facts.policy.object.status.as_ref().filter(|_| is_newest(talk, parts.2)) {
            self.waits.list(talk.policy(), read, now);
        }
        let written = plan.writes.iter().find_map(|write| match write {
            Write::Status { status, .. } => Some(&**status),
            _ => None,
        });
        let left = facts.policy.object.status.as_ref().filter(|_| written.is_none());
        let status = written.or(left);
        // Of a generation that no controller has looked at nothing is said, and after completion nothing is proven anew.
        let is_of_it = |status: &&StagedBindingPolicyStatus| {
            status.observed_generation == facts.policy.object.metadata.generation
                && status.phase != Some(Phase::Completed)
        };
        let Some(status) = status.filter(is_of_it) else { return };
        self.note(invented(status, parts.2), facts);
        self.note(left_names(status, facts), facts);
        // If the policy has changed since it was read, its status is not left as it was read, and a write of it will be refused.
        let is_clock_behind = left.is_some_and(|left| was_evaluated_after(left, facts));
        let is_view_older = self.read.is_older(facts);
        // A process that has just started leaves status as it is until it has seen the Binding unchanged for a while.
        let is_young = |since| millis(facts.now) - millis(since) < SETTLE_MS;
        let is_starting = left.is_some() && facts.watching_since.is_none_or(is_young);
        let is_judged = is_newest(talk, parts.2) && !is_clock_behind && !is_view_older && !is_starting;
        let active = status.active_stage.as_deref();
        let broken = active.and_then(|stage| self.soaks(talk, (stage, plan, is_judged), parts));
        self.note(broken, facts);
        if !is_judged {
            return;
        }
        let reason = status.reason.as_deref().unwrap_or_default();
        let is = |reasons: &[Reason]| reasons.iter().any(|known| known.as_str() == reason);
        let has_plain_view = self.scaled.is_empty() && !self.has_two_policies && !self.watches_are_late;
        if is(&[Reason::UpdateAcknowledgementOverdue]) && has_plain_view {
            let stage = status.active_stage.as_deref().unwrap_or_default();
            let broken = self.alarm.is_false(talk, stage, parts.0);
            let broken = broken.or_else(|| self.waits.is_overdue_too_early(talk.policy(), status, now));
            self.note(
                broken.map(|text| ("alarm", format!("status says {reason}: {text}"))),
                facts,
            );
            return;
        }
        let is_about = if is(&[Reason::Soaking, Reason::KubeStellarSilent]) {
            Proof::All
        } else if is(&[Reason::Unhealthy]) {
            Proof::Progress
        } else if is(&[Reason::ConditionFalse, Reason::ConditionError]) {
            Proof::Versions
        } else {
            return;
        };
        let stage = status.active_stage.as_deref();
        let broken = stage.and_then(|stage| promoted((talk, stage, is_about), self, parts));
        let broken = broken.map(|(rule, text)| (rule, format!("status says {reason}: {text}")));
        self.note(broken, facts);
    }

    /// An object is about to be updated.
    pub fn before_update(&mut self, policy: Option<&StagedBindingPolicy>, parts: Parts<'_>) {
        let now = millis(parts.2.counter.now);
        let broken = self.waits.before_update(policy, (parts.0, parts.1), now);
        if let Some((rule, text)) = broken {
            let facts = None;
            self.violation.get_or_insert(Violation { rule, text, facts });
        }
    }

    /// A stage with a soak passes only if it was the active one for the soak, and proven whenever a controller looked meanwhile.
    ///
    /// A reading that is not judged counts neither way.
    fn soaks(
        &mut self,
        talk: &Talk,
        (stage, plan, is_judged): (&str, &Plan, bool),
        parts: Parts<'_>,
    ) -> Option<(&'static str, String)> {
        let facts = &talk.facts;
        let stages = &facts.policy.object.spec.stages;
        let now = millis(parts.2.counter.now);
        self.soaks.note_active(facts, is_judged.then_some(stage), now);
        let has_soak = stages.iter().any(|known| known.name == stage && known.soak.is_some());
        if !has_soak {
            return None;
        }
        let is_proven = !is_judged || promoted((talk, stage, Proof::All), self, parts).is_none();
        let own = PlacementName::of(talk.policy(), StageName::of(stage));
        let is_passing = plan.writes.iter().any(|write| match write {
            Write::Open(placement) => placement.name != own,
            write => newly_passed(facts, write).iter().any(|passed| passed == stage),
        });
        let broken = self.soaks.broken_within(facts, (stage, now)).filter(|_| is_passing);
        self.soaks.look(facts, stage, (is_proven, now));
        broken.map(|text| ("soak", text))
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
                    newly_passed(facts, write).iter().find_map(|stage| {
                        promoted((talk, stage, Proof::All), self, parts).or_else(|| proofs::told(facts, plan, stage))
                    })
                }
            }
            Write::Open(placement) => self.opens((talk, plan), placement, parts),
            Write::Update(placement) | Write::Adopt(placement) => foreign(facts, placement.name.as_str(), parts.2)
                .or_else(|| {
                    let is_moved = !is_at_revision(placement, parts.2);
                    is_moved.then(|| self.follows((talk, plan), placement, parts)).flatten()
                }),
            Write::Fence(placement) => {
                foreign(facts, placement.name.as_str(), parts.2).or_else(|| fences_more(placement, parts.2))
            }
            Write::Remove { name, .. } => {
                foreign(facts, name.as_str(), parts.2).or_else(|| uncovered((facts, plan), name.as_str(), parts))
            }
            _ => None,
        };
        let is_cached = !facts.read.is_anew() && write.places();
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
        self.read.note(facts);
        self.soaks.finished(facts);
        let broken = self.claims.carried_out(plan, facts);
        self.note(broken, facts);
    }

    pub(crate) fn note(&mut self, broken: Option<(&'static str, String)>, facts: &Facts) {
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
    ///
    /// `versions`: the server's resource versions before and after the write.
    pub fn written(
        &mut self,
        (write, facts): (&Write, &Facts),
        violation: Option<Violation>,
        (versions, now): ((u64, u64), Millis),
    ) {
        if let Write::Status { status, .. } = write {
            self.read.note(facts);
            // A process that is killed right away never reads what it has written.
            let policy = facts.policy.object.metadata.name.as_deref().unwrap_or_default();
            self.waits.list(policy, status, now);
            // What a gate answers may change while nothing is written, and what a fresh read shows may differ from what a late watch told.
            let stages = &facts.policy.object.spec.stages;
            let is_explained = self.watches_are_late || stages.iter().any(|stage| !stage.gates.is_empty());
            let broken = self.repeated.note(versions).filter(|_| !is_explained);
            self.note(broken, facts);
        }
        if let Write::Open(placement) = write {
            let uid = placement.precondition.uid.to_string();
            self.opened_at.entry(uid).or_insert(now);
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
        foreign(facts, placement.name.as_str(), parts.2).or_else(|| self.follows((talk, plan), placement, parts))
    }

    /// A stage gets the revision when the one before it has passed there.
    fn follows(
        &self,
        (talk, plan): (&Talk, &Plan),
        placement: &stagegate_decide::staging::Placement,
        parts: Parts<'_>,
    ) -> Option<(&'static str, String)> {
        let facts = &talk.facts;
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
        if has_passed || is_judged {
            None
        } else {
            self.opens_after(talk, (before, placement, plan), parts)
        }
    }
}

impl Oracle {
    /// The stage before the opened one passes in this very plan.
    fn opens_after(
        &self,
        talk: &Talk,
        (before, placement, plan): (&str, &stagegate_decide::staging::Placement, &Plan),
        parts: Parts<'_>,
    ) -> Option<(&'static str, String)> {
        // To take over what the Go stager made places nothing else, and tells nothing new. It does not name our collector.
        let live = parts.2.placements.get(placement.name.as_str());
        let is_asked_of = live.is_some_and(|live| {
            live.spec.cluster_selectors.is_empty() || proofs::is_attempted(live) || proofs::names_our_collector(live)
        });
        // A gate may take longer than a sign of life counts: it is asked for after a soak alone.
        let mut stages = talk.facts.policy.object.spec.stages.iter();
        let is_asked = stages.any(|stage| stage.name == before && (stage.soak.is_some() || stage.gates.is_empty()));
        let silence = proofs::silence(parts.0, parts.2).filter(|_| is_asked_of && is_asked && !self.watches_are_late);
        let unheard = silence.map(|ms| {
            (
                "heard",
                format!(
                    "stage {before} passes, and KubeStellar has been away for {} s",
                    ms / 60_000 * 60
                ),
            )
        });
        unheard
            .or_else(|| promoted((talk, before, Proof::All), self, parts))
            .or_else(|| proofs::told(&talk.facts, plan, before))
    }
}

/// What is no placing changes neither the clauses nor the clusters of what is open.
fn fences_more(placement: &stagegate_decide::staging::Placement, server: &Server) -> Option<(&'static str, String)> {
    let live = server.placements.get(placement.name.as_str())?;
    let selects = |spec: &stagegate_api::BindingPolicySpec| -> BTreeSet<String> {
        let selectors = spec.cluster_selectors.iter();
        selectors.map(|selector| format!("{selector:?}")).collect()
    };
    let is_same = selects(&live.spec) == selects(&placement.spec)
        && (live.spec.cluster_selectors.is_empty() || live.spec.downsync == placement.spec.downsync);
    (!is_same).then(|| ("fence", format!("{} places something else", placement.name)))
}

/// Whether it is open at the revision already, so that a write of it moves no version.
fn is_at_revision(placement: &stagegate_decide::staging::Placement, server: &Server) -> bool {
    let revision = placement.annotations.get(stagegate_api::annotation::REVISION);
    let live = server.placements.get(placement.name.as_str());
    live.is_some_and(|live| {
        let annotations = live.metadata.annotations.as_ref();
        let is_same = annotations.and_then(|all| all.get(stagegate_api::annotation::REVISION)) == revision;
        is_same && !live.spec.cluster_selectors.is_empty() && proofs::is_attempted(live)
    })
}

fn attempt_of(placement: &stagegate_decide::staging::Placement) -> (String, i64) {
    let attempt = placement.annotations.get(stagegate_api::annotation::ATTEMPT);
    let attempt = attempt.and_then(|text| text.parse().ok()).unwrap_or_default();
    (placement.precondition.uid.to_string(), attempt)
}

fn foreign(facts: &Facts, name: &str, server: &Server) -> Option<(&'static str, String)> {
    let uid = uid_of(&facts.policy.object.metadata);
    let live = server.placements.get(name)?;
    let owners = live.metadata.owner_references.as_deref().unwrap_or_default();
    (!owners.iter().any(|owner| owner.uid == uid)).then(|| ("own", format!("{name} is not owned by the policy")))
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
    // The policy is not responsible for selectors that another owner has written to a placement.
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

/// Whether the process has seen the policy as it is.
fn is_newest(talk: &Talk, server: &Server) -> bool {
    let policy = server.policies.get(talk.policy());
    policy.is_some_and(|live| live.metadata.resource_version == talk.facts.policy.object.metadata.resource_version)
}

/// Whether status tells of a check that was made later than the process's clock shows.
fn was_evaluated_after(status: &StagedBindingPolicyStatus, facts: &Facts) -> bool {
    let checks = status.stages.iter().flat_map(|stage| &stage.checks);
    let mut evaluated = checks.filter_map(|check| check.evaluated_at.as_ref());
    evaluated.any(|at| at.0 > facts.now)
}

/// How often in a row status was written while nothing else was.
#[derive(Clone, Debug, Default)]
struct RepeatedWrites {
    version: u64,
    count: usize,
}

impl RepeatedWrites {
    fn note(&mut self, (before, after): (u64, u64)) -> Option<(&'static str, String)> {
        self.count = if self.version == before { self.count + 1 } else { 1 };
        self.version = after;
        (self.count > REPEATED_MAX).then(|| {
            (
                "quiet",
                format!(
                    "status has been written {} times in a row while nothing else changed",
                    self.count
                ),
            )
        })
    }
}

/// The newest version of each CombinedStatus that status rests on. A fresh read may be newer than what the watches of a process have
/// brought, and what it showed stays on record.
#[derive(Clone, Debug, Default)]
struct ReadRows(BTreeMap<String, u64>);

impl ReadRows {
    fn note(&mut self, facts: &Facts) {
        for (key, version) in versions(facts) {
            let known = self.0.entry(key.clone()).or_default();
            *known = version.max(*known);
        }
    }

    fn is_older(&self, facts: &Facts) -> bool {
        versions(facts).any(|(key, version)| self.0.get(key).is_some_and(|known| version < *known))
    }
}

fn versions(facts: &Facts) -> impl Iterator<Item = (&String, u64)> {
    facts.combined.iter().filter_map(|(key, found)| {
        let version = found.object()?.metadata.resource_version.as_ref()?;
        Some((key, version.parse().ok()?))
    })
}
