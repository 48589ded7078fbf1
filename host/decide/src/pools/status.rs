//! What status says of a YurtAppDaemon, and the order of a plan: status tells of a change before workloads are touched. Must not decide
//! what is changed.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use stagegate_api::printable::printable_cut;
use stagegate_api::workloads::{PoolStageStatus, TemplateType, WorkloadSummary, WorkloadView, YurtAppDaemonStatus};
use stagegate_api::{Phase, StageState};

use super::children::{Children, State};
use super::facts::Facts;
use super::plan::{Draft, Event, Plan, Write};
use super::reason::Reason;
use super::removal::are_pools_gone;
use super::revisions::Target;
use super::spec::Checked;
use crate::counted::counted;
use crate::staging::Precondition;
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
    /// The first pool in the way, in a sentence.
    first_in_way: Option<String>,
    failure: Option<(Reason, String)>,
    is_gone: bool,
    is_paused: bool,
    /// The stage whose pools are being updated; the last one has no name.
    active: Option<Option<String>>,
    stages: Vec<PoolStageStatus>,
}

impl Progress {
    pub fn of(facts: &Facts, checked: &Checked<'_>, children: &Children<'_>, target: &Target) -> Self {
        let walk = &children.walk;
        let stage = |at: usize| checked.stages.get(at).map(|stage| stage.name);
        let mut progress = Self {
            pools: Vec::new(),
            summary: Vec::new(),
            updated: 0,
            ready: 0,
            provisioned: 0,
            first_in_way: None,
            failure: None,
            is_gone: are_pools_gone(children),
            is_paused: checked.paused,
            active: walk.active.map(|at| stage(at).map(str::to_owned)),
            stages: walk.records.clone(),
        };
        for (at, wanted) in children.wanted.iter().enumerate() {
            let pool = wanted.pool;
            let of_stage = stage(walk.stage_of[at]).map_or_else(String::new, |stage| format!(" of stage {stage}"));
            let is_of_active = walk.active.is_none_or(|active| walk.stage_of[at] <= active);
            progress.pools.push(pool.to_owned());
            match wanted.obstacle(&target.name) {
                None => progress.updated += 1,
                Some(obstacle) => {
                    let in_way = format!("pool {pool}{of_stage} {obstacle}");
                    if matches!(wanted.state, State::Skipped(_)) {
                        progress.fail(Reason::PoolSkipped, &in_way);
                    }
                    if is_of_active {
                        progress.first_in_way.get_or_insert(in_way);
                    }
                }
            }
            if let State::Own(view, rendered) = &wanted.state {
                progress.provisioned += 1;
                progress.ready += usize::from(is_ready(view));
                progress.summary.push(summary(view));
                let refusal = facts.refused.get(pool).filter(|known| known.digest == rendered.digest);
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
        let is_empty = |stage: &&PoolStageStatus| stage.state == StageState::Active && stage.pools == 0;
        if let Some(stage) = self.stages.iter().find(is_empty) {
            let text = format!(
                "{updated}; no NodePool belongs to stage {}: label one, or remove the stage",
                stage.name
            );
            return (Reason::NoPools, text);
        }
        match (&self.failure, &self.first_in_way) {
            (Some((reason, text)), _) => (*reason, format!("{updated}; {text}")),
            (None, text) if self.is_paused && !self.is_settled() => {
                let text = text.as_deref().unwrap_or("its turn has not come");
                (
                    Reason::Paused,
                    format!("{updated}; spec.updateStrategy.paused is true; {text}"),
                )
            }
            (None, Some(text)) => (Reason::RollingOut, format!("{updated}; {text}")),
            (None, None) => (Reason::RolledOut, updated),
        }
    }
}

/// The whole plan: the revision, status, then workloads, and the revisions that go.
pub(super) fn plan(facts: &Facts, checked: &Checked<'_>, (progress, target): (Progress, Target), draft: Draft) -> Plan {
    let mut status = begun(facts, checked.kind);
    let (reason, message) = progress.finding();
    let is_settled = progress.is_settled();
    status.collision_count = target.collision_count;
    if is_settled {
        status.current_revision.clone_from(&target.name);
    }
    status.update_revision = Some(target.name);
    status.total_workloads = count(progress.pools.len());
    status.updated_workloads = count(progress.updated);
    status.ready_workloads = count(progress.ready);
    let provisioned = progress.provisioned == progress.pools.len() && !progress.pools.is_empty();
    status.phase = Some(match (is_settled, reason) {
        (true, _) => Phase::Completed,
        (false, Reason::Paused) => Phase::Paused,
        (false, _) => Phase::Progressing,
    });
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
    };
    let is_bad = !matches!(
        told.reason,
        Reason::RolledOut | Reason::RollingOut | Reason::NoPools | Reason::Paused
    );
    let is_worth_telling = is_bad || told.reason == Reason::RolledOut;
    tell(&mut plan, facts, status, is_worth_telling.then_some((is_bad, told)));
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
    tell(&mut plan, facts, status, Some((true, told)));
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
fn tell(plan: &mut Plan, facts: &Facts, status: YurtAppDaemonStatus, event: Option<(bool, Sentence)>) {
    let found = facts.daemon.status.as_ref();
    if found == Some(&status) {
        return;
    }
    let metadata = &facts.daemon.metadata;
    let (Some(uid), Some(version)) = (metadata.uid.clone(), metadata.resource_version.clone()) else {
        return;
    };
    let is_new = found.and_then(|found| found.reason.as_deref()) != status.reason.as_deref();
    let event = event
        .filter(|_| is_new)
        .map(|(warning, Sentence { reason, message })| Event {
            warning,
            reason,
            message: printable_cut(&message, MESSAGE_CHARS_MAX),
        });
    plan.events.extend(event);
    plan.writes.push(Write::Status {
        precondition: Precondition {
            uid: uid.into(),
            resource_version: version.into(),
        },
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

/// What was known stays, but for the generation: it is of which template the workloads are.
fn kept(facts: &Facts) -> YurtAppDaemonStatus {
    facts.daemon.status.clone().unwrap_or_default()
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

fn summary(view: &WorkloadView) -> WorkloadSummary {
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

fn is_ready(view: &WorkloadView) -> bool {
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
