//! Gates that were built against the interface as it once was, and are never built again.

use std::path::Path;

use stagegate_evaluate::gate::wire::{Decision, Level, Pass};
use stagegate_evaluate::gate::{FailureKind, Interface, inspect};

use super::guests::{load, patient};
use super::requests::request;

const COMPONENT: &[u8] = include_bytes!("../../data/gate-0.1/echo.wasm");
const INTERFACE: &str = include_str!("../../data/gate-0.1/gate.wit");

#[test]
fn a_gate_of_0_1_0_is_loaded_and_asked() {
    assert_eq!(inspect(COMPONENT).unwrap(), Interface::Typed);
    let gate = load(COMPONENT).unwrap();
    let description = gate.describe(patient()).unwrap();
    assert_eq!([description.name, description.version], ["echo", "0.1.0"]);
    let evaluation = gate.evaluate(&request(), patient()).unwrap();
    let pass = Pass {
        valid_for_ms: Some(request().attempt),
    };
    assert_eq!(evaluation.verdict.decision, Decision::Pass(pass));
    let saw = |name: &str| {
        let pieces = evaluation.verdict.evidence.iter().filter(|piece| piece.name == name);
        pieces.map(|piece| piece.value.clone()).collect::<Vec<_>>()
    };
    assert_eq!(saw("policy"), ["nginx"]);
    assert_eq!(saw("object"), ["nginx", "web"]);
    assert_eq!(saw("updated"), ["-2", "0"]);
    assert_eq!(saw("unhealthy"), ["2", "0"]);
    assert_eq!(saw("cluster"), ["2"]);
    assert_eq!(saw("mixed"), ["2"]);
    assert_eq!(saw("destination"), ["dev-1", "dev-2"]);
    assert_eq!(saw("earlier"), ["condition", "first", "second", "third"]);
    assert_eq!(evaluation.log[0].level, Level::Info);
    assert_eq!(evaluation.log[0].message, "asked");
}

/// The same gate, as if it were of another release: the host goes by the number in its exports.
fn released_as(version: &str) -> Vec<u8> {
    let mut component = COMPONENT.to_vec();
    let (old, new) = (b"stagegate:gate/gate@0.1.0", format!("stagegate:gate/gate@{version}"));
    while let Some(at) = component.windows(old.len()).position(|bytes| bytes == old) {
        component[at..at + old.len()].copy_from_slice(new.as_bytes());
    }
    component
}

#[test]
fn another_release_of_0_1_is_asked_alike() {
    let gate = load(&released_as("0.1.9")).unwrap();
    assert!(gate.evaluate(&request(), patient()).is_ok());
}

#[test]
fn a_typed_gate_of_0_2_is_refused() {
    let failure = load(&released_as("0.2.0")).err().unwrap();
    assert_eq!(failure.kind, FailureKind::OtherVersion, "{failure}");
}

/// What was added within a version is another matter: `a_gate_of_0_1_0_is_loaded_and_asked` sees whether it broke a type.
#[test]
fn everything_of_the_interface_is_still_there_or_it_has_another_version() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/gate.wit");
    let now = std::fs::read_to_string(path).unwrap();
    let package = |text: &str| {
        text.lines()
            .find(|line| line.starts_with("package "))
            .unwrap()
            .to_owned()
    };
    if package(&now) == package(INTERFACE) {
        let mut now = without_comments(&now).into_iter();
        for line in without_comments(INTERFACE) {
            assert!(now.any(|other| other == line), "`{line}` is gone, or elsewhere");
        }
    }
}

fn without_comments(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .collect()
}
