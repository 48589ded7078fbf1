//! Admission policies in the embedded server: when they act, what they see, and that what they cannot evaluate counts as `failurePolicy` says. The words of
//! a real server are compared in `tests/cluster/requests/admission.yaml`.

mod matching;

use kube::Client;
use serde_json::{Value, json};

use crate::fixture::{send, send_as, server};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A policy about ConfigMaps, unless its spec says otherwise.
fn policy(spec: &Value) -> Value {
    let mut policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
        "spec": {"matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]},
        ]}},
    });
    for (member, value) in spec.as_object().into_iter().flatten() {
        policy["spec"][member] = value.clone();
    }
    policy
}

fn binding(actions: &[&str]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": actions},
    })
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}},
        },
    })
}

/// Puts a policy into force on a server of its own.
async fn in_force(spec: &Value) -> (stagegate_embedded::Server, Client) {
    let (server, client) = server();
    let (code, answer) = send(&client, "POST", POLICIES, policy(spec)).await;
    assert_eq!(code, 201, "{spec}: {answer}");
    let (code, answer) = send(&client, "POST", BINDINGS, binding(&["Deny"])).await;
    assert_eq!(code, 201, "{answer}");
    (server, client)
}

/// A spec, the data of a ConfigMap, the code of the answer and a part of its message.
type Case = (Value, Value, u16, &'static str);

async fn are_answered(cases: Vec<Case>) {
    let mut wrong = Vec::new();
    for (spec, data, code, part) in cases {
        let (_server, client) = in_force(&spec).await;
        let mut body = map("a");
        body["data"] = data;
        let (found, answer) = send(&client, "POST", MAPS, body).await;
        let message = answer["message"].as_str().unwrap_or_default();
        if found != code || !message.contains(part) {
            wrong.push(format!("{spec}: {found} {message:?}, not {code} {part:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_validation_that_does_not_hold_denies_with_its_own_words() {
    let validation = |mut validation: Value| {
        validation["expression"] = json!("has(object.data.k) && object.data.k == 'v'");
        json!({ "validations": [validation] })
    };
    let bad = json!({"k": "w"});
    are_answered(vec![
        (validation(json!({})), json!({"k": "v"}), 201, ""),
        (
            validation(json!({})),
            bad.clone(),
            422,
            "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: has(object.data.k) && object",
        ),
        (validation(json!({"message": "k is v"})), bad.clone(), 422, "request: k is v"),
        (validation(json!({"reason": "Forbidden"})), bad.clone(), 403, ""),
        (validation(json!({"reason": "Invalid"})), bad.clone(), 422, ""),
        (validation(json!({"reason": "RequestEntityTooLarge"})), bad.clone(), 413, ""),
        (
            validation(json!({"message": "no", "messageExpression": "'k is ' + object.data.k"})),
            bad.clone(),
            422,
            "request: k is w",
        ),
        (
            validation(json!({"message": "no", "messageExpression": "'k is ' + object.data.none"})),
            bad.clone(),
            422,
            "request: no",
        ),
        (
            validation(json!({"message": "no", "messageExpression": "'  '"})),
            bad.clone(),
            422,
            "request: no",
        ),
        (
            validation(json!({"message": "no", "messageExpression": "'a\\nb'"})),
            bad,
            422,
            "request: no",
        ),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_expression_without_an_answer_counts_as_the_failure_policy_says() {
    let fails = "object.data.k == 'v'";
    let said = "expression 'object.data.k == 'v'' resulted in error: no such key: k";
    let endless = "[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, \
                   [0,1,2,3,4,5,6,7,8,9].all(d, [0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, \
                   [0,1,2,3,4,5,6,7,8,9].all(g, a + b + c + d + e + f + g >= 0))))))) || true";
    let validations = json!([{ "expression": fails }]);
    let condition = json!([{"name": "c", "expression": fails}]);
    let two = json!([{"name": "c", "expression": fails}, {"name": "d", "expression": "false"}]);
    let never = json!([{"expression": "false"}]);
    let ignored = |mut spec: Value| {
        spec["failurePolicy"] = json!("Ignore");
        spec
    };
    let data = json!({"j": "v"});
    are_answered(vec![
        (json!({ "validations": validations }), data.clone(), 422, said),
        (ignored(json!({ "validations": validations })), data.clone(), 201, ""),
        (
            json!({"validations": never, "matchConditions": condition}),
            data.clone(),
            422,
            said,
        ),
        (
            ignored(json!({"validations": never, "matchConditions": condition})),
            data.clone(),
            201,
            "",
        ),
        // A condition that is false counts more than one that fails.
        (
            json!({"validations": never, "matchConditions": two}),
            data.clone(),
            201,
            "",
        ),
        (
            json!({"validations": [{"expression": endless}]}),
            data.clone(),
            422,
            "takes more work than it may",
        ),
        (
            json!({"validations": [{"expression": "variables.v || true"}], "variables": [{"name": "v", "expression": endless}]}),
            data.clone(),
            201,
            "",
        ),
        // Read as a bool, for nobody knows what it is before.
        (json!({"validations": [{"expression": "object.data.j"}]}), data, 422, "not a bool"),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn variables_are_evaluated_when_they_are_named_and_fail_where_they_are_read() {
    let spec = |expression: &str, variables: &[(&str, &str)]| {
        let variables: Vec<Value> = variables
            .iter()
            .map(|(name, expression)| json!({"name": name, "expression": expression}))
            .collect();
        json!({"validations": [{ "expression": expression }], "variables": variables})
    };
    let failing = [("a", "object.none"), ("b", "variables.a")];
    let data = || json!({"k": "v"});
    are_answered(vec![
        (
            spec("variables.both == 'vv'", &[("k", "object.data.k"), ("both", "variables.k + variables.k")]),
            data(),
            201,
            "",
        ),
        (
            spec("variables.b == 1", &failing),
            data(),
            422,
            "composited variable \"b\" fails to evaluate: composited variable \"a\" fails to evaluate: no such key: none",
        ),
        (spec("variables.b == 1 || true", &failing), data(), 201, ""),
        (spec("true", &failing), data(), 201, ""),
        // Of two with one name, the last.
        (spec("variables.a == 2", &[("a", "1"), ("a", "2")]), data(), 201, ""),
        (
            spec(
                "variables.t - variables.t == duration('0s') && variables.l[?7] == optional.none()",
                &[("t", "timestamp('2001-01-01T00:00:00Z')"), ("l", "[{'a': 1u}, {'b': b'c'}]")],
            ),
            data(),
            201,
            "",
        ),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn variables_that_nest_do_no_harm() {
    let variables = |count: usize| {
        let first = json!({"name": "v0", "expression": "[1]"});
        let nested = |n: usize| json!({"name": format!("v{n}"), "expression": format!("[[[[variables.v{}]]]]", n - 1)});
        std::iter::once(first)
            .chain((1..count).map(nested))
            .collect::<Vec<Value>>()
    };
    let size = json!([{"expression": "size(variables.v255) == 1"}]);
    let spec = json!({"variables": variables(256), "validations": size});
    let why = "composited variable \"v255\" fails to evaluate";
    are_answered(vec![(spec, json!({}), 422, why)]).await;

    let (_server, client) = server();
    let spec = json!({"variables": variables(257), "validations": size});
    let (code, answer) = send(&client, "POST", POLICIES, policy(&spec)).await;
    assert!(
        code == 422
            && answer["message"]
                .as_str()
                .is_some_and(|m| m.contains("spec.variables: Too many")),
        "{answer}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_evaluated_is_refused_by_the_name_of_its_field() {
    let (_server, client) = server();
    let valid = json!([{"expression": "true"}]);
    let expressed = |expression: &str| json!({"validations": [{ "expression": expression }], "variables": [{"name": "x", "expression": "true"}]});
    let mut wrong = Vec::new();
    for (spec, part) in [
        (
            json!({"validations": valid, "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}),
            "spec.paramKind: Forbidden",
        ),
        (
            json!({"validations": valid, "auditAnnotations": [{"key": "a", "valueExpression": "'b'"}]}),
            "spec.auditAnnotations: Forbidden",
        ),
        (
            expressed("authorizer.group('').resource('pods').check('get').allowed()"),
            "no authorizer",
        ),
        (expressed("has(request.options)"), "no request.options"),
        (expressed("has(variables.x)"), "has(variables.x)"),
        (expressed("variables['x']"), "variables.NAME"),
        (expressed("variables.?x.orValue(true)"), "variables.NAME"),
        // Whatever could tell that a variable is absent would admit where one has failed.
        (expressed("variables.all(k, false)"), "variables.NAME"),
        (expressed("(variables).?x.orValue(true)"), "variables.NAME"),
        (expressed("[variables].all(v, !has(v.x))"), "variables.NAME"),
        (expressed("true && .variables.?x.orValue(true)"), "variables.NAME"),
        (expressed("!has(.variables.x)"), "has(variables.x)"),
        (expressed("true // it's\n && !has(variables.x)"), "has(variables.x)"),
        (
            expressed("r'\\' != object.kind && !has(variables.x)"),
            "has(variables.x)",
        ),
        (expressed("'''it's''' != '' && !has(variables.x)"), "has(variables.x)"),
        (expressed("variables.y"), "spec.validations[0].expression"),
        (expressed("math.abs(1) == 1"), "'math'"),
        (expressed("[1].distinct() == [1]"), "'distinct'"),
        (expressed(&format!("'{}' == ''", "a".repeat(20_000))), "more than 10240"),
    ] {
        let (code, answer) = send(&client, "POST", POLICIES, policy(&spec)).await;
        let message = answer["message"].as_str().unwrap_or_default();
        if code != 422 || !message.contains(part) {
            wrong.push(format!("{code} {message:?}, not {part:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let mut with_parameters = binding(&["Deny"]);
    with_parameters["spec"]["paramRef"] = json!({"name": "a", "parameterNotFoundAction": "Allow"});
    let (code, answer) = send(&client, "POST", BINDINGS, with_parameters).await;
    assert_eq!(code, 422, "{answer}");
}

#[tokio::test(start_paused = true)]
async fn what_is_written_in_a_text_is_no_function() {
    let spec =
        json!({"validations": [{"expression": "object.metadata.name != 'math.abs(1) [1].sort() \\' variables['"}]});
    are_answered(vec![(spec, json!({}), 201, "")]).await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_acts_while_a_binding_names_it() {
    let (_server, client) = server();
    let never = json!({"validations": [{"expression": "false", "message": "never"}]});
    let codes = async |wanted: u16| {
        let (code, answer) = send(&client, "POST", &format!("{MAPS}?dryRun=All"), map("a")).await;
        assert_eq!(code, wanted, "{answer}");
    };
    send(&client, "POST", POLICIES, policy(&never)).await;
    codes(201).await;
    send(&client, "POST", &format!("{BINDINGS}?dryRun=All"), binding(&["Deny"])).await;
    codes(201).await;
    send(&client, "POST", BINDINGS, binding(&["Deny"])).await;
    codes(422).await;
    let target = format!("{POLICIES}/p");
    let spec = json!({"spec": {"validations": [{"expression": "true"}]}});
    send_as(&client, ("PATCH", MERGE), &target, spec).await;
    codes(201).await;
    let spec = json!({"spec": {"validations": [{"expression": "false"}]}});
    send_as(&client, ("PATCH", MERGE), &target, spec).await;
    codes(422).await;
    let audited = json!({"spec": {"validationActions": ["Audit"]}});
    send_as(&client, ("PATCH", MERGE), &format!("{BINDINGS}/b"), audited).await;
    codes(201).await;
    send(&client, "DELETE", &format!("{BINDINGS}/b"), Value::Null).await;
    send(&client, "POST", BINDINGS, binding(&["Deny"])).await;
    codes(422).await;
    send(&client, "DELETE", &target, Value::Null).await;
    codes(201).await;
    // The binding is still there, and a policy of that name acts again.
    send(&client, "POST", POLICIES, policy(&never)).await;
    codes(422).await;
    send(&client, "DELETE", &format!("{BINDINGS}/b"), Value::Null).await;
    codes(201).await;
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_write_is_reviewed() {
    let all = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]);
    let told = "request.operation + ' ' + request.resource.resource + '/' + (has(request.subResource) ? request.subResource : '') \
                + ' ' + (object == null ? 'nothing' : object.kind) + ' for ' + (oldObject == null ? 'nothing' : oldObject.kind)";
    let spec = json!({
        "matchConstraints": {"resourceRules": all},
        "matchConditions": [{"name": "closed", "expression": "namespaceObject != null && 'closed' in namespaceObject.metadata.labels"}],
        "validations": [{"expression": "false", "messageExpression": told}],
    });
    let (server, client) = in_force(&spec).await;
    send(&client, "POST", MAPS, map("a")).await;
    send(&client, "POST", DEPLOYMENTS, deployment()).await;
    let closed = json!({"metadata": {"labels": {"closed": "yes"}}});
    let (code, answer) = send_as(&client, ("PATCH", MERGE), "/api/v1/namespaces/default", closed).await;
    assert_eq!(code, 200, "{answer}");
    server.log_commits();
    let web = format!("{DEPLOYMENTS}/web");
    let mut wrong = Vec::new();
    for ((method, media_type), target, body, told) in [
        (
            ("POST", "application/json"),
            MAPS.to_owned(),
            map("b"),
            "CREATE configmaps/ ConfigMap for nothing",
        ),
        (
            ("POST", "application/json"),
            format!("{MAPS}?dryRun=All"),
            map("b"),
            "CREATE configmaps/ ConfigMap for nothing",
        ),
        (
            ("PUT", "application/json"),
            format!("{MAPS}/a"),
            map("a"),
            "UPDATE configmaps/ ConfigMap for ConfigMap",
        ),
        (
            ("PATCH", MERGE),
            format!("{MAPS}/a"),
            json!({}),
            "UPDATE configmaps/ ConfigMap for ConfigMap",
        ),
        (
            ("PATCH", APPLY),
            format!("{MAPS}/a?fieldManager=m"),
            map("a"),
            "UPDATE configmaps/ ConfigMap for ConfigMap",
        ),
        (
            ("PATCH", APPLY),
            format!("{MAPS}/b?fieldManager=m"),
            map("b"),
            "CREATE configmaps/ ConfigMap for nothing",
        ),
        (
            ("PATCH", MERGE),
            format!("{web}/status"),
            json!({}),
            "UPDATE deployments/status Deployment for Deployment",
        ),
        (
            ("PATCH", MERGE),
            format!("{web}/scale"),
            json!({"spec": {"replicas": 2}}),
            "UPDATE deployments/scale Scale for Scale",
        ),
        (
            ("DELETE", "application/json"),
            web.clone(),
            Value::Null,
            "DELETE deployments/ nothing for Deployment",
        ),
        (
            ("DELETE", "application/json"),
            format!("{web}?dryRun=All"),
            Value::Null,
            "DELETE deployments/ nothing for Deployment",
        ),
        (
            ("DELETE", "application/json"),
            MAPS.to_owned(),
            Value::Null,
            "DELETE configmaps/ nothing for ConfigMap",
        ),
    ] {
        let (code, answer) = send_as(&client, (method, media_type), &target, body).await;
        let message = answer["message"].as_str().unwrap_or_default();
        if code != 422 || !message.contains(told) {
            wrong.push(format!("{method} {target}: {code} {message:?}, not {told:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(server.commits(0).is_empty(), "nothing that was denied was stored");
}

#[tokio::test(start_paused = true)]
async fn what_the_old_object_says_holds_until_it_says_otherwise() {
    let held = "has(oldObject.data) && 'held' in oldObject.data && oldObject.data.held == 'yes'";
    let spec = json!({
        "matchConditions": [{"name": "update", "expression": "request.operation == 'UPDATE'"}],
        "variables": [{"name": "held", "expression": held}],
        "validations": [{"expression": "!variables.held || object.data.v == oldObject.data.v", "message": "v is held"}],
    });
    let (_server, client) = in_force(&spec).await;
    let mut first = map("a");
    first["data"] = json!({"v": "1", "held": "yes"});
    send(&client, "POST", MAPS, first).await;
    for (data, wanted) in [
        (json!({"v": "2"}), 422),
        // Not by what the write itself brings.
        (json!({"v": "2", "held": "no"}), 422),
        (json!({"other": "x"}), 200),
        (json!({"held": "no"}), 200),
        (json!({"v": "2"}), 200),
    ] {
        let body = json!({ "data": data });
        let (code, answer) = send_as(&client, ("PATCH", MERGE), &format!("{MAPS}/a"), body).await;
        assert_eq!(code, wanted, "{data}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_of_several_ends_at_the_first_that_is_denied() {
    let kept =
        json!({"validations": [{"expression": "request.operation != 'DELETE' || oldObject.metadata.name != 'b'"}]});
    let (_server, client) = in_force(&kept).await;
    for name in ["a", "b", "c"] {
        send(&client, "POST", MAPS, map(name)).await;
    }
    let (code, answer) = send(&client, "DELETE", MAPS, Value::Null).await;
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(
        code == 422 && message.starts_with("configmaps \"Unknown\" is forbidden"),
        "{answer}"
    );
    let (_, left) = send(&client, "GET", MAPS, Value::Null).await;
    let names: Vec<&Value> = left["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|item| &item["metadata"]["name"])
        .collect();
    assert_eq!(names, ["b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_an_object_is_said_before_policies_are_asked_and_a_name_that_is_taken_after() {
    let (_server, client) = server();
    send(&client, "POST", MAPS, map("a")).await;
    send(
        &client,
        "POST",
        POLICIES,
        policy(&json!({"validations": [{"expression": "false"}]})),
    )
    .await;
    send(&client, "POST", BINDINGS, binding(&["Deny"])).await;
    let mut broken = map("a");
    broken["data"] = json!({"a b": "c"});
    let (code, answer) = send(&client, "POST", MAPS, broken).await;
    assert!(
        code == 422
            && answer["message"]
                .as_str()
                .is_some_and(|m| m.contains("is invalid: data[a b]")),
        "{answer}"
    );
    let (_, answer) = send(&client, "POST", MAPS, map("a")).await;
    assert_eq!(answer["reason"], "Invalid", "not AlreadyExists: {answer}");
    let stale = json!({"metadata": {"resourceVersion": "1"}});
    let (code, answer) = send_as(&client, ("PATCH", MERGE), &format!("{MAPS}/a"), stale).await;
    assert_eq!(code, 409, "{answer}");
}

#[tokio::test(start_paused = true)]
async fn expressions_know_who_asks() {
    let told = "request.userInfo.username + ' of ' + request.userInfo.groups[0]";
    let (_server, client) =
        in_force(&json!({"validations": [{"expression": "false", "messageExpression": told}]})).await;
    for (user, wanted) in [
        ("", "system:anonymous of system:unauthenticated"),
        ("jane", "jane of system:authenticated"),
    ] {
        let request = http::Request::post(MAPS)
            .header("content-type", "application/json")
            .header(stagegate_embedded::USER_HEADER, user)
            .body(kube::client::Body::from(map("a").to_string().into_bytes()))
            .unwrap();
        let response = client.send(request).await.unwrap();
        let answer: Value = serde_json::from_slice(&response.into_body().collect_bytes().await.unwrap()).unwrap();
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(message.ends_with(wanted), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_warns_lets_the_write_pass_and_says_so() {
    let (_server, client) = server();
    let spec = json!({"validations": [{"expression": "false", "message": "better not"}]});
    send(&client, "POST", POLICIES, policy(&spec)).await;
    send(&client, "POST", BINDINGS, binding(&["Warn"])).await;
    for (method, target, body) in [
        ("POST", MAPS.to_owned(), map("a").to_string()),
        ("DELETE", format!("{MAPS}/a"), String::new()),
    ] {
        let request = http::Request::builder()
            .method(method)
            .uri(target)
            .header("content-type", "application/json")
            .body(kube::client::Body::from(body.into_bytes()))
            .unwrap();
        let response = client.send(request).await.unwrap();
        assert!(response.status().is_success());
        let warning = response.headers()["warning"].to_str().unwrap();
        let wanted = "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': better not\"";
        assert_eq!(warning, wanted, "{method}");
    }
}
