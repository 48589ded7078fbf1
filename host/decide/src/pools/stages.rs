//! Which pools may have the new revision now: stage after stage. Must not look into workloads.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use stagegate_api::workloads::{PoolStageStatus, WorkloadView, YurtAppDaemonStatus};
use stagegate_api::{Outcome, StageState};

use super::facts::{Facts, Pool};
use super::judge::{Active, Aim, Judged};
use super::spec::Checked;
use crate::checks::finding::Finding;
use crate::checks::question::Question;
use crate::checks::spec::{CheckedGate, Expression};
use crate::checks::steps::{self, Item, Proof};
use crate::selector::Selector;

/// A stage of the spec.
pub(super) struct CheckedStage<'a> {
    pub name: &'a str,
    pub selector: Selector,
    /// `None`: all its pools at once.
    pub max_concurrent: Option<&'a IntOrString>,
    pub condition: Option<Expression>,
    /// In the order in which they are asked.
    pub gates: Vec<CheckedGate>,
    pub soak: Option<SignedDuration>,
}

/// A pool that matches, as far as its turn depends on it.
pub(super) struct Candidate<'a> {
    pub pool: &'a str,
    pub of: &'a Pool,
    /// The daemon's workload there.
    pub own: Option<&'a WorkloadView>,
    pub evidence: PoolEvidence,
}

/// What a pool's workload tells of the new revision.
pub(super) enum PoolEvidence {
    /// It is of another one, or there is none.
    Older,
    /// Nothing: it is of the revision, but not known to run what that says. The predicate of a sentence about the pool.
    Unproven(String),
    /// It runs what the revision says, and its status is about that.
    Proven {
        /// Whether it is rolled out.
        is_healthy: bool,
    },
}

impl Candidate<'_> {
    /// What it has of the revision.
    pub fn item(&self) -> Item {
        let (has_revision, is_settled) = match &self.evidence {
            PoolEvidence::Older => (false, false),
            PoolEvidence::Unproven(_) => (true, false),
            PoolEvidence::Proven { is_healthy } => (true, *is_healthy),
        };
        Item {
            has_revision,
            is_settled,
        }
    }
}

/// Where the update stands.
#[derive(Default)]
pub(super) struct Walk {
    /// By candidate: the position of its stage; that of the last one is for pools of no stage.
    pub stage_of: Vec<usize>,
    /// By candidate: what it has of the new revision.
    pub items: Vec<Item>,
    /// By candidate: whether it may have the new revision.
    pub turns: Vec<bool>,
    /// The stage whose pools are being updated.
    pub active: Option<usize>,
    /// Of the stages of the spec.
    pub records: Vec<PoolStageStatus>,
    /// A stage has passed that status does not call passed yet.
    pub passes_now: bool,
    /// What was found of the active stage, and of those before it that pass now.
    pub judged: Vec<Judged>,
    /// A stage passes, or a further pool is updated, because checks pass.
    rests_on_checks: bool,
}

impl Walk {
    /// What has to be answered first.
    pub fn questions(&mut self) -> Vec<Question> {
        let judged = self.judged.iter_mut();
        judged
            .flat_map(|judged| std::mem::take(&mut judged.questions))
            .collect()
    }

    /// What is in the way of the active stage, if it has checks.
    pub fn finding(&self) -> Option<&Finding> {
        self.judged
            .iter()
            .find(|judged| !judged.has_passed)
            .map(|judged| &judged.finding)
    }

    /// When a check is to be looked at again.
    pub fn wake_at(&self) -> Option<Timestamp> {
        self.judged.iter().filter_map(|judged| judged.wake_at).min()
    }

    /// Until when what the checks said may be acted on; `None`: nothing rests on them.
    pub fn not_after(&self) -> Option<Timestamp> {
        let judged = self.judged.iter().filter(|_| self.rests_on_checks);
        judged.map(|judged| judged.not_after).min()
    }
}

/// What status says of the stages, as far as it is about this revision.
pub(super) fn records<'a>(status: Option<&'a YurtAppDaemonStatus>, target: &str) -> &'a [PoolStageStatus] {
    let of_target = status.filter(|status| status.update_revision.as_deref() == Some(target));
    of_target.map_or(&[][..], |status| &status.stages)
}

/// The record of the stage of this name.
pub(super) fn record_of<'a>(records: &'a [PoolStageStatus], name: &str) -> Option<&'a PoolStageStatus> {
    records.iter().find(|stage| stage.name == name)
}

/// Walks through the stages up to the first that has not passed.
pub(super) fn walk<'a>(
    (facts, checked): (&'a Facts, &'a Checked<'a>),
    aim: Aim<'a>,
    (candidates, is_one_gone): (&'a [Candidate<'a>], bool),
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
        items: candidates.iter().map(Candidate::item).collect(),
        turns: vec![false; candidates.len()],
        stage_of,
        ..Walk::default()
    };
    let status = facts.daemon.status.as_ref();
    let records = records(status, aim.source.name);
    let is_lost = status.is_none_or(|status| status.update_revision.is_none());
    for at in 0..stages.len() + usize::from(is_rest) {
        let members: Vec<usize> = (0..candidates.len()).filter(|of| walk.stage_of[*of] == at).collect();
        let pools: Vec<&Candidate<'_>> = members.iter().map(|of| &candidates[*of]).collect();
        let recorded = stages.get(at).and_then(|stage| record_of(records, stage.name));
        // A later one has begun, and status, which would tell, was lost. What cannot be read tells nothing of that.
        let is_known = |of: usize| candidates[of].own.is_some();
        let is_followed = |of: usize| walk.stage_of[of] > at && walk.items[of].has_revision && is_known(of);
        let has_followers = is_lost && (0..candidates.len()).any(is_followed);
        let of = Turn {
            facts,
            checked,
            aim,
            at,
            pools: &pools,
            items: members.iter().map(|of| walk.items[*of]).collect(),
            recorded,
            is_one_gone,
        };
        let turns = of.take(&mut walk, has_followers);
        for (of, turn) in members.into_iter().zip(turns) {
            walk.turns[of] = turn;
        }
    }
    walk
}

/// One stage, when the walk has come to it.
struct Turn<'a> {
    facts: &'a Facts,
    checked: &'a Checked<'a>,
    aim: Aim<'a>,
    /// Among the stages of the spec, or behind the last.
    at: usize,
    /// All its pools.
    pools: &'a [&'a Candidate<'a>],
    /// By pool.
    items: Vec<Item>,
    recorded: Option<&'a PoolStageStatus>,
    /// A NodePool is gone whose workload has the revision, and nobody knows which stage it was of.
    is_one_gone: bool,
}

impl Turn<'_> {
    /// By pool: whether it may have the revision.
    fn take(&self, walk: &mut Walk, has_followers: bool) -> Vec<bool> {
        let stage = self.checked.stages.get(self.at);
        let items = &self.items;
        let updated = items.iter().filter(|item| item.is_settled).count();
        let was_passed = self.recorded.is_some_and(|record| record.state == StageState::Passed);
        let mut record = PoolStageStatus {
            pools: i32::try_from(items.len()).unwrap_or(i32::MAX),
            updated: i32::try_from(updated).unwrap_or(i32::MAX),
            ..self.recorded.cloned().unwrap_or_default()
        };
        let (mut proof, judged_before) = (Proof::NotAsked, walk.judged.len());
        record.state = if walk.active.is_some() {
            record.passing_since = None;
            StageState::Pending
        } else if was_passed || has_followers {
            StageState::Passed
        } else if self.is_one_gone {
            record.passing_since = None;
            StageState::Active
        } else if let Some(stage) = stage.filter(|stage| stage.has_checks()) {
            let judged = self.judge(stage);
            proof = if stage.condition.is_none() && stage.gates.is_empty() {
                Proof::NotAsked
            } else {
                judged.proof
            };
            record.checks.clone_from(&judged.checks);
            record.passing_since.clone_from(&judged.passing_since);
            let state = match judged.finding.outcome {
                _ if judged.has_passed => StageState::Passed,
                Outcome::Fail => StageState::Failed,
                _ => StageState::Active,
            };
            walk.judged.push(judged);
            state
        } else if !items.is_empty() && updated == items.len() {
            StageState::Passed
        } else {
            StageState::Active
        };
        let has_judged = walk.judged.len() > judged_before;
        if matches!(record.state, StageState::Active | StageState::Failed) {
            walk.active = Some(self.at);
        }
        walk.passes_now |= record.state == StageState::Passed && !was_passed && stage.is_some();
        let turns = self.turns(record.state, proof);
        // The first pools follow nobody, so that what they get rests on no check.
        let has_begun = items.iter().any(|item| item.has_revision);
        let is_followed = || has_begun && turns.iter().zip(items).any(|(turn, item)| *turn && !item.has_revision);
        walk.rests_on_checks |= has_judged && (record.state == StageState::Passed || is_followed());
        if let Some(stage) = stage {
            record.checks.retain(|check| stage.has_check(&check.name));
            stage.name.clone_into(&mut record.name);
            walk.records.push(record);
        }
        turns
    }

    fn judge(&self, stage: &CheckedStage<'_>) -> Judged {
        let active = Active {
            facts: self.facts,
            checked: self.checked,
            stage,
            recorded: self.recorded,
            aim: self.aim,
            pools: self.pools,
        };
        active.judge()
    }

    fn turns(&self, state: StageState, proof: Proof) -> Vec<bool> {
        let items = &self.items;
        let picked = match state {
            _ if self.checked.paused || self.is_one_gone => Vec::new(),
            // Pools that come to a stage that has passed are no reason to change more of them at once.
            StageState::Active | StageState::Passed => {
                steps::next(items, at_once(self.checked, self.at, items.len()), proof)
            }
            _ => Vec::new(),
        };
        let turn = |(at, item): (usize, &Item)| match state {
            StageState::Passed => item.has_revision || self.pools[at].own.is_none() || picked.contains(&at),
            _ => item.has_revision || picked.contains(&at),
        };
        items.iter().enumerate().map(turn).collect()
    }
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
