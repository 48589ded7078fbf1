//! What dev-2 reports of the workload. The host sees it only through the parts, so they go on meanwhile.

use serde_json::{Value, json};

use super::Tampering::{BeingDeleted, Deleted, Doubled, Edited, MadeAnew, StatusEdited};
use super::Then::{GoesOn, Waits};
use super::pieces::Piece;
use super::{Parts, Table, run};

fn source<'a>(report: &'a mut Value, member: &str) -> &'a mut Value {
    &mut report["spec"]["sourceRef"][member]
}

/// What a cluster says of an object that starts up.
fn as_at_first(report: &mut Value) {
    report["status"] = json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "unavailableReplicas": 2});
}

const REPORTS: Table = Table {
    name: "evidence: a cluster's report",
    piece: Piece::Report,
    parts: Parts::Running,
    rows: &[
        ("taken away", Deleted, Waits(&["dev-2", "deployments.apps shop/web"])),
        (
            "being taken away",
            BeingDeleted,
            GoesOn("KubeStellar's agent owns it: it says what it says until it is gone"),
        ),
        (
            "its status taken away",
            StatusEdited(|it| _ = it.as_object_mut().unwrap().remove("status")),
            Waits(&["dev-2", "deployments.apps shop/web"]),
        ),
        (
            "its status blanked",
            StatusEdited(|it| it["status"] = json!({})),
            Waits(&["dev-2", "deployments.apps shop/web"]),
        ),
        (
            "as it was before the cluster was ready",
            StatusEdited(as_at_first),
            Waits(&["dev-2", "deployments.apps shop/web"]),
        ),
        (
            "one too few available",
            StatusEdited(|it| it["status"]["availableReplicas"] = json!(1)),
            Waits(&["dev-2", "deployments.apps shop/web"]),
        ),
        (
            "the available blanked",
            StatusEdited(|it| _ = it["status"].as_object_mut().unwrap().remove("availableReplicas")),
            Waits(&["dev-2", "deployments.apps shop/web"]),
        ),
        (
            "the available null",
            StatusEdited(|it| it["status"]["availableReplicas"] = json!(null)),
            Waits(&["dev-2", "deployments.apps shop/web"]),
        ),
        (
            "the available as a word",
            StatusEdited(|it| it["status"]["availableReplicas"] = json!("plenty")),
            Waits(&["deployments.apps shop/web", "available"]),
        ),
        (
            "the available as a list",
            StatusEdited(|it| it["status"]["availableReplicas"] = json!([2])),
            Waits(&["deployments.apps shop/web", "dev-2"]),
        ),
        (
            "the generation aged",
            StatusEdited(|it| it["status"]["observedGeneration"] = json!(0)),
            GoesOn("the cluster counts for itself, and no edit is owed"),
        ),
        (
            "the generation blanked",
            StatusEdited(|it| _ = it["status"].as_object_mut().unwrap().remove("observedGeneration")),
            Waits(&["dev-2", "deployments.apps shop/web"]),
        ),
        (
            "of another object",
            Edited(|it| *source(it, "name") = json!("other")),
            Waits(&["cluster dev-2", "deployments.apps shop/web"]),
        ),
        (
            "of another namespace",
            Edited(|it| *source(it, "namespace") = json!("default")),
            Waits(&["cluster dev-2", "deployments.apps shop/web"]),
        ),
        (
            "of another group",
            Edited(|it| *source(it, "group") = json!("batch")),
            Waits(&["cluster dev-2", "deployments.apps shop/web"]),
        ),
        (
            "of another resource",
            Edited(|it| *source(it, "resource") = json!("statefulsets")),
            Waits(&["cluster dev-2", "deployments.apps shop/web"]),
        ),
        (
            "of no kind",
            Edited(|it| *source(it, "kind") = json!("")),
            Waits(&["cluster dev-2", "deployments.apps shop/web"]),
        ),
        (
            "given to the other cluster of the stage",
            MadeAnew(|it| {
                it["metadata"]["namespace"] = json!("dev-1");
                it["metadata"]["name"] = json!("of-dev-2");
            }),
            Waits(&["cluster dev-2", "deployments.apps shop/web"]),
        ),
        (
            "given to a cluster of the next stage",
            MadeAnew(|it| it["metadata"]["namespace"] = json!("test-1")),
            Waits(&["cluster dev-2", "deployments.apps shop/web"]),
        ),
        (
            "doubled, and the two agree",
            Doubled(|it| it["metadata"]["name"] = json!("a-second-one")),
            GoesOn("two agents say the same"),
        ),
        (
            "doubled, and what is read says less",
            Doubled(|it| {
                it["metadata"]["name"] = json!("a-second-one");
                it["status"]["availableReplicas"] = json!(1);
            }),
            Waits(&["dev-2", "deployments.apps shop/web"]),
        ),
        (
            "made anew, just as it was",
            MadeAnew(|it| it["metadata"]["annotations"] = json!({"example.org/by": "hand"})),
            GoesOn("it says the same, only later"),
        ),
    ],
};

#[tokio::test(start_paused = true)]
async fn no_stage_passes_on_a_report_that_was_tampered_with() {
    run(&REPORTS).await;
}
