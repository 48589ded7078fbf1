//! From a component's bytes to a gate that answers, and all the ways there that end early.

use std::fmt::Write as _;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use stagegate_decide::names::Digest;
use stagegate_evaluate::gate::limits::COMPONENT_BYTES_MAX;
use stagegate_evaluate::gate::{FailureKind, Limits};
use stagegate_sandbox::{Sandbox, SandboxOptions};

use super::{HOSTILE, folder, having, kind, options};
use crate::guests;

fn load(component: &[u8]) -> Result<stagegate_evaluate::gate::wire::Description, stagegate_evaluate::gate::Failure> {
    Sandbox::new(options()).load(&Digest::of_bytes(component), component)
}

#[test]
fn a_gate_says_what_it_is_and_judges_configs_by_its_schema() {
    let sandbox = having(&HOSTILE);
    let description = sandbox.load(&HOSTILE.digest, &guests::wasm("gate_hostile")).unwrap();
    assert_eq!(description.name, "hostile");
    assert_eq!(sandbox.check_config(&HOSTILE.digest, r#"{"do": "hold"}"#), Ok(Ok(())));
    let refused = sandbox
        .check_config(&HOSTILE.digest, r#"{"do": 3}"#)
        .unwrap()
        .unwrap_err();
    assert!(refused.contains("/do"), "{refused}");
    let refused = sandbox.check_config(&HOSTILE.digest, "{").unwrap().unwrap_err();
    assert!(refused.contains("not JSON"), "{refused}");
}

#[test]
fn what_is_no_gate_is_refused_by_what_it_is() {
    let other_version = r#"(component (instance $g) (export "stagegate:gate/gate@0.2.0" (instance $g)))"#;
    let cases = [
        (b"#!/bin/sh".to_vec(), FailureKind::NotWasm),
        (Vec::new(), FailureKind::NotWasm),
        (wat::parse_str("(module)").unwrap(), FailureKind::CoreModule),
        (wat::parse_str("(component)").unwrap(), FailureKind::OtherWorld),
        (wat::parse_str(other_version).unwrap(), FailureKind::OtherVersion),
        (guests::exporting(""), FailureKind::OtherWorld),
        (vec![0; COMPONENT_BYTES_MAX + 1], FailureKind::TooLarge),
    ];
    for (component, expected) in cases {
        let failure = load(&component).unwrap_err();
        assert_eq!(failure.kind, expected, "{failure}");
    }
}

#[test]
fn a_component_that_ties_up_the_compiler_is_cut_and_tried_again_later_and_others_still_compile() {
    let bomb = guests::exporting(&nested_loops());
    assert!(bomb.len() < 50_000, "{} bytes", bomb.len());
    let digest = Digest::of_bytes(&bomb);
    let sandbox = Sandbox::new(options());
    let failure = sandbox.load(&digest, &bomb).unwrap_err();
    assert!(failure.message.contains("2 s of processor time"), "{failure}");
    assert!(!failure.kind.is_lasting(), "on a busy machine another one may be cut");
    let again = Instant::now();
    assert_eq!(sandbox.load(&digest, &bomb), Err(failure));
    assert!(
        again.elapsed() < Duration::from_millis(500),
        "it was compiled again: {:?}",
        again.elapsed()
    );

    let component = guests::wasm("gate_min_available");
    assert!(sandbox.load(&Digest::of_bytes(&component), &component).is_ok());
    // The first delay, at the latest by now.
    std::thread::sleep(Duration::from_secs(1));
    let later = Instant::now();
    assert!(sandbox.load(&digest, &bomb).is_err());
    assert!(later.elapsed() > Duration::from_secs(1), "it was not tried again");
}

/// A program in the place of the children's that does `script` where there is no file yet of the name it is given, and leaves
/// one; after that it is the real one.
fn failing_once(name: &str, script: &str) -> PathBuf {
    let directory = folder(name);
    std::fs::create_dir_all(&directory).unwrap();
    let (program, marker) = (directory.join("program"), directory.join("failed"));
    let real = options().program;
    let (marker, real) = (marker.display(), real.display());
    let text = format!("#!/bin/sh\nif [ ! -e '{marker}' ]; then : > '{marker}'; {script}; fi\nexec '{real}' \"$@\"\n");
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o700)).unwrap();
    program
}

#[test]
fn a_compiling_process_that_ends_before_it_answers_is_no_fault_of_the_module() {
    let component = guests::wasm("gate_min_available");
    let digest = Digest::of_bytes(&component);
    for (name, script) in [
        ("aborts", "kill -ABRT $$"),
        ("faults", "kill -SEGV $$"),
        ("is-cut", "kill -XCPU $$"),
        ("cannot-begin", "exit 1"),
        (
            "has-no-memory",
            "echo memory allocation of 8 bytes failed >&2; kill -ABRT $$",
        ),
    ] {
        let program = failing_once(name, script);
        let sandbox = Sandbox::new(SandboxOptions { program, ..options() });
        let failure = sandbox.load(&digest, &component).unwrap_err();
        assert!(!failure.kind.is_lasting(), "{name}: {:?}, {failure}", failure.kind);
        assert_eq!(sandbox.load(&digest, &component), Err(failure), "{name}: it waits");
        std::thread::sleep(Duration::from_millis(1_100));
        if let Err(failure) = sandbox.load(&digest, &component) {
            panic!("{name}: {failure}");
        }
    }
}

#[test]
fn a_panic_of_the_compiler_is_for_good() {
    let component = guests::wasm("gate_min_available");
    let digest = Digest::of_bytes(&component);
    let program = failing_once("panics", "echo thread main panicked at cranelift >&2; exit 101");
    let sandbox = Sandbox::new(SandboxOptions { program, ..options() });
    let failure = sandbox.load(&digest, &component).unwrap_err();
    assert_eq!(failure.kind, FailureKind::NotCompiled, "{failure}");
    assert!(failure.message.contains("panicked at cranelift"), "{failure}");
}

/// One function of some kilobytes whose control flow costs a compiler seconds: every branch brings another value of every
/// local to the head of another loop.
fn nested_loops() -> String {
    const LOOPS: usize = 300;
    const LOCALS: usize = 200;
    let mut text = String::from("(func (export \"f\") (param i32)");
    text.push_str(&" (local i32)".repeat(LOCALS));
    text.push_str(&" loop".repeat(LOOPS));
    for branch in 0..1_000 {
        let (to, from, by) = (branch % LOCALS, (branch * 7 + 3) % LOCALS, (branch + 1) % LOCALS);
        write!(text, " (local.set {to} (i32.add (local.get {from}) (local.get {by})))").unwrap();
        write!(text, " (br_if {} (local.get {to}))", branch % LOOPS).unwrap();
    }
    text.push_str(&" end".repeat(LOOPS));
    text.push(')');
    text
}

#[test]
fn bytes_that_are_not_those_of_the_digest_are_refused_and_not_held_against_it() {
    let sandbox = having(&HOSTILE);
    assert_eq!(kind(sandbox.load(&HOSTILE.digest, b"else")), FailureKind::SandboxBroken);
    assert!(sandbox.load(&HOSTILE.digest, &guests::wasm("gate_hostile")).is_ok());
}

#[test]
fn a_module_that_was_never_loaded_is_not_loaded() {
    let sandbox = Sandbox::new(options());
    let digest = Digest::of_bytes(b"nothing");
    let request = guests::telling("hold");
    assert_eq!(
        kind(sandbox.evaluate(&digest, &request, Limits::default())),
        FailureKind::NotLoaded
    );
    assert_eq!(kind(sandbox.check_config(&digest, "{}")), FailureKind::NotLoaded);
    assert!(sandbox.processes().is_empty(), "no process was started for it");
}

#[test]
fn several_callers_load_a_module_once() {
    let component = guests::wasm("gate_min_available");
    let digest = Digest::of_bytes(&component);
    let alone = Instant::now();
    Sandbox::new(options()).load(&digest, &component).unwrap();
    let alone = alone.elapsed();
    let sandbox = Sandbox::new(options());
    let together = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| sandbox.load(&digest, &component).unwrap());
        }
    });
    assert!(
        together.elapsed() < alone * 8,
        "16 callers took {:?}, one {alone:?}",
        together.elapsed()
    );
}
