//! Definitions: what a schema refuses, fills in, drops and keeps, and what a definition must be.

use kube::Client;
use serde_json::{Value, json};
use stagegate_clock::TokioClock;
use stagegate_embedded::Server;

use crate::fixture::{send, send_as};

const PATH: &str = "/apis/test.stagegate.dev/v1/gadgets";

fn definition(spec: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.test.stagegate.dev"},
        "spec": {
            "group": "test.stagegate.dev", "scope": "Cluster", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}],
        },
    })
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A server that serves gadgets with this schema of `spec`.
async fn gadgets(spec: Value) -> Client {
    let client = Server::new(TokioClock::shared()).client();
    let (code, answer) = send(&client, "POST", DEFINITIONS, definition(&spec)).await;
    assert_eq!(code, 201, "{answer}");
    client
}

fn gadget(version: &str, metadata: Value, spec: Value) -> Value {
    let version = format!("test.stagegate.dev/{version}");
    json!({"apiVersion": version, "kind": "Gadget", "metadata": metadata, "spec": spec})
}

async fn create(client: &Client, name: &str, spec: Value) -> (u16, Value) {
    send(client, "POST", PATH, gadget("v1", json!({"name": name}), spec)).await
}

/// Each value with the text that the refusal must contain; an empty text means that it is accepted.
async fn judge(schema: Value, cases: &[(Value, &str)]) {
    let client = gadgets(schema).await;
    for (index, (spec, wanted)) in cases.iter().enumerate() {
        let (code, answer) = create(&client, &format!("g{index}"), spec.clone()).await;
        let message = answer["message"].as_str().unwrap_or_default();
        match *wanted {
            "" => assert_eq!(code, 201, "{spec}: {message}"),
            wanted => assert!(
                code == 422 && message.contains(wanted),
                "{spec}: {code} {message}, not {wanted:?}"
            ),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn types_and_bounds_are_kept() {
    let schema = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "share": {"type": "number", "minimum": 0, "exclusiveMinimum": true},
        "mode": {"type": "string", "enum": ["on", "off"]},
        "when": {"type": "string", "format": "date-time"},
        "note": {"type": "string", "nullable": true},
        "tags": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
        "port": {"x-kubernetes-int-or-string": true},
        "labels": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "integer"}},
    }});
    let cases = [
        (
            json!({"name": "ab", "count": 9, "share": 0.5, "mode": "on", "note": null, "port": "x"}),
            "",
        ),
        (
            json!({"name": "ab", "port": 80, "when": "2026-01-01T00:00:00Z", "labels": {"a": 1}}),
            "",
        ),
        (json!({}), "spec.name: Required value"),
        (json!({"name": "a"}), "spec.name"),
        (json!({"name": "abcde"}), "Too long"),
        (json!({"name": "AB"}), "should match '^[a-z]+$'"),
        (json!({"name": "ab", "count": 0}), "spec.count"),
        (json!({"name": "ab", "count": 10}), "less than or equal to 9"),
        (json!({"name": "ab", "count": 1.5}), "must be of type integer"),
        (json!({"name": "ab", "share": 0}), "greater than 0"),
        (
            json!({"name": "ab", "mode": "maybe"}),
            "supported values: \"on\", \"off\"",
        ),
        (json!({"name": "ab", "when": "yesterday"}), "date-time"),
        (json!({"name": null}), "spec.name"),
        (json!({"name": "ab", "tags": ["a", "b", "c"]}), "spec.tags"),
        (json!({"name": "ab", "tags": ["a", 1]}), "spec.tags[1]"),
        (json!({"name": "ab", "port": true}), "integer,string"),
        (json!({"name": "ab", "labels": {"a": "x"}}), "spec.labels.a"),
        (json!({"name": "ab", "labels": {"a": 1, "b": 2}}), "spec.labels"),
    ];
    judge(schema, &cases).await;
}

#[tokio::test(start_paused = true)]
async fn logic_and_unique_lists_are_kept() {
    let schema = json!({"type": "object", "properties": {
            "a": {"type": "string"}, "b": {"type": "string"},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"],
                    "properties": {"k": {"type": "string"}, "v": {"type": "string"}}}},
            "one": {"type": "integer", "oneOf": [{"minimum": 10}, {"maximum": 20}]},
            "not": {"type": "string", "not": {"enum": ["x"]}},
        },
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    });
    let cases = [
        (
            json!({"a": "x", "set": ["a", "b"], "map": [{"k": "a"}, {"k": "b"}], "one": 5, "not": "y"}),
            "",
        ),
        (json!({}), "anyOf"),
        (json!({"b": "x", "set": ["a", "a"]}), "Duplicate value"),
        (
            json!({"b": "x", "map": [{"k": "a"}, {"k": "a", "v": "x"}]}),
            "spec.map[1]: Duplicate value",
        ),
        (json!({"b": "x", "one": 15}), "oneOf"),
        (json!({"b": "x", "not": "x"}), "(not)"),
    ];
    judge(schema, &cases).await;
}

#[tokio::test(start_paused = true)]
async fn defaults_are_filled_in_and_unknown_fields_dropped() {
    let client = gadgets(json!({"type": "object", "default": {}, "properties": {
        "size": {"type": "integer", "default": 3},
        "inner": {"type": "object", "default": {}, "properties": {"mode": {"type": "string", "default": "on"}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}}},
    }}))
    .await;
    let spec = json!({
        "size": null, "list": [{}, {"n": 2, "x": 1}], "gone": true,
        "free": {"any": {"thing": 1}, "known": {"a": "x", "b": "y"}},
    });
    let (code, made) = create(&client, "a", spec).await;
    assert_eq!(code, 201, "{made}");
    let wanted = json!({
        "size": 3, "inner": {"mode": "on"}, "list": [{"n": 1}, {"n": 2}],
        "free": {"any": {"thing": 1}, "known": {"a": "x"}},
    });
    assert_eq!(made["spec"], wanted);
    let (_, bare) = create(&client, "b", Value::Null).await;
    assert_eq!(bare["spec"], json!({"size": 3, "inner": {"mode": "on"}}));
}

#[tokio::test(start_paused = true)]
async fn rules_see_the_value_under_escaped_names() {
    let schema = json!({
        "type": "object",
        "properties": {
            "min": {"type": "integer"}, "max": {"type": "integer"}, "max-surge": {"type": "integer"},
            "in": {"type": "string"},
            "items": {"type": "array", "items": {"type": "object",
                "properties": {"n": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.n > 0", "messageExpression": "'n is ' + string(self.n)"}]}},
        },
        "x-kubernetes-validations": [
            {"rule": "!has(self.min) || !has(self.max) || self.min <= self.max", "fieldPath": ".min",
                "message": "min must not exceed max"},
            {"rule": "!has(self.max__dash__surge) || self.max__dash__surge < 5"},
            {"rule": "!has(self.__in__) || self.__in__ != 'bad'", "message": "bad"},
            {"rule": "!has(self.min) || 1 / (self.min - self.min) == 1", "message": "cannot be evaluated"},
        ],
    });
    let cases = [
        (json!({"max": 3, "max-surge": 4, "in": "good", "items": [{"n": 1}]}), ""),
        (json!({"max-surge": 5}), "failed rule: !has(self.max__dash__surge)"),
        (json!({"in": "bad"}), "bad"),
        (
            json!({"items": [{"n": 1}, {"n": -1}]}),
            "spec.items[1]: Invalid value: \"object\": n is -1",
        ),
        (json!({"min": 4, "max": 3}), "spec.min: Invalid value"),
        (json!({"min": 1}), "evaluating rule: cannot be evaluated"),
    ];
    judge(schema, &cases).await;
}

#[tokio::test(start_paused = true)]
async fn rules_compare_with_the_old_value() {
    let client = gadgets(json!({"type": "object", "properties": {
        "fixed": {"type": "string", "x-kubernetes-validations": [
            {"rule": "self == oldSelf", "message": "fixed for ever"}]},
        "first": {"type": "string", "x-kubernetes-validations": [
            {"rule": "oldSelf.hasValue() || self == 'start'", "message": "must begin with start",
                "optionalOldSelf": true}]},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
            "type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "may only grow"}]}},
    }}))
    .await;
    assert_eq!(create(&client, "x", json!({"first": "late"})).await.0, 422);
    let spec = json!({"fixed": "a", "first": "start", "list": [{"k": "x", "v": 5}, {"k": "y", "v": 5}]});
    assert_eq!(create(&client, "a", spec).await.0, 201);
    for (spec, wanted) in [
        (
            json!({"fixed": "b"}),
            "spec.fixed: Invalid value: \"string\": fixed for ever",
        ),
        (
            json!({"list": [{"k": "y", "v": 4}, {"k": "z", "v": 0}]}),
            "spec.list[0]",
        ),
        (
            json!({"first": "later", "list": [{"k": "y", "v": 6}, {"k": "z", "v": 0}]}),
            "",
        ),
    ] {
        let patch = json!({"spec": spec});
        let (code, answer) = send_as(
            &client,
            ("PATCH", "application/merge-patch+json"),
            &format!("{PATH}/a"),
            patch,
        )
        .await;
        let message = answer["message"].as_str().unwrap_or_default();
        match wanted {
            "" => assert_eq!(code, 200, "{spec}: {message}"),
            wanted => assert!(code == 422 && message.contains(wanted), "{spec}: {code} {message}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn broken_definitions_are_refused() {
    let client = Server::new(TokioClock::shared()).client();
    let rule = |text: &str| json!({"type": "object", "x-kubernetes-validations": [{"rule": text}]});
    for (spec, wanted) in [
        (rule("self.a =="), "compilation failed"),
        (rule("other == 1"), "other"),
        (
            json!({"type": "object", "properties": {"a": {}}}),
            "properties[a].type: Required value",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array"}}}),
            "items: Required value",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
            "regular expression",
        ),
        (json!({"type": "thing"}), "supported values"),
    ] {
        let (code, answer) = send(&client, "POST", DEFINITIONS, definition(&spec)).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(code == 422 && message.contains(wanted), "{spec}: {code} {message}");
    }
    let mut misnamed = definition(&json!({"type": "object"}));
    misnamed["metadata"]["name"] = json!("other.test.stagegate.dev");
    assert_eq!(send(&client, "POST", DEFINITIONS, misnamed).await.0, 422);
    assert_eq!(send(&client, "GET", PATH, Value::Null).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_definition_takes_its_objects_along() {
    let client = gadgets(json!({"type": "object"})).await;
    let body = gadget("v1", json!({"name": "a", "finalizers": ["x.y/z"]}), json!({}));
    assert_eq!(send(&client, "POST", PATH, body).await.0, 201);
    let one = format!("{DEFINITIONS}/gadgets.test.stagegate.dev");
    assert_eq!(send(&client, "DELETE", &one, Value::Null).await.0, 200);
    assert!(send(&client, "GET", &one, Value::Null).await.1["metadata"]["deletionTimestamp"].is_string());
    let release = json!({"metadata": {"finalizers": null}});
    send_as(
        &client,
        ("PATCH", "application/merge-patch+json"),
        &format!("{PATH}/a"),
        release,
    )
    .await;
    assert_eq!(send(&client, "GET", &one, Value::Null).await.0, 404);
    assert_eq!(send(&client, "GET", PATH, Value::Null).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn every_served_version_shows_the_same_object() {
    let client = Server::new(TokioClock::shared()).client();
    let mut both = definition(&json!({"type": "object", "properties": {"a": {"type": "string"}}}));
    let mut old = both["spec"]["versions"][0].clone();
    (old["name"], old["storage"]) = (json!("v1beta1"), json!(false));
    both["spec"]["versions"].as_array_mut().unwrap().push(old);
    assert_eq!(send(&client, "POST", DEFINITIONS, both).await.0, 201);
    let beta = PATH.replace("v1", "v1beta1");
    let made = send(
        &client,
        "POST",
        &beta,
        gadget("v1beta1", json!({"name": "a"}), json!({"a": "x"})),
    )
    .await;
    assert_eq!(made.1["apiVersion"], "test.stagegate.dev/v1beta1");
    let (_, read) = send(&client, "GET", &format!("{PATH}/a"), Value::Null).await;
    assert_eq!(
        (&read["apiVersion"], &read["spec"]),
        (&json!("test.stagegate.dev/v1"), &json!({"a": "x"}))
    );
    assert_eq!(read["metadata"]["uid"], made.1["metadata"]["uid"]);
}
