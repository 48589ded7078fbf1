//! Which pools may have the new revision now: stage after stage. Must not look at workloads.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use stagegate_api::StageState;
use stagegate_api::workloads::{PoolStageStatus, YurtAppDaemonStatus};

use super::facts::Pool;
use super::spec::Checked;
use crate::binding::Selector;
use crate::checks::steps::{self, Item};

/// A stage of the spec.
pub(super) struct CheckedStage<'a> {
    pub name: &'a str,
    pub selector: Selector,
    /// `None`: all its pools at once.
    pub max_concurrent: Option<&'a IntOrString>,
}

/// A pool that matches, as far as its turn depends on it.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub of: &'a Pool,
    /// What it has of the new revision.
    pub item: Item,
    /// There is a workload.
    pub has_workload: bool,
}

/// Where the update stands.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// By candidate: the position of its stage; that of the last one is for pools of no stage.
    pub stage_of: Vec<usize>,
    /// By candidate: whether it may have the new revision.
    pub turns: Vec<bool>,
    /// The stage whose pools are being updated.
    pub active: Option<usize>,
    /// Of the stages of the spec.
    pub records: Vec<PoolStageStatus>,
    /// A stage has passed that status does not call passed yet.
    pub passes_now: bool,
}

/// Walks through the stages up to the first that has not passed.
pub(super) fn walk(
    checked: &Checked<'_>,
    (status, target): (Option<&YurtAppDaemonStatus>, &str),
    candidates: &[Candidate<'_>],
) -> Walk {
    let stages = &checked.stages;
    let stage_of = |candidate: &Candidate<'_>| {
        let selecting = stages
            .iter()
            .position(|stage| stage.selector.matches(&candidate.of.labels));
        selecting.unwrap_or(stages.len())
    };
    let stage_of: Vec<usize> = candidates.iter().map(stage_of).collect();
    let is_rest = stages.is_empty() || stage_of.contains(&stages.len());
    let mut walk = Walk {
        turns: vec![false; candidates.len()],
        stage_of,
        ..Walk::default()
    };
    let records = status
        .filter(|status| status.update_revision.as_deref() == Some(target))
        .map_or(&[][..], |status| &status.stages);
    let recorded = |name: &str| {
        let found = records.iter().find(|stage| stage.name == name);
        found.is_some_and(|stage| stage.state == StageState::Passed)
    };
    for stage in 0..stages.len() + usize::from(is_rest) {
        let members: Vec<usize> = (0..candidates.len()).filter(|at| walk.stage_of[*at] == stage).collect();
        let items: Vec<Item> = members.iter().map(|at| candidates[*at].item).collect();
        let updated = items.iter().filter(|item| item.is_settled).count();
        let is_done = !items.is_empty() && updated == items.len();
        let was_passed = stages.get(stage).is_some_and(|stage| recorded(stage.name));
        // A later one has begun, and status, which would tell, was lost.
        let has_followers = records.is_empty()
            && (0..candidates.len()).any(|at| walk.stage_of[at] > stage && candidates[at].item.has_revision);
        let has_passed = walk.active.is_none() && (is_done || was_passed || has_followers);
        let state = if has_passed {
            walk.passes_now |= !was_passed && stage < stages.len();
            StageState::Passed
        } else if walk.active.is_none() {
            walk.active = Some(stage);
            StageState::Active
        } else {
            StageState::Pending
        };
        for (at, turn) in turns(checked, (stage, state), &items, |at| {
            candidates[members[at]].has_workload
        }) {
            walk.turns[members[at]] = turn;
        }
        if let Some(of) = stages.get(stage) {
            walk.records.push(PoolStageStatus {
                name: of.name.to_owned(),
                state,
                pools: i32::try_from(items.len()).unwrap_or(i32::MAX),
                updated: i32::try_from(updated).unwrap_or(i32::MAX),
            });
        }
    }
    walk
}

/// By item of the stage: whether it may have the new revision.
fn turns(
    checked: &Checked<'_>,
    (stage, state): (usize, StageState),
    items: &[Item],
    has_workload: impl Fn(usize) -> bool,
) -> Vec<(usize, bool)> {
    let picked = match state {
        _ if checked.paused => Vec::new(),
        // Pools that come to a stage that has passed are no reason to change more of them at once.
        StageState::Active | StageState::Passed => steps::next(items, at_once(checked, stage, items.len())),
        _ => Vec::new(),
    };
    let turn = |at: usize, item: &Item| match state {
        StageState::Passed => item.has_revision || !has_workload(at) || picked.contains(&at),
        _ => item.has_revision || picked.contains(&at),
    };
    items
        .iter()
        .enumerate()
        .map(|(at, item)| (at, turn(at, item)))
        .collect()
}

/// In how many of a stage's pools the workload may be on its way.
fn at_once(checked: &Checked<'_>, stage: usize, pools: usize) -> usize {
    let stage = checked.stages.get(stage);
    match stage.and_then(|stage| stage.max_concurrent) {
        None => usize::MAX,
        Some(IntOrString::Int(number)) => usize::try_from(*number).unwrap_or(1).max(1),
        Some(IntOrString::String(text)) => {
            // What is no percentage was refused; one at a time is the least that it can mean.
            let percent = text.strip_suffix('%').and_then(|number| number.parse::<usize>().ok());
            (pools * percent.unwrap_or_default().min(100) / 100).max(1)
        }
    }
}
