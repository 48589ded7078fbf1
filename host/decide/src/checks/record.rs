//! Answers of checks in status. Must not decide anything.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use stagegate_api::{CheckStatus, Outcome};

use super::check::Check;
use super::finding::Finding;
use super::gates::GateResult;
use crate::names::Digest;

/// Puts a check's answer into the record; its time changes only when the answer does. An answer other than Pass keeps the digest
/// of the first evidence that gave it: the same answer to newer evidence decides nothing, so nothing is written for it.
pub fn note_check(checks: &mut Vec<CheckStatus>, of: Check, finding: &Finding, note: Note<'_>) {
    let mut check = CheckStatus {
        name: of.as_str().to_owned(),
        outcome: finding.outcome,
        reason: finding.reason.as_str().to_owned(),
        message: finding.message.clone(),
        check_digest: note.check.map(Digest::to_string),
        evidence_digest: note.evidence.map(|digest| digest.to_string()),
        module_digest: None,
        evidence: Vec::new(),
        valid_until: None,
        evaluated_at: None,
    };
    if let Some(old) = of.last(checks) {
        let is_same =
            (&old.reason, &old.message, &old.check_digest) == (&check.reason, &check.message, &check.check_digest);
        if is_same && old.outcome == check.outcome && check.outcome != Outcome::Pass {
            check.evidence_digest.clone_from(&old.evidence_digest);
        }
    }
    put_check(checks, check, note.now);
}

/// The recorded evidence check, unless a soak depends on it: after a restart, a soak's evidence is compared with the current one.
pub fn evidence_of_no_soak(checks: &[CheckStatus], passing_since: Option<&Time>) -> Option<CheckStatus> {
    let known = Check::Evidence.last(checks);
    known.filter(|_| passing_since.is_none()).cloned()
}

/// As long as a stage does not pass, newer evidence that is as complete as before is not worth a write of status.
pub fn keep_evidence(checks: &mut [CheckStatus], before: Option<CheckStatus>) {
    let now = checks.iter_mut().find(|check| Check::Evidence.is_of(check));
    if let Some((now, before)) = now.zip(before)
        && (now.outcome, &now.reason, &now.message) == (before.outcome, &before.reason, &before.message)
    {
        *now = before;
    }
}

/// Puts a gate's answer into the record in the same way.
pub fn note_gate(checks: &mut Vec<CheckStatus>, result: &GateResult, is_soaking: bool, now: Timestamp) {
    let check = CheckStatus {
        name: result.check.clone(),
        outcome: result.finding.outcome,
        reason: result.finding.reason.as_str().to_owned(),
        message: result.finding.message.clone(),
        check_digest: Some(result.check_digest.to_string()),
        evidence_digest: result.evidence_digest.as_ref().map(Digest::to_string),
        module_digest: result.module_digest(),
        evidence: result.pieces.clone(),
        // Cut to whole seconds: a pass is not made longer by being stored.
        valid_until: result
            .valid_until
            .filter(|_| is_soaking)
            .and_then(|until| Timestamp::from_second(until.as_second()).ok())
            .map(Time),
        evaluated_at: None,
    };
    put_check(checks, check, now);
}

fn put_check(checks: &mut Vec<CheckStatus>, mut check: CheckStatus, now: Timestamp) {
    let old = checks.iter_mut().find(|old| old.name == check.name);
    match old {
        Some(old) => {
            check.evaluated_at.clone_from(&old.evaluated_at);
            if check != *old {
                check.evaluated_at = Some(Time(now));
                *old = check;
            }
        }
        None => {
            check.evaluated_at = Some(Time(now));
            checks.push(check);
        }
    }
}

/// The parts of a stage's record that its checks write.
#[derive(Debug)]
pub struct Progress<'a> {
    pub checks: &'a mut Vec<CheckStatus>,
    pub passing_since: &'a mut Option<Time>,
    /// No time before this one counts.
    pub unsettled_since: Option<Timestamp>,
}

/// What goes with a check's answer.
#[derive(Clone, Copy, Debug)]
pub struct Note<'a> {
    pub check: Option<&'a Digest>,
    pub evidence: Option<&'a Digest>,
    pub now: Timestamp,
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use stagegate_api::StageStatus;

    use super::{Note, evidence_of_no_soak, keep_evidence, note_check};
    use crate::checks::check::Check;
    use crate::checks::finding::Finding;
    use crate::checks::reason::Reason;
    use crate::names::Digest;
    use crate::time::round_up_to_second;

    fn note(record: &mut StageStatus, finding: &Finding, evidence: &str, second: i64) {
        let note = Note {
            check: None,
            evidence: Some(&Digest::of(evidence)),
            now: Timestamp::from_second(second).unwrap(),
        };
        note_check(&mut record.checks, Check::Evidence, finding, note);
    }

    #[test]
    fn an_answer_that_does_not_pass_is_told_of_the_first_evidence_that_gave_it() {
        let mut record = StageStatus::default();
        let hold = |text: &str| Finding::hold(Reason::ConditionFalse, text);
        note(&mut record, &hold("1 of 3"), "first", 1);
        let first = record.clone();
        note(&mut record, &hold("1 of 3"), "second", 2);
        assert_eq!(record, first);
        note(&mut record, &hold("2 of 3"), "third", 3);
        assert_eq!(record.checks[0].evidence_digest, Some(Digest::of("third").to_string()));
        let pass = Finding::pass(Reason::Complete, "2 of 3");
        note(&mut record, &pass, "fourth", 4);
        note(&mut record, &pass, "fifth", 5);
        assert_eq!(record.checks[0].evidence_digest, Some(Digest::of("fifth").to_string()));
    }

    #[test]
    fn evidence_that_a_soak_counts_on_is_always_the_newest() {
        let pass = Finding::pass(Reason::Complete, "one cluster");
        for is_soaking in [false, true] {
            let mut record = StageStatus::default();
            note(&mut record, &pass, "first", 1);
            record.passing_since = is_soaking.then(|| round_up_to_second(Timestamp::UNIX_EPOCH));
            let before = evidence_of_no_soak(&record.checks, record.passing_since.as_ref());
            note(&mut record, &pass, "second", 2);
            keep_evidence(&mut record.checks, before);
            let evidence = if is_soaking { "second" } else { "first" };
            assert_eq!(record.checks[0].evidence_digest, Some(Digest::of(evidence).to_string()));
        }
    }
}
