//! The components that the tests run: built from this repository once for each run of the tests, or written as text.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use stagegate_evaluate::gate::wire::{Destinations, Request};

const TARGET: &str = "wasm32-wasip2";

/// The component of a package of this workspace, by the name of its file without its ending.
pub fn wasm(name: &str) -> Vec<u8> {
    let path = path(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Where that component is.
pub fn path(name: &str) -> PathBuf {
    BUILT.join(format!("{name}.wasm"))
}

static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
    let status = Command::new(env!("CARGO"))
        // Where the linker's flags for gates are found.
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .args(["build", "--quiet", "--target", TARGET, "--profile", "gate"])
        .args(["--package", "gate-hostile", "--package", "gate-min-available"])
        .arg("--target-dir")
        .arg(&target)
        .status()
        .unwrap();
    assert!(status.success(), "building the guests: {status}");
    target.join(TARGET).join("gate")
});

/// A request without objects that tells the hostile guest what to do.
pub fn telling(mode: &str) -> Request {
    Request {
        policy: "p".to_owned(),
        stage: "s".to_owned(),
        attempt: 1,
        now_ms: 1_700_000_000_000,
        config: serde_json::json!({"do": mode}).to_string(),
        objects: Vec::new(),
        destinations: Destinations::default(),
        earlier: Vec::new(),
    }
}

/// A component that exports a gate by name only, and holds this core module.
pub fn exporting(module: &str) -> Vec<u8> {
    let text = format!(
        r#"(component
            (core module {module})
            (instance $gate)
            (export "stagegate:gate/gate-json@0.1.0" (instance $gate)))"#
    );
    wat::parse_str(text).unwrap()
}

/// A component that is a gate of the JSON twin by its types, in this version of the interface, and traps before it could
/// say anything.
pub fn dead_on_start(version: &str) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(component
            (core module $m
                (memory (export "memory") 1)
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) unreachable)
                (func (export "describe") (result i32) unreachable)
                (func (export "evaluate") (param i32 i32) (result i32) unreachable)
                (func $start unreachable)
                (start $start))
            (core instance $i (instantiate $m))
            (alias core export $i "memory" (core memory $memory))
            (func $describe (result string) (canon lift (core func $i "describe") (memory $memory)))
            (func $evaluate (param "input" string) (result (result string (error string)))
                (canon lift (core func $i "evaluate") (memory $memory) (realloc (core func $i "realloc"))))
            (component $shim
                (import "describe" (func $describe (result string)))
                (import "evaluate" (func $evaluate (param "input" string) (result (result string (error string)))))
                (export "describe" (func $describe))
                (export "evaluate" (func $evaluate)))
            (instance $gate (instantiate $shim
                (with "describe" (func $describe)) (with "evaluate" (func $evaluate))))
            (export "stagegate:gate/gate-json@{version}" (instance $gate)))"#
    ))
    .unwrap()
}

/// A component of no world that is known here, and a core module.
pub fn of_no_world() -> Vec<u8> {
    wat::parse_str("(component)").unwrap()
}

pub fn core_module() -> Vec<u8> {
    wat::parse_str("(module)").unwrap()
}
