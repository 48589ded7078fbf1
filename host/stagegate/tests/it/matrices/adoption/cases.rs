//! The cases: what was left, and what must become of it. Must not run anything.

use serde_json::{Value, json};

use super::{Case, Then};
use crate::harness::policy;

fn as_it_is(_: &mut Value) {}

fn clause(placement: &mut Value) -> &mut Value {
    &mut placement["spec"]["downsync"][0]
}

fn without_collectors(placement: &mut Value) {
    clause(placement)["statusCollectors"] = json!([]);
}

fn with_other_clauses(placement: &mut Value) {
    clause(placement)["objectNames"] = json!(["web"]);
}

fn with_empty_lists(placement: &mut Value) {
    clause(placement)["objectNames"] = json!([]);
    clause(placement)["namespaceSelectors"] = json!([]);
}

fn without_the_wanted_state(placement: &mut Value) {
    _ = clause(placement)
        .as_object_mut()
        .unwrap()
        .remove("wantMultiWECReportedState");
}

/// The same clusters in other words.
fn with_other_selectors(placement: &mut Value) {
    for selector in placement["spec"]["clusterSelectors"].as_array_mut().unwrap() {
        let env = selector["matchLabels"]["env"].clone();
        *selector = json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [env]}]});
    }
}

fn owner(placement: &mut Value) -> &mut Value {
    &mut placement["metadata"]["ownerReferences"][0]
}

fn controlled(placement: &mut Value) {
    owner(placement)["controller"] = json!(true);
    owner(placement)["blockOwnerDeletion"] = json!(true);
}

fn expressly_not_controlled(placement: &mut Value) {
    owner(placement)["controller"] = json!(false);
}

fn owned_by_another_too(placement: &mut Value) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "name": "shop", "uid": "$namespace"});
    let owners = placement["metadata"]["ownerReferences"].as_array_mut().unwrap();
    owners.insert(0, namespace);
}

fn orphaned(placement: &mut Value) {
    placement["metadata"]["ownerReferences"] = json!([]);
}

fn of_dev(placement: &mut Value) {
    placement["spec"]["clusterSelectors"] = json!([{"matchLabels": {"env": "dev"}}]);
}

fn of_test(placement: &mut Value) {
    placement["spec"]["clusterSelectors"] = json!([{"matchLabels": {"env": "test"}}]);
}

fn plain() -> String {
    policy("web")
}

fn keeping() -> String {
    policy("web").replacen("  stages:", "  previousStages: Keep\n  stages:", 1)
}

fn wanting_the_state() -> String {
    policy("web").replacen(
        "    statusCollectors:",
        "    wantMultiWECReportedState: true\n    statusCollectors:",
        1,
    )
}

/// As most manifests have it.
fn with_a_last_stage_without_condition() -> String {
    let text = policy("web");
    let condition = text.rfind("    condition:").unwrap();
    text[..condition].to_owned()
}

fn sharing_a_cluster() -> String {
    let both = "clusterSelectors: [{matchLabels: {env: test}}, {matchLabels: {also: test}}]";
    policy("web").replacen("clusterSelectors: [{matchLabels: {env: test}}]", both, 1)
}

pub const CASES: &[Case] = &[
    Case {
        name: "the first stage active",
        policy: plain,
        placed: &[("dev", as_it_is)],
        says: "dev",
        then: Then::GoesOnAt("dev", &[("dev", "+-"), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "the second stage active",
        policy: plain,
        placed: &[("test", as_it_is)],
        says: "test",
        then: Then::GoesOnAt("test", &[("dev", ""), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "the last stage active",
        policy: plain,
        placed: &[("prod", as_it_is)],
        says: "prod",
        then: Then::GoesOnAt("prod", &[("dev", ""), ("test", ""), ("prod", "+")]),
    },
    Case {
        name: "the last stage active, and it has no condition",
        policy: with_a_last_stage_without_condition,
        placed: &[("prod", as_it_is)],
        says: "prod",
        then: Then::GoesOnAt("prod", &[("dev", ""), ("test", ""), ("prod", "+")]),
    },
    Case {
        name: "status was not written after the second stage was placed",
        policy: plain,
        placed: &[("test", as_it_is)],
        says: "dev",
        then: Then::GoesOnAt("test", &[("dev", ""), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "status was lost in the first stage",
        policy: plain,
        placed: &[("dev", as_it_is)],
        says: "",
        then: Then::GoesOnAt("dev", &[("dev", "+-"), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "status was lost in the second stage",
        policy: plain,
        placed: &[("test", as_it_is)],
        says: "",
        then: Then::GoesOnAt("test", &[("dev", ""), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "status was lost in the last stage",
        policy: plain,
        placed: &[("prod", as_it_is)],
        says: "",
        then: Then::GoesOnAt("prod", &[("dev", ""), ("test", ""), ("prod", "+")]),
    },
    Case {
        name: "status says the first stage, the last is placed",
        policy: plain,
        placed: &[("prod", as_it_is)],
        says: "dev",
        then: Then::GoesOnAt("prod", &[("dev", ""), ("test", ""), ("prod", "+")]),
    },
    Case {
        name: "status says the last stage, the first is placed",
        policy: plain,
        placed: &[("dev", as_it_is)],
        says: "prod",
        then: Then::GoesOnAt("dev", &[("dev", "+-"), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "status says a stage that there is not",
        policy: plain,
        placed: &[("test", as_it_is)],
        says: "qa",
        then: Then::GoesOnAt("test", &[("dev", ""), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "a panic left the first two stages",
        policy: plain,
        placed: &[("dev", as_it_is), ("test", as_it_is)],
        says: "dev",
        then: Then::GoesOnAt("test", &[("dev", "+-"), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "a panic left the last two stages",
        policy: plain,
        placed: &[("test", as_it_is), ("prod", as_it_is)],
        says: "test",
        then: Then::GoesOnAt("prod", &[("dev", ""), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "a panic left the first and the last stage",
        policy: plain,
        placed: &[("dev", as_it_is), ("prod", as_it_is)],
        says: "",
        then: Then::GoesOnAt("prod", &[("dev", "+-"), ("test", ""), ("prod", "+")]),
    },
    Case {
        name: "a panic left all stages",
        policy: plain,
        placed: &[("dev", as_it_is), ("test", as_it_is), ("prod", as_it_is)],
        says: "dev",
        then: Then::GoesOnAt("prod", &[("dev", "+-"), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "a panic left the first two stages, and the policy keeps them",
        policy: keeping,
        placed: &[("dev", as_it_is), ("test", as_it_is)],
        says: "test",
        then: Then::GoesOnAt("test", &[("dev", "+"), ("test", "+"), ("prod", "+")]),
    },
    Case {
        name: "a panic left all stages, and the policy keeps them",
        policy: keeping,
        placed: &[("dev", as_it_is), ("test", as_it_is), ("prod", as_it_is)],
        says: "",
        then: Then::GoesOnAt("prod", &[("dev", "+"), ("test", "+"), ("prod", "+")]),
    },
    Case {
        name: "the first two stages share a cluster",
        policy: sharing_a_cluster,
        placed: &[("dev", as_it_is), ("test", as_it_is)],
        says: "test",
        then: Then::GoesOnAt(
            "test",
            &[("dev", "+-"), ("shared", "+-"), ("test", "+-"), ("prod", "+")],
        ),
    },
    Case {
        name: "the first stage active, and it shares a cluster with the second",
        policy: sharing_a_cluster,
        placed: &[("dev", as_it_is)],
        says: "dev",
        then: Then::GoesOnAt("dev", &[("dev", "+-"), ("shared", "+-"), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "the panic after the last stage had passed left nothing",
        policy: plain,
        placed: &[],
        says: "prod",
        then: Then::GoesOnAt("dev", &[("dev", "+-"), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "it ended between taking one stage away and placing the next",
        policy: plain,
        placed: &[],
        says: "dev",
        then: Then::GoesOnAt("dev", &[("dev", "+-"), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "owned as by a controller",
        policy: plain,
        placed: &[("test", controlled)],
        says: "test",
        then: Then::GoesOnAt("test", &[("dev", ""), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "owned expressly not as by a controller",
        policy: plain,
        placed: &[("test", expressly_not_controlled)],
        says: "test",
        then: Then::GoesOnAt("test", &[("dev", ""), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "owned by somebody else, too",
        policy: plain,
        placed: &[("test", owned_by_another_too)],
        says: "test",
        then: Then::GoesOnAt("test", &[("dev", ""), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "its owner gone, as an orphan",
        policy: plain,
        placed: &[("dev", orphaned)],
        says: "dev",
        then: Then::Stalls(
            &["BindingPolicy web.stage.dev", "does not own"],
            &[("dev", "+"), ("test", ""), ("prod", "")],
        ),
    },
    Case {
        name: "clauses that mean the same in other words",
        policy: plain,
        placed: &[("test", with_empty_lists)],
        says: "test",
        then: Then::GoesOnAt("test", &[("dev", ""), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "selectors that mean the same in other words",
        policy: plain,
        placed: &[("test", with_other_selectors)],
        says: "test",
        then: Then::GoesOnAt("test", &[("dev", ""), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "the first stage with clauses that were edited since",
        policy: plain,
        placed: &[("dev", with_other_clauses)],
        says: "dev",
        then: Then::GoesOnAt("dev", &[("dev", "+-"), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "the second stage with clauses that were edited since",
        policy: plain,
        placed: &[("test", with_other_clauses)],
        says: "test",
        then: Then::GoesOnAt("dev", &[("dev", "+-"), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "the last stage with clauses that were edited since",
        policy: plain,
        placed: &[("prod", with_other_clauses)],
        says: "prod",
        then: Then::GoesOnAt("dev", &[("dev", "+-"), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "all stages with clauses that were edited since",
        policy: plain,
        placed: &[
            ("dev", with_other_clauses),
            ("test", with_other_clauses),
            ("prod", with_other_clauses),
        ],
        says: "prod",
        then: Then::GoesOnAt("dev", &[("dev", "+-"), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "the first stage as it is, the last with clauses that were edited since",
        policy: plain,
        placed: &[("dev", as_it_is), ("prod", with_other_clauses)],
        says: "dev",
        then: Then::GoesOnAt("dev", &[("dev", "+-"), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "the first stage with clauses that were edited since, the last as it is",
        policy: plain,
        placed: &[("dev", with_other_clauses), ("prod", as_it_is)],
        says: "prod",
        // The first gets the policy's clauses, which the last stage has: all before it have passed.
        then: Then::JumpsTo("prod", &[("dev", "+-"), ("test", ""), ("prod", "+")]),
    },
    Case {
        name: "the first stage without its collectors",
        policy: plain,
        placed: &[("dev", without_collectors)],
        says: "dev",
        then: Then::GoesOnAt("dev", &[("dev", "+-"), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "the second stage without its collectors",
        policy: plain,
        placed: &[("test", without_collectors)],
        says: "test",
        then: Then::GoesOnAt("dev", &[("dev", "+-"), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "the last stage without its collectors, and the policy keeps all",
        policy: keeping,
        placed: &[("prod", without_collectors)],
        says: "prod",
        then: Then::GoesOnAt("dev", &[("dev", "+"), ("test", "+"), ("prod", "+")]),
    },
    Case {
        name: "the second stage without a member that it did not know",
        policy: wanting_the_state,
        placed: &[("test", without_the_wanted_state)],
        says: "test",
        then: Then::GoesOnAt("dev", &[("dev", "+-"), ("test", "+-"), ("prod", "+")]),
    },
    Case {
        name: "the active stage renamed",
        policy: plain,
        placed: &[("first", of_dev)],
        says: "first",
        then: Then::Stalls(
            &["BindingPolicy web.stage.first"],
            &[("dev", "+"), ("test", ""), ("prod", "")],
        ),
    },
    Case {
        name: "the active stage renamed, and status lost",
        policy: plain,
        placed: &[("first", of_dev)],
        says: "",
        then: Then::Stalls(
            &["BindingPolicy web.stage.first"],
            &[("dev", "+"), ("test", ""), ("prod", "")],
        ),
    },
    Case {
        name: "the second stage renamed while it was active, and begun anew at the first",
        policy: plain,
        placed: &[("second", of_test), ("dev", as_it_is)],
        says: "dev",
        then: Then::GoesOnAt("dev", &[("dev", "+-"), ("test", "+"), ("prod", "+")]),
    },
];
