//! YurtAppDaemon: one workload in each NodePool that a selector matches. Must not know clusters or placements.
//!
//! A workload is made from the ControllerRevision of its template and from its pool: it runs on the nodes of the pool alone, and bears the
//! pool's taints. What is created, changed or deleted rests on a reading of the API server ([`Read::Anew`]), and each write is conditional.

mod children;
mod compare;
mod facts;
mod judge;
mod memo;
mod plan;
mod reason;
mod removal;
mod render;
mod revisions;
mod spec;
mod stages;
mod status;
mod taints;

use std::collections::{BTreeMap, BTreeSet};

use stagegate_api::workloads::{PoolStageStatus, YurtAppDaemon, YurtAppDaemonStatus};
use stagegate_api::{Digest, Outcome, StageState};

pub use self::facts::{Applied, Child, Facts, NodePools, Pool, Read, Refusal, Revision};
pub use self::memo::Memo;
pub use self::plan::{ChildRef, Decision, Event, Plan, Write};
pub use self::reason::Reason;
pub use self::render::{CREATE_VERSION, child_name};

use self::children::Children;
use self::judge::Aim;
use self::plan::Draft;
use self::render::Source;
use self::spec::Checked;
use self::stages::CheckedStage;
use self::status::Progress;
use crate::checks::{self, Question, expressions, gates};
use crate::names::StageName;
use crate::selector::Selector;

/// What to do about one YurtAppDaemon now: a reading, or the writes that bring the world one step closer to it.
///
/// `memo` holds what earlier decisions about whatever facts found out; the decision is the same with an empty one. What was just read is
/// decided on without it, and does not go into it: only what the watches hold is in memory anyway.
pub fn decide(facts: &Facts, memo: &mut Memo) -> Decision {
    let metadata = &facts.daemon.metadata;
    if metadata.deletion_timestamp.is_some() {
        // What it owns goes with it, by the garbage collector.
        return Decision::Act(Plan::default());
    }
    let checked = match Checked::of(&facts.daemon) {
        Ok(checked) => checked,
        Err(mistakes) => return Decision::Act(status::refused(facts, Reason::InvalidSpec, mistakes.join("; "))),
    };
    let pools = match &facts.pools {
        NodePools::Known(pools) => pools,
        NodePools::Unread { why } => {
            let message = format!("NodePools cannot be listed: {why}; nothing is changed until they can");
            return Decision::Act(status::waiting(facts, Reason::NodePoolsUnknown, message));
        }
        NodePools::Unserved => {
            let message = "the API server serves no NodePool of group apps.openyurt.io: install OpenYurt's definition; nothing is changed \
                           until then";
            return Decision::Act(status::waiting(facts, Reason::NodePoolsUnserved, message.to_owned()));
        }
    };
    let Some(target) = revisions::target(facts, &checked) else {
        return Decision::FreshRead;
    };
    let is_refused = |refused: &&Refusal| match &target.write {
        Some(Write::CreateRevision { data, .. }) => refused.digest == Digest::of(data) && facts.now < refused.retry_at,
        _ => false,
    };
    if let Some(refused) = facts.refused_revision.as_ref().filter(is_refused) {
        let message = format!(
            "the API server refused the ControllerRevision of the template: {}; nothing is changed until it takes one",
            refused.cause
        );
        return Decision::Act(status::waiting(facts, Reason::RevisionRefused, message));
    }
    match accept(facts, &checked, &target.name) {
        Ok(()) => {}
        Err(Unaccepted::Unanswered(questions)) => return Decision::Ask(questions),
        Err(Unaccepted::Refused(reason, message)) => return Decision::Act(status::refused(facts, reason, message)),
    }
    let aim = Aim {
        source: Source {
            name: &target.name,
            number: Some(target.number),
            template: checked.template,
        },
        uid: target.uid.borrowed(),
    };
    let mut of_reading = Memo::default();
    let memo = if facts.read.is_anew() { &mut of_reading } else { memo };
    let mut children = Children::of((facts, &checked), pools, aim, memo);
    let questions = children.walk.questions();
    if !questions.is_empty() {
        return Decision::Ask(questions);
    }
    let mut draft = Draft {
        wake_at: children.walk.wake_at(),
        ..Draft::default()
    };
    children.draft(facts, &mut draft);
    removal::draft(facts, (&children, pools), &mut draft);
    let progress = Progress::of(facts, &checked, &children);
    let is_settled_now = progress.is_settled() && current_revision(facts.daemon.status.as_ref()) != Some(&target.name);
    let is_moving = is_settled_now || children.walk.passes_now || children.needs_revisions;
    let is_writing = draft.is_writing() || target.write.is_some() || is_moving;
    if is_writing && !facts.read.is_anew() {
        return Decision::FreshRead;
    }
    if facts.read.is_anew() {
        let settled = (&children, progress.is_settled());
        draft.prune = revisions::prunable(facts, &checked, settled, &target.name);
    }
    Decision::Act(status::plan(facts, &checked, (progress, target), draft))
}

/// What is wrong with the spec by itself, whatever the cluster has: sentences that begin with the field, such as
/// `spec.updateStrategy.stages[0].soak`. Expressions are not compiled, and gates are not asked.
pub fn mistakes(daemon: &YurtAppDaemon) -> Vec<String> {
    Checked::of(daemon).err().unwrap_or_default()
}

/// Why a spec without a mistake of its own is not carried out.
enum Unaccepted {
    /// Whether its expressions and gate configs are right is not known yet.
    Unanswered(Vec<Question>),
    Refused(Reason, String),
}

/// Fails unless all conditions compile, and the gates that are still to be asked take their configs.
fn accept(facts: &Facts, checked: &Checked<'_>, target: &str) -> Result<(), Unaccepted> {
    const FIELD: &str = "spec.updateStrategy.stages";
    let answers = facts.answers();
    let conditions = || {
        let stages = checked.stages.iter().enumerate();
        stages.filter_map(|(at, stage)| Some((format!("{FIELD}[{at}].condition"), stage.condition.as_ref()?)))
    };
    let records = stages::records(facts.daemon.status.as_ref(), target);
    let is_ahead = |stage: &CheckedStage<'_>| {
        stages::record_of(records, stage.name).is_none_or(|record| record.state != StageState::Passed)
    };
    let ahead = || checked.stages.iter().enumerate().filter(|(_, stage)| is_ahead(stage));
    let mut questions = expressions::compile_questions(answers, conditions());
    questions.extend(gates::questions(answers, ahead().flat_map(|(_, stage)| &stage.gates)));
    if !questions.is_empty() {
        return Err(Unaccepted::Unanswered(questions));
    }
    let refused = expressions::refused_expressions(answers, conditions());
    if !refused.is_empty() {
        let reason = Reason::Check(checks::Reason::InvalidExpression);
        return Err(Unaccepted::Refused(reason, refused.join("; ")));
    }
    let gates_ahead = ahead().map(|(at, stage)| (at, StageName::of(stage.name), stage.gates.as_slice()));
    let refused = gates::refused_configs(answers, FIELD, gates_ahead);
    if !refused.is_empty() {
        let reason = Reason::Check(checks::Reason::InvalidGateConfig);
        return Err(Unaccepted::Refused(reason, refused.join("; ")));
    }
    Ok(())
}

fn current_revision(status: Option<&YurtAppDaemonStatus>) -> Option<&String> {
    status
        .map(|status| &status.current_revision)
        .filter(|name| !name.is_empty())
}

/// Whether the daemon's selector matches one of these pools; what cannot be read matches none.
pub fn has_pools(daemon: &YurtAppDaemon, pools: &BTreeMap<String, Pool>) -> bool {
    let selector = Selector::try_from(&daemon.spec.nodepool_selector);
    selector.is_ok_and(|selector| pools.values().any(|pool| selector.matches(&pool.labels)))
}

/// The NodePools that workloads of the daemon were made for and that are not there.
pub fn gone_pools(facts: &Facts, pools: &BTreeMap<String, Pool>, memo: &Memo) -> BTreeSet<String> {
    let of = facts.children.values().filter_map(|child| match child {
        Child::Known(view) => match memo.place_in(&facts.daemon, view) {
            Some(place) => place.pool.as_deref(),
            None => children::pool_of(view).filter(|_| children::is_own(&facts.daemon, view)),
        },
        Child::Invalid { .. } => None,
    });
    of.filter(|pool| !pools.contains_key(*pool))
        .map(str::to_owned)
        .collect()
}

/// Whether only counts and words differ: nothing that anybody waits for.
pub fn is_recount(found: &YurtAppDaemonStatus, wanted: &YurtAppDaemonStatus) -> bool {
    let states = |status: &YurtAppDaemonStatus| -> Vec<(String, String, String)> {
        let states = status.conditions.iter();
        states
            .map(|state| (state.type_.clone(), state.status.clone(), state.reason.clone()))
            .collect()
    };
    let stages = |status: &YurtAppDaemonStatus| -> Vec<_> {
        let checks = |stage: &PoolStageStatus| -> Vec<(String, Outcome, String)> {
            let checks = stage.checks.iter();
            checks
                .map(|check| (check.name.clone(), check.outcome, check.reason.clone()))
                .collect()
        };
        let stages = status.stages.iter();
        stages
            .map(|stage| {
                (
                    stage.name.clone(),
                    stage.state,
                    stage.passing_since.clone(),
                    checks(stage),
                )
            })
            .collect()
    };
    let words = |status: &YurtAppDaemonStatus| {
        (
            status.observed_generation,
            status.collision_count,
            status.current_revision.clone(),
            status.update_revision.clone(),
            stages(status),
        )
    };
    states(found) == states(wanted) && words(found) == words(wanted) && found.nodepools == wanted.nodepools
}
