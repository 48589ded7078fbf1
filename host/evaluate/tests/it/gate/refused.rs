//! Components that are refused, each with the kind that names the cause.

use stagegate_evaluate::gate::limits::COMPONENT_BYTES_MAX;
use stagegate_evaluate::gate::{FailureKind, Interface, compatibility, compile, inspect};

use super::guests::{core, json_gate, json_gate_with, load, load_artifact, patient, wasm};
use super::requests::request;

const PASS: &str = r#"{"decision":{"pass":{"validForMs":null}},"evidence":[]}"#;

#[track_caller]
fn refused(component: &[u8], kind: FailureKind, says: &str) {
    let inspected = inspect(component).expect_err("it is no gate");
    for failure in [inspected, compile(component).expect_err("it is no gate")] {
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(failure.message.contains(says), "{failure}");
    }
}

#[test]
fn bytes_that_are_no_webassembly_are_named_so() {
    refused(b"", FailureKind::NotWasm, "not WebAssembly");
    refused(b"#!/bin/sh\n", FailureKind::NotWasm, "not WebAssembly");
    let whole = json_gate(&core("", PASS));
    for length in 0..whole.len() {
        // Cut where only a name or the like is missing, the rest may still be read.
        let kind = inspect(&whole[..length]).err().map(|failure| failure.kind);
        let known = [Some(FailureKind::NotWasm), Some(FailureKind::OtherWorld), None];
        assert!(known.contains(&kind), "{length}: {kind:?}");
    }
    refused(&whole[..whole.len() / 2], FailureKind::NotWasm, "reading it failed");
}

#[test]
fn a_core_module_is_named_so() {
    let module = wat::parse_str("(module)").unwrap();
    refused(&module, FailureKind::CoreModule, "core module");
}

#[test]
fn a_component_without_a_gate_is_of_another_world() {
    let empty = wat::parse_str("(component)").unwrap();
    refused(&empty, FailureKind::OtherWorld, "exports no gate");
    let other = r#"(component (instance $i) (export "wasi:http/incoming-handler@0.2.0" (instance $i)))"#;
    refused(
        &wat::parse_str(other).unwrap(),
        FailureKind::OtherWorld,
        "wasi:http/incoming-handler@0.2.0",
    );
}

#[test]
fn a_gate_within_another_component_is_not_its_export() {
    let inner = r#"(component (component (instance $i) (export "stagegate:gate/gate@0.1.0" (instance $i))))"#;
    refused(&wat::parse_str(inner).unwrap(), FailureKind::OtherWorld, "nothing");
}

#[test]
fn a_gate_of_a_later_version_is_named_with_its_version() {
    let later = json_gate_with("", &core("", PASS), "0.2.0");
    refused(&later, FailureKind::OtherVersion, "stagegate:gate/gate-json@0.2.0");
}

#[test]
fn a_later_release_of_the_same_version_is_taken() {
    let later = json_gate_with("", &core("", PASS), "0.1.7");
    assert_eq!(inspect(&later).unwrap(), Interface::Json);
    assert!(load(&later).unwrap().evaluate(&request(), patient()).is_ok());
}

#[test]
fn an_import_that_no_gate_gets_is_named() {
    for import in [
        "wasi:http/types@0.2.0",
        "wasi:io/poll@0.3.0",
        "stagegate:gate/secrets@0.1.0",
        "anything",
    ] {
        let imports = format!(r#"(import "{import}" (instance))"#);
        refused(
            &json_gate_with(&imports, &core("", PASS), "0.1.0"),
            FailureKind::OtherWorld,
            import,
        );
    }
}

#[test]
fn an_import_of_a_wrong_type_is_refused_when_loaded() {
    let imports = r#"(import "stagegate:gate/log@0.1.0" (instance (export "write" (func (param "n" u32)))))"#;
    let failure = load(&json_gate_with(imports, &core("", PASS), "0.1.0")).err().unwrap();
    assert_eq!(failure.kind, FailureKind::OtherWorld, "{failure}");
}

#[test]
fn exports_of_wrong_types_are_refused_when_loaded() {
    let wrong = r#"(component (instance $i) (export "stagegate:gate/gate@0.1.0" (instance $i)))"#;
    let failure = load(&wat::parse_str(wrong).unwrap()).err().unwrap();
    assert_eq!(failure.kind, FailureKind::OtherWorld, "{failure}");
}

#[test]
fn a_component_that_no_config_map_holds_is_too_large() {
    let component = vec![0; COMPONENT_BYTES_MAX + 1];
    refused(&component, FailureKind::TooLarge, "1048577 bytes");
}

#[test]
fn code_that_does_not_validate_is_not_compiled() {
    let invalid = json_gate(&core("i64.const 1 drop", PASS));
    assert!(compile(&invalid).is_ok());
    // A constant of another type: the text format would not let it through.
    let at = invalid
        .windows(3)
        .position(|bytes| bytes == [0x42, 0x01, 0x1a])
        .unwrap();
    let mut broken = invalid;
    broken[at + 2] = 0x6a;
    assert_eq!(compile(&broken).unwrap_err().kind, FailureKind::NotCompiled);
}

#[test]
fn a_gate_that_wants_more_than_a_slot_has_is_over_a_limit() {
    for declared in [
        "(memory (export \"big\") 1)",
        "(table 1000000 funcref)",
        &"(table 1 funcref)".repeat(20),
    ] {
        let component = json_gate(&format!("{} {declared}", core("", PASS)));
        match load(&component) {
            Err(failure) => {
                let known = [FailureKind::LimitExceeded, FailureKind::NotCompiled];
                assert!(known.contains(&failure.kind), "{declared}: {failure:?}");
            }
            Ok(_) => panic!("{declared}: loaded"),
        }
    }
    let memory = json_gate(&core("", PASS).replace("\"memory\") 2", "\"memory\") 65536"));
    assert_eq!(load(&memory).err().unwrap().kind, FailureKind::LimitExceeded);
}

#[test]
fn what_no_compiler_wrote_is_no_artifact() {
    for bytes in [&b""[..], b"not an artifact", &json_gate(&core("", PASS))] {
        let failure = load_artifact(bytes).err().unwrap();
        assert_eq!(failure.kind, FailureKind::ArtifactRefused, "{failure}");
    }
}

#[test]
fn compatibility_is_the_same_every_time() {
    let compatibility = compatibility();
    assert_eq!(compatibility.len(), 64);
    assert!(compatibility.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!(compatibility, stagegate_evaluate::gate::compatibility());
}

#[test]
fn a_guest_of_the_sdk_is_typed() {
    assert_eq!(inspect(&wasm("gate_hostile")).unwrap(), Interface::Typed);
}
