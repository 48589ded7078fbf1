//! The soak of a stage: everything must pass for a time without a break. Must not judge what passes.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use stagegate_api::{Outcome, StageStatus};

use super::finding::Finding;
use super::judge::{Judging, Subjected};
use super::reason::Reason;
use super::record::{self, Note};
use super::slot::{after, later};

impl Judging<'_> {
    /// All has to pass for this long without a break, counted from when the previous stage was removed.
    pub(super) fn soak(&self, record: &mut StageStatus, passed: Finding) -> Result<Finding, Finding> {
        let Subjected {
            facts,
            stage,
            is_handing_over,
            ..
        } = self.subjected;
        let Some(soak) = stage.soak else {
            record.passing_since.get_or_insert(record::from(facts.now));
            return Ok(passed);
        };
        let note = Note {
            check: None,
            evidence: None,
            now: facts.now,
        };
        if is_handing_over {
            record.passing_since = None;
            let finding = Finding::unknown(
                Reason::Soaking,
                "the soak starts when the previous stage's placement is removed",
            );
            record::note_check(record, "soak", &finding, note);
            return Err(finding);
        }
        if self.may_have_been_broken(record) {
            record.passing_since = None;
        }
        let start = record.unsettled_since.as_ref().map(|time| time.0);
        let since = later(
            start,
            record
                .passing_since
                .as_ref()
                .map_or(record::from(facts.now).0, |time| time.0),
        );
        record.passing_since = Some(Time(since));
        let until = after(since, soak);
        let finding = if facts.now >= until {
            Finding::pass(Reason::Soaked, format!("everything has passed since {since}"))
        } else {
            Finding::unknown(
                Reason::Soaking,
                format!("everything has passed since {since}; it must until {until}"),
            )
            .wake_at(until)
        };
        record::note_check(record, "soak", &finding, note);
        if finding.outcome == Outcome::Pass {
            Ok(passed)
        } else {
            Err(finding)
        }
    }

    /// What was recorded before this process watched counts on only if the evidence is still the same.
    fn may_have_been_broken(&self, record: &StageStatus) -> bool {
        let recorded = self.subjected.recorded;
        let digest = |record: &StageStatus| {
            record
                .checks
                .iter()
                .find(|check| check.name == "evidence")
                .and_then(|check| check.evidence_digest.clone())
        };
        let time = |record: &StageStatus| {
            record
                .checks
                .iter()
                .find(|check| check.name == "evidence")
                .and_then(|check| check.evaluated_at.as_ref())
                .map(|time| time.0)
        };
        match (self.subjected.facts.watching_since, recorded) {
            (Some(watching_since), Some(recorded)) => {
                // A time to come is another process's, whose clock is ahead: it says nothing of the order.
                let now = self.subjected.facts.now;
                time(recorded).is_some_and(|time: Timestamp| time < watching_since || time > now)
                    && digest(recorded) != digest(record)
            }
            _ => false,
        }
    }
}
