//! Server-side apply and who owns which field.

use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::fixture::{code, create, send_as, server, widget, widgets};

fn config(spec: Value) -> Patch<Value> {
    Patch::Apply(
        json!({"apiVersion": "test.stagegate.dev/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec}),
    )
}

#[tokio::test(start_paused = true)]
async fn another_managers_field_is_a_conflict_unless_forced() {
    let (_server, client) = server();
    let api = widgets(&client);
    api.patch("a", &PatchParams::apply("one"), &config(json!({"colour": "red"})))
        .await
        .unwrap();
    api.patch(
        "a",
        &PatchParams::apply("two"),
        &config(json!({"colour": "red", "size": 2})),
    )
    .await
    .unwrap();
    let conflict = api
        .patch("a", &PatchParams::apply("two"), &config(json!({"colour": "blue"})))
        .await;
    let kube::Error::Api(status) = conflict.unwrap_err() else {
        panic!("an API error")
    };
    assert_eq!(status.code, 409);
    assert!(
        status.message.contains("conflict with \"one\": .spec.colour"),
        "{}",
        status.message
    );
    let forced = api
        .patch(
            "a",
            &PatchParams::apply("two").force(),
            &config(json!({"colour": "blue"})),
        )
        .await
        .unwrap();
    assert_eq!(forced.spec.colour, "blue");
    assert_eq!(forced.spec.size, None, "no longer applied by its only owner");
}

#[tokio::test(start_paused = true)]
async fn a_field_no_longer_applied_goes_unless_somebody_else_owns_it() {
    let (_server, client) = server();
    let api = widgets(&client);
    let parts = |names: &[&str]| config(json!({"parts": names.iter().map(|n| json!({"name": n})).collect::<Vec<_>>()}));
    api.patch("a", &PatchParams::apply("one"), &parts(&["x", "y", "z"]))
        .await
        .unwrap();
    api.patch("a", &PatchParams::apply("two"), &parts(&["y"]))
        .await
        .unwrap();
    let left = api
        .patch("a", &PatchParams::apply("one"), &parts(&["x"]))
        .await
        .unwrap();
    let names: Vec<_> = left.spec.parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["x", "y"]);
}

#[tokio::test(start_paused = true)]
async fn applying_the_same_again_writes_nothing() {
    let (_server, client) = server();
    let api = widgets(&client);
    let first = api
        .patch("a", &PatchParams::apply("one"), &config(json!({"colour": "red"})))
        .await
        .unwrap();
    tokio::time::advance(std::time::Duration::from_secs(5)).await;
    let again = api
        .patch("a", &PatchParams::apply("one"), &config(json!({"colour": "red"})))
        .await
        .unwrap();
    assert_eq!(first.metadata, again.metadata);
}

#[tokio::test(start_paused = true)]
async fn an_undeclared_field_cannot_be_applied() {
    let (_server, client) = server();
    let result = widgets(&client)
        .patch("a", &PatchParams::apply("one"), &config(json!({"taste": "sour"})))
        .await;
    assert_eq!(code(result), 500);
}

#[tokio::test(start_paused = true)]
async fn an_apply_body_may_be_yaml() {
    let (_server, client) = server();
    let path = "/apis/test.stagegate.dev/v1/namespaces/default/widgets/a?fieldManager=one";
    let yaml = "apiVersion: test.stagegate.dev/v1\nkind: Widget\nmetadata:\n  name: a\nspec:\n  colour: red\n";
    let request = http::Request::builder()
        .method("PATCH")
        .uri(path)
        .header("content-type", "application/apply-patch+yaml")
        .body(kube::client::Body::from(yaml.as_bytes().to_vec()))
        .unwrap();
    assert_eq!(client.send(request).await.unwrap().status(), 201);
}

#[tokio::test(start_paused = true)]
async fn status_writes_have_their_own_entry_with_the_time_of_the_last_change() {
    let (_server, client) = server();
    let api = widgets(&client);
    create(&client, "a").await;
    let entry_time = |widget: &crate::fixture::Widget| {
        let entries = widget.metadata.managed_fields.clone().unwrap();
        let entry = entries
            .into_iter()
            .find(|entry| entry.subresource.as_deref() == Some("status"))
            .unwrap();
        let fields = serde_json::to_value(entry.fields_v1).unwrap();
        assert!(fields.get("f:status").is_some(), "{fields}");
        entry.time.unwrap().0
    };
    let set = |seen: i64| Patch::Merge(json!({"status": {"seen": seen}}));
    let first = api.patch_status("a", &PatchParams::default(), &set(1)).await.unwrap();
    tokio::time::advance(std::time::Duration::from_secs(10)).await;
    let same = api.patch_status("a", &PatchParams::default(), &set(1)).await.unwrap();
    assert_eq!(entry_time(&same), entry_time(&first));
    let moved = api.patch_status("a", &PatchParams::default(), &set(2)).await.unwrap();
    assert_eq!(entry_time(&moved).duration_since(entry_time(&first)).as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn an_edit_takes_fields_over_from_an_apply() {
    let (_server, client) = server();
    let api = widgets(&client);
    api.patch("a", &PatchParams::apply("one"), &config(json!({"colour": "red"})))
        .await
        .unwrap();
    let mut live = api.get("a").await.unwrap();
    live.spec.colour = "blue".to_owned();
    let edit = PostParams {
        field_manager: Some("editor".to_owned()),
        ..PostParams::default()
    };
    api.replace("a", &edit, &live).await.unwrap();
    let conflict = api
        .patch("a", &PatchParams::apply("one"), &config(json!({"colour": "red"})))
        .await;
    assert_eq!(code(conflict), 409);
}

#[tokio::test(start_paused = true)]
async fn json_patches_test_for_null_as_go_does() {
    let (_server, client) = server();
    let api = widgets(&client);
    api.create(&PostParams::default(), &widget("a", "red")).await.unwrap();
    let path = "/apis/test.stagegate.dev/v1/namespaces/default/widgets/a";
    let patch = json!([
        {"op": "test", "path": "/metadata/finalizers", "value": null},
        {"op": "add", "path": "/metadata/finalizers", "value": ["x.y/z"]},
    ]);
    let (code, object) = send_as(&client, ("PATCH", "application/json-patch+json"), path, patch.clone()).await;
    assert_eq!((code, &object["metadata"]["finalizers"]), (200, &json!(["x.y/z"])));
    assert_eq!(
        send_as(&client, ("PATCH", "application/json-patch+json"), path, patch)
            .await
            .0,
        422
    );
}

#[tokio::test(start_paused = true)]
async fn strategic_patches_merge_lists_by_key() {
    let (_server, client) = server();
    let base = "/apis/apps/v1/namespaces/default/deployments";
    let containers = json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]);
    let deployment = json!({
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"x": "y"}}, "template": {
            "metadata": {"labels": {"x": "y"}}, "spec": {"containers": containers}}},
    });
    let (made, _) = crate::fixture::send(&client, "POST", base, deployment).await;
    assert_eq!(made, 201);
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "b", "image": "b:2"}, {"name": "a", "$patch": "delete"}]}}}});
    let media = ("PATCH", "application/strategic-merge-patch+json");
    let (code, object) = send_as(&client, media, &format!("{base}/d"), patch).await;
    assert_eq!(code, 200);
    let containers = object["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    let shown: Vec<_> = containers.iter().map(|one| (&one["name"], &one["image"])).collect();
    assert_eq!(shown, [(&json!("b"), &json!("b:2"))]);
    let widget = "/apis/test.stagegate.dev/v1/namespaces/default/widgets/a";
    create(&client, "a").await;
    assert_eq!(send_as(&client, media, widget, json!({"spec": {}})).await.0, 415);
}

#[tokio::test(start_paused = true)]
async fn each_endpoint_owns_its_part_only() {
    let (_server, client) = server();
    let api = widgets(&client);
    let whole = Patch::Apply(json!({
        "apiVersion": "test.stagegate.dev/v1", "kind": "Widget", "metadata": {"name": "a", "labels": {"x": "y"}},
        "spec": {"colour": "red"}, "status": {"seen": 1},
    }));
    let main = api.patch("a", &PatchParams::apply("one"), &whole).await.unwrap();
    assert_eq!(main.status, None);
    let both = api.patch_status("a", &PatchParams::apply("two"), &whole).await.unwrap();
    assert_eq!(both.status.unwrap().seen, 1);
    let owned: Vec<Value> = both
        .metadata
        .managed_fields
        .unwrap()
        .into_iter()
        .map(|entry| serde_json::to_value(entry.fields_v1).unwrap())
        .collect();
    let main = json!({"f:metadata": {"f:labels": {"f:x": {}}}, "f:spec": {"f:colour": {}}});
    assert_eq!(owned, [main, json!({"f:status": {"f:seen": {}}})]);
}
