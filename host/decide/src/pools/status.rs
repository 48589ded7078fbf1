//! What status says of a YurtAppDaemon, and the order of a plan: status tells of a change before workloads are touched. Must not decide
//! what is changed.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use stagegate_api::printable::printable_cut;
use stagegate_api::workloads::{PoolStageStatus, TemplateType, WorkloadSummary, WorkloadView, YurtAppDaemonStatus};
use stagegate_api::{Outcome, Phase, StageState};

use super::children::{Children, State};
use super::facts::Facts;
use super::plan::{Draft, Event, Plan, Write};
use super::reason::Reason;
use super::removal::are_pools_gone;
use super::revisions::Target;
use super::spec::Checked;
use crate::checks;
use crate::checks::finding::Finding;
use crate::counted::counted;
use crate::precondition::Precondition;
use crate::time::after;

/// Most pools and workloads that status names.
const LISTED_MAX: usize = 5_000;
/// When it is looked again at what no event may tell of.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(30);
/// Most characters of a condition's message.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// How far the workloads are.
pub(super) struct Progress {
    pools: Vec<String>,
    summary: Vec<WorkloadSummary>,
    updated: usize,
    ready: usize,
    /// Pools that have a workload of the daemon's.
    provisioned: usize,
    /// The first pool in the way that has the revision, in a sentence.
    first_updating: Option<String>,
    /// The first one that does not have it yet.
    first_waiting: Option<String>,
    /// What the checks of the active stage come to.
    finding: Option<Finding>,
    not_after: Option<Timestamp>,
    failure: Option<(Reason, String)>,
    is_gone: bool,
    is_paused: bool,
    /// The stage whose pools are being updated; the last one has no name.
    active: Option<Option<String>>,
    stages: Vec<PoolStageStatus>,
}

impl Progress {
    pub fn of(facts: &Facts, checked: &Checked<'_>, children: &Children<'_>) -> Self {
        let walk = &children.walk;
        let stage = |at: usize| checked.stages.get(at).map(|stage| stage.name);
        let mut progress = Self {
            pools: Vec::new(),
            summary: Vec::new(),
            updated: 0,
            ready: 0,
            provisioned: 0,
            first_updating: None,
            first_waiting: None,
            finding: walk.finding().cloned(),
            not_after: walk.not_after(),
            failure: None,
            is_gone: are_pools_gone(children),
            is_paused: checked.paused,
            active: walk.active.map(|at| stage(at).map(str::to_owned)),
            stages: walk.records.clone(),
        };
        for (at, wanted) in children.wanted.iter().enumerate() {
            let pool = wanted.pool;
            let is_of_active = walk.active.is_none_or(|active| walk.stage_of[at] <= active);
            progress.pools.push(pool.to_owned());
            match wanted.obstacle() {
                None => progress.updated += 1,
                Some(obstacle) => {
                    let of_stage =
                        stage(walk.stage_of[at]).map_or_else(String::new, |stage| format!(" of stage {stage}"));
                    let in_way = format!("pool {pool}{of_stage} {obstacle}");
                    if matches!(wanted.state, State::Skipped(_)) {
                        progress.fail(Reason::PoolSkipped, &in_way);
                    }
                    if is_of_active && walk.items[at].has_revision {
                        progress.first_updating.get_or_insert(in_way);
                    } else if is_of_active {
                        progress.first_waiting.get_or_insert(in_way);
                    }
                }
            }
            if let State::Own(_, compared) = &wanted.state {
                progress.provisioned += 1;
                progress.ready += usize::from(compared.is_ready);
                progress.summary.push(compared.summary.clone());
                let digest = &compared.rendered.digest;
                let refusal = facts.refused.get(pool).filter(|known| known.digest == *digest);
                progress.refuse(pool, refusal);
            }
            if let State::Missing(rendered) = &wanted.state {
                let refusal = facts.refused.get(pool).filter(|known| known.digest == rendered.digest);
                progress.refuse(pool, refusal);
            }
        }
        progress.summary.sort_by(|a, b| a.workload_name.cmp(&b.workload_name));
        progress
    }

    fn refuse(&mut self, pool: &str, refusal: Option<&super::facts::Refusal>) {
        if let Some(refusal) = refusal {
            let text = format!("pool {pool}: the API server refused its workload: {}", refusal.cause);
            self.fail(Reason::WorkloadRefused, &text);
        }
    }

    fn fail(&mut self, reason: Reason, text: &str) {
        self.failure.get_or_insert_with(|| (reason, text.to_owned()));
    }

    /// Whether every pool's workload is of the revision and rolled out.
    pub fn is_settled(&self) -> bool {
        !self.pools.is_empty() && self.updated == self.pools.len() && self.active.is_none()
    }

    fn finding(&self) -> (Reason, String) {
        let total = self.pools.len();
        if self.is_gone {
            let text = "all matching pools are gone at once: their workloads are deleted if NodePools are still served 30 s later";
            return (Reason::PoolsGone, text.to_owned());
        }
        if total == 0 {
            return (Reason::NoPools, "no NodePool matches spec.nodepoolSelector".to_owned());
        }
        let updated = format!("{} of {} updated", self.updated, counted(total, "pool"));
        if let Some(failed) = self.finding.as_ref().filter(|finding| finding.outcome == Outcome::Fail) {
            return (Reason::Check(failed.reason), format!("{updated}; {}", failed.message));
        }
        let is_empty = |stage: &&PoolStageStatus| stage.state == StageState::Active && stage.pools == 0;
        if let Some(stage) = self.stages.iter().find(is_empty) {
            let text = format!(
                "{updated}; no NodePool belongs to stage {}: label one, or remove the stage",
                stage.name
            );
            return (Reason::NoPools, text);
        }
        if let Some((reason, text)) = &self.failure {
            return (*reason, format!("{updated}; {text}"));
        }
        let (reason, text) = match self.in_way() {
            None => return (Reason::RolledOut, updated),
            Some(in_way) => in_way,
        };
        if self.is_paused && !self.is_settled() {
            return (
                Reason::Paused,
                format!("{updated}; spec.updateStrategy.paused is true; {text}"),
            );
        }
        (reason, format!("{updated}; {text}"))
    }

    /// What a person should know first. What no pool can show by itself comes before a pool that is on its way, and that before what waits
    /// for it.
    fn in_way(&self) -> Option<(Reason, &str)> {
        let of_check = |finding: &&Finding| finding.outcome != Outcome::Pass;
        let finding = self.finding.as_ref().filter(of_check);
        let is_first = |finding: &&Finding| {
            let is_of_pool = matches!(
                finding.reason,
                checks::Reason::WorkloadUnproven | checks::Reason::Soaking
            );
            finding.outcome == Outcome::Unknown && !finding.is_restart && !is_of_pool
        };
        let told = |finding: &Finding| Reason::Check(finding.reason);
        let first = finding
            .filter(is_first)
            .map(|finding| (told(finding), finding.message.as_str()));
        first
            .or_else(|| Some((Reason::RollingOut, self.first_updating.as_deref()?)))
            .or_else(|| finding.map(|finding| (told(finding), finding.message.as_str())))
            .or_else(|| Some((Reason::RollingOut, self.first_waiting.as_deref()?)))
    }

    /// By what is in the way.
    fn phase(&self, reason: Reason) -> Phase {
        let outcome = self.finding.as_ref().map(|finding| finding.outcome);
        match (reason, outcome) {
            _ if self.is_settled() => Phase::Completed,
            (Reason::Paused, _) => Phase::Paused,
            (Reason::Check(_), Some(Outcome::Fail)) => Phase::Failed,
            (Reason::Check(_), Some(Outcome::Hold)) => Phase::Holding,
            _ => Phase::Progressing,
        }
    }
}

/// The whole plan: the revision, status, then workloads, and the revisions that go.
pub(super) fn plan(facts: &Facts, checked: &Checked<'_>, (progress, target): (Progress, Target), draft: Draft) -> Plan {
    let mut status = begun(facts, checked.kind);
    let (reason, message) = progress.finding();
    let is_settled = progress.is_settled();
    let not_after = progress.not_after;
    // A process that has just started has nothing new to say.
    let is_restart = progress.finding.as_ref().is_some_and(|finding| finding.is_restart);
    status.collision_count = target.collision_count;
    if is_settled {
        status.current_revision.clone_from(&target.name);
    }
    status.update_revision = Some(target.name);
    status.total_workloads = count(progress.pools.len());
    status.updated_workloads = count(progress.updated);
    status.ready_workloads = count(progress.ready);
    let provisioned = progress.provisioned == progress.pools.len() && !progress.pools.is_empty();
    status.phase = Some(progress.phase(reason));
    status.active_stage = progress.active.flatten();
    status.stages = progress.stages;
    status.reason = Some(reason.as_str().to_owned());
    let failure = progress.failure;
    status.nodepools = progress.pools;
    status.nodepools.truncate(LISTED_MAX);
    status.workload_summary = progress.summary;
    status.workload_summary.truncate(LISTED_MAX);
    let told = Sentence { reason, message };
    let (failed, failure) = match failure {
        Some((reason, message)) => ("True", Sentence { reason, message }),
        None => ("False", Sentence::nothing()),
    };
    let states = [
        ("Accepted", "True", &Sentence::nothing()),
        ("Ready", truth(is_settled), &told),
        ("Reconciling", truth(!is_settled), &told),
        ("Stalled", "False", &Sentence::nothing()),
        ("WorkLoadFailure", failed, &failure),
        ("WorkLoadProvisioned", truth(provisioned), &told),
        ("WorkLoadUpdated", truth(is_settled), &told),
    ];
    let states = states.map(|(type_, status, told)| (type_, status, told.clone()));
    write_conditions(&mut status, states, facts);
    let mut plan = Plan {
        writes: target.write.into_iter().collect(),
        events: Vec::new(),
        wake_at: draft.wake_at,
        not_after,
    };
    let is_quiet = is_restart && plan.writes.is_empty() && !draft.is_writing();
    if !is_quiet {
        tell(&mut plan, facts, status, told.reason.is_notable().then_some(told));
    }
    plan.writes.extend(draft.writes);
    plan.writes.extend(draft.prune);
    plan
}

/// A spec that cannot be carried out.
pub(super) fn refused(facts: &Facts, reason: Reason, message: String) -> Plan {
    let kind = facts.daemon.spec.workload_template.chosen().map(|(kind, _)| kind);
    let mut status = kept(facts);
    status.template_type = kind.or(status.template_type);
    status.phase = Some(Phase::Stalled);
    unready(facts, status, Sentence { reason, message }, ("False", "True"))
}

/// Nothing is known of the pools.
pub(super) fn waiting(facts: &Facts, reason: Reason, message: String) -> Plan {
    let mut status = kept(facts);
    status.phase = Some(Phase::Progressing);
    let plan = unready(facts, status, Sentence { reason, message }, ("True", "False"));
    Plan {
        wake_at: Some(after(facts.now, LOOK_AGAIN)),
        ..plan
    }
}

/// What is not known is not said: the conditions about workloads are Unknown.
fn unready(
    facts: &Facts,
    mut status: YurtAppDaemonStatus,
    told: Sentence,
    (accepted, stalled): (&'static str, &'static str),
) -> Plan {
    status.reason = Some(told.reason.as_str().to_owned());
    let states = [
        ("Accepted", accepted),
        ("Ready", "False"),
        ("Reconciling", truth(stalled == "False")),
        ("Stalled", stalled),
        ("WorkLoadFailure", "Unknown"),
        ("WorkLoadProvisioned", "Unknown"),
        ("WorkLoadUpdated", "Unknown"),
    ];
    write_conditions(
        &mut status,
        states.map(|(type_, status)| (type_, status, told.clone())),
        facts,
    );
    let mut plan = Plan::default();
    tell(&mut plan, facts, status, Some(told));
    plan
}

#[derive(Clone)]
struct Sentence {
    reason: Reason,
    message: String,
}

impl Sentence {
    fn nothing() -> Self {
        Self {
            reason: Reason::NoFailure,
            message: String::new(),
        }
    }
}

/// Writes status if it differs, with an Event when the reason is a new one.
fn tell(plan: &mut Plan, facts: &Facts, status: YurtAppDaemonStatus, event: Option<Sentence>) {
    let found = facts.daemon.status.as_ref();
    if found == Some(&status) {
        return;
    }
    let Some(precondition) = Precondition::of(&facts.daemon.metadata) else {
        return;
    };
    let is_new = found.and_then(|found| found.reason.as_deref()) != status.reason.as_deref();
    let event = event.filter(|_| is_new).map(|Sentence { reason, message }| Event {
        warning: reason.is_warning(),
        reason,
        message: printable_cut(&message, MESSAGE_CHARS_MAX),
    });
    plan.events.extend(event);
    plan.writes.push(Write::Status {
        precondition,
        status: Box::new(status),
    });
}

/// A new status about this generation, with what outlives a revision.
fn begun(facts: &Facts, kind: TemplateType) -> YurtAppDaemonStatus {
    let before = facts.daemon.status.as_ref();
    YurtAppDaemonStatus {
        observed_generation: facts.daemon.metadata.generation,
        current_revision: before.map(|status| status.current_revision.clone()).unwrap_or_default(),
        template_type: Some(kind),
        ..YurtAppDaemonStatus::default()
    }
}

/// What was known stays, but for the generation: it is of which template the workloads are. Whether everything goes on passing is not known.
fn kept(facts: &Facts) -> YurtAppDaemonStatus {
    let mut status = facts.daemon.status.clone().unwrap_or_default();
    let unfinished = status
        .stages
        .iter_mut()
        .filter(|stage| stage.state != StageState::Passed);
    unfinished.for_each(|stage| stage.passing_since = None);
    status
}

fn write_conditions<const N: usize>(
    status: &mut YurtAppDaemonStatus,
    states: [(&'static str, &'static str, Sentence); N],
    facts: &Facts,
) {
    let before = facts.daemon.status.iter().flat_map(|status| &status.conditions);
    let before: Vec<&Condition> = before.collect();
    let condition = |(type_, state, Sentence { reason, message }): (&str, &str, Sentence)| {
        let found = before
            .iter()
            .find(|found| found.type_ == type_ && found.status == state);
        Condition {
            last_transition_time: found.map_or(Time(facts.now), |found| found.last_transition_time.clone()),
            message: printable_cut(&message, MESSAGE_CHARS_MAX),
            observed_generation: facts.daemon.metadata.generation,
            reason: reason.as_str().to_owned(),
            status: state.to_owned(),
            type_: type_.to_owned(),
        }
    };
    status.conditions = states.into_iter().map(condition).collect();
}

pub(super) fn summary(view: &WorkloadView) -> WorkloadSummary {
    let available = view
        .status
        .conditions
        .iter()
        .find(|condition| condition.r#type == "Available");
    let all_available = || truth(is_available(view)).to_owned();
    WorkloadSummary {
        available_condition: available.map_or_else(all_available, |condition| condition.status.clone()),
        ready_replicas: replicas(view.status.ready_replicas),
        replicas: replicas(view.status.replicas),
        workload_name: view.metadata.name.clone().unwrap_or_default(),
    }
}

pub(super) fn is_ready(view: &WorkloadView) -> bool {
    view.status.observed_generation.is_some()
        && view.status.ready_replicas.unwrap_or_default() >= view.spec.replicas.unwrap_or(1)
}

fn is_available(view: &WorkloadView) -> bool {
    view.status.available_replicas.unwrap_or_default() >= view.spec.replicas.unwrap_or(1)
}

fn replicas(count: Option<i64>) -> i32 {
    count.and_then(|count| i32::try_from(count).ok()).unwrap_or_default()
}

fn count(of: usize) -> i32 {
    i32::try_from(of).unwrap_or(i32::MAX)
}

const fn truth(is_so: bool) -> &'static str {
    if is_so { "True" } else { "False" }
}
