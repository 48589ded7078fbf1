//! Guests that loop, grow, trap, probe and answer too much: each ends as a failure of its own kind, and the next call is well.

use std::time::{Duration, Instant};

use stagegate_evaluate::gate::wire::{Decision, Level};
use stagegate_evaluate::gate::{Engine, Evaluation, FailureKind, Gate, Limits, compile};

use super::guests::{self, core, file_of, hostile, json_gate, patient, telling, told, told_within, wasm};
use super::requests::{NOW_MS, request};

const PASS: &str = r#"{"decision":{"pass":{"validForMs":null}},"evidence":[]}"#;

/// What it does must fail so, and the gate must answer the next call.
#[track_caller]
fn fails(mode: &str, kind: FailureKind, says: &str) {
    let failure = told(mode).expect_err(mode);
    assert_eq!(failure.kind, kind, "{mode}: {failure}");
    assert!(failure.message.contains(says), "{mode}: {failure}");
    assert!(
        matches!(
            told("pass").expect("it was told to pass").verdict.decision,
            Decision::Pass(_)
        ),
        "after {mode}"
    );
}

fn pieces(evaluation: Evaluation) -> Vec<(String, String)> {
    evaluation
        .verdict
        .evidence
        .into_iter()
        .map(|piece| (piece.name, piece.value))
        .collect()
}

#[test]
fn a_loop_ends_at_its_deadline() {
    let limits = Limits::new(100, 64);
    told("pass").unwrap();
    let began = Instant::now();
    let failure = told_within("loop", limits).unwrap_err();
    let taken = began.elapsed();
    assert_eq!(failure.kind, FailureKind::TimedOut, "{failure}");
    assert!(failure.message.contains("100 ms"), "{failure}");
    assert!(!failure.kind.is_lasting());
    // Two ticks late on a quiet machine; the rest is for one that is not.
    assert!(
        (Duration::from_millis(100)..Duration::from_millis(600)).contains(&taken),
        "{taken:?}"
    );
}

#[test]
fn a_loop_in_the_start_function_ends_at_its_deadline() {
    let component = json_gate(&format!("{} (func $s (loop br 0)) (start $s)", core("", PASS)));
    let gate = guests::load(&component).unwrap();
    let limits = Limits::new(50, 64);
    assert_eq!(gate.describe(limits).unwrap_err().kind, FailureKind::TimedOut);
    assert_eq!(
        gate.evaluate(&request(), limits).unwrap_err().kind,
        FailureKind::TimedOut
    );
}

#[test]
fn a_trap_in_the_start_function_is_a_trap() {
    let component = json_gate(&format!("{} (func $s unreachable) (start $s)", core("", PASS)));
    let gate = guests::load(&component).unwrap();
    assert_eq!(gate.describe(patient()).unwrap_err().kind, FailureKind::Trapped);
}

#[test]
fn traps_say_what_the_gate_said() {
    fails("trap", FailureKind::Trapped, "trapped");
    fails("panic", FailureKind::Trapped, "the gate panics as it was told");
    fails("exit", FailureKind::Trapped, "exit code");
}

#[test]
fn memory_table_and_stack_are_limited() {
    fails("grow", FailureKind::LimitExceeded, "memory: 64 MiB");
    fails("grow-double", FailureKind::LimitExceeded, "memory: 64 MiB");
    fails("stack", FailureKind::Trapped, "");
    let deep = core("local.get 0 local.get 1 call $deep drop", PASS)
        + "(func $deep (param i32 i32) (result i32) local.get 1 local.get 0 call $deep i32.const 1 i32.add)";
    let gate = guests::load(&json_gate(&deep)).unwrap();
    let failure = gate.evaluate(&request(), patient()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::LimitExceeded, "{failure}");
    let table = core(
        "(drop (table.grow $t (ref.null func) (i32.const 20000))) unreachable",
        PASS,
    ) + "(table $t 1 funcref)";
    let failure = guests::load(&json_gate(&table))
        .unwrap()
        .evaluate(&request(), patient())
        .unwrap_err();
    assert_eq!(failure.kind, FailureKind::LimitExceeded, "{failure}");
    assert!(failure.message.contains("table"), "{failure}");
}

#[test]
fn handles_are_limited() {
    let taking = |many: u32| {
        let count = "(global.set $taken (i32.add (global.get $taken) (i32.const 1)))";
        let body =
            format!("(loop call $get_stdout drop {count} (br_if 0 (i32.lt_u (global.get $taken) (i32.const {many}))))");
        let core = core(&body, PASS) + "(global $taken (mut i32) (i32.const 0))";
        let gate = guests::load(&guests::component_with_output(&core)).unwrap();
        gate.evaluate(&request(), patient())
    };
    taking(200).unwrap();
    let failure = taking(300).unwrap_err();
    assert_eq!(failure.kind, FailureKind::LimitExceeded, "{failure}");
    assert!(failure.message.contains("handle"), "{failure}");
}

#[test]
fn memory_of_a_policy_is_what_a_gate_gets() {
    // It begins with 2 MiB.
    let gate = guests::load(&json_gate(&core("", PASS).replace("\"memory\") 2", "\"memory\") 32"))).unwrap();
    assert!(gate.evaluate(&request(), Limits::new(5_000, 2)).is_ok());
    let failure = gate.evaluate(&request(), Limits::new(5_000, 1)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::LimitExceeded, "{failure}");
}

#[test]
fn an_answer_of_ten_megabytes_is_too_large() {
    fails("answer-10mb", FailureKind::AnswerTooLarge, "1048576 bytes");
    fails("many-pieces", FailureKind::AnswerTooLarge, "1048576 bytes");
}

#[test]
fn an_error_of_the_guest_is_no_verdict() {
    fails("error", FailureKind::GuestError, "as it was told");
    fails("empty-reason", FailureKind::AnswerInvalid, "without a reason");
}

#[test]
fn nobody_sleeps() {
    for mode in ["sleep", "sleep-std"] {
        let began = Instant::now();
        fails(mode, FailureKind::Trapped, "may not wait");
        assert!(began.elapsed() < Duration::from_secs(5), "{mode}");
    }
}

#[test]
fn files_sockets_and_environment_are_not_there() {
    for mode in ["file", "socket"] {
        let probes = pieces(told(mode).unwrap());
        assert!(probes.len() >= 3);
        for (what, result) in probes {
            assert_ne!(result, "ok", "{mode}: {what}");
        }
    }
    assert!(pieces(told("env").unwrap()).iter().all(|(_, count)| count == "0"));
}

#[test]
fn clocks_stand_at_the_time_of_the_request() {
    let clocks = pieces(told("clock").unwrap());
    assert_eq!(clocks[0], ("wall-ms".to_owned(), NOW_MS.to_string()));
    assert_eq!(clocks[1], ("passed-ns".to_owned(), "0".to_owned()));
}

#[test]
fn randomness_is_the_request_s() {
    let of = |stage: &str| {
        let mut request = telling("random");
        request.stage = stage.to_owned();
        pieces(hostile().evaluate(&request, patient()).unwrap())
    };
    assert_eq!(of("dev"), of("dev"));
    assert_ne!(of("dev"), of("prod"));
}

#[test]
fn log_and_output_are_bounded_and_no_failure() {
    let evaluation = told("log-flood").unwrap();
    assert!(evaluation.log.len() <= 64 && !evaluation.log.is_empty());
    assert_eq!(
        evaluation.log.iter().map(|line| line.message.len()).sum::<usize>(),
        8 << 10
    );
    assert_eq!(evaluation.log[0].level, Level::Info);
    assert_eq!(pieces(told("stdout-flood").unwrap())[0].0, "survived");
}

#[test]
fn a_fresh_instance_answers_every_call() {
    let mut counting = core(
        "(i32.store8 (i32.const 1024) (i32.add (i32.load8_u (i32.const 1024)) (i32.const 1)))",
        PASS,
    );
    // The first byte of the answer counts calls: the second of an instance that is used again would be no JSON.
    counting = counting.replacen("(i32.const 1024) \"{", "(i32.const 1024) \"z", 1);
    let gate = guests::load(&json_gate(&counting)).unwrap();
    for _ in 0..20 {
        gate.evaluate(&request(), patient()).unwrap();
    }
}

#[test]
fn more_calls_than_slots_wait_for_their_turn() {
    let engine = Engine::new(1).unwrap();
    let gate = Gate::load(&engine, file_of(&compile(&wasm("gate_hostile")).unwrap())).unwrap();
    drop(engine);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    gate.evaluate(&telling("pass"), patient()).unwrap();
                }
            });
        }
    });
    let began = Instant::now();
    drop(gate);
    assert!(began.elapsed() < Duration::from_secs(2));
}
