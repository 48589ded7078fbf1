//! What a real API server refuses, or answers in a way that a client could trip over, as rows: request, code, a part of the answer. The
//! whole answers of a real server are compared in `tests/cluster/requests`.

use serde_json::{Value, json};

use crate::fixture::{create, send, send_as, server};

const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const WIDGETS: &str = "/apis/test.stagegate.dev/v1/namespaces/default/widgets";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Method and media type, target, body; code and a part of the message.
type Row = ((&'static str, &'static str), String, Value, u16, &'static str);

fn row(method: &'static str, target: impl Into<String>, body: Value, (code, part): (u16, &'static str)) -> Row {
    let (method, media_type) = match method {
        "MERGE" => ("PATCH", MERGE),
        "APPLY" => ("PATCH", APPLY),
        other => (other, "application/json"),
    };
    ((method, media_type), target.into(), body, code, part)
}

async fn are_answered(client: &kube::Client, rows: Vec<Row>) {
    let mut wrong = Vec::new();
    for (method, target, body, code, part) in rows {
        let shown = format!("{} {target} {body}", method.0);
        let (found, answer) = send_as(client, method, &target, body).await;
        let message = answer["message"].as_str().unwrap_or_default();
        if found != code || !message.contains(part) {
            wrong.push(format!("{shown}: {found} {message:?}, not {code} {part:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn deployment(name: &str, selected: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": selected}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}},
        },
    })
}

#[tokio::test(start_paused = true)]
async fn custom_resources_say_what_they_are_and_nulls_are_no_values() {
    let (_server, client) = server();
    let widget =
        |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": {}});
    let version = "test.stagegate.dev/v1";
    are_answered(
        &client,
        vec![
            row(
                "POST",
                WIDGETS,
                json!({"metadata": {"name": "a"}, "spec": {}}),
                (400, "Object 'Kind' is missing"),
            ),
            row(
                "POST",
                WIDGETS,
                widget(version, "Gadget"),
                (422, "kind: Invalid value: \"Gadget\": must be Widget"),
            ),
            row(
                "POST",
                WIDGETS,
                widget("test.stagegate.dev/v2", "Widget"),
                (400, "does not match the expected API version"),
            ),
            row(
                "GET",
                format!("{WIDGETS}/a/logs"),
                json!(null),
                (404, "widgets.test.stagegate.dev \"a\" not found"),
            ),
        ],
    )
    .await;
    let mut with_null = widget(version, "Widget");
    with_null["spec"] = json!({"size": 1, "colour": null});
    let (code, answer) = send(&client, "POST", WIDGETS, with_null).await;
    assert_eq!((code, &answer["spec"]["size"]), (201, &json!(1)), "{answer}");
    assert!(
        answer["spec"]["colour"].is_string() || answer["spec"].get("colour").is_none(),
        "{answer}"
    );
}

#[tokio::test(start_paused = true)]
async fn options_of_writes_that_mean_nothing_are_refused() {
    let (_server, client) = server();
    let map = json!({"metadata": {"name": "a"}});
    let of_list = |query: &str| format!("{CONFIG_MAPS}?{query}");
    let long = "m".repeat(129);
    are_answered(
        &client,
        vec![
            row(
                "POST",
                of_list("dryRun=Some"),
                map.clone(),
                (422, "dryRun: Unsupported value: [\"Some\"]"),
            ),
            row(
                "POST",
                of_list("fieldValidation=Maybe"),
                map.clone(),
                (422, "fieldValidation: Unsupported value"),
            ),
            row(
                "POST",
                of_list(&format!("fieldManager={long}")),
                map.clone(),
                (422, "may not be more than 128 bytes"),
            ),
            row(
                "MERGE",
                format!("{CONFIG_MAPS}/a?force=true"),
                map.clone(),
                (422, "force: Forbidden"),
            ),
            row(
                "APPLY",
                format!("{CONFIG_MAPS}/a"),
                map.clone(),
                (422, "fieldManager: Required value"),
            ),
            row(
                "DELETE",
                format!("{CONFIG_MAPS}/a?propagationPolicy=Sideways"),
                json!(null),
                (422, "propagationPolicy"),
            ),
            row(
                "DELETE",
                format!("{CONFIG_MAPS}/a"),
                json!({"kind": "ConfigMap", "apiVersion": "v1"}),
                (500, "no kind"),
            ),
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn options_of_reads_that_mean_nothing_are_refused() {
    let (_server, client) = server();
    let of_list = |query: &str| format!("{CONFIG_MAPS}?{query}");
    are_answered(
        &client,
        vec![
            row("GET", of_list("limit=many"), json!(null), (400, "strconv.ParseInt")),
            row(
                "GET",
                of_list("resourceVersionMatch=Exact"),
                json!(null),
                (422, "unless resourceVersion is provided"),
            ),
            row(
                "GET",
                of_list("resourceVersionMatch=Exact&resourceVersion=0"),
                json!(null),
                (422, "forbidden for resourceVersion"),
            ),
            row(
                "GET",
                of_list("resourceVersionMatch=About&resourceVersion=1"),
                json!(null),
                (422, "Unsupported value"),
            ),
            row(
                "GET",
                of_list("sendInitialEvents=true"),
                json!(null),
                (422, "forbidden for list"),
            ),
            row(
                "GET",
                of_list("watch=true&sendInitialEvents=true"),
                json!(null),
                (422, "requires setting resourceVersionMatch"),
            ),
            row(
                "GET",
                of_list("watch=true&continue=abc"),
                json!(null),
                (422, "when continue is provided"),
            ),
            row(
                "GET",
                format!("{CONFIG_MAPS}/a?resourceVersion=999999"),
                json!(null),
                (504, "Too large resource version"),
            ),
            row("HEAD", CONFIG_MAPS, json!(null), (405, "")),
            row("POST", "/version", json!({}), (405, "does not allow this method")),
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn maps_and_secrets_are_validated() {
    let (_server, client) = server();
    let fixed = json!({"metadata": {"name": "fixed"}, "data": {"k": "v"}, "immutable": true});
    assert_eq!(send(&client, "POST", CONFIG_MAPS, fixed).await.0, 201);
    let text = json!({"metadata": {"name": "text"}, "stringData": {"a": "b"}});
    assert_eq!(send(&client, "POST", SECRETS, text).await.0, 201);
    let name = json!({"name": "x"});
    are_answered(
        &client,
        vec![
            row(
                "POST",
                CONFIG_MAPS,
                json!({"metadata": name, "data": {"a/b": "x"}}),
                (422, "data[a/b]: Invalid value"),
            ),
            row(
                "POST",
                CONFIG_MAPS,
                json!({"metadata": name, "data": {"a": "x"}, "binaryData": {"a": "AAE="}}),
                (422, "duplicate of key"),
            ),
            row(
                "POST",
                CONFIG_MAPS,
                json!({"metadata": {"name": "x", "finalizers": ["hold"]}}),
                (422, "nor is it fully qualified"),
            ),
            row(
                "MERGE",
                format!("{CONFIG_MAPS}/fixed"),
                json!({"data": {"k": "w"}}),
                (422, "data: Forbidden"),
            ),
            row(
                "MERGE",
                format!("{CONFIG_MAPS}/fixed"),
                json!({"immutable": false}),
                (422, "immutable: Forbidden"),
            ),
            row(
                "MERGE",
                format!("{SECRETS}/text"),
                json!({"type": "other"}),
                (422, "type: Invalid value: \"other\": field is immutable"),
            ),
            row(
                "POST",
                SECRETS,
                json!({"metadata": name, "type": "kubernetes.io/tls"}),
                (422, "data[tls.crt]: Required value"),
            ),
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn deployments_and_leases_are_validated() {
    let (_server, client) = server();
    assert_eq!(
        send(&client, "POST", DEPLOYMENTS, deployment("web", "web")).await.0,
        201
    );
    let name = json!({"name": "x"});
    let replicas = json!({"status": {"replicas": 1, "readyReplicas": 2}});
    are_answered(
        &client,
        vec![
            row(
                "POST",
                DEPLOYMENTS,
                deployment("odd", "other"),
                (422, "`selector` does not match template `labels`"),
            ),
            row(
                "POST",
                DEPLOYMENTS,
                json!({"metadata": name, "spec": {}}),
                (422, "spec.selector: Required value"),
            ),
            row(
                "MERGE",
                format!("{DEPLOYMENTS}/web"),
                json!({"spec": {"replicas": -1}}),
                (422, "spec.replicas: Invalid value: -1"),
            ),
            row(
                "MERGE",
                format!("{DEPLOYMENTS}/web/status"),
                replicas,
                (422, "cannot be greater than status.replicas"),
            ),
            row(
                "POST",
                LEASES,
                json!({"metadata": name, "spec": {"leaseDurationSeconds": 0}}),
                (422, "must be greater than 0"),
            ),
            row(
                "POST",
                LEASES,
                json!({"metadata": name, "spec": {"renewTime": "2001-01-01T00:00:10.5Z"}}),
                (400, "cannot parse \".5Z\""),
            ),
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_completed_as_a_real_server_completes_it() {
    let (_server, client) = server();
    let (code, answer) = send(&client, "POST", DEPLOYMENTS, deployment("web", "web")).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(answer["spec"]["strategy"]["rollingUpdate"]["maxSurge"], "25%");
    assert_eq!(answer["status"], json!({}));
    let pod = &answer["spec"]["template"]["spec"];
    assert_eq!(
        (&pod["restartPolicy"], &pod["terminationGracePeriodSeconds"]),
        (&json!("Always"), &json!(30))
    );
    assert_eq!(pod["containers"][0]["imagePullPolicy"], "IfNotPresent");
    let fields = &answer["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"];
    assert!(
        fields.get(".").is_none() && fields["f:template"].get(".").is_none(),
        "{fields}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_put_makes_a_lease_and_no_config_map() {
    let (_server, client) = server();
    let lease = json!({"metadata": {"name": "new"}, "spec": {"holderIdentity": "one"}});
    assert_eq!(
        send(&client, "PUT", &format!("{LEASES}/new"), lease.clone()).await.0,
        201
    );
    are_answered(
        &client,
        vec![
            row(
                "PUT",
                format!("{LEASES}/new"),
                lease,
                (422, "must be specified for an update"),
            ),
            row(
                "PUT",
                format!("{CONFIG_MAPS}/new"),
                json!({"metadata": {"name": "new"}}),
                (404, "not found"),
            ),
            row(
                "PUT",
                format!("{CONFIG_MAPS}/new"),
                json!({"data": {}}),
                (400, "name must be provided"),
            ),
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn definitions_with_rules_about_nothing_are_refused_and_their_scope_stays() {
    let (_server, client) = server();
    let definition = |rule: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "gadgets.example.dev"},
            "spec": {
                "group": "example.dev", "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
                    "x-kubernetes-validations": [{"rule": rule}],
                }}}],
            },
        })
    };
    are_answered(
        &client,
        vec![row(
            "POST",
            DEFINITIONS,
            definition("self.spec.colour == 1"),
            (422, "undefined field 'colour'"),
        )],
    )
    .await;
    assert_eq!(
        send(&client, "POST", DEFINITIONS, definition("self.spec.size > 1"))
            .await
            .0,
        201
    );
    let scope = json!({"spec": {"scope": "Cluster"}});
    let refused = (422, "spec.scope: Invalid value: \"Cluster\": field is immutable");
    are_answered(
        &client,
        vec![row(
            "MERGE",
            format!("{DEFINITIONS}/gadgets.example.dev"),
            scope,
            refused,
        )],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_only_marked_is_answered_as_an_object() {
    let (_server, client) = server();
    create(&client, "a").await;
    let foreground = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"});
    let (_, answer) = send(&client, "DELETE", &format!("{WIDGETS}/a"), foreground).await;
    assert_eq!(
        answer["metadata"]["finalizers"],
        json!(["foregroundDeletion"]),
        "{answer}"
    );
    let (_, answer) = send(
        &client,
        "DELETE",
        &format!("{DEFINITIONS}/widgets.test.stagegate.dev"),
        json!(null),
    )
    .await;
    assert_eq!(answer["kind"], "CustomResourceDefinition");
    // With its last definition a group is no API any more, and clients are told so in plain text.
    assert_eq!(send(&client, "GET", WIDGETS, json!(null)).await, (404, Value::Null));
    let (code, answer) = send(&client, "GET", "/api/v1/nothings", json!(null)).await;
    assert_eq!((code, &answer["reason"]), (404, &json!("NotFound")));
}

#[tokio::test(start_paused = true)]
async fn lists_of_built_in_kinds_do_not_repeat_what_they_hold() {
    let (_server, client) = server();
    create(&client, "a").await;
    let (_, built_in) = send(&client, "GET", "/api/v1/namespaces", json!(null)).await;
    assert_eq!(
        (&built_in["items"][0]["kind"], &built_in["kind"]),
        (&Value::Null, &json!("NamespaceList"))
    );
    let (_, custom) = send(&client, "GET", WIDGETS, json!(null)).await;
    assert_eq!(
        (&custom["items"][0]["kind"], &custom["metadata"]["continue"]),
        (&json!("Widget"), &json!(""))
    );
}

#[tokio::test(start_paused = true)]
async fn what_leaves_a_selection_is_deleted_as_it_was_known() {
    let (server, client) = server();
    let map = json!({"metadata": {"name": "a", "labels": {"tier": "x"}}});
    let (_, made) = send(&client, "POST", CONFIG_MAPS, map).await;
    let version = made["metadata"]["resourceVersion"].as_str().unwrap();
    let patch = json!({"metadata": {"labels": {"tier": "y"}}});
    let (_, moved) = send_as(&client, ("PATCH", MERGE), &format!("{CONFIG_MAPS}/a"), patch).await;
    let target = format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=1&labelSelector=tier=x&resourceVersion={version}");
    let (_, event) = send(&client, "GET", &target, json!(null)).await;
    assert_eq!(
        (&event["type"], &event["object"]["metadata"]["labels"]["tier"]),
        (&json!("DELETED"), &json!("x"))
    );
    assert_eq!(
        event["object"]["metadata"]["resourceVersion"],
        moved["metadata"]["resourceVersion"]
    );
    drop(server);
}
