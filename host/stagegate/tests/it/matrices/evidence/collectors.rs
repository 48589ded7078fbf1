//! StatusCollectors: the user's, whose answers the condition reads, and the one that the host owns.

use serde_json::{Value, json};

use super::Tampering::{BeingDeleted, Deleted, Edited, MadeAnew, StatusEdited};
use super::Then::{GoesOn, IsPutBack, Waits};
use super::pieces::Piece;
use super::{Parts, Table, run};

fn asks(collector: &mut Value, subject: &str) {
    collector["spec"]["combinedFields"][0]["subject"] = json!(subject);
}

fn refused(collector: &mut Value) {
    collector["status"]["errors"] = json!(["column \"available\": undeclared reference"]);
}

const UNASKED: Table = Table {
    name: "evidence: a user's StatusCollector, nobody there to combine anew",
    piece: Piece::Collector("worst"),
    parts: Parts::Stopped,
    rows: &[
        (
            "taken away",
            Deleted,
            Waits(&["StatusCollector worst", "deployments.apps shop/web"]),
        ),
        (
            "being taken away",
            BeingDeleted,
            GoesOn("KubeStellar asks it until it is gone"),
        ),
        (
            "refused",
            StatusEdited(refused),
            Waits(&["StatusCollector worst", "undeclared reference"]),
        ),
        (
            "asking for a row of each cluster",
            Edited(|it| it["spec"] = json!({"select": [{"name": "cluster", "def": "inventory.name"}], "limit": 20})),
            Waits(&["StatusCollector worst", "deployments.apps shop/web"]),
        ),
        (
            "asking something else",
            Edited(|it| asks(it, "0")),
            GoesOn("an answer that stays the same is not written again, so none can be told from an old one"),
        ),
        (
            "made anew, just as it was",
            MadeAnew(|it| it["metadata"]["annotations"] = json!({"example.org/by": "hand"})),
            GoesOn("it asks what it asked"),
        ),
        (
            "with a label more",
            Edited(|it| it["metadata"]["labels"] = json!({"example.org/seen": "yes"})),
            GoesOn("it asks what it asked"),
        ),
    ],
};

const UNREAD: Table = Table {
    name: "evidence: a user's StatusCollector that nothing reads",
    piece: Piece::Collector("total"),
    parts: Parts::Stopped,
    rows: &[
        (
            "taken away",
            Deleted,
            Waits(&["StatusCollector total", "deployments.apps shop/web"]),
        ),
        (
            "refused",
            StatusEdited(refused),
            Waits(&["StatusCollector total", "undeclared reference"]),
        ),
    ],
};

const ASKED: Table = Table {
    name: "evidence: a user's StatusCollector",
    piece: Piece::Collector("worst"),
    parts: Parts::Running,
    rows: &[
        (
            "taken away",
            Deleted,
            Waits(&["StatusCollector worst", "deployments.apps shop/web"]),
        ),
        (
            "asking something else",
            Edited(|it| asks(it, "0")),
            Waits(&["condition of stage dev", "deployments.apps shop/web"]),
        ),
        (
            "asking for what no cluster has",
            Edited(|it| asks(it, "returned.status.unheardOf")),
            Waits(&["StatusCollector worst", "deployments.apps shop/web", "dev-1"]),
        ),
        (
            "asking for no number",
            Edited(|it| asks(it, "[1]")),
            Waits(&["StatusCollector worst", "deployments.apps shop/web"]),
        ),
        (
            "an expression that does not parse",
            Edited(|it| asks(it, "returned.status.")),
            Waits(&["StatusCollector worst"]),
        ),
        (
            "a filter that fails",
            Edited(|it| it["spec"]["filter"] = json!("returned.status.unheardOf")),
            Waits(&["StatusCollector worst", "its filter", "dev-1"]),
        ),
        (
            "an aggregation that there is not",
            Edited(|it| it["spec"]["combinedFields"][0]["type"] = json!("MEDIAN")),
            Waits(&["StatusCollector worst", "deployments.apps shop/web", "available"]),
        ),
        (
            "a selection and an aggregation",
            Edited(|it| it["spec"]["select"] = json!([{"name": "cluster", "def": "inventory.name"}])),
            Waits(&["StatusCollector worst"]),
        ),
        (
            "without anything to ask",
            Edited(|it| it["spec"] = json!({"limit": 20})),
            Waits(&["condition of stage dev", "deployments.apps shop/web"]),
        ),
    ],
};

const OURS: Table = Table {
    name: "evidence: the host's own StatusCollector",
    piece: Piece::OurCollector,
    parts: Parts::Stopped,
    rows: &[
        ("taken away", Deleted, IsPutBack),
        (
            "asking nothing",
            Edited(|it| it["spec"]["select"] = json!([])),
            IsPutBack,
        ),
        (
            "a column taken away",
            Edited(|it| _ = it["spec"]["select"].as_array_mut().unwrap().pop()),
            IsPutBack,
        ),
        (
            "a column asking something else",
            Edited(|it| it["spec"]["select"][4]["def"] = json!("'2'")),
            IsPutBack,
        ),
        (
            "with a filter",
            Edited(|it| it["spec"]["filter"] = json!("inventory.name == 'dev-1'")),
            IsPutBack,
        ),
        (
            "with another limit",
            Edited(|it| it["spec"]["limit"] = json!(1)),
            IsPutBack,
        ),
        (
            "given to somebody else",
            Edited(|it| it["metadata"]["labels"]["app.kubernetes.io/managed-by"] = json!("somebody")),
            Waits(&["StatusCollector stagegate-evidence-", "not ours"]),
        ),
        (
            "without labels",
            Edited(|it| it["metadata"]["labels"] = json!({})),
            Waits(&["StatusCollector stagegate-evidence-", "not ours"]),
        ),
        (
            "given to somebody else, and asking something else",
            Edited(|it| {
                it["metadata"]["labels"] = json!({});
                it["spec"]["select"] = json!([]);
            }),
            Waits(&["StatusCollector stagegate-evidence-", "not ours"]),
        ),
        (
            "refused",
            StatusEdited(refused),
            Waits(&["StatusCollector stagegate-evidence-", "undeclared reference"]),
        ),
        (
            "with a label more",
            Edited(|it| it["metadata"]["labels"]["example.org/seen"] = json!("yes")),
            GoesOn("it asks what it asked"),
        ),
    ],
};

#[tokio::test(start_paused = true)]
async fn no_stage_passes_without_its_status_collectors() {
    run(&UNASKED).await;
    run(&UNREAD).await;
}

#[tokio::test(start_paused = true)]
async fn no_stage_passes_on_a_status_collector_that_asks_something_else() {
    run(&ASKED).await;
}

#[tokio::test(start_paused = true)]
async fn no_stage_passes_on_a_changed_evidence_collector() {
    run(&OURS).await;
}
