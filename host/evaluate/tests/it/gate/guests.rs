//! The components that the tests run: built from this repository once for each run of the tests, or written as text.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use stagegate_evaluate::gate::limits::MEMORY_MIB;
use stagegate_evaluate::gate::wire::Request;
use stagegate_evaluate::gate::{Engine, Evaluation, Failure, Gate, Limits, compile};

use super::requests::request;

const TARGET: &str = "wasm32-wasip2";

/// The component of a package of this workspace, by the name of its file without its ending.
pub fn wasm(name: &str) -> Vec<u8> {
    let path = BUILT.join(format!("{name}.wasm"));
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
    let status = Command::new(env!("CARGO"))
        // Where the linker's flags for gates are found.
        .current_dir(workspace)
        .args(["build", "--quiet", "--target", TARGET, "--profile", "gate"])
        .args(["--package", "gate-hostile", "--package", "gate-min-available"])
        .arg("--target-dir")
        .arg(&target)
        .status()
        .expect("cargo starts");
    assert!(status.success(), "building the guests: {status}");
    target.join(TARGET).join("gate")
});

pub fn hostile() -> &'static Gate {
    static GATE: LazyLock<Gate> = LazyLock::new(|| load(&wasm("gate_hostile")).expect("it loads"));
    &GATE
}

/// Long enough for a machine that is busy with other tests.
pub fn patient() -> Limits {
    Limits::new(5_000, MEMORY_MIB)
}

/// Asks the hostile guest to do something.
pub fn told(mode: &str) -> Result<Evaluation, Failure> {
    told_within(mode, patient())
}

pub fn told_within(mode: &str, limits: Limits) -> Result<Evaluation, Failure> {
    hostile().evaluate(&telling(mode), limits)
}

pub fn telling(mode: &str) -> Request {
    Request {
        config: serde_json::json!({"do": mode}).to_string(),
        ..request()
    }
}

/// Compiles a component and loads it into the engine of the tests.
pub fn load(component: &[u8]) -> Result<Gate, Failure> {
    load_artifact(&compile(component)?)
}

pub fn load_artifact(artifact: &[u8]) -> Result<Gate, Failure> {
    Gate::load(&ENGINE, file_of(artifact))
}

static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(4).expect("an engine starts"));

/// A file of these bytes without a name.
pub fn file_of(bytes: &[u8]) -> File {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!(
        "artifact-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    );
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, bytes).expect("the file is written");
    let file = File::open(&path).expect("the file is there");
    fs::remove_file(&path).expect("the file is ours");
    file
}

/// A component that is a gate by its types: `core` is the text of a core module that exports `memory`, `realloc`, `describe`
/// and `evaluate` of the JSON twin (or what of it matters).
pub fn json_gate(core: &str) -> Vec<u8> {
    json_gate_with("", core, "0.1.0")
}

/// The same with imports before it, and of a version of the interface.
pub fn json_gate_with(imports: &str, core: &str, version: &str) -> Vec<u8> {
    component(imports, core, "(instantiate $m)", version)
}

/// A JSON gate whose core module has the function `$get_stdout` of WASI.
pub fn component_with_output(core: &str) -> Vec<u8> {
    let imports = r#"
        (import "wasi:io/streams@0.2.0" (instance $streams (export "output-stream" (type (sub resource)))))
        (alias export $streams "output-stream" (type $stream))
        (import "wasi:cli/stdout@0.2.0" (instance $stdout
            (alias outer 1 $stream (type $outer))
            (export "output-stream" (type $inner (eq $outer)))
            (export "get-stdout" (func (result (own $inner))))))
        (core func $lowered (canon lower (func $stdout "get-stdout")))"#;
    let core = format!(r#"(import "wasi" "get-stdout" (func $get_stdout (result i32))) {core}"#);
    let instantiate = r#"(instantiate $m (with "wasi" (instance (export "get-stdout" (func $lowered)))))"#;
    component(imports, &core, instantiate, "0.1.0")
}

fn component(imports: &str, core: &str, instantiate: &str, version: &str) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(component
            {imports}
            (core module $m {core})
            (core instance $i {instantiate})
            (alias core export $i "memory" (core memory $memory))
            (func $describe (result string)
                (canon lift (core func $i "describe") (memory $memory)))
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
    .expect("the text is a component")
}

/// A core module of the JSON twin: describes itself with the text at 16, and answers with what is at 0 (a `result`, whose
/// text is at 1024) after `body` has run.
pub fn core(body: &str, answer: &str) -> String {
    let description = r#"{"name":"text","version":"1","summary":"s","configSchema":"{}"}"#;
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        r#"(memory (export "memory") 2)
        (data (i32.const 8) "{description_at}{description_len}")
        (data (i32.const 16) "{description}")
        (data (i32.const 512) "\00\00\00\00{answer_at}{answer_len}")
        (data (i32.const 1024) "{answer}")
        (global $free (mut i32) (i32.const 65536))
        (func (export "realloc") (param i32 i32 i32 i32) (result i32)
            (local $at i32)
            (local.set $at (global.get $free))
            (global.set $free (i32.add (global.get $free) (local.get 3)))
            (local.get $at))
        (func (export "describe") (result i32) i32.const 8)
        (func (export "evaluate") (param i32 i32) (result i32) {body} i32.const 512)"#,
        description_at = le(16),
        description_len = le(description.len()),
        description = escaped(description),
        answer_at = le(1024),
        answer_len = le(answer.len()),
        answer = escaped(answer),
    )
}

/// A number as four bytes in a data string.
fn le(number: usize) -> String {
    let bytes = u32::try_from(number).expect("the text is short").to_le_bytes();
    bytes.iter().map(|byte| format!("\\{byte:02x}")).collect()
}
