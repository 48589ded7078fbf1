//! `stagegate gate`: what an author sees of a component.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use stagegate_decide::names::Digest;

use super::{stagegate, text};
use crate::guests;

fn component(name: &str) -> String {
    guests::path(name).display().to_string()
}

fn written(name: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("stagegate-test-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).expect("the temporary directory is writable");
    path
}

fn parsed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", text(&output.stdout), text(&output.stderr)))
}

/// `gate run` of the hostile guest, which is told what to do over standard input.
fn run(mode: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stagegate"));
    command
        .args(["gate", "run", &component("gate_hostile"), "--request", "-"])
        .args(arguments);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary was built with this test");
    let request = serde_json::to_vec(&guests::telling(mode)).expect("a request is JSON");
    let written = child.stdin.take().expect("a pipe").write_all(&request);
    let ended = child.wait_with_output().expect("it ends");
    // A run that refuses its arguments may end before it has read its request.
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => assert!(!ended.status.success(), "{error}"),
        written => written.expect("it reads"),
    }
    ended
}

#[test]
fn check_says_which_world_size_digest_and_what_the_gate_is() {
    let bytes = guests::wasm("gate_min_available");
    let ended = stagegate(&["gate", "check", &component("gate_min_available"), "-o", "json"]);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    let answer = parsed(&ended);
    assert_eq!(answer["world"], "gate-world");
    assert_eq!(answer["bytes"], bytes.len());
    assert_eq!(answer["digest"], format!("sha256:{}", Digest::of_bytes(&bytes)));
    assert_eq!(answer["name"], "min-available");
    assert!(answer["configSchema"].is_object(), "{answer}");
    assert!(answer["gzipBytes"].as_u64() < answer["bytes"].as_u64());
    let shown = text(&stagegate(&["gate", "check", &component("gate_min_available")]).stdout);
    for part in ["min-available", "gate-world", "sha256:", "packed"] {
        assert!(shown.contains(part), "no {part} in {shown}");
    }
}

#[test]
fn check_of_what_is_no_gate_is_exit_code_1_with_the_cause_and_the_fix() {
    let core = written("core.wasm", &wat::parse_str("(module)").expect("a module"));
    let path = core.display().to_string();
    let ended = stagegate(&["gate", "check", &path]);
    assert_eq!(ended.status.code(), Some(1));
    let said = text(&ended.stderr);
    assert!(said.contains("core module") && said.contains("wasm32-wasip2"), "{said}");
    let answer = parsed(&stagegate(&["gate", "check", &path, "-o", "json"]));
    assert_eq!(answer["failure"]["kind"], "CoreModule");
    assert!(
        answer["failure"]["advice"]
            .as_str()
            .is_some_and(|advice| !advice.is_empty())
    );
    drop(std::fs::remove_file(core));
    assert_eq!(
        stagegate(&["gate", "check", "/nonexistent.wasm"]).status.code(),
        Some(2)
    );
}

#[test]
fn run_prints_the_verdict_and_its_exit_code_says_whether_it_is_a_pass() {
    let pass = run("pass", &["-o", "json"]);
    assert_eq!(pass.status.code(), Some(0), "{}", text(&pass.stderr));
    let verdict = json!({"decision": {"pass": {"validForMs": null}}, "evidence": []});
    assert_eq!(parsed(&pass), json!({"outcome": "pass", "verdict": verdict, "log": []}));
    for (mode, outcome, decision) in [("hold", "hold", "hold"), ("fail", "fail", "fail")] {
        let ended = run(mode, &["-o", "json"]);
        assert_eq!(ended.status.code(), Some(1), "{mode}");
        let answer = parsed(&ended);
        assert_eq!(answer["outcome"], outcome);
        assert!(
            answer["verdict"]["decision"][decision]["reason"].is_string(),
            "{answer}"
        );
    }
    let held = run("hold", &[]);
    assert_eq!(held.status.code(), Some(1));
    assert!(text(&held.stdout).starts_with("hold: "), "{}", text(&held.stdout));
}

#[test]
fn run_without_a_verdict_is_unknown_and_keeps_to_the_limits_it_is_given() {
    let ended = run("loop", &["--timeout", "50ms", "-o", "json"]);
    assert_eq!(ended.status.code(), Some(1));
    let answer = parsed(&ended);
    assert_eq!(
        (&answer["outcome"], &answer["failure"]["kind"]),
        (&json!("unknown"), &json!("TimedOut"))
    );
    assert!(
        answer["failure"]["message"]
            .as_str()
            .is_some_and(|message| message.contains("50 ms")),
        "{answer}"
    );
    let ended = run("grow", &["--memory", "4Mi"]);
    assert_eq!(
        (ended.status.code(), text(&ended.stdout)),
        (Some(1), "unknown\n".to_owned())
    );
    assert!(text(&ended.stderr).contains("4 MiB"), "{}", text(&ended.stderr));
    for wrong in [
        ["--timeout", "1000s"],
        ["--timeout", "5"],
        ["--memory", "64"],
        ["--memory", "300Mi"],
    ] {
        assert_eq!(run("pass", &wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_request_that_is_none_is_a_usage_error() {
    let request = written("request.json", b"{\"policy\": 3}");
    let path = request.display().to_string();
    let ended = stagegate(&["gate", "run", &component("gate_hostile"), "--request", &path]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(text(&ended.stderr).contains("wit/README.md"), "{}", text(&ended.stderr));
    drop(std::fs::remove_file(request));
}

/// The component in a manifest, unpacked, and whether it was packed.
fn unpacked(manifest: &[u8]) -> (ConfigMap, Vec<u8>, bool) {
    let config_map: ConfigMap = serde_saphyr::from_str(&text(manifest)).expect("the manifest is YAML");
    let data = config_map.binary_data.as_ref().expect("binaryData");
    let value = &data.values().next().expect("an entry").0;
    if !value.starts_with(&[0x1f, 0x8b]) {
        return (config_map.clone(), value.clone(), false);
    }
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(value.as_slice())
        .read_to_end(&mut bytes)
        .expect("gzip");
    (config_map, bytes, true)
}

#[test]
fn configmap_is_a_manifest_of_the_same_bytes_plain_or_packed() {
    let small = guests::wasm("gate_min_available");
    let file = written(
        "small.wasm",
        &wat::parse_str(r#"(component (instance $g) (export "stagegate:gate/gate@0.1.0" (instance $g)))"#)
            .expect("a component"),
    );
    let path = file.display().to_string();
    let ended = stagegate(&[
        "gate",
        "configmap",
        "sample",
        &path,
        "--namespace",
        "gates",
        "--key",
        "x.wasm",
    ]);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    let (config_map, bytes, packed) = unpacked(&ended.stdout);
    assert_eq!((bytes, packed), (std::fs::read(&file).expect("it was written"), false));
    assert_eq!(config_map.metadata.name.as_deref(), Some("sample"));
    assert_eq!(config_map.metadata.namespace.as_deref(), Some("gates"));
    assert!(config_map.binary_data.is_some_and(|data| data.contains_key("x.wasm")));
    drop(std::fs::remove_file(file));

    // A section of its own makes it larger than what `kubectl apply` takes, and no other gate.
    let mut large = small;
    let filler = vec![b'x'; 400_000];
    large.push(0);
    large.extend(leb128(filler.len() + 2));
    large.extend([1, b'f']);
    large.extend(filler);
    let file = written("large.wasm", &large);
    let ended = stagegate(&["gate", "configmap", "sample", &file.display().to_string()]);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    assert!(text(&ended.stderr).contains(&format!("sha256:{}", Digest::of_bytes(&large))));
    let (config_map, bytes, packed) = unpacked(&ended.stdout);
    assert!(packed && bytes == large);
    assert_eq!(config_map.metadata.namespace.as_deref(), Some("stagegate-gates"));
    assert!(ended.stdout.len() < 256 << 10, "a client-side apply takes it");
    // What was packed by others is taken, too.
    let packed_file = written(
        "packed.wasm.gz",
        &config_map.binary_data.expect("binaryData")["gate.wasm"].0,
    );
    let checked = stagegate(&["gate", "check", &packed_file.display().to_string(), "-o", "json"]);
    assert_eq!(
        parsed(&checked)["digest"],
        format!("sha256:{}", Digest::of_bytes(&large))
    );
    drop(std::fs::remove_file(file));
    drop(std::fs::remove_file(packed_file));
}

/// A WebAssembly number of any size.
fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

#[test]
fn configmap_says_what_to_do_about_a_component_above_a_mebibyte() {
    let mut large = guests::exporting("");
    large.resize((1 << 20) + 1, 0);
    let file = written("too-large.wasm", &large);
    let ended = stagegate(&["gate", "configmap", "sample", &file.display().to_string()]);
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(text(&ended.stdout), "");
    let said = text(&ended.stderr);
    assert!(said.contains("1 MiB") && said.contains("strip"), "{said}");
    drop(std::fs::remove_file(file));
    let refused = stagegate(&["gate", "configmap", "Not_A_Name", "x.wasm"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn the_hidden_children_are_not_shown_to_people() {
    let help = text(&stagegate(&["--help"]).stdout);
    assert!(help.contains("gate") && !help.contains("sandbox"), "{help}");
}
