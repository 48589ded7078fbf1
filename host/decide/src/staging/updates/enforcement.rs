//! Whether the control plane refuses what it must refuse of a held Binding. Must not ask it.

use jiff::{SignedDuration, Timestamp};

use crate::checks::finding::Finding;
use crate::checks::reason::Reason;
use crate::names::PlacementName;
use crate::staging::input::{Facts, HoldAnswer, HoldFacts};
use crate::staging::question::Question;
use crate::time::after;

/// How old an answer may be when something is opened or released.
const BEFORE_A_MOVE: SignedDuration = SignedDuration::from_secs(30);
/// How old it may be while nothing moves.
pub const WHILE_HELD: SignedDuration = SignedDuration::from_secs(300);

/// How soon facts that are older than an answer are gathered anew.
const GATHERED_ANEW: SignedDuration = SignedDuration::from_secs(1);

/// Why nothing may be opened or released; the question goes to `questions` where the answer is missing or too old.
pub fn require(facts: &Facts, binding: &PlacementName, questions: &mut Vec<Question>) -> Result<(), Finding> {
    let latest = after(facts.now, BEFORE_A_MOVE);
    if facts.hold.as_ref().is_some_and(|hold| hold.asked_at >= latest) {
        // It was asked long after these facts were gathered, so they are gathered anew.
        let text = format!("reading everything again before Binding {binding} is changed");
        return Err(Finding::unknown(Reason::Opening, text).wake_at(after(facts.now, GATHERED_ANEW)));
    }
    let fresh = facts
        .hold
        .as_ref()
        .filter(|hold| facts.now < after(hold.asked_at, BEFORE_A_MOVE));
    let Some(hold) = fresh else {
        questions.push(question(facts, binding, BEFORE_A_MOVE / 2));
        return Err(Finding::unknown(
            Reason::HoldsNotEnforced,
            format!("whether the control plane holds Binding {binding} back is not known yet"),
        ));
    };
    finding(hold).map_or(Ok(()), Err)
}

/// The same while nothing moves. Returns when to ask again, too.
pub fn check(
    facts: &Facts,
    binding: &PlacementName,
    questions: &mut Vec<Question>,
) -> (Option<Finding>, Option<Timestamp>) {
    // An answer that holds are not enforced is asked again as soon as one would be before a move.
    let lasts = |hold: &HoldFacts| match hold.answer {
        HoldAnswer::Refused => WHILE_HELD,
        HoldAnswer::Accepted | HoldAnswer::Unknown { .. } => BEFORE_A_MOVE,
    };
    let known = facts
        .hold
        .as_ref()
        .map(|hold| (hold, after(hold.asked_at, lasts(hold))));
    match known.filter(|(_, until)| facts.now < *until) {
        Some((hold, until)) => (finding(hold), Some(until)),
        None => {
            let age = facts.hold.as_ref().map_or(WHILE_HELD, lasts);
            questions.push(question(facts, binding, age / 2));
            (None, None)
        }
    }
}

fn question(facts: &Facts, binding: &PlacementName, age: SignedDuration) -> Question {
    Question::Hold {
        binding: binding.clone(),
        not_before: after(facts.now, -age),
    }
}

fn finding(hold: &HoldFacts) -> Option<Finding> {
    let text = match &hold.answer {
        HoldAnswer::Refused => return None,
        HoldAnswer::Accepted => "the control plane does not hold Bindings back: a change of one to other versions than the admitted ones \
             is accepted. Install the admission policy and its binding from deploy/kustomize/staged-updates (Kubernetes 1.30 or newer; \
             with Helm, stagedUpdates: true), or set updates: Immediate"
            .to_owned(),
        HoldAnswer::Unknown { message } => format!(
            "whether the control plane holds Bindings back is not known: a change that must be refused was answered with {message}. The \
             controller needs the right to patch bindings of control.kubestellar.io; deploy/kustomize/staged-updates (with Helm, \
             stagedUpdates: true) grants it"
        ),
    };
    let ask_again = after(hold.asked_at, BEFORE_A_MOVE);
    Some(Finding::unknown(Reason::HoldsNotEnforced, text).wake_at(ask_again))
}
