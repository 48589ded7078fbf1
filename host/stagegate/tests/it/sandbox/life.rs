//! How run children begin and end.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use stagegate_evaluate::gate::{FailureKind, Limits};
use stagegate_sandbox::{Cache, Sandbox, SandboxOptions};

use super::{HOSTILE, SAMPLE, exists, having, holds, kind, options, process_of, signal, told, until};
use crate::guests;

#[test]
fn a_child_that_was_killed_between_two_requests_is_replaced_unnoticed() {
    let sandbox = having(&HOSTILE);
    assert!(holds(&sandbox));
    let first = process_of(&sandbox, &HOSTILE.digest);
    signal(first, Signal::KILL);
    // Its pipe is closed when its last thread has ended, which may be after the first.
    until("the kill has come through", || {
        let stat = std::fs::read_to_string(format!("/proc/{first}/stat"));
        let threads = std::fs::read_dir(format!("/proc/{first}/task")).map_or(0, Iterator::count);
        stat.map_or(true, |stat| stat.contains(") Z ") && threads <= 1)
    });
    assert!(holds(&sandbox));
    assert_ne!(process_of(&sandbox, &HOSTILE.digest), first);
    assert!(!exists(first), "it was reaped");
}

#[test]
fn a_child_that_dies_at_work_breaks_that_call_and_is_replaced_after_a_second() {
    let sandbox = having(&HOSTILE);
    assert!(holds(&sandbox));
    let first = process_of(&sandbox, &HOSTILE.digest);
    let at_work = {
        let sandbox = Arc::clone(&sandbox);
        std::thread::spawn(move || told(&sandbox, "loop", Limits::new(5_000, 16)))
    };
    std::thread::sleep(Duration::from_millis(200));
    signal(first, Signal::KILL);
    let failure = at_work.join().unwrap().unwrap_err();
    assert_eq!(failure.kind, FailureKind::SandboxBroken);
    assert!(failure.message.contains("SIGKILL"), "{failure}");
    assert!(!exists(first), "it was reaped");

    let refused = told(&sandbox, "hold", Limits::default()).unwrap_err();
    assert_eq!(refused.kind, FailureKind::SandboxBroken);
    assert!(refused.message.contains("again in"), "{refused}");
    until("it may be started again", || holds(&sandbox));
}

#[test]
fn a_child_that_misses_its_deadline_is_killed_and_reaped() {
    let sandbox = having(&HOSTILE);
    assert!(holds(&sandbox));
    let child = process_of(&sandbox, &HOSTILE.digest);
    signal(child, Signal::STOP);
    let started = Instant::now();
    let failure = told(&sandbox, "hold", Limits::new(100, 16)).unwrap_err();
    let took = started.elapsed();
    assert_eq!(failure.kind, FailureKind::TimedOut, "{failure}");
    assert!(
        took >= Duration::from_millis(1_100) && took < Duration::from_secs(3),
        "{took:?}"
    );
    assert!(!exists(child));
    assert!(sandbox.processes().is_empty());
}

#[test]
fn each_module_has_a_child_of_its_own_and_the_least_recently_used_makes_room() {
    let modules = [
        (&HOSTILE.digest, "gate_hostile"),
        (&SAMPLE.digest, "gate_min_available"),
    ];
    let cache = Some(Cache::open(&HOSTILE.directory).unwrap());
    let roomy = Sandbox::new(SandboxOptions { cache, ..options() });
    for (digest, name) in modules {
        roomy.load(digest, &guests::wasm(name)).unwrap();
    }
    assert_ne!(process_of(&roomy, modules[0].0), process_of(&roomy, modules[1].0));

    let narrow = Sandbox::new(SandboxOptions {
        cache: Some(Cache::open(&HOSTILE.directory).unwrap()),
        children_max: 1,
        ..options()
    });
    for _ in 0..2 {
        for (digest, name) in modules {
            narrow.load(digest, &guests::wasm(name)).unwrap();
            let checked = narrow.check_config(digest, "[]").unwrap();
            assert!(checked.is_err(), "a list is no config of {name}");
            let processes = narrow.processes();
            assert_eq!(processes.len(), 1);
            assert_eq!(processes[0].0, *digest);
        }
    }
}

#[test]
fn callers_of_one_module_and_of_more_modules_than_children_all_get_their_own_answers() {
    let sandbox = Sandbox::new(SandboxOptions {
        cache: Some(Cache::open(&HOSTILE.directory).unwrap()),
        children_max: 1,
        ..options()
    });
    sandbox
        .load(&SAMPLE.digest, &guests::wasm("gate_min_available"))
        .unwrap();
    std::thread::scope(|scope| {
        for caller in 0..4 {
            let sandbox = &sandbox;
            scope.spawn(move || {
                for _ in 0..5 {
                    if caller % 2 == 0 {
                        assert!(holds(sandbox));
                    } else {
                        let checked = sandbox.check_config(&SAMPLE.digest, "{\"do\": \"hold\"}").unwrap();
                        assert!(checked.is_err(), "the other module would take it");
                    }
                }
            });
        }
    });
}

#[test]
fn a_sandbox_that_is_dropped_takes_its_children_with_it() {
    let sandbox = having(&HOSTILE);
    assert!(holds(&sandbox));
    let child = process_of(&sandbox, &HOSTILE.digest);
    drop(sandbox);
    assert!(!exists(child));
}

#[test]
fn children_outlive_the_threads_that_asked_for_them() {
    let sandbox = having(&HOSTILE);
    std::thread::scope(|scope| drop(scope.spawn(|| assert!(holds(&sandbox)))));
    let child = process_of(&sandbox, &HOSTILE.digest);
    std::thread::sleep(Duration::from_millis(50));
    assert!(holds(&sandbox));
    assert_eq!(process_of(&sandbox, &HOSTILE.digest), child);
}

#[test]
fn no_child_outlives_a_host_that_is_killed() {
    let mut host = Command::new(env!("CARGO_BIN_EXE_stagegate"))
        .args(["gate", "run", "--request", "-", "--timeout", "5s"])
        .arg(guests::path("gate_hostile"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let request = serde_json::to_vec(&guests::telling("loop")).unwrap();
    host.stdin.take().unwrap().write_all(&request).unwrap();
    let mut child = None;
    until("the run child is there", || {
        child = run_child_of(host.id());
        child.is_some()
    });
    let child = child.unwrap();
    // Busy with the gate, it does not look at its pipe.
    std::thread::sleep(Duration::from_millis(300));
    assert!(exists(child));
    host.kill().unwrap();
    host.wait().unwrap();
    let killed = Instant::now();
    until("the child is gone", || !exists(child) || is_zombie(child));
    assert!(killed.elapsed() < Duration::from_secs(1), "{:?}", killed.elapsed());
}

/// The process that a host has started as `sandbox run`.
fn run_child_of(host: u32) -> Option<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{host}/task")).ok()?;
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    let children: Vec<u32> = children
        .flat_map(|children| {
            children
                .split_whitespace()
                .filter_map(|id| id.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect();
    children.into_iter().find(|child| {
        let command = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        command.split(|byte| *byte == 0).nth(2) == Some(b"run")
    })
}

/// Dead, and nobody has asked for its status yet: its new parent's business.
fn is_zombie(process: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| stat.contains(") Z "))
}

#[test]
fn a_program_that_cannot_be_started_is_a_broken_sandbox() {
    let sandbox = Sandbox::new(SandboxOptions {
        program: "/nonexistent/stagegate".into(),
        ..SandboxOptions::default()
    });
    let component = guests::exporting("");
    let digest = stagegate_decide::names::Digest::of_bytes(&component);
    let failure = sandbox.load(&digest, &component).unwrap_err();
    assert_eq!(failure.kind, FailureKind::SandboxBroken);
    assert!(failure.message.contains("/nonexistent/stagegate"), "{failure}");
}

#[test]
fn a_program_that_answers_nonsense_is_a_broken_sandbox() {
    // It prints its arguments, which is no answer to anything.
    let sandbox = Sandbox::new(SandboxOptions {
        program: "/bin/echo".into(),
        ..SandboxOptions::default()
    });
    let component = guests::exporting("");
    let digest = stagegate_decide::names::Digest::of_bytes(&component);
    assert_eq!(kind(sandbox.load(&digest, &component)), FailureKind::SandboxBroken);
}
