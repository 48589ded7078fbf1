//! What the pools of the active stage that have the revision prove: their evidence, then its condition, its gates and its soak. Must not
//! decide which pool comes next.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use stagegate_api::workloads::PoolStageStatus;
use stagegate_api::{CheckStatus, Outcome};

use super::facts::Facts;
use super::render::Source;
use super::spec::Checked;
use super::stages::{Candidate, CheckedStage, PoolEvidence};
use crate::checks::check::Check;
use crate::checks::evaluate::Value;
use crate::checks::finding::Finding;
use crate::checks::gate_call::{GateDestination, GateEvidenceRow, GateObject, Shown};
use crate::checks::gates::{self, Subject};
use crate::checks::question::Question;
use crate::checks::reason::Reason;
use crate::checks::record::{Note, Progress, note_check};
use crate::checks::soak::Soak;
use crate::checks::stage::{Given, READING_IS_WORTH, StageChecks};
use crate::checks::steps::Proof;
use crate::checks::variables::{PoolReport, Seen};
use crate::counted::counted;
use crate::names::{ClusterName, Digest, ObjectKey, StageName, Uid};
use crate::time::after;

/// The revision that workloads are to be made from.
#[derive(Clone, Copy)]
pub(super) struct Aim<'a> {
    pub source: Source<'a>,
    /// Of the ControllerRevision; empty for one that is not created yet.
    pub uid: Uid<&'a str>,
}

/// The active stage, which has checks.
#[derive(Clone, Copy)]
pub(super) struct Active<'a> {
    pub facts: &'a Facts,
    pub checked: &'a Checked<'a>,
    pub stage: &'a CheckedStage<'a>,
    pub recorded: Option<&'a PoolStageStatus>,
    pub aim: Aim<'a>,
    /// All its pools.
    pub pools: &'a [&'a Candidate<'a>],
}

/// What is known of it now.
pub(super) struct Judged {
    pub checks: Vec<CheckStatus>,
    pub passing_since: Option<Time>,
    /// The first thing in the way, or that all passes for the pools that are updated.
    pub finding: Finding,
    /// Every pool is updated, and everything has passed for as long as it must.
    pub has_passed: bool,
    /// Whether more pools may be updated.
    pub proof: Proof,
    /// Unless empty, the rest is preliminary.
    pub questions: Vec<Question>,
    pub wake_at: Option<Timestamp>,
    /// Until when this may be acted on.
    pub not_after: Timestamp,
}

impl Active<'_> {
    pub fn judge(self) -> Judged {
        let recorded = self.recorded;
        let mut checks = recorded.map(|recorded| recorded.checks.clone()).unwrap_or_default();
        checks.retain(|check| self.stage.has_check(&check.name));
        let mut passing_since = recorded.and_then(|recorded| recorded.passing_since.clone());
        if self.is_asked_anew(&checks) || self.is_about_others(&checks) {
            passing_since = None;
        }
        let mut judged = Judged {
            checks,
            passing_since,
            finding: nothing_yet(),
            has_passed: false,
            proof: Proof::Missing,
            questions: Vec::new(),
            wake_at: None,
            not_after: after(self.facts.now, READING_IS_WORTH),
        };
        let result = self.run(&mut judged);
        // A gate's no outlives the evidence it was said about.
        let failed = gates::failed(&judged.checks, &self.stage.gates);
        let is_proven = result.is_ok() && failed.is_none();
        let finding = failed.unwrap_or(match result {
            Ok(finding) | Err(finding) => finding,
        });
        if finding.outcome == Outcome::Fail {
            judged.proof = Proof::Missing;
        }
        if finding.outcome != Outcome::Pass && finding.reason != Reason::Soaking && !finding.is_restart {
            judged.passing_since = None;
        }
        judged.wake_at = judged.wake_at.into_iter().chain(finding.wake_at).min();
        judged.has_passed = is_proven && self.is_whole();
        judged.finding = finding;
        judged
    }

    /// Whether every pool of the stage is updated, and there is one.
    fn is_whole(self) -> bool {
        !self.pools.is_empty() && self.pools.iter().all(|pool| pool.item().is_settled)
    }

    /// The pools that have the new revision.
    fn about(self) -> Digest {
        let updated = self.pools.iter().filter(|pool| pool.item().has_revision);
        Digest::of(&updated.map(|pool| pool.pool).collect::<Vec<_>>())
    }

    /// Whether the pools that have the new revision are others than those that status recorded evidence of: a pool that came has not run as
    /// long as the others.
    fn is_about_others(self, checks: &[CheckStatus]) -> bool {
        let last = Check::Evidence.last(checks);
        last.is_none_or(|last| last.check_digest.as_deref() != Some(self.about().as_str()))
    }

    /// Whether the condition was edited since status recorded its answer: what has passed so far passed another one.
    fn is_asked_anew(self, checks: &[CheckStatus]) -> bool {
        let last = Check::Condition.last(checks);
        let condition = self.stage.condition.as_ref();
        condition.is_some_and(|condition| {
            last.is_none_or(|last| last.check_digest.as_deref() != Some(condition.digest.as_str()))
        })
    }

    fn run(self, judged: &mut Judged) -> Result<Finding, Finding> {
        let facts = self.facts;
        let mut updated: Vec<(&Candidate<'_>, PoolReport)> = Vec::new();
        for &pool in self.pools {
            match &pool.evidence {
                PoolEvidence::Older => {}
                PoolEvidence::Unproven(why) => {
                    let text = format!("pool {} of stage {} {why}", pool.pool, self.stage.name);
                    let finding = Finding::unknown(Reason::WorkloadUnproven, text);
                    let note = Note {
                        check: None,
                        evidence: None,
                        now: facts.now,
                    };
                    note_check(&mut judged.checks, Check::Evidence, &finding, note);
                    return Err(finding);
                }
                PoolEvidence::Proven { .. } => updated.extend(pool.own.map(|view| {
                    let of = (pool.pool, &pool.of.labels);
                    (
                        pool,
                        PoolReport::of(self.checked.kind.plural(), of, &view.row(pool.pool)),
                    )
                })),
            }
        }
        if updated.is_empty() {
            judged.passing_since = None;
            judged.proof = Proof::Passed;
            return Ok(nothing_yet());
        }
        let reports: Vec<PoolReport> = updated.iter().map(|(_, report)| report.clone()).collect();
        let recorded = self.recorded.map(|recorded| recorded.checks.as_slice());
        let passed = self.evaluate((&updated, &reports), judged)?;
        judged.proof = Proof::Passed;
        if !self.is_whole() {
            judged.passing_since = None;
            return Ok(passed);
        }
        let soak = Soak {
            answers: facts.answers(),
            length: self.stage.soak,
            waits_for: None,
            recorded,
        };
        let progress = Progress {
            checks: &mut judged.checks,
            passing_since: &mut judged.passing_since,
            unsettled_since: None,
        };
        soak.finding(progress, passed)
    }

    /// Condition and gates over what runs in the pools that are updated.
    fn evaluate(
        self,
        (updated, reports): (&[(&Candidate<'_>, PoolReport)], &[PoolReport]),
        judged: &mut Judged,
    ) -> Result<Finding, Finding> {
        let Self { facts, stage, aim, .. } = self;
        let metadata = &facts.daemon.metadata;
        let policy = format!(
            "{}/{}",
            metadata.namespace.as_deref().unwrap_or_default(),
            facts.daemon.name_any()
        );
        // All stages have one revision, and what a gate says of one stage it does not say of another.
        let placement = format!("{}/{}", aim.uid, stage.name);
        let checks = StageChecks {
            answers: facts.answers(),
            subject: Subject {
                policy: &policy,
                stage: StageName::of(stage.name),
                placement: Uid::of(&placement),
                attempt: aim.source.number.unwrap_or_default(),
                edits: "this YurtAppDaemon or spec.workloadTemplate",
            },
            condition: stage.condition.as_ref(),
            remedy: "correct spec.updateStrategy.stages[].condition",
            gates: &stage.gates,
            has_soak: stage.soak.is_some(),
        };
        let value = Value {
            name: counted(reports.len(), "updated pool"),
            seen: Seen::Pools(reports),
            reported: Box::new(|| reported(reports)),
        };
        // Counts that moved and moved back leave the reports as they were, but not the versions.
        let versions: Vec<_> = updated
            .iter()
            .filter_map(|(pool, _)| pool.own)
            .map(|view| (&view.metadata.uid, &view.metadata.resource_version))
            .collect();
        let given = Given {
            digest: Digest::of(&(reports, versions)),
            about: Some(self.about()),
            complete: Finding::pass(Reason::Complete, format!("{} reported", counted(reports.len(), "pool"))),
            health: None,
            values: vec![Ok(value)],
            all: counted(reports.len(), "pool"),
            shown: Box::new(|| self.shown(updated)),
        };
        let mut progress = Progress {
            checks: &mut judged.checks,
            passing_since: &mut judged.passing_since,
            unsettled_since: None,
        };
        let evaluated = checks.evaluate(given, &mut progress, &mut judged.questions);
        judged.wake_at = evaluated.ask_again_at;
        if let Some(until) = evaluated.valid_until {
            judged.not_after = until;
        }
        evaluated.finding
    }

    /// The YurtAppDaemon, and what runs in each updated pool.
    fn shown(
        self,
        updated: &[(&Candidate<'_>, PoolReport)],
    ) -> Result<(Vec<GateObject>, Vec<GateDestination>), Finding> {
        let metadata = &self.facts.daemon.metadata;
        let object = GateObject {
            key: ObjectKey {
                group: "apps.openyurt.io".to_owned(),
                resource: "yurtappdaemons".to_owned(),
                namespace: metadata.namespace.clone(),
                name: self.facts.daemon.name_any(),
            },
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            generation: metadata.generation,
            shown: Shown::Destinations {
                collector: "pools",
                column: "pool",
            },
        };
        // Of which the health rules know.
        let workload = ObjectKey {
            group: "apps".to_owned(),
            resource: self.checked.kind.plural().to_owned(),
            namespace: None,
            name: String::new(),
        };
        let shown = |(pool, report): &(&Candidate<'_>, PoolReport)| {
            let row = pool.own.map(|view| view.row(pool.pool));
            let row = gates::row_of(&workload, row.as_ref(), ClusterName::of(pool.pool))?;
            // The workload's controller has counted, so what its status leaves out is 0, as conditions see it.
            let row = GateEvidenceRow {
                ready: report.ready,
                available: report.available,
                total: report.replicas,
                updated: report.updated,
                ..row
            };
            Ok(GateDestination {
                name: report.name.clone(),
                labels: Some(report.labels.clone()),
                evidence: vec![row],
            })
        };
        let destinations = updated.iter().map(shown).collect::<Result<_, Finding>>()?;
        Ok((vec![object], destinations))
    }
}

fn nothing_yet() -> Finding {
    Finding::pass(Reason::Complete, "no pool of the stage is updated yet")
}

/// For a condition that is false where nothing says why.
fn reported(pools: &[PoolReport]) -> String {
    let first = pools.iter().find(|pool| !pool.healthy).or(pools.first());
    first.map_or_else(String::new, |pool| {
        let count = |count: Option<i64>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
        format!(
            "pool {} has {} of {} available",
            pool.name,
            count(pool.available),
            count(pool.replicas)
        )
    })
}
