//! `stagegate status`, `revisions` and `watch` against an API server over a socket: what they find there, and their exit codes.

use std::process::Output;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use stagegate_api::workloads::YurtAppDaemon;
use stagegate_api::{StagedBindingPolicy, crd};

use super::run::Served;
use super::{stagegate, text};

/// A server with the definitions and one policy, `nginx`.
async fn with_policy(test: &str) -> Served {
    let served = Served::start(test).await;
    served.server.install_crds(crd::all_for_playground()).unwrap();
    let policy = json!({"metadata": {"name": "nginx"}, "spec": {"stages": [{"name": "dev"}]}});
    let policy = serde_json::from_value(policy).unwrap();
    let policies: Api<StagedBindingPolicy> = Api::all(served.server.client());
    policies.create(&PostParams::default(), &policy).await.unwrap();
    served
}

/// Puts a status there in the controller's place.
async fn say(served: &Served, phase: &str, ready: &str) {
    say_with(served, phase, &[("Ready", ready)]).await;
}

/// The same with these conditions, each with its status.
async fn say_with(served: &Served, phase: &str, conditions: &[(&str, &str)]) {
    let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "Any", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({
        "observedGeneration": 1, "activeStage": "dev", "phase": phase, "reason": "Unhealthy",
        "conditions": Vec::from_iter(conditions.iter().map(|(type_, status)| condition(type_, status))),
        "stages": [{"name": "dev", "state": "Active", "placedAt": "2026-01-01T00:00:00Z"}],
    });
    let policies: Api<StagedBindingPolicy> = Api::all(served.server.client());
    let patch = Patch::Merge(json!({"status": status}));
    policies
        .patch_status("nginx", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// A server with the definitions of the workload controllers and a YurtAppDaemon, `nginx` in namespace `shop`, that has this phase.
async fn with_daemon(test: &str, phase: &str, ready: &str) -> Served {
    let served = Served::start(test).await;
    served.server.install_crds(crd::workloads()).unwrap();
    let namespaces: Api<Namespace> = Api::all(served.server.client());
    let namespace = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let labels = json!({"app": "nginx"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"template": {"metadata": {"labels": labels}}}});
    let daemon = json!({"metadata": {"name": "nginx"}, "spec": {
        "selector": {"matchLabels": labels}, "nodepoolSelector": {}, "workloadTemplate": {"deploymentTemplate": template},
        "updateStrategy": {"stages": [{"name": "canary", "nodepoolSelector": {}}]},
    }});
    let daemons: Api<YurtAppDaemon> = Api::namespaced(served.server.client(), "shop");
    let daemon = serde_json::from_value(daemon).unwrap();
    daemons.create(&PostParams::default(), &daemon).await.unwrap();
    let message = "1 of 3 pools updated";
    let condition = json!({"type": "Ready", "status": ready, "reason": "RollingOut", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({
        "observedGeneration": 1, "activeStage": "canary", "phase": phase, "reason": "RollingOut", "currentRevision": "",
        "totalWorkloads": 3, "updatedWorkloads": 1, "readyWorkloads": 3, "conditions": [condition],
        "stages": [{"name": "canary", "state": "Active", "pools": 3, "updated": 1}],
    });
    let patch = Patch::Merge(json!({"status": status}));
    daemons
        .patch_status("nginx", &PatchParams::default(), &patch)
        .await
        .unwrap();
    served
}

fn ask(served: &Served, arguments: &[&str]) -> Output {
    let kubeconfig = served.kubeconfig.display().to_string();
    let all = [arguments, &["--kubeconfig", &kubeconfig]].concat();
    tokio::task::block_in_place(|| stagegate(&all))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_exit_code_of_status_says_whether_a_rollout_is_done() {
    let served = with_policy("status-codes").await;
    assert_eq!(
        ask(&served, &["status", "nginx"]).status.code(),
        Some(3),
        "no status yet"
    );
    for (phase, ready, code) in [
        ("Progressing", "False", 3),
        ("Paused", "False", 3),
        ("Holding", "False", 1),
        ("Failed", "False", 1),
        ("Stalled", "False", 1),
        ("Completed", "False", 3),
        ("Completed", "True", 0),
    ] {
        say(&served, phase, ready).await;
        let ended = ask(&served, &["status", "nginx"]);
        assert_eq!(ended.status.code(), Some(code), "{phase} {ready}");
        let said = text(&ended.stdout);
        assert!(said.contains(&format!("nginx  {phase}")), "{said}");
        assert!(!said.contains('\u{1b}'), "a pipe has no colours: {said}");
        let json = ask(&served, &["status", "nginx", "-o", "json"]);
        assert_eq!(json.status.code(), Some(code), "{phase} {ready}");
        let said: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!((&said["type"], &said["phase"]), (&json!("status"), &json!(phase)));
        assert_eq!(said["advice"][0]["reason"], "Unhealthy");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_says_what_to_do_about_a_second_controller_while_there_is_one() {
    let served = with_policy("status-contested").await;
    for (contested, is_said) in [("True", true), ("False", false)] {
        say_with(&served, "Progressing", &[("Ready", "False"), ("Contested", contested)]).await;
        let said = text(&ask(&served, &["status", "nginx"]).stdout);
        assert_eq!(
            said.contains("  SecondController: Find the other process"),
            is_said,
            "{said}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revisions_end_with_exit_code_0_whatever_has_become_of_the_rollout() {
    let served = with_policy("revisions").await;
    for phase in [None, Some("Progressing"), Some("Failed")] {
        if let Some(phase) = phase {
            say(&served, phase, "False").await;
        }
        let ended = ask(&served, &["revisions", "nginx"]);
        assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
        let said = text(&ended.stdout);
        assert!(said.starts_with("Updates are immediate: "), "{said}");
        assert!(said.contains("\nSTAGE  REVISION  SINCE"), "{said}");
        assert!(!said.contains('\u{1b}'), "a pipe has no colours: {said}");
        let json = ask(&served, &["revisions", "nginx", "-o", "json"]);
        assert_eq!(json.status.code(), Some(0));
        let said: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(
            (&said["type"], &said["updates"]),
            (&json!("revisions"), &json!("Immediate"))
        );
        let awaited = phase.map_or("the controller", |_| "Unhealthy");
        assert_eq!(said["stages"][0]["waitsFor"], awaited);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_is_not_there_is_an_error_at_once_with_the_name_that_was_meant() {
    let served = with_policy("status-names").await;
    for (command, rest) in [("status", &[][..]), ("revisions", &[]), ("watch", &["--timeout", "5s"])] {
        for (name, said) in [
            (
                "ngnix",
                "error: there is no StagedBindingPolicy \"ngnix\"; did you mean nginx?\n",
            ),
            (
                "shop",
                "error: there is no StagedBindingPolicy \"shop\"; `kubectl get sbp` lists those that there are\n",
            ),
        ] {
            let ended = ask(&served, &[&[command, name], rest].concat());
            assert_eq!(ended.status.code(), Some(2), "{command} {name}");
            assert_eq!(text(&ended.stderr), said, "{command} {name}");
            assert_eq!(text(&ended.stdout), "", "{command} {name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_crd_is_an_error_that_says_how_to_install_it() {
    let served = Served::start("status-crd").await;
    let config = std::fs::read_to_string(&served.kubeconfig).unwrap();
    let (_, rest) = config.split_once("http://").unwrap();
    let address: String = rest
        .chars()
        .take_while(|it| it.is_ascii_digit() || ".:".contains(*it))
        .collect();
    let expected = format!(
        "error: the StagedBindingPolicy CRD is not installed on the server {address}: `stagegate crds | kubectl apply -f -` installs it\n"
    );
    for arguments in [
        &["status", "nginx"][..],
        &["revisions", "nginx"],
        &["watch", "nginx"],
        &["watch"],
        &["watch", "--until", "Completed"],
    ] {
        let ended = ask(&served, arguments);
        assert_eq!(ended.status.code(), Some(4), "{arguments:?}");
        assert_eq!(text(&ended.stderr), expected, "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_ends_at_the_phase_that_was_asked_for_or_in_another_final_one_or_after_its_time() {
    let served = with_policy("watch-until").await;
    say(&served, "Completed", "True").await;
    for (arguments, code, ended_as) in [
        (&["watch", "nginx", "--until", "Completed"][..], 0, "Completed"),
        (&["watch", "--until", "Completed"], 0, "Completed"),
        (&["watch", "nginx", "--until", "Holding"], 1, "Completed"),
        (&["watch", "nginx", "--timeout", "500ms"], 3, "TimedOut"),
    ] {
        let ended = ask(&served, &[arguments, &["-o", "json"]].concat());
        assert_eq!(
            ended.status.code(),
            Some(code),
            "{arguments:?}: {}",
            text(&ended.stderr)
        );
        let lines = text(&ended.stdout);
        let line = |text: Option<&str>| -> Value { serde_json::from_str(text.unwrap()).unwrap() };
        let (first, last) = (line(lines.lines().next()), line(lines.lines().last()));
        assert_eq!(last["ended"], ended_as, "{arguments:?}");
        // The stage was placed long before the watch began.
        assert!(first["elapsedMs"].as_u64().unwrap() > 24 * 3_600_000, "{first}");
    }
    let waiting = ask(&served, &["watch", "--until", "Failed", "--timeout", "500ms"]);
    assert_eq!(waiting.status.code(), Some(1), "{}", text(&waiting.stdout));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_and_watch_show_a_yurtappdaemon_of_its_namespace() {
    for (phase, ready, code) in [
        ("Progressing", "False", 3),
        ("Failed", "False", 1),
        ("Completed", "True", 0),
    ] {
        let served = with_daemon(&format!("daemon-{phase}"), phase, ready).await;
        for name in ["yad/nginx", "udd/nginx", "yurtappdaemon/nginx", "yurtappdaemons/nginx"] {
            let ended = ask(&served, &["status", name, "-n", "shop"]);
            assert_eq!(
                ended.status.code(),
                Some(code),
                "{phase} {name}: {}",
                text(&ended.stderr)
            );
            let said = text(&ended.stdout);
            assert!(said.contains(&format!("nginx  {phase}")), "{said}");
            assert!(said.contains("1 of 3 pools updated"), "{said}");
            assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
        }
        let json = ask(&served, &["status", "yad/nginx", "-n", "shop", "-o", "json"]);
        let said: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(
            (&said["namespace"], &said["updated"], &said["total"]),
            (&json!("shop"), &json!(1), &json!(3))
        );
        let wait = [
            "watch",
            "yad/nginx",
            "--namespace",
            "shop",
            "--until",
            "Completed",
            "--timeout",
            "500ms",
        ];
        let ended = ask(&served, &wait);
        let reached = match phase {
            "Completed" => 0,
            "Failed" => 1,
            _ => 3,
        };
        assert_eq!(ended.status.code(), Some(reached), "{phase}: {}", text(&ended.stderr));
        let said = text(&ended.stdout);
        assert!(said.contains("nginx canary Active: 1 of 3 pools updated"), "{said}");
        assert!(said.contains(" POOLS "), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_yurtappdaemon_whose_new_spec_cannot_be_carried_out_is_stalled_and_not_unseen() {
    let served = with_daemon("status-stalled", "Stalled", "False").await;
    let daemons: Api<YurtAppDaemon> = Api::namespaced(served.server.client(), "shop");
    let edit = Patch::Merge(json!({"spec": {"revisionHistoryLimit": 3}}));
    daemons.patch("nginx", &PatchParams::default(), &edit).await.unwrap();
    for (seen, code) in [(1, 3), (2, 1)] {
        let condition = json!({"type": "Stalled", "status": "True", "reason": "InvalidExpression", "message": "it does not compile",
            "observedGeneration": seen, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let status = Patch::Merge(json!({"status": {"reason": "InvalidExpression", "conditions": [condition]}}));
        daemons
            .patch_status("nginx", &PatchParams::default(), &status)
            .await
            .unwrap();
        let ended = ask(&served, &["status", "yad/nginx", "-n", "shop"]);
        let said = text(&ended.stdout);
        assert_eq!(ended.status.code(), Some(code), "{said}");
        assert_eq!(said.contains("This status is about generation 1"), code == 3, "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_yurtappdaemon_that_is_not_there_is_an_error_with_its_namespace() {
    let served = with_daemon("daemon-names", "Progressing", "False").await;
    for (arguments, said) in [
        (
            &["yad/ngnix", "-n", "shop"][..],
            "error: there is no YurtAppDaemon \"ngnix\" in namespace shop; did you mean nginx?\n",
        ),
        (
            &["yad/nginx"],
            "error: there is no YurtAppDaemon \"nginx\" in namespace default: the namespace default has none at all\n",
        ),
    ] {
        for command in ["status", "watch"] {
            let ended = ask(&served, &[&[command], arguments].concat());
            assert_eq!(ended.status.code(), Some(2), "{command} {arguments:?}");
            assert_eq!(text(&ended.stderr), said, "{command} {arguments:?}");
        }
    }
    let unknown = ask(&served, &["status", "deploy/nginx", "-n", "shop"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("the kinds are sbp and yad"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_definition_of_yurtappdaemon_is_an_error_that_says_how_to_install_it() {
    let served = Served::start("daemon-crd").await;
    for arguments in [&["status", "yad/nginx"][..], &["watch", "yad/nginx"]] {
        let ended = ask(&served, arguments);
        assert_eq!(ended.status.code(), Some(4), "{arguments:?}");
        let said = text(&ended.stderr);
        assert!(
            said.starts_with("error: the YurtAppDaemon CRD is not installed on the server "),
            "{said}"
        );
        assert!(
            said.ends_with("`stagegate crds --workloads | kubectl apply -f -` installs it\n"),
            "{said}"
        );
    }
}
