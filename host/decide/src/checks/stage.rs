//! The checks of one stage over evidence that is complete: health, condition and gates, put on record in this order. Must not gather
//! evidence, and must not count a soak: see [`super::soak`].

use jiff::{SignedDuration, Timestamp};
use stagegate_api::Outcome;

use super::answers::Answers;
use super::check::Check;
use super::evaluate::{Condition, Evaluator, Value, worst};
use super::finding::Finding;
use super::gate_call::{EarlierVerdict, GateDestination, GateObject};
use super::gates::{self, GateInput, Subject};
use super::question::Question;
use super::reason::Reason;
use super::record::{Note, Progress, evidence_of_no_soak, keep_evidence, note_check, note_gate};
use super::spec::{CheckedGate, Expression};
use crate::names::Digest;
use crate::time::after;

/// How long a fresh reading may be acted on, beside the time that the stage's gates may take. What fails after that takes seconds to be
/// reported.
pub const READING_IS_WORTH: SignedDuration = SignedDuration::from_secs(30);

/// What gates are shown, or why they cannot be asked.
pub type Shown = Result<(Vec<GateObject>, Vec<GateDestination>), Finding>;

type Show<'v> = dyn Fn() -> Shown + 'v;

/// A stage with the checks that it has beside its evidence.
#[derive(Clone, Copy)]
pub struct StageChecks<'a> {
    pub answers: Answers<'a>,
    pub subject: Subject<'a>,
    pub condition: Option<&'a Expression>,
    /// What to correct where the condition fails, in the imperative.
    pub remedy: &'static str,
    pub gates: &'a [CheckedGate],
    pub has_soak: bool,
}

/// Complete evidence.
pub struct Given<'v> {
    /// Of all of it.
    pub digest: Digest,
    /// What it is evidence of, where that may change while a soak goes on.
    pub about: Option<Digest>,
    /// How much it is.
    pub complete: Finding,
    /// `None`: health is not checked, or shows in another way.
    pub health: Option<Finding>,
    /// What the condition must be true for.
    pub values: Vec<Result<Value<'v>, Finding>>,
    /// These in words: `2 objects`.
    pub all: String,
    /// What gates are shown.
    pub shown: Box<Show<'v>>,
}

/// What the checks came to.
pub struct Evaluated {
    /// That all pass, or the first thing in the way.
    pub finding: Result<Finding, Finding>,
    /// When a gate is asked again though nothing has changed.
    pub ask_again_at: Option<Timestamp>,
    /// Until when what the gates have said may be acted on; `None`: there are none, or they were not all asked.
    pub valid_until: Option<Timestamp>,
}

impl From<Finding> for Evaluated {
    fn from(finding: Finding) -> Self {
        Self {
            finding: Err(finding),
            ask_again_at: None,
            valid_until: None,
        }
    }
}

impl StageChecks<'_> {
    /// Asks what is not answered yet, gates only where nothing else is asked. Once a gate has failed the attempt, no other is asked.
    pub fn evaluate<Q: From<Question>>(
        self,
        given: Given<'_>,
        progress: &mut Progress<'_>,
        questions: &mut Vec<Q>,
    ) -> Evaluated {
        let Given {
            digest,
            about,
            complete,
            health,
            values,
            all,
            shown,
        } = given;
        let note = Note {
            check: None,
            evidence: None,
            now: self.answers.now,
        };
        let of_evidence = Note {
            evidence: Some(&digest),
            ..note
        };
        let before = evidence_of_no_soak(progress.checks, progress.passing_since.as_ref());
        let of_what = Note {
            check: about.as_ref(),
            ..of_evidence
        };
        note_check(progress.checks, Check::Evidence, &complete, of_what);
        let mut findings = Vec::new();
        if let Some(finding) = health {
            // No digest: newer evidence alone changes nothing in status, while a new message tells how far the rollout is.
            note_check(progress.checks, Check::Health, &finding, note);
            findings.push(finding);
        }
        let mut said = None;
        if let Some(expression) = self.condition {
            let mut evaluator = Evaluator {
                answers: self.answers,
                attempt: self.subject.attempt,
                questions,
            };
            let condition = Condition {
                stage: self.subject.stage,
                expression,
                all,
                remedy: self.remedy,
            };
            let finding = evaluator.condition(condition, values);
            let of_condition = Note {
                check: Some(&expression.digest),
                ..of_evidence
            };
            note_check(progress.checks, Check::Condition, &finding, of_condition);
            said = Some(gates::earlier_condition(&finding));
            findings.push(finding);
        }
        if let Some(failed) = gates::failed(progress.checks, self.gates) {
            return failed.into();
        }
        let mut evaluated = Evaluated {
            finding: Err(Finding::unknown(Reason::GateError, "not asked yet")),
            ask_again_at: None,
            valid_until: None,
        };
        match self.ask_gates((said, &*shown), progress, (questions, &mut evaluated)) {
            Ok(of_gates) => {
                findings.extend(of_gates);
                evaluated.finding = worst(findings);
            }
            Err(unasked) => {
                evaluated.finding = Err(unasked);
                return evaluated;
            }
        }
        if evaluated.finding.is_err() {
            keep_evidence(progress.checks, before);
        }
        evaluated
    }

    /// One finding for each gate, in their order.
    fn ask_gates<Q: From<Question>>(
        self,
        (condition, shown): (Option<EarlierVerdict>, &Show<'_>),
        progress: &mut Progress<'_>,
        (questions, evaluated): (&mut Vec<Q>, &mut Evaluated),
    ) -> Result<Vec<Finding>, Finding> {
        if self.gates.is_empty() {
            return Ok(Vec::new());
        }
        if !questions.is_empty() {
            return Err(Finding::unknown(
                Reason::GateError,
                "what comes before is not answered yet",
            ));
        }
        let now = self.answers.now;
        let (objects, destinations) = shown()?;
        let input = GateInput {
            answers: self.answers,
            subject: self.subject,
            gates: self.gates,
            objects,
            destinations,
        };
        let answered = input.ask(condition.into_iter().collect());
        let soonest = |a: Option<Timestamp>, b: Option<Timestamp>| a.into_iter().chain(b).min();
        let timeouts = self.gates.iter().map(|gate| i64::from(gate.timeout_ms)).sum();
        let reading_ends = after(now, READING_IS_WORTH + SignedDuration::from_millis(timeouts));
        let mut valid_until = reading_ends;
        for result in &answered.gates {
            if result.finding.outcome == Outcome::Pass && !result.goes_on_from(progress.checks, now) {
                *progress.passing_since = None;
            }
            if !result.finding.is_restart {
                note_gate(progress.checks, result, self.has_soak, now);
            }
            evaluated.ask_again_at = soonest(evaluated.ask_again_at, result.ask_again_at);
            valid_until = result.valid_until.map_or(valid_until, |until| until.min(valid_until));
        }
        evaluated.valid_until = Some(valid_until);
        match answered.question {
            None => Ok(answered.gates.into_iter().map(|result| result.finding).collect()),
            Some(question) => {
                questions.push(question.into());
                Err(Finding::unknown(Reason::GateError, "not asked yet"))
            }
        }
    }
}
