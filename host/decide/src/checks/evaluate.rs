//! Expressions over evidence, and one finding for all checks. Must not gather evidence.

use std::borrow::Cow;
use std::collections::BTreeSet;

use stagegate_api::Outcome;

use super::answers::{Answers, Compilation};
use super::finding::Finding;
use super::question::{Evidence, Question};
use super::reason::Reason;
use super::spec::Expression;
use super::variables::{Seen, Variable};
use super::verdict::{Verdict, VerdictKey};
use crate::names::{Digest, StageName};

/// What a condition must be true for.
pub struct Value<'a> {
    /// As messages name it.
    pub name: String,
    pub seen: Seen<'a>,
    /// What was reported, for the message that the condition is false where nothing says why.
    pub reported: Box<dyn Fn() -> String + 'a>,
}

/// A condition, and how messages speak of it.
pub struct Condition<'a> {
    pub stage: StageName<&'a str>,
    pub expression: &'a Expression,
    /// What it is true for, where it is: `2 objects`.
    pub all: String,
    /// What to correct where it fails, in the imperative.
    pub remedy: &'static str,
}

/// Looks for verdicts among the answers, and asks for those that are missing.
pub struct Evaluator<'q, 'a, Q> {
    pub answers: Answers<'a>,
    pub attempt: i64,
    pub questions: &'q mut Vec<Q>,
}

impl<'a, Q: From<Question>> Evaluator<'_, 'a, Q> {
    /// `evidence` has this digest; it is wanted only where there is no verdict yet.
    pub fn verdict(
        &mut self,
        check: &Expression,
        digest: Digest,
        evidence: impl FnOnce() -> Evidence,
    ) -> Option<&'a Verdict> {
        let key = VerdictKey {
            check: check.digest.clone(),
            evidence: digest,
            attempt: self.attempt,
        };
        let verdict = self.answers.verdicts.get(&key);
        if verdict.is_none() {
            let question = Question::Check {
                key,
                text: check.text.clone(),
                evidence: evidence(),
            };
            self.questions.push(question.into());
        }
        verdict
    }

    /// The variables that an expression names. All that it might name, should nobody know that it compiles.
    fn named(&self, check: &Expression) -> Cow<'a, BTreeSet<Variable>> {
        match self.answers.compiled.get(&check.digest) {
            Some(Compilation::Compiles(named)) => Cow::Borrowed(named),
            _ => Cow::Owned(check.root.variables().iter().copied().collect()),
        }
    }

    /// One finding over all values. What is unknown of any of them comes before what is false for another.
    pub fn condition(
        &mut self,
        Condition {
            stage,
            expression: condition,
            all,
            remedy,
        }: Condition<'_>,
        values: Vec<Result<Value<'_>, Finding>>,
    ) -> Finding {
        let named = self.named(condition);
        let (mut unknown, mut hold) = (None, None);
        for value in values {
            let Value { name, seen, reported } = match value {
                Ok(value) => value,
                Err(finding) => {
                    unknown.get_or_insert(finding);
                    continue;
                }
            };
            match self.verdict(condition, seen.digest(&named), || seen.named(&named)) {
                Some(Verdict::True) => {}
                Some(Verdict::False { because }) => {
                    let because = || because.clone().unwrap_or_else(&reported);
                    let text = || format!("the condition of stage {stage} is false for {name}: {}", because());
                    hold.get_or_insert_with(|| Finding::hold(Reason::ConditionFalse, text()));
                }
                Some(Verdict::Unknown { message }) => {
                    let text = format!("the condition of stage {stage} failed for {name}: {message}; {remedy}");
                    unknown.get_or_insert_with(|| Finding::unknown(Reason::ConditionError, text));
                }
                None => {
                    unknown.get_or_insert_with(|| Finding::unknown(Reason::ConditionError, "not evaluated yet"));
                }
            }
        }
        unknown
            .or(hold)
            .unwrap_or_else(|| Finding::pass(Reason::ConditionTrue, format!("true for {all}")))
    }
}

/// One finding for all: what failed, then what is unknown, then what holds; the first of its kind. That this process is new
/// comes last: it must not hide what another check says.
pub fn worst(findings: Vec<Finding>) -> Result<Finding, Finding> {
    let rank = |finding: &Finding| match finding.outcome {
        Outcome::Fail => 0,
        Outcome::Unknown if !finding.is_restart => 1,
        Outcome::Hold => 2,
        Outcome::Unknown => 3,
        Outcome::Pass => 4,
    };
    if let Some(worst) = findings
        .iter()
        .filter(|finding| rank(finding) < 4)
        .min_by_key(|finding| rank(finding))
    {
        return Err(worst.clone());
    }
    let last = findings.into_iter().next();
    Ok(last.unwrap_or_else(|| Finding::pass(Reason::Complete, "complete")))
}
