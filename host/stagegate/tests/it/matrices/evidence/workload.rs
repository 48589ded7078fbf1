//! The workload object itself, and the clusters as the inventory has them.

use serde_json::json;

use super::Tampering::{BeingDeleted, Deleted, Doubled, Edited, MadeAnew, StatusEdited};
use super::Then::{GoesOn, Waits};
use super::pieces::Piece;
use super::{Parts, Table, run};

const OBJECT: &str = "deployments.apps shop/web";

/// Nobody tells the host of these: it finds them when it reads everything anew.
const UNTOLD: Table = Table {
    name: "evidence: the workload, nobody there to tell of it",
    piece: Piece::Workload,
    parts: Parts::Stopped,
    rows: &[
        ("taken away", Deleted, Waits(&[OBJECT])),
        (
            "made anew, just as it was",
            MadeAnew(|it| it["status"] = json!(null)),
            Waits(&[OBJECT]),
        ),
        (
            "edited",
            Edited(|it| it["spec"]["replicas"] = json!(3)),
            // Because of the update, if there was a fresh read, or because nothing stands in for KubeStellar's writes.
            Waits(&[]),
        ),
        (
            "its status edited",
            StatusEdited(|it| it["status"] = json!({"availableReplicas": 0})),
            GoesOn("what counts is what the clusters report"),
        ),
        (
            "with an annotation more",
            Edited(|it| it["metadata"]["annotations"] = json!({"example.org/seen": "yes"})),
            GoesOn("its generation has not moved"),
        ),
    ],
};

const TOLD: Table = Table {
    name: "evidence: the workload",
    piece: Piece::Workload,
    parts: Parts::Running,
    rows: &[
        ("taken away", Deleted, Waits(&["Binding web.stage.dev", "no object"])),
        (
            "being taken away",
            BeingDeleted,
            // That is counted as an edit, and reaches no cluster as one.
            Waits(&[OBJECT, "dev-1"]),
        ),
        (
            "made anew, just as it was",
            MadeAnew(|it| it["status"] = json!(null)),
            Waits(&[OBJECT, "dev-1"]),
        ),
        (
            "no more what the clauses select",
            Edited(|it| it["metadata"]["labels"]["app"] = json!("other")),
            Waits(&["Binding web.stage.dev", "no object"]),
        ),
        (
            "its status edited",
            StatusEdited(|it| it["status"] = json!({"availableReplicas": 0})),
            GoesOn("what counts is what the clusters report"),
        ),
        (
            "with an annotation more",
            Edited(|it| it["metadata"]["annotations"] = json!({"example.org/seen": "yes"})),
            GoesOn("its generation has not moved"),
        ),
    ],
};

const INVENTORY: Table = Table {
    name: "evidence: the inventory",
    piece: Piece::Cluster,
    parts: Parts::Running,
    rows: &[
        (
            "a cluster taken away",
            Deleted,
            GoesOn("after a rest a cluster that left is no destination"),
        ),
        (
            "a cluster that matches no more",
            Edited(|it| it["metadata"]["labels"]["env"] = json!("lab")),
            GoesOn("after a rest a cluster that left is no destination"),
        ),
        (
            "a cluster more, which says nothing",
            Doubled(|it| it["metadata"]["name"] = json!("dev-3")),
            Waits(&[OBJECT, "cluster dev-3"]),
        ),
    ],
};

#[tokio::test(start_paused = true)]
async fn no_stage_passes_on_a_workload_that_is_not_the_one_that_was_reported() {
    run(&UNTOLD).await;
    run(&TOLD).await;
}

#[tokio::test(start_paused = true)]
async fn no_stage_passes_on_clusters_that_are_not_those_of_the_inventory() {
    run(&INVENTORY).await;
}
