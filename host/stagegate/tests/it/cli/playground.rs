//! `stagegate playground`: whole rollouts in one process of the real binary.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{repository, stagegate, text};
use crate::guests;

/// The sample, and a manifest of the ConfigMap that its gate needs.
fn three_stages() -> [String; 2] {
    [
        repository("deploy/examples/three-stages"),
        min_available("three-stages"),
    ]
}

/// A manifest of the ConfigMap that the gate of a sample needs, as `make demo` makes it.
fn min_available(sample: &str) -> String {
    let component = guests::path("gate_min_available").display().to_string();
    let made = stagegate(&["gate", "configmap", "min-available", &component]);
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    let name = format!("stagegate-test-{}-{sample}-gate.yaml", std::process::id());
    let manifest = std::env::temp_dir().join(name);
    std::fs::write(&manifest, made.stdout).expect("the temporary directory is writable");
    manifest.display().to_string()
}

/// The JSON lines of a playground, the last of which is the summary.
fn events(output: &[u8]) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text(output).lines().map(parse).collect()
}

#[test]
fn the_shortest_policy_completes_and_an_image_that_crash_loops_never_leaves_its_first_stage() {
    let sample = repository("deploy/examples/shortest");
    let ended = stagegate(&["playground", &sample, "--until", "Completed", "-o", "json"]);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    let passed: Vec<Value> = events(&ended.stdout)
        .into_iter()
        .filter(|event| event["type"] == "state" && event["state"] == "Passed")
        .map(|event| event["stage"].clone())
        .collect();
    assert_eq!(passed, ["dev", "test", "prod"]);

    let broken = std::env::temp_dir().join(format!("stagegate-test-{}-broken.yaml", std::process::id()));
    let workload = std::fs::read_to_string(format!("{sample}/workload.yaml")).expect("the example is there");
    std::fs::write(&broken, workload.replace("nginx:1.29", "nginx:broken"))
        .expect("the temporary directory is writable");
    let [clusters, policy] = ["clusters", "policy"].map(|file| format!("{sample}/{file}.yaml"));
    let files = [clusters, policy, broken.display().to_string()];
    let mut arguments = vec!["playground"];
    arguments.extend(files.iter().map(String::as_str));
    arguments.extend(["--until", "Completed", "--timeout", "5s", "-o", "json"]);
    let ended = stagegate(&arguments);
    assert_ne!(ended.status.code(), Some(0), "{}", text(&ended.stdout));
    let summary = events(&ended.stdout).pop().expect("the last line is the summary");
    assert_eq!(summary["policies"][0]["activeStage"], "dev", "{summary}");
    assert_eq!(summary["policies"][0]["reason"], "Unhealthy", "{summary}");
}

#[test]
fn the_three_stages_are_taken_in_order_and_within_ten_seconds() {
    let began = Instant::now();
    let [sample, gate] = three_stages();
    let ended = stagegate(&["playground", &sample, &gate, "--until", "Completed", "-o", "json"]);
    let took = began.elapsed();
    assert_eq!(
        ended.status.code(),
        Some(0),
        "{}\n{}",
        text(&ended.stdout),
        text(&ended.stderr)
    );
    assert!(took < Duration::from_secs(10), "took {took:?}");

    let events = events(&ended.stdout);
    let passed: Vec<&str> = events
        .iter()
        .filter(|event| event["type"] == "state" && event["state"] == "Passed")
        .filter_map(|event| event["stage"].as_str())
        .collect();
    assert_eq!(passed, ["dev", "test", "prod"]);
    let said: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "check" && event["check"] == "gate/min-available")
        .collect();
    let outcomes: Vec<&str> = said.iter().filter_map(|check| check["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["Hold", "Pass"], "{said:?}");
    let share = |check: &Value| check["evidence"][1].clone();
    assert_eq!(share(said[0]), serde_json::json!({"name": "share", "value": "0"}));
    assert_eq!(share(said[1]), serde_json::json!({"name": "share", "value": "1"}));
    let summary = events.last().expect("a summary");
    assert_eq!(summary["type"], "summary");
    assert_eq!(summary["ended"], "Completed");
    let checks = summary["policies"][0]["stages"][1]["checks"]
        .as_array()
        .expect("a list");
    let gate = checks
        .iter()
        .find(|check| check["check"] == "gate/min-available")
        .expect("a gate");
    assert_eq!(gate["moduleDigest"], said[1]["moduleDigest"]);
    assert!(
        gate["moduleDigest"]
            .as_str()
            .is_some_and(|digest| digest.starts_with("sha256:")),
        "{gate}"
    );
    assert_eq!(summary["policies"][0]["phase"], "Completed");
    assert_eq!(summary["policies"][0]["activeStage"], "prod");
    assert_eq!(
        summary["policies"][0]["stages"][2]["clusters"],
        serde_json::json!(["prod-1", "prod-2"])
    );
}

#[test]
fn a_yurtappdaemon_goes_through_its_stages_on_simulated_nodes() {
    let pools = repository("deploy/examples/pools");
    let (nodes, gate) = (format!("{pools}/playground"), min_available("pools"));
    let goal = ["--until", "Completed", "--timeout", "50s", "-o", "json"];
    let mut arguments = vec!["playground", &pools, &nodes, &gate];
    arguments.extend(goal);
    let ended = stagegate(&arguments);
    let said = text(&ended.stdout);
    assert_eq!(ended.status.code(), Some(0), "{said}\n{}", text(&ended.stderr));
    let events = events(&ended.stdout);
    let of = |kind: &str, member: &str| -> Vec<&Value> {
        let of_kind = events.iter().filter(|event| event["type"] == kind);
        of_kind.filter(|event| event[member].is_string()).collect()
    };
    let passed: Vec<&Value> = of("state", "stage")
        .into_iter()
        .filter(|event| event["state"] == "Passed")
        .map(|event| &event["stage"])
        .collect();
    assert_eq!(passed, ["canary", "rest"], "{said}");
    let of_gate = of("check", "check")
        .into_iter()
        .filter(|event| event["check"] == "gate/min-available");
    let mut outcomes: Vec<&Value> = of_gate.map(|check| &check["outcome"]).collect();
    outcomes.dedup();
    assert_eq!(outcomes, ["Hold", "Pass"], "{said}");
    let summary = events.last().expect("a summary");
    assert_eq!(summary["policies"][0]["phase"], "Completed");
}

#[test]
fn a_playground_shows_rollouts_of_one_kind() {
    let [pools, policy] = ["deploy/examples/pools", "deploy/examples/shortest"].map(repository);
    let both = stagegate(&["playground", &pools, &policy, "--until", "Completed"]);
    assert_eq!(both.status.code(), Some(2));
    let said = text(&both.stderr);
    assert!(said.contains("start one playground for each kind"), "{said}");
    let twice = format!("{pools}/yurtappdaemon.yaml");
    let twice = stagegate(&["playground", &pools, &twice, "--until", "Completed"]);
    let said = text(&twice.stderr);
    assert!(said.contains("more than one YurtAppDaemon named nginx"), "{said}");
}

#[test]
fn both_original_samples_complete_unchanged() {
    for sample in ["original-nginx-obj.yaml", "original-nginx-combinedstatus.yaml"] {
        let (setting, policy) = (
            repository("deploy/examples/nginx-original"),
            repository(&format!("tests/data/{sample}")),
        );
        let ended = stagegate(&["playground", &setting, &policy, "--until", "Completed"]);
        assert_eq!(
            ended.status.code(),
            Some(0),
            "{sample}\n{}\n{}",
            text(&ended.stdout),
            text(&ended.stderr)
        );
        let shown = text(&ended.stdout);
        assert!(shown.contains("Completed"), "{shown}");
        assert!(shown.contains("POLICY"), "no table at the end: {shown}");
    }
}

#[test]
fn a_goal_that_is_not_reached_in_time_is_exit_code_3_and_the_last_words_say_what_was_missing() {
    let sample = repository("deploy/examples/three-stages");
    let ended = stagegate(&[
        "playground",
        &sample,
        "--until",
        "Failed",
        "--timeout",
        "600ms",
        "-o",
        "json",
    ]);
    assert_eq!(
        ended.status.code(),
        Some(3),
        "{}\n{}",
        text(&ended.stdout),
        text(&ended.stderr)
    );
    let events = events(&ended.stdout);
    let summary = events.last().expect("a summary");
    assert_eq!(
        (&summary["type"], &summary["ended"]),
        (&"summary".into(), &"TimedOut".into())
    );
}

#[test]
fn a_cluster_that_is_short_of_a_replica_holds_the_rollout_and_is_named() {
    let file = std::env::temp_dir().join(format!("stagegate-test-{}-short.yaml", std::process::id()));
    let cluster = "\
apiVersion: playground.community.kubestellar.io/v1alpha1
kind: SimulatedCluster
metadata: {name: dev-2, labels: {env: dev}}
spec: {rules: [{kind: Deployment, status: {availableReplicas: 1}}]}
";
    std::fs::write(&file, cluster).expect("the temporary directory is writable");
    // Applied after the sample, so that it replaces the sample's cluster of this name.
    let (sample, path) = (repository("deploy/examples/three-stages"), file.display().to_string());
    let mut playground = Ended(
        Command::new(env!("CARGO_BIN_EXE_stagegate"))
            .args(["playground", &sample, &path, "-o", "json"])
            .args(["--until", "Completed", "--timeout", "60s"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary was built with this test"),
    );
    let lines = BufReader::new(playground.0.stdout.take().expect("piped")).lines();
    let events = lines.map(|line| serde_json::from_str::<Value>(&line.expect("text")).expect("one event a line"));
    // Until dev-1 has rolled out, which takes as long as the machine is slow, the check names dev-1.
    let held = events
        .filter(|event| event["stage"] == "dev" && event["type"] == "check")
        .find(|event| {
            let message = event["message"].as_str().unwrap_or_default();
            message.contains("dev-2: deployments.apps") && message.contains("has 1 of 2 replicas available")
        })
        .expect("a check that names the cluster, before the time is up");
    assert_eq!(held["outcome"], "Hold", "{held}");
    drop(std::fs::remove_file(file));
}

#[test]
fn what_the_api_server_refuses_is_named_by_file_document_and_message() {
    let file = std::env::temp_dir().join(format!("stagegate-test-{}-refused.yaml", std::process::id()));
    let manifests = "\
apiVersion: v1
kind: Namespace
metadata: {name: fine}
---
apiVersion: community.kubestellar.io/v1alpha1
kind: StagedBindingPolicy
metadata: {name: refused}
spec:
  downsync: [{resources: [deployments]}]
  stages: []
";
    std::fs::write(&file, manifests).expect("the temporary directory is writable");
    let path = file.display().to_string();
    let ended = stagegate(&["playground", &path, "--until", "Completed"]);
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(
        said.contains(&format!(
            "{path}:5: document 2: applying StagedBindingPolicy \"refused\""
        )),
        "{said}"
    );
    assert!(said.contains("spec.stages"), "{said}");
    drop(std::fs::remove_file(file));
}

#[test]
fn a_served_playground_answers_on_its_kubeconfig_until_it_is_interrupted() {
    let kubeconfig = std::env::temp_dir().join(format!("stagegate-test-{}-served.kubeconfig", std::process::id()));
    let path = kubeconfig.display().to_string();
    let mut child = Command::new(env!("CARGO_BIN_EXE_stagegate"))
        .args([
            "playground",
            &repository("deploy/examples/three-stages/clusters.yaml"),
            "--serve",
            "--kubeconfig",
            &path,
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built with this test");
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut ready = String::new();
    stderr.read_line(&mut ready).expect("a first line");
    assert!(ready.starts_with("API server ready on http://127.0.0.1:"), "{ready}");

    let begun = Instant::now();
    let clusters = loop {
        let watched = stagegate_api_get(&path, "/apis/cluster.open-cluster-management.io/v1/managedclusters");
        let names = watched.matches("\"ManagedCluster\"").count();
        if names >= 5 || begun.elapsed() > Duration::from_secs(10) {
            break names;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(clusters >= 5, "{clusters} clusters");
    let interrupted = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .expect("kill exists");
    assert!(interrupted.success());
    let ended = child.wait().expect("the child was started");
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).expect("text");
    assert_eq!(ended.code(), Some(0), "{rest}");
    drop(std::fs::remove_file(kubeconfig));
}

#[test]
fn a_gate_that_kubectl_makes_of_a_file_guards_a_stage() {
    let kubectl = |kubeconfig: &str, arguments: &[&str]| {
        let mut command = Command::new("kubectl");
        command.args(arguments).env("KUBECONFIG", kubeconfig).output()
    };
    if kubectl("", &["version", "--client"]).is_err() {
        eprintln!("skipped: kubectl is not on PATH");
        return;
    }
    let kubeconfig = std::env::temp_dir().join(format!("stagegate-test-{}-gate.kubeconfig", std::process::id()));
    let path = kubeconfig.display().to_string();
    let _playground = Ended(
        Command::new(env!("CARGO_BIN_EXE_stagegate"))
            .args(["playground", &repository("deploy/examples/three-stages")])
            .args(["--serve", "--kubeconfig", &path])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary was built with this test"),
    );
    let expect = |line: &str, wanted: &str| {
        let arguments: Vec<&str> = line.split(' ').collect();
        let output = kubectl(&path, &arguments).expect("kubectl was found before");
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(
            output.status.success() && said.contains(wanted),
            "kubectl {line}: {said}"
        );
    };
    let begun = Instant::now();
    while !kubectl(&path, &["get", "sbp/nginx"]).is_ok_and(|output| output.status.success()) {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "the playground does not answer"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    expect(
        "wait sbp/nginx --for=jsonpath={.status.reason}=GateModuleMissing --timeout=30s",
        "condition met",
    );
    let component = guests::path("gate_min_available").display().to_string();
    let create = format!("create configmap min-available -n stagegate-gates --from-file=gate.wasm={component}");
    expect(&create, "configmap/min-available created");
    expect(
        "wait sbp/nginx --for=condition=Completed --timeout=60s",
        "condition met",
    );
    drop(std::fs::remove_file(kubeconfig));
}

/// A program that ends with the test, however that ends.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let killed = self.0.kill().and_then(|()| self.0.wait());
        drop(killed);
    }
}

/// A plain GET of the server that a kubeconfig names.
fn stagegate_api_get(kubeconfig: &str, path: &str) -> String {
    use std::io::Write as _;
    let text = std::fs::read_to_string(kubeconfig).expect("written before the server is ready");
    let address = text.split("http://").nth(1).expect("a server").trim_start();
    let address: String = address
        .chars()
        .take_while(|character| character.is_ascii_digit() || ".:".contains(*character))
        .collect();
    let mut stream = std::net::TcpStream::connect(&address).expect("the server listens");
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: application/json\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server answers in text");
    answer
}
