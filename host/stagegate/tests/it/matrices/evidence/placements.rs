//! The stage's BindingPolicy and the Binding that is made for it: whose it is, which objects and clusters it names, and
//! what the parts say of it.

use serde_json::{Value, json};

use super::Tampering::{BeingDeleted, Deleted, Doubled, Edited, MadeAnew, StatusEdited};
use super::Then::{GoesOn, IsPutBack, Waits};
use super::pieces::Piece;
use super::{Parts, Table, run};

const BINDING: &str = "Binding web.stage.dev";

fn objects(binding: &mut Value) -> &mut Vec<Value> {
    binding["spec"]["workload"]["namespaceScope"].as_array_mut().unwrap()
}

fn collectors(binding: &mut Value) -> &mut Vec<Value> {
    objects(binding)[0]["statusCollectors"].as_array_mut().unwrap()
}

fn destinations(binding: &mut Value) -> &mut Vec<Value> {
    binding["spec"]["destinations"].as_array_mut().unwrap()
}

fn besides(binding: &mut Value, name: &str) {
    let mut copy = objects(binding)[0].clone();
    copy["name"] = json!(name);
    objects(binding).push(copy);
}

fn owner(object: &mut Value) -> &mut Value {
    &mut object["metadata"]["ownerReferences"][0]
}

fn annotations(placement: &mut Value) -> &mut serde_json::Map<String, Value> {
    placement["metadata"]["annotations"].as_object_mut().unwrap()
}

const PLAN: &str = stagegate_api::annotation::REVISION;
const ATTEMPT: &str = stagegate_api::annotation::ATTEMPT;
const BASELINE: &str = stagegate_api::annotation::BASELINE_VERSION;
const STAMP: &str = stagegate_api::annotation::FENCING_TOKEN;

const BINDINGS: Table = Table {
    name: "evidence: a Binding",
    piece: Piece::Binding,
    parts: Parts::Stopped,
    rows: &[
        ("taken away", Deleted, Waits(&[BINDING])),
        ("being taken away", BeingDeleted, Waits(&[BINDING])),
        (
            "under another name",
            MadeAnew(|it| it["metadata"]["name"] = json!("web.stage.development")),
            Waits(&[BINDING]),
        ),
        (
            "doubled under another name",
            Doubled(|it| it["metadata"]["name"] = json!("web.stage.development")),
            GoesOn("the Binding of a BindingPolicy has its name: another one is nobody's"),
        ),
        (
            "made anew, just as it was",
            MadeAnew(|it| it["metadata"]["annotations"] = json!({"example.org/by": "hand"})),
            GoesOn("it names the same for the same BindingPolicy, and is judged when it has rested"),
        ),
        (
            "of another BindingPolicy, by its owner's uid",
            Edited(|it| {
                owner(it)["name"] = json!("web.stage.test");
                owner(it)["uid"] = json!("$test");
            }),
            Waits(&[BINDING]),
        ),
        (
            "of a BindingPolicy that is no more",
            Edited(|it| owner(it)["uid"] = json!("00000000-0000-4000-8000-000000000000")),
            Waits(&[BINDING]),
        ),
        (
            "without an owner",
            Edited(|it| it["metadata"]["ownerReferences"] = json!([])),
            Waits(&[BINDING]),
        ),
        (
            "with an owner that is no controller",
            Edited(|it| owner(it)["controller"] = json!(false)),
            Waits(&[BINDING]),
        ),
        (
            "with another owner besides",
            Edited(|it| {
                let mut second = owner(it).clone();
                second["controller"] = json!(false);
                second["name"] = json!("web.stage.test");
                second["uid"] = json!("$test");
                it["metadata"]["ownerReferences"].as_array_mut().unwrap().push(second);
            }),
            GoesOn("its controller is what it was"),
        ),
        (
            "without destinations",
            Edited(|it| destinations(it).clear()),
            Waits(&[BINDING, "no cluster"]),
        ),
        (
            "a destination taken away",
            Edited(|it| destinations(it).retain(|one| one["clusterId"] != "dev-2")),
            Waits(&["cluster dev-2"]),
        ),
        (
            "a destination added",
            Edited(|it| destinations(it).push(json!({"clusterId": "elsewhere"}))),
            Waits(&["cluster elsewhere"]),
        ),
        (
            "a destination given to another cluster",
            Edited(|it| destinations(it)[1]["clusterId"] = json!("elsewhere")),
            Waits(&["cluster elsewhere"]),
        ),
        (
            "the order of destinations turned about",
            Edited(|it| destinations(it).reverse()),
            GoesOn("destinations are a set"),
        ),
        (
            "without objects",
            Edited(|it| objects(it).clear()),
            Waits(&[BINDING, "no object"]),
        ),
        (
            "without anything",
            Edited(|it| it["spec"] = json!({"workload": {}})),
            Waits(&[BINDING]),
        ),
        (
            "an object that is not there added",
            Edited(|it| besides(it, "ghost")),
            Waits(&["deployments.apps shop/ghost"]),
        ),
        (
            "an object of nobody's added",
            Edited(|it| besides(it, "other")),
            Waits(&["deployments.apps shop/other"]),
        ),
        (
            "its object given another name",
            Edited(|it| objects(it)[0]["name"] = json!("other")),
            Waits(&["deployments.apps shop/other"]),
        ),
        (
            "its object of another version",
            Edited(|it| objects(it)[0]["version"] = json!("v1beta1")),
            GoesOn("an object has several versions, and the Binding of the next stage names one that is served"),
        ),
        (
            "its object of another group",
            Edited(|it| objects(it)[0]["group"] = json!("extensions")),
            Waits(&["deployments.extensions shop/web"]),
        ),
        (
            "its object seen in another version",
            Edited(|it| objects(it)[0]["resourceVersion"] = json!("1")),
            GoesOn("that version is a trigger: the object is read anew, and was not edited"),
        ),
        (
            "the collector that the condition reads stripped",
            Edited(|it| collectors(it).retain(|name| name != "worst")),
            Waits(&["StatusCollector worst", "deployments.apps shop/web"]),
        ),
        (
            "a collector that nothing reads stripped",
            Edited(|it| collectors(it).retain(|name| name != "total")),
            Waits(&["StatusCollector total", "deployments.apps shop/web"]),
        ),
        (
            "the host's own collector stripped",
            Edited(|it| collectors(it).retain(|name| !name.as_str().unwrap().starts_with("stagegate-"))),
            Waits(&["StatusCollector stagegate-evidence-", "deployments.apps shop/web"]),
        ),
        (
            "all collectors stripped",
            Edited(|it| collectors(it).clear()),
            Waits(&["StatusCollector", "deployments.apps shop/web"]),
        ),
        (
            "a collector that is not there added",
            Edited(|it| collectors(it).push(json!("ghost"))),
            Waits(&["StatusCollector ghost", "deployments.apps shop/web"]),
        ),
        (
            "its object for creation only",
            Edited(|it| objects(it)[0]["createOnly"] = json!(true)),
            GoesOn("what is there stays there, and no edit is owed"),
        ),
        (
            "with an error of the transport",
            StatusEdited(|it| it["status"]["errors"] = json!(["cannot expand a template"])),
            Waits(&[BINDING, "cannot expand a template"]),
        ),
        (
            "its status taken away",
            StatusEdited(|it| _ = it.as_object_mut().unwrap().remove("status")),
            GoesOn("what transport has taken counts where a stage is left, and this is the first"),
        ),
        (
            "its status aged",
            StatusEdited(|it| it["status"]["observedGeneration"] = json!(0)),
            GoesOn("what transport has taken counts where a stage is left, and this is the first"),
        ),
        (
            "its condition turned about",
            StatusEdited(|it| it["status"]["conditions"][0]["status"] = json!("False")),
            GoesOn("transport drops the conditions at each of its writes: nothing can be built on them"),
        ),
    ],
};

const LOOSE_BINDINGS: Table = Table {
    name: "evidence: a Binding that no schema holds",
    piece: Piece::LooseBinding,
    parts: Parts::Stopped,
    rows: &[
        (
            "that cannot be read",
            Edited(|it| it["spec"] = json!("everything, everywhere")),
            Waits(&[BINDING, "cannot be read"]),
        ),
        (
            "a destination without a name",
            Edited(|it| destinations(it)[1] = json!({})),
            Waits(&[BINDING, "cannot be read"]),
        ),
        (
            "its object doubled",
            Edited(|it| besides(it, "web")),
            GoesOn("objects are a set"),
        ),
        (
            "its object doubled in another version",
            Edited(|it| {
                besides(it, "web");
                objects(it)[1]["version"] = json!("v1beta1");
            }),
            GoesOn("an object has several versions"),
        ),
    ],
};

const SYNCED: Table = Table {
    name: "evidence: what the parts say of a BindingPolicy",
    piece: Piece::Placement,
    parts: Parts::Stopped,
    rows: &[
        (
            "its status taken away",
            StatusEdited(|it| _ = it.as_object_mut().unwrap().remove("status")),
            Waits(&["BindingPolicy web.stage.dev"]),
        ),
        (
            "its status aged",
            StatusEdited(|it| it["status"]["observedGeneration"] = json!(1)),
            Waits(&["BindingPolicy web.stage.dev"]),
        ),
        (
            "its status from the future",
            StatusEdited(|it| it["status"]["observedGeneration"] = json!(99)),
            Waits(&["BindingPolicy web.stage.dev"]),
        ),
        (
            "its condition turned about",
            StatusEdited(|it| it["status"]["conditions"][0]["status"] = json!("False")),
            GoesOn("it is a copy of the Binding's, and nothing can be built on that"),
        ),
    ],
};

const PLACEMENTS: Table = Table {
    name: "evidence: a BindingPolicy",
    piece: Piece::Placement,
    parts: Parts::Running,
    rows: &[
        ("taken away", Deleted, IsPutBack),
        (
            "closed",
            Edited(|it| it["spec"]["clusterSelectors"] = json!([])),
            IsPutBack,
        ),
        (
            "opened to more clusters",
            Edited(|it| {
                it["spec"]["clusterSelectors"] =
                    json!([{"matchLabels": {"env": "dev"}}, {"matchLabels": {"env": "lab"}}])
            }),
            IsPutBack,
        ),
        (
            "given to other clusters",
            Edited(|it| it["spec"]["clusterSelectors"] = json!([{"matchLabels": {"env": "lab"}}])),
            IsPutBack,
        ),
        (
            "given other objects",
            Edited(|it| it["spec"]["downsync"][0]["objectNames"] = json!(["other"])),
            IsPutBack,
        ),
        (
            "without clauses",
            Edited(|it| it["spec"]["downsync"] = json!([])),
            IsPutBack,
        ),
        (
            "its collectors stripped",
            Edited(|it| it["spec"]["downsync"][0]["statusCollectors"] = json!([])),
            IsPutBack,
        ),
        (
            "given another revision",
            Edited(|it| annotations(it)[PLAN] = json!("0000")),
            IsPutBack,
        ),
        (
            "without its plan",
            Edited(|it| _ = annotations(it).remove(PLAN)),
            IsPutBack,
        ),
        (
            "without its baseline",
            Edited(|it| _ = annotations(it).remove(BASELINE)),
            IsPutBack,
        ),
        ("without annotations", Edited(|it| annotations(it).clear()), IsPutBack),
        (
            "without its fencing token",
            Edited(|it| _ = annotations(it).remove(STAMP)),
            GoesOn("the fencing token of one that is open keeps nobody from opening it"),
        ),
        (
            "another attempt",
            Edited(|it| annotations(it)[ATTEMPT] = json!("7")),
            GoesOn("another attempt is judged anew from its beginning"),
        ),
        (
            "no attempt",
            Edited(|it| annotations(it)[ATTEMPT] = json!("once")),
            IsPutBack,
        ),
        (
            "without its attempt",
            Edited(|it| _ = annotations(it).remove(ATTEMPT)),
            IsPutBack,
        ),
        (
            "with a label more",
            Edited(|it| it["metadata"]["labels"] = json!({"example.org/seen": "yes"})),
            GoesOn("a label of somebody's says nothing about whose it is"),
        ),
        (
            "without an owner",
            Edited(|it| it["metadata"]["ownerReferences"] = json!([])),
            Waits(&["BindingPolicy web.stage.dev", "does not own"]),
        ),
        (
            "given to another owner",
            Edited(|it| {
                *owner(it) = json!({
                    "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
                    "name": "web.stage.test", "uid": "$test",
                });
            }),
            Waits(&["BindingPolicy web.stage.dev", "does not own"]),
        ),
    ],
};

#[tokio::test(start_paused = true)]
async fn no_stage_passes_on_a_binding_that_was_tampered_with() {
    run(&BINDINGS).await;
}

#[tokio::test(start_paused = true)]
async fn no_stage_passes_on_a_binding_that_no_schema_holds() {
    run(&LOOSE_BINDINGS).await;
}

#[tokio::test(start_paused = true)]
async fn no_stage_passes_while_its_binding_policy_is_not_synced() {
    run(&SYNCED).await;
}

#[tokio::test(start_paused = true)]
async fn no_stage_passes_on_a_binding_policy_that_was_tampered_with() {
    run(&PLACEMENTS).await;
}
