//! The statuses of objects at each point of their rollouts.

use super::*;

fn patient<'a>((group, kind): (&'a str, &'a str), manifest: &'a Value, before: &'a RunningReplicas) -> Patient<'a> {
    Patient {
        group,
        kind,
        namespace: Some("shop"),
        name: "nginx",
        manifest,
        generation: Some(3),
        changed_at: at(0),
        before,
    }
}

fn deployment<'a>(manifest: &'a Value, before: &'a RunningReplicas) -> Patient<'a> {
    patient(("apps", "Deployment"), manifest, before)
}

fn spec(yaml: Value) -> SimulatedClusterSpec {
    serde_json::from_value(yaml).unwrap()
}

fn playing(progressing: &str) -> SimulatedClusterSpec {
    spec(json!({"readyAfter": "10s", "rules": [{"progressing": progressing}]}))
}

fn of(image: &str, replicas: i64) -> Value {
    json!({"spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn first() -> RunningReplicas {
    RunningReplicas::default()
}

fn after_old(old: i64) -> RunningReplicas {
    RunningReplicas {
        old,
        ..RunningReplicas::default()
    }
}

/// total, updated, ready, available, unavailable.
fn counts(status: &Value) -> [i64; 5] {
    [
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
    ]
    .map(|name| status[name].as_i64().unwrap_or_default())
}

fn conditions(status: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let line = |it: &Value| format!("{}={}:{}", text(&it["type"]), text(&it["status"]), text(&it["reason"]));
    conditions.map(line).collect()
}

#[test]
fn a_first_rollout_starts_without_counters_of_what_runs_and_says_when_to_look_again() {
    let (manifest, before) = (of("web:1", 2), first());
    let health = examine(
        &deployment(&manifest, &before),
        &spec(json!({"readyAfter": "2s"})),
        at(1),
    );
    let status = health.status.unwrap();
    assert_eq!(
        (&status["observedGeneration"], counts(&status)),
        (&json!(3), [2, 2, 0, 0, 2])
    );
    assert!(status.get("availableReplicas").is_none() && status.get("readyReplicas").is_none());
    assert_eq!(
        conditions(&status),
        [
            "Available=False:MinimumReplicasUnavailable",
            "Progressing=True:ReplicaSetUpdated"
        ]
    );
    assert_eq!(health.changes_at, Some(at(2)));
}

#[test]
fn the_rollout_of_an_edit_keeps_the_old_replicas_available_until_the_new_ones_are_ready() {
    let (manifest, before) = (of("web:2", 2), after_old(2));
    let patient = deployment(&manifest, &before);
    let status = examine(&patient, &playing("Complete"), at(9)).status.unwrap();
    assert_eq!(
        (&status["observedGeneration"], counts(&status)),
        (&json!(3), [3, 1, 2, 2, 1])
    );
    assert_eq!(
        conditions(&status),
        [
            "Available=True:MinimumReplicasAvailable",
            "Progressing=True:ReplicaSetUpdated"
        ]
    );
    assert!(!soundness::is_healthy(&patient, Some(&status)));
    let health = examine(&patient, &playing("Complete"), at(10));
    let status = health.status.unwrap();
    assert_eq!(counts(&status), [2, 2, 2, 2, 0]);
    assert_eq!(
        conditions(&status),
        [
            "Available=True:MinimumReplicasAvailable",
            "Progressing=True:NewReplicaSetAvailable"
        ]
    );
    assert_eq!((health.since, health.changes_at), (at(10), None));
    assert!(soundness::is_healthy(&patient, Some(&status)));
}

#[test]
fn a_stuck_rollout_keeps_the_old_replicas_and_exceeds_its_deadline() {
    let mut manifest = of("web:2", 2);
    manifest["spec"]["progressDeadlineSeconds"] = json!(30);
    let before = after_old(2);
    let patient = deployment(&manifest, &before);
    let health = examine(&patient, &playing("Stuck"), at(29));
    let status = health.status.unwrap();
    assert_eq!(counts(&status), [3, 1, 2, 2, 1]);
    assert_eq!(conditions(&status)[1], "Progressing=True:ReplicaSetUpdated");
    assert_eq!(health.changes_at, Some(at(30)));
    let health = examine(&patient, &playing("Stuck"), at(5_000));
    let status = health.status.unwrap();
    assert_eq!(counts(&status), [3, 1, 2, 2, 1]);
    assert_eq!(
        conditions(&status),
        [
            "Available=True:MinimumReplicasAvailable",
            "Progressing=False:ProgressDeadlineExceeded"
        ]
    );
    assert_eq!((health.since, health.changes_at), (at(30), None));
    assert!(!soundness::is_healthy(&patient, Some(&status)));
    let (manifest, before) = (of("web:1", 2), first());
    let of_default = examine(&deployment(&manifest, &before), &playing("Stuck"), at(1));
    assert_eq!(of_default.changes_at, Some(at(600)));
}

#[test]
fn a_slow_rollout_makes_one_replica_ready_after_the_other() {
    let (manifest, before) = (of("web:2", 4), after_old(4));
    let at_times = [0, 10, 25, 30, 40].map(|second| {
        let health = examine(&deployment(&manifest, &before), &playing("Slow"), at(second));
        (counts(&health.status.unwrap()), health.changes_at)
    });
    let wanted = [
        ([5, 2, 3, 3, 2], Some(at(10))),
        ([5, 3, 3, 3, 2], Some(at(20))),
        ([5, 4, 3, 3, 2], Some(at(30))),
        ([4, 4, 3, 3, 1], Some(at(40))),
        ([4, 4, 4, 4, 0], None),
    ];
    assert_eq!(at_times, wanted);
    let without_a_time = spec(json!({"rules": [{"progressing": "Slow"}]}));
    let health = examine(&deployment(&manifest, &before), &without_a_time, at(0));
    assert_eq!(health.changes_at, Some(at(10)));
}

#[test]
fn progress_of_a_slow_rollout_begins_its_deadline_anew() {
    let mut manifest = of("web:1", 3);
    manifest["spec"]["progressDeadlineSeconds"] = json!(15);
    let before = first();
    for second in [14, 24, 29] {
        let health = examine(&deployment(&manifest, &before), &playing("Slow"), at(second));
        assert_eq!(
            conditions(&health.status.unwrap())[1],
            "Progressing=True:ReplicaSetUpdated"
        );
    }
}

#[test]
fn a_failed_rollout_fails_at_once() {
    let (manifest, before) = (of("web:2", 2), after_old(2));
    let health = examine(&deployment(&manifest, &before), &playing("Failed"), at(0));
    let status = health.status.unwrap();
    assert_eq!(counts(&status), [3, 1, 2, 2, 1]);
    assert_eq!(conditions(&status)[1], "Progressing=False:ProgressDeadlineExceeded");
}

#[test]
fn a_flapping_object_is_healthy_and_unhealthy_in_turns_once_it_was_ready() {
    let (manifest, before) = (of("web:1", 2), first());
    let spec = spec(json!({"readyAfter": "10s", "rules": [{"progressing": "Flapping", "period": "30s"}]}));
    let patient = deployment(&manifest, &before);
    let at_times = [9, 10, 39, 40, 69, 70].map(|second| {
        let health = examine(&patient, &spec, at(second));
        (
            soundness::is_healthy(&patient, health.status.as_ref()),
            health.since,
            health.changes_at,
        )
    });
    let wanted = [
        (false, at(0), Some(at(10))),
        (true, at(10), Some(at(40))),
        (true, at(10), Some(at(40))),
        (false, at(40), Some(at(70))),
        (false, at(40), Some(at(70))),
        (true, at(70), Some(at(100))),
    ];
    assert_eq!(at_times, wanted);
    let status = examine(&patient, &spec, at(41)).status.unwrap();
    assert_eq!(
        conditions(&status),
        [
            "Available=False:MinimumReplicasUnavailable",
            "Progressing=True:NewReplicaSetAvailable"
        ]
    );
}

#[test]
fn a_rule_may_name_the_image_of_a_container() {
    let rules = spec(json!({"rules": [{"image": "web:2", "progressing": "Stuck"}]}));
    let before = first();
    let is_well = |manifest: &Value, kind| {
        let patient = patient(kind, manifest, &before);
        soundness::is_healthy(&patient, examine(&patient, &rules, at(9)).status.as_ref())
    };
    for (image, wanted) in [("web:1", true), ("web:2", false), ("web:22", true)] {
        assert_eq!(is_well(&of(image, 2), ("apps", "Deployment")), wanted, "{image}");
        let pod = json!({"spec": {"containers": [{"name": "a", "image": "other"}, {"name": "b", "image": image}]}});
        assert_eq!(is_well(&pod, ("", "Pod")), wanted, "{image}");
    }
    assert!(is_well(&json!({"spec": {"image": "web:2"}}), ("example.org", "Web")));
}

/// (manifest, what ran before it) after the manifest was replaced.
fn edited(
    manifest: &Value,
    before: &RunningReplicas,
    (next, spec, now): (&Value, &SimulatedClusterSpec, i64),
) -> RunningReplicas {
    running(&deployment(manifest, before), spec, (next, at(now)))
}

#[test]
fn an_edit_of_the_template_makes_old_replicas_of_what_ran_and_one_of_the_count_does_not() {
    let spec = spec(json!({"readyAfter": "10s", "rules": [{"image": "web:2", "progressing": "Stuck"}]}));
    let (v1, v2, v3) = (of("web:1", 2), of("web:2", 2), of("web:3", 2));
    let too_early = edited(&v1, &first(), (&v2, &spec, 9));
    assert_eq!((too_early.old, too_early.current), (0, 0));
    let scaled = edited(&v1, &first(), (&of("web:1", 3), &spec, 10));
    assert_eq!((scaled.old, scaled.current), (0, 2));
    let status = examine(&deployment(&of("web:1", 3), &scaled), &spec, at(9))
        .status
        .unwrap();
    assert_eq!(counts(&status), [3, 3, 2, 2, 1]);
    assert_eq!(conditions(&status)[1], "Progressing=True:NewReplicaSetAvailable");
    let stuck = edited(&v1, &first(), (&v2, &spec, 10));
    assert_eq!((stuck.old, stuck.current), (2, 0));
    let mended = edited(&v2, &stuck, (&v3, &spec, 60));
    assert_eq!((mended.old, mended.current), (2, 0), "those of v1 still run");
    let rolled_back = edited(&v2, &stuck, (&v1, &spec, 60));
    assert_eq!((rolled_back.old, rolled_back.current), (0, 2), "v1 runs already");
}

#[test]
fn a_stateful_set_replaces_one_pod_at_a_time_and_names_both_revisions() {
    let spec = spec(json!({"readyAfter": "10s", "rules": [{"image": "web:2", "progressing": "Stuck"}]}));
    let (v1, v2, new) = (of("web:1", 3), of("web:2", 3), first());
    let one = patient(("apps", "StatefulSet"), &v1, &new);
    let starting = examine(&one, &spec, at(1)).status.unwrap();
    assert_eq!(counts(&starting), [1, 1, 0, 0, 0], "the first Pod is started alone");
    assert_eq!(starting["currentRevision"], starting["updateRevision"]);
    let well = examine(&one, &spec, at(10)).status.unwrap();
    assert_eq!((counts(&well), &well["currentReplicas"]), ([3, 3, 3, 3, 0], &json!(3)));
    assert!(soundness::is_healthy(&one, Some(&well)));
    let before = running(&one, &spec, (&v2, at(20)));
    let two = patient(("apps", "StatefulSet"), &v2, &before);
    let stuck = examine(&two, &spec, at(900)).status.unwrap();
    assert_eq!(
        (counts(&stuck), &stuck["currentReplicas"]),
        ([3, 1, 2, 2, 0], &json!(2))
    );
    assert_eq!(stuck["currentRevision"], well["currentRevision"]);
    assert_ne!(stuck["updateRevision"], stuck["currentRevision"]);
    assert!(!soundness::is_healthy(&two, Some(&stuck)));
}

/// Group and kind, the object, a pointer into its status, and what stands there while it starts, when it is well, and when it has
/// failed.
type Case<'a> = ((&'a str, &'a str), &'a Value, &'a str, [&'a str; 3]);

/// What each kind says while it starts, when it is well, and when it has failed.
#[test]
fn every_kind_says_in_its_own_way_that_it_starts_is_well_and_has_failed() {
    let job = json!({"spec": {"completions": 2, "backoffLimit": 1}});
    let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let balanced = json!({"spec": {"type": "LoadBalancer"}});
    let bare = json!({});
    let cases: &[Case] = &[
        (("apps", "ReplicaSet"), &bare, "/readyReplicas", ["null", "1", "null"]),
        (("apps", "DaemonSet"), &bare, "/numberReady", ["0", "1", "0"]),
        (
            ("policy", "PodDisruptionBudget"),
            &bare,
            "/currentHealthy",
            ["0", "2", "0"],
        ),
        (("batch", "Job"), &job, "/succeeded", ["null", "2", "null"]),
        (("batch", "Job"), &job, "/failed", ["null", "null", "2"]),
        (
            ("batch", "Job"),
            &job,
            "/conditions/1/type",
            ["null", "\"Complete\"", "\"Failed\""],
        ),
        (
            ("", "Pod"),
            &bare,
            "/phase",
            ["\"Pending\"", "\"Running\"", "\"Failed\""],
        ),
        (
            ("", "Pod"),
            &bare,
            "/conditions/3/status",
            ["\"False\"", "\"True\"", "\"False\""],
        ),
        (
            ("", "PersistentVolumeClaim"),
            &claim,
            "/phase",
            ["\"Pending\"", "\"Bound\"", "\"Lost\""],
        ),
        (
            ("", "Service"),
            &balanced,
            "/loadBalancer/ingress/0/ip",
            ["null", "\"192.0.2.1\"", "null"],
        ),
        (
            ("apiextensions.k8s.io", "CustomResourceDefinition"),
            &bare,
            "/conditions/1/status",
            ["\"False\"", "\"True\"", "\"False\""],
        ),
        (
            ("apiregistration.k8s.io", "APIService"),
            &bare,
            "/conditions/0/status",
            ["\"False\"", "\"True\"", "\"False\""],
        ),
    ];
    let before = first();
    for (kind, manifest, path, wanted) in cases {
        let patient = patient(*kind, manifest, &before);
        let times = [("Complete", 9), ("Complete", 10), ("Failed", 10)];
        let looks = times.map(|(progressing, second)| examine(&patient, &playing(progressing), at(second)).status);
        let found = looks.each_ref().map(|status| {
            let value = status.as_ref().and_then(|status| status.pointer(path));
            value.map_or("null".to_owned(), ToString::to_string)
        });
        assert_eq!(found, *wanted, "{kind:?} {path}");
        let are_healthy = looks.map(|status| soundness::is_healthy(&patient, status.as_ref()));
        assert_eq!(are_healthy, [false, true, false], "{kind:?}");
    }
    let namespace = examine(&patient(("", "Namespace"), &bare, &before), &playing("Complete"), at(0));
    assert_eq!(namespace.status, Some(json!({"phase": "Active"})));
    let service = examine(&patient(("", "Service"), &bare, &before), &playing("Complete"), at(0));
    assert_eq!(service.status, Some(json!({"loadBalancer": {}})));
    let cron = examine(&patient(("batch", "CronJob"), &bare, &before), &playing("Stuck"), at(0));
    assert_eq!(cron.status, Some(json!({})));
}

#[test]
fn a_crash_looping_pod_says_so_for_each_container() {
    let manifest = json!({"spec": {"containers": [{"name": "web", "image": "web:2"}]}});
    let before = first();
    let health = examine(&patient(("", "Pod"), &manifest, &before), &playing("Stuck"), at(99));
    let status = health.status.unwrap();
    assert_eq!(status["phase"], "Running");
    assert_eq!(
        status["containerStatuses"][0]["state"]["waiting"]["reason"],
        "CrashLoopBackOff"
    );
}

#[test]
fn an_unknown_kind_has_conditions_only_where_a_rule_plays_another_course() {
    let (manifest, before) = (json!({"spec": {}}), first());
    let custom = patient(("example.org", "Web"), &manifest, &before);
    assert_eq!(examine(&custom, &playing("Complete"), at(99)).status, None);
    let lines = |progressing, second| conditions(&examine(&custom, &playing(progressing), at(second)).status.unwrap());
    assert_eq!(
        lines("Stuck", 99),
        [
            "Ready=False:Progressing",
            "Reconciling=True:Progressing",
            "Stalled=False:Progressing"
        ]
    );
    assert_eq!(lines("Failed", 0)[2], "Stalled=True:Failed");
    assert_eq!(lines("Slow", 10)[0], "Ready=True:Succeeded");
}

#[test]
fn the_first_rule_that_matches_sets_the_delay_and_its_status_replaces_and_removes_members() {
    let (manifest, before) = (json!({}), first());
    let rules = json!({"readyAfter": "1s", "rules": [
        {"kind": "StatefulSet", "status": {"x": 1}},
        {"kind": "Deployment", "name": "nginx", "after": "5s", "status": {"availableReplicas": null, "readyReplicas": 7}},
        {"status": {"availableReplicas": 9}},
    ]});
    let patient = deployment(&manifest, &before);
    assert!(examine(&patient, &spec(rules.clone()), at(4)).changes_at.is_some());
    let health = examine(&patient, &spec(rules), at(5));
    assert!(!soundness::is_healthy(&patient, health.status.as_ref()));
    let status = health.status.unwrap();
    assert!(status.get("availableReplicas").is_none());
    assert_eq!(status["readyReplicas"], 7);
    assert_eq!((health.since, health.changes_at), (at(5), None));
}

#[test]
fn a_status_is_merged_over_a_stuck_rollout_too_once_its_time_has_come() {
    let (manifest, before) = (of("web:1", 2), first());
    let rules = spec(json!({"rules": [{"progressing": "Stuck", "after": "5s", "status": {"seen": true}}]}));
    let early = examine(&deployment(&manifest, &before), &rules, at(4));
    assert_eq!(
        (early.status.unwrap().get("seen"), early.changes_at),
        (None, Some(at(5)))
    );
    let late = examine(&deployment(&manifest, &before), &rules, at(5));
    assert_eq!((&late.status.unwrap()["seen"], late.since), (&json!(true), at(5)));
}

#[test]
fn a_kind_without_a_status_has_one_only_by_a_rule() {
    let (manifest, before) = (json!({}), first());
    let policy = patient(("networking.k8s.io", "NetworkPolicy"), &manifest, &before);
    assert_eq!(examine(&policy, &spec(json!({})), at(9)).status, None);
    let scripted = examine(&policy, &spec(json!({"rules": [{"status": {"seen": true}}]})), at(9));
    assert_eq!(scripted.status, Some(json!({"seen": true})));
}

#[test]
fn zero_replicas_leave_all_counters_out() {
    let (manifest, before) = (json!({"spec": {"replicas": 0}}), first());
    let patient = deployment(&manifest, &before);
    let status = examine(&patient, &spec(json!({"readyAfter": "9s"})), at(0))
        .status
        .unwrap();
    assert_eq!(counts(&status), [0; 5]);
    assert!(status.get("replicas").is_none());
    assert_eq!(
        conditions(&status),
        [
            "Available=True:MinimumReplicasAvailable",
            "Progressing=True:NewReplicaSetAvailable"
        ]
    );
    assert!(soundness::is_healthy(&patient, Some(&status)));
}

#[test]
fn counts_that_no_cluster_could_have_break_nothing() {
    let before = after_old(i64::MAX / 4);
    for replicas in [i64::MIN, -1, i64::MAX] {
        let mut manifest = of("web:1", replicas);
        manifest["spec"]["progressDeadlineSeconds"] = json!(i64::MIN);
        for progressing in ["Complete", "Slow", "Stuck", "Failed", "Flapping"] {
            let spec = spec(json!({"readyAfter": "9999999h", "rules": [{"progressing": progressing, "period": "0s"}]}));
            assert!(examine(&deployment(&manifest, &before), &spec, at(1)).status.is_some());
        }
    }
}
