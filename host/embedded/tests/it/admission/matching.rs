//! Which writes a policy is about: rules, selectors, other versions of a resource, and what no policy is about.

use serde_json::{Value, json};

use super::{BINDINGS, DEPLOYMENTS, MAPS, MERGE, POLICIES, binding, deployment, in_force, map, policy};
use crate::fixture::{send, send_as, server};

#[tokio::test(start_paused = true)]
async fn rules_and_selectors_say_which_writes_are_meant() {
    let rule = |groups: &str, resource: &str| json!({"apiGroups": [groups], "apiVersions": ["*"], "operations": ["*"], "resources": [resource]});
    let with = |mut rule: Value, member: &str, value: Value| {
        rule[member] = value;
        rule
    };
    let only = |rule: Value| json!({"resourceRules": [rule]});
    let selecting =
        |member: &str, labels: Value| json!({member: {"matchLabels": labels}, "resourceRules": [rule("*", "*/*")]});
    let (map_meant, scale_meant, namespace_meant) = (1, 2, 4);
    let cases = [
        (only(rule("", "configmaps")), map_meant),
        (only(rule("apps", "configmaps")), 0),
        (only(rule("*", "*")), map_meant + namespace_meant),
        (only(rule("*", "*/*")), map_meant + scale_meant + namespace_meant),
        (only(rule("*", "*/scale")), scale_meant),
        (only(rule("apps", "deployments/*")), scale_meant),
        (only(rule("apps", "deployments")), 0),
        (only(with(rule("*", "*/*"), "apiVersions", json!(["v2"]))), 0),
        (
            only(with(rule("*", "*/*"), "operations", json!(["CREATE"]))),
            map_meant + namespace_meant,
        ),
        (
            only(with(rule("*", "*/*"), "operations", json!(["UPDATE", "DELETE"]))),
            scale_meant,
        ),
        (
            only(with(rule("*", "*/*"), "resourceNames", json!(["web"]))),
            scale_meant,
        ),
        (
            only(with(rule("*", "*/*"), "scope", json!("Namespaced"))),
            map_meant + scale_meant,
        ),
        (only(with(rule("*", "*/*"), "scope", json!("Cluster"))), namespace_meant),
        (
            json!({"resourceRules": [rule("*", "*/*")], "excludeResourceRules": [rule("", "configmaps")]}),
            scale_meant + namespace_meant,
        ),
        (selecting("objectSelector", json!({"tier": "a"})), map_meant),
        // A Namespace is selected by its own labels.
        (
            selecting("namespaceSelector", json!({"kubernetes.io/metadata.name": "default"})),
            map_meant + scale_meant,
        ),
        (
            selecting("namespaceSelector", json!({"kubernetes.io/metadata.name": "made"})),
            namespace_meant,
        ),
    ];
    let mut wrong = Vec::new();
    for (constraints, wanted) in cases {
        let (_server, client) = server();
        send(&client, "POST", DEPLOYMENTS, deployment()).await;
        let spec = json!({"matchConstraints": constraints, "validations": [{"expression": "false"}]});
        let (code, answer) = send(&client, "POST", POLICIES, policy(&spec)).await;
        assert_eq!(code, 201, "{answer}");
        send(&client, "POST", BINDINGS, binding(&["Deny"])).await;
        let mut labelled = map("a");
        labelled["metadata"]["labels"] = json!({"tier": "a"});
        let (map_code, _) = send(&client, "POST", MAPS, labelled).await;
        let scale = json!({"spec": {"replicas": 2}});
        let (scale_code, _) = send_as(&client, ("PATCH", MERGE), &format!("{DEPLOYMENTS}/web/scale"), scale).await;
        let (namespace_code, _) = send(
            &client,
            "POST",
            "/api/v1/namespaces",
            json!({"metadata": {"name": "made"}}),
        )
        .await;
        let is_denied = |code: u16, bit: u16| if code == 422 { bit } else { 0 };
        let found = is_denied(map_code, map_meant)
            + is_denied(scale_code, scale_meant)
            + is_denied(namespace_code, namespace_meant);
        if found != wanted {
            wrong.push(format!("{constraints}: {found}, not {wanted}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_rule_means_other_versions_too_unless_it_wants_one_exactly() {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"kind": "Gadget", "plural": "gadgets"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": schema},
                {"name": "v2", "served": true, "storage": false, "schema": schema},
            ],
        },
    });
    for (match_policy, denied) in [("Equivalent", true), ("Exact", false)] {
        let rule =
            json!({"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["gadgets"]});
        let told = "object.apiVersion + ' ' + request.kind.version + ' ' + request.requestKind.version";
        let spec = json!({
            "matchConstraints": {"matchPolicy": match_policy, "resourceRules": [rule]},
            "validations": [{"expression": "false", "messageExpression": told}],
        });
        let (_server, client) = in_force(&spec).await;
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let (code, answer) = send(&client, "POST", definitions, definition.clone()).await;
        assert_eq!(code, 201, "{answer}");
        let gadget = json!({"apiVersion": "example.com/v2", "kind": "Gadget", "metadata": {"name": "g"}});
        let (code, answer) = send(&client, "POST", "/apis/example.com/v2/gadgets", gadget).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert_eq!(code == 422, denied, "{match_policy}: {answer}");
        assert_eq!(
            message.ends_with("denied request: example.com/v1 v1 v2"),
            denied,
            "{answer}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn no_policy_keeps_policies_from_being_changed() {
    let all = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]);
    let spec = json!({"matchConstraints": {"resourceRules": all}, "validations": [{"expression": "false"}]});
    let (_server, client) = in_force(&spec).await;
    let (code, _) = send(
        &client,
        "POST",
        "/api/v1/namespaces",
        json!({"metadata": {"name": "made"}}),
    )
    .await;
    assert_eq!(code, 422);
    for target in [format!("{POLICIES}/p"), format!("{BINDINGS}/b")] {
        let (code, answer) = send(&client, "DELETE", &target, Value::Null).await;
        assert_eq!(code, 200, "{answer}");
    }
}
