//! What modules do to their sandbox, and that it stays there.

use std::time::{Duration, Instant};

use stagegate_evaluate::gate::{FailureKind, Limits};

use super::{HOSTILE, having, holds, process_of, told};

/// What the host allows a child beyond a call's own deadline.
const GRACE: Duration = Duration::from_secs(1);

#[test]
fn twenty_hostile_evaluations_in_a_row_leave_the_host_and_the_child_healthy() {
    let sandbox = having(&HOSTILE);
    assert!(holds(&sandbox));
    let child = process_of(&sandbox, &HOSTILE.digest);
    let modes = [
        ("loop", FailureKind::TimedOut),
        ("trap", FailureKind::Trapped),
        ("panic", FailureKind::Trapped),
        ("grow", FailureKind::LimitExceeded),
        ("grow-double", FailureKind::LimitExceeded),
        ("stack", FailureKind::Trapped),
        ("answer-10mb", FailureKind::AnswerTooLarge),
        ("sleep", FailureKind::Trapped),
        ("exit", FailureKind::Trapped),
        ("error", FailureKind::GuestError),
    ];
    for (mode, expected) in modes.iter().chain(&modes) {
        let failure = told(&sandbox, mode, Limits::new(200, 16)).unwrap_err();
        assert_eq!(failure.kind, *expected, "{mode}: {failure}");
        assert!(holds(&sandbox), "after {mode}");
    }
    assert_eq!(process_of(&sandbox, &HOSTILE.digest), child, "the child held them all");
}

#[test]
fn a_loop_is_cut_within_its_deadline_and_grace() {
    let sandbox = having(&HOSTILE);
    assert!(holds(&sandbox));
    for timeout_ms in [20, 100, 500] {
        let started = Instant::now();
        let failure = told(&sandbox, "loop", Limits::new(timeout_ms, 16)).unwrap_err();
        let took = started.elapsed();
        assert_eq!(failure.kind, FailureKind::TimedOut, "{failure}");
        let deadline = Duration::from_millis(timeout_ms.into());
        assert!(
            took >= deadline && took < deadline + GRACE,
            "{timeout_ms} ms took {took:?}"
        );
    }
}

#[test]
fn files_sockets_and_the_environment_are_not_there() {
    let sandbox = having(&HOSTILE);
    for mode in ["file", "socket", "env"] {
        let evaluation = told(&sandbox, mode, Limits::default()).unwrap();
        assert!(!evaluation.verdict.evidence.is_empty(), "{mode} says what it found");
        for piece in evaluation.verdict.evidence {
            let is_refused = ["No such file", "Permission denied", "failed to", "error"];
            let is_refused = is_refused.iter().any(|text| piece.value.contains(text)) || piece.value == "0";
            assert!(is_refused, "{mode}: {}: {}", piece.name, piece.value);
        }
    }
}
