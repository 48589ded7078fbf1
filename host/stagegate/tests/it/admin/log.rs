//! The log and the admin port of the real binary.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::binary::{Cluster, SECRET};
use super::{asked, get};
use crate::harness::{policy, shop, workload};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_line_of_a_json_log_is_an_object_and_stages_are_told_with_their_policy() {
    let cluster = Cluster::start("json").await;
    let environment = [("RUST_LOG", "debug")];
    let process = cluster.run(
        &["--log-format", "json", "--admin-address", "127.0.0.1:0"],
        &environment,
    );
    let serving: Value = serde_json::from_str(&process.line_with("serving /livez")).unwrap();
    let address = serving["address"].as_str().unwrap().parse().unwrap();
    cluster.create(&[shop(), workload("web"), policy("web")]).await;
    cluster.until_completed("web").await;
    assert_eq!(asked(address, "/livez").await, (200, "ok".to_owned()));
    let (_, metrics) = asked(address, "/metrics").await;
    assert!(metrics.contains("stagegate_stages_opened_total 3\n"), "{metrics}");
    let (code, took, lines) = process.terminate();
    assert_eq!(code, Some(0));
    assert!(took < std::time::Duration::from_secs(2), "{took:?}");
    assert!(get(address, "/livez").is_err(), "the port is closed");
    cluster.stop().await;

    let parse =
        |line: &String| -> Value { serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")) };
    let told: Vec<Value> = lines.iter().map(parse).collect();
    for line in &told {
        for member in ["timestamp", "level", "message", "target"] {
            assert!(line[member].is_string(), "{line}");
        }
    }
    let of_staging = |message: &str| {
        let found = told
            .iter()
            .find(|line| line["message"] == message && line["level"] == "INFO");
        let line = found.unwrap_or_else(|| panic!("nothing says {message:?}"));
        assert_eq!(line["policy"], "web", "{line}");
        assert_eq!(
            (&line["span"]["controller"], &line["span"]["key"]),
            (&"staging".into(), &"web".into()),
            "{line}"
        );
    };
    for message in [
        "opened stage dev",
        "stage dev has passed; stage test is next",
        "stage test has passed; stage prod is next",
        "all 3 stages have passed",
    ] {
        of_staging(message);
    }
    // The start, each hold and pass of a stage, and the end; lines that repeat are at `debug`.
    let infos = told.iter().filter(|line| line["level"] == "INFO").count();
    assert!((5..30).contains(&infos), "{infos} lines at info");
    let secrets = lines.iter().filter(|line| line.contains(SECRET));
    assert_eq!(secrets.collect::<Vec<_>>(), Vec::<&String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_has_no_colour_where_no_terminal_is_and_a_storm_of_warnings_is_a_few_lines() {
    let cluster = Cluster::start("text").await;
    let process = cluster.run(&[], &[]);
    process.line_with("starting");
    let definitions = kube::Api::<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    >::all(cluster.server.client());
    definitions
        .delete("bindings.control.kubestellar.io", &Default::default())
        .await
        .unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(12)).await;
    let (code, _, lines) = process.terminate();
    cluster.stop().await;
    assert_eq!(code, Some(0), "{lines:#?}");
    assert!(lines.iter().all(|line| !line.contains('\u{1b}')), "{lines:#?}");
    let about = lines.iter().filter(|line| line.contains("bindings")).count();
    assert!((1..=6).contains(&about), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_that_is_taken_ends_the_process_and_is_named_with_its_flag() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let cases = [
        (
            address.as_str(),
            Some(4),
            vec!["--admin-address", address.as_str(), "in use"],
        ),
        (
            "nowhere.invalid:80",
            Some(4),
            vec!["--admin-address", "nowhere.invalid:80"],
        ),
        ("8080", Some(2), vec!["--admin-address", "0.0.0.0:8080"]),
        (":8080", Some(2), vec!["--admin-address"]),
    ];
    for (given, code, words) in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stagegate"));
        command.args(["run", "--admin-address", given, "--kubeconfig", "/nowhere"]);
        let ended = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), code, "{given}: {said}");
        for word in words {
            assert!(said.contains(word), "{given}: {said}");
        }
    }
}
