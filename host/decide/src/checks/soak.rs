//! The soak of a stage: everything must pass for a time without a break. Must not judge what passes.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use stagegate_api::{CheckStatus, Outcome};

use super::answers::Answers;
use super::check::Check;
use super::finding::Finding;
use super::reason::Reason;
use super::record::{Note, Progress, note_check};
use crate::time::{after, later, round_up_to_second};

/// The soak of the stage that is judged now.
#[derive(Clone, Copy, Debug)]
pub struct Soak<'a> {
    pub answers: Answers<'a>,
    /// How long everything has to pass; `None`: the stage has no soak.
    pub length: Option<SignedDuration>,
    /// Why it has not started yet, as a sentence.
    pub waits_for: Option<&'a str>,
    /// The checks that status had before this round.
    pub recorded: Option<&'a [CheckStatus]>,
}

impl Soak<'_> {
    /// Whether everything has passed for long enough, now that it does: `passed`, or what is missing.
    pub fn finding(&self, progress: Progress<'_>, passed: Finding) -> Result<Finding, Finding> {
        let Progress {
            checks,
            passing_since,
            unsettled_since,
        } = progress;
        let now = self.answers.now;
        let Some(length) = self.length else {
            passing_since.get_or_insert(round_up_to_second(now));
            return Ok(passed);
        };
        let note = Note {
            check: None,
            evidence: None,
            now,
        };
        if let Some(waits_for) = self.waits_for {
            *passing_since = None;
            let finding = Finding::unknown(Reason::Soaking, waits_for);
            note_check(checks, Check::Soak, &finding, note);
            return Err(finding);
        }
        if self.may_have_been_broken(checks) {
            *passing_since = None;
        }
        let begun = passing_since.as_ref().map_or(round_up_to_second(now).0, |time| time.0);
        let since = later(unsettled_since, begun);
        *passing_since = Some(Time(since));
        let until = after(since, length);
        let finding = if now >= until {
            Finding::pass(Reason::Soaked, format!("everything has passed since {since}"))
        } else {
            Finding::unknown(
                Reason::Soaking,
                format!("everything has passed since {since}; it must until {until}"),
            )
            .wake_at(until)
        };
        note_check(checks, Check::Soak, &finding, note);
        if finding.outcome == Outcome::Pass {
            Ok(passed)
        } else {
            Err(finding)
        }
    }

    /// What was recorded before this process watched counts on only if the evidence is still the same.
    fn may_have_been_broken(&self, checks: &[CheckStatus]) -> bool {
        let (Some(watching_since), Some(recorded)) = (self.answers.watching_since, self.recorded) else {
            return false;
        };
        let evidence = |checks: &[CheckStatus]| Check::Evidence.last(checks).cloned();
        let digest = |check: Option<CheckStatus>| check.and_then(|check| check.evidence_digest);
        let recorded = evidence(recorded);
        let time = recorded
            .as_ref()
            .and_then(|check| check.evaluated_at.as_ref())
            .map(|time| time.0);
        // A time to come is another process's, whose clock is ahead: it says nothing of the order.
        time.is_some_and(|time: Timestamp| time < watching_since || time > self.answers.now)
            && digest(recorded) != digest(evidence(checks))
    }
}
