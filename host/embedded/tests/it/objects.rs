//! Creating, changing and deleting objects.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use serde_json::json;

use crate::fixture::{code, create, send, server, widget, widgets};

#[tokio::test(start_paused = true)]
async fn generation_counts_spec_changes_only() {
    let (_server, client) = server();
    let api = widgets(&client);
    let made = create(&client, "a").await;
    assert_eq!(made.metadata.generation, Some(1));
    let labelled = api
        .patch(
            "a",
            &PatchParams::default(),
            &Patch::Merge(json!({"metadata": {"labels": {"x": "y"}}})),
        )
        .await
        .unwrap();
    assert_eq!(labelled.metadata.generation, Some(1));
    let edited = api
        .patch(
            "a",
            &PatchParams::default(),
            &Patch::Merge(json!({"spec": {"colour": "blue"}})),
        )
        .await
        .unwrap();
    assert_eq!(edited.metadata.generation, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_keeps_the_version() {
    let (_server, client) = server();
    let made = create(&client, "a").await;
    let again = widgets(&client)
        .patch(
            "a",
            &PatchParams::default(),
            &Patch::Merge(json!({"spec": {"colour": "red"}})),
        )
        .await
        .unwrap();
    assert_eq!(made.metadata.resource_version, again.metadata.resource_version);
}

#[tokio::test(start_paused = true)]
async fn status_and_spec_are_written_apart() {
    let (_server, client) = server();
    let api = widgets(&client);
    let mut sent = widget("a", "red");
    sent.status = Some(crate::fixture::WidgetStatus { seen: 7 });
    let made = api.create(&PostParams::default(), &sent).await.unwrap();
    assert_eq!(made.status, None, "create drops status");
    let both = json!({"spec": {"colour": "blue"}, "status": {"seen": 3}});
    let main = api
        .patch("a", &PatchParams::default(), &Patch::Merge(&both))
        .await
        .unwrap();
    assert_eq!((main.spec.colour.as_str(), main.status), ("blue", None));
    let both = json!({"spec": {"colour": "green"}, "status": {"seen": 3}});
    let status = api
        .patch_status("a", &PatchParams::default(), &Patch::Merge(&both))
        .await
        .unwrap();
    assert_eq!(status.spec.colour, "blue");
    assert_eq!(status.status.unwrap().seen, 3);
    assert_eq!(status.metadata.generation, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_put_needs_the_current_version() {
    let (_server, client) = server();
    let api = widgets(&client);
    let first = create(&client, "a").await;
    assert_eq!(
        code(api.replace("a", &PostParams::default(), &widget("a", "blue")).await),
        422
    );
    let mut next = first.clone();
    next.spec.colour = "blue".to_owned();
    api.replace("a", &PostParams::default(), &next).await.unwrap();
    assert_eq!(code(api.replace("a", &PostParams::default(), &next).await), 409);
}

#[tokio::test(start_paused = true)]
async fn writes_honour_uid_and_version() {
    let (_server, client) = server();
    let api = widgets(&client);
    let made = create(&client, "a").await;
    let (uid, version) = (
        made.metadata.uid.clone().unwrap(),
        made.metadata.resource_version.clone().unwrap(),
    );
    let patch = async |uid: &str, version: &str| {
        let body = json!({"metadata": {"uid": uid, "resourceVersion": version}, "spec": {"colour": "blue"}});
        api.patch("a", &PatchParams::default(), &Patch::Merge(body)).await
    };
    assert_eq!(code(patch("other", &version).await), 422);
    assert_eq!(code(patch(&uid, "1").await), 409);
    assert_eq!(code(patch("other", "1").await), 409);
    patch(&uid, &version).await.unwrap();
    assert_eq!(code(patch(&uid, &version).await), 409);
    let mut foreign = api.get("a").await.unwrap();
    foreign.metadata.uid = Some("other".to_owned());
    assert_eq!(code(api.replace("a", &PostParams::default(), &foreign).await), 409);
    let config = json!({
        "apiVersion": "test.stagegate.dev/v1", "kind": "Widget", "metadata": {"name": "b", "uid": uid}, "spec": {},
    });
    assert_eq!(
        code(api.patch("b", &PatchParams::apply("one"), &Patch::Apply(config)).await),
        409
    );
}

#[tokio::test(start_paused = true)]
async fn deletes_honour_preconditions() {
    let (_server, client) = server();
    let api = widgets(&client);
    let made = create(&client, "a").await;
    let with = |uid: Option<String>, resource_version: Option<String>| DeleteParams {
        preconditions: Some(Preconditions { uid, resource_version }),
        ..DeleteParams::default()
    };
    assert_eq!(code(api.delete("a", &with(Some("other".to_owned()), None)).await), 409);
    assert_eq!(code(api.delete("a", &with(None, Some("1".to_owned()))).await), 409);
    api.delete("a", &with(made.metadata.uid, made.metadata.resource_version))
        .await
        .unwrap();
    assert_eq!(code(api.get("a").await), 404);
}

#[tokio::test(start_paused = true)]
async fn finalizers_hold_an_object_and_no_new_ones_come() {
    let (_server, client) = server();
    let api = widgets(&client);
    create(&client, "a").await;
    let set = |names: serde_json::Value| Patch::Merge(json!({"metadata": {"finalizers": names}}));
    api.patch("a", &PatchParams::default(), &set(json!(["x.y/z"])))
        .await
        .unwrap();
    let marked = api.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(marked.metadata.deletion_timestamp.is_some());
    assert_eq!(marked.metadata.generation, Some(2));
    assert_eq!(
        code(
            api.patch("a", &PatchParams::default(), &set(json!(["x.y/z", "x.y/w"])))
                .await
        ),
        422
    );
    api.patch("a", &PatchParams::default(), &set(json!([]))).await.unwrap();
    assert_eq!(code(api.get("a").await), 404);
}

#[tokio::test(start_paused = true)]
async fn orphaned_dependents_stay_and_others_go_with_their_owner() {
    let (_server, client) = server();
    let api = widgets(&client);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    for (owner, policy, stays) in [
        ("background", PropagationPolicy::Background, false),
        ("foreground", PropagationPolicy::Foreground, false),
        ("orphan", PropagationPolicy::Orphan, true),
    ] {
        let owner = create(&client, owner).await;
        let name = owner.metadata.name.clone().unwrap();
        let reference = json!({
            "apiVersion": "test.stagegate.dev/v1", "kind": "Widget", "name": name, "uid": owner.metadata.uid,
            "blockOwnerDeletion": true,
        });
        let child: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": name, "ownerReferences": [reference]}})).unwrap();
        maps.create(&PostParams::default(), &child).await.unwrap();
        api.delete(
            &name,
            &DeleteParams {
                propagation_policy: Some(policy),
                ..DeleteParams::default()
            },
        )
        .await
        .unwrap();
        assert_eq!(code(api.get(&name).await), 404, "{name}");
        assert_eq!(maps.get_opt(&name).await.unwrap().is_some(), stays, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_owner_is_not_there_is_collected() {
    let (_server, client) = server();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let owner = json!({"apiVersion": "test.stagegate.dev/v1", "kind": "Widget", "name": "gone", "uid": "0-0"});
    let child: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "child", "ownerReferences": [owner]}})).unwrap();
    maps.create(&PostParams::default(), &child).await.unwrap();
    assert_eq!(code(maps.get("child").await), 404);
}

#[tokio::test(start_paused = true)]
async fn one_living_owner_is_enough() {
    let (_server, client) = server();
    let (a, b) = (create(&client, "a").await, create(&client, "b").await);
    let owners: Vec<_> = [&a, &b]
        .iter()
        .map(|owner| {
            let kube::api::ObjectMeta { name, uid, .. } = &owner.metadata;
            json!({"apiVersion": "test.stagegate.dev/v1", "kind": "Widget", "name": name, "uid": uid})
        })
        .collect();
    let child = json!({"metadata": {"name": "child", "ownerReferences": owners}});
    assert_eq!(
        send(&client, "POST", "/api/v1/namespaces/default/configmaps", child)
            .await
            .0,
        201
    );
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    widgets(&client).delete("a", &DeleteParams::default()).await.unwrap();
    let child = maps.get("child").await.unwrap();
    let names: Vec<_> = child
        .metadata
        .owner_references
        .unwrap()
        .into_iter()
        .map(|owner| owner.name)
        .collect();
    assert_eq!(names, ["b"], "the dangling reference goes");
    widgets(&client).delete("b", &DeleteParams::default()).await.unwrap();
    assert!(maps.get_opt("child").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_foreground_deletion_waits_for_blocking_dependents() {
    let (_server, client) = server();
    let owner = create(&client, "a").await;
    let reference = json!({
        "apiVersion": "test.stagegate.dev/v1", "kind": "Widget", "name": "a", "uid": owner.metadata.uid,
        "blockOwnerDeletion": true,
    });
    let child = json!({"metadata": {"name": "child", "finalizers": ["x.y/z"], "ownerReferences": [reference]}});
    send(&client, "POST", "/api/v1/namespaces/default/configmaps", child).await;
    let foreground = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Foreground),
        ..DeleteParams::default()
    };
    widgets(&client).delete("a", &foreground).await.unwrap();
    let waiting = widgets(&client).get("a").await.unwrap();
    assert_eq!(
        waiting.metadata.finalizers.as_deref(),
        Some(&["foregroundDeletion".to_owned()][..])
    );
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    assert!(maps.get("child").await.unwrap().metadata.deletion_timestamp.is_some());
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("child", &PatchParams::default(), &release).await.unwrap();
    assert_eq!(code(widgets(&client).get("a").await), 404);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_takes_its_objects_along() {
    let (_server, client) = server();
    let missing = send(
        &client,
        "POST",
        "/api/v1/namespaces/nowhere/configmaps",
        json!({"metadata": {"name": "a"}}),
    )
    .await;
    assert_eq!(missing.0, 404);
    let namespaces: Api<Namespace> = Api::all(client.clone());
    send(
        &client,
        "POST",
        "/api/v1/namespaces",
        json!({"metadata": {"name": "team"}}),
    )
    .await;
    send(
        &client,
        "POST",
        "/api/v1/namespaces/team/configmaps",
        json!({"metadata": {"name": "a", "finalizers": ["x.y/z"]}}),
    )
    .await;
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    assert_eq!(
        namespaces.get("team").await.unwrap().status.unwrap().phase.as_deref(),
        Some("Terminating")
    );
    let refused = send(
        &client,
        "POST",
        "/api/v1/namespaces/team/configmaps",
        json!({"metadata": {"name": "b"}}),
    )
    .await;
    assert_eq!(refused.0, 403);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "team");
    maps.patch(
        "a",
        &PatchParams::default(),
        &Patch::Merge(json!({"metadata": {"finalizers": null}})),
    )
    .await
    .unwrap();
    assert_eq!(code(namespaces.get("team").await), 404);
}

#[tokio::test(start_paused = true)]
async fn dry_runs_answer_and_store_nothing() {
    let (_server, client) = server();
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let made = widgets(&client).create(&dry, &widget("a", "red")).await.unwrap();
    assert!(made.metadata.uid.is_some());
    assert_eq!(code(widgets(&client).get("a").await), 404);
}

#[tokio::test(start_paused = true)]
async fn names_are_generated_and_checked() {
    let (_server, client) = server();
    let path = "/apis/test.stagegate.dev/v1/namespaces/default/widgets";
    let body = |metadata: serde_json::Value| json!({"apiVersion": "test.stagegate.dev/v1", "kind": "Widget", "metadata": metadata, "spec": {}});
    let (made, object) = send(&client, "POST", path, body(json!({"generateName": "x-"}))).await;
    assert_eq!(made, 201);
    assert_eq!(object["metadata"]["name"].as_str().unwrap().len(), 7);
    assert_eq!(
        send(&client, "POST", path, body(json!({"name": "Not_a_name"}))).await.0,
        422
    );
    assert_eq!(
        send(
            &client,
            "POST",
            path,
            body(json!({"name": "a", "labels": {"a b": "c"}}))
        )
        .await
        .0,
        422
    );
    assert_eq!(send(&client, "POST", path, body(json!({}))).await.0, 422);
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_dropped_or_refused() {
    let (_server, client) = server();
    let path = "/apis/test.stagegate.dev/v1/namespaces/default/widgets";
    let body = json!({
        "apiVersion": "test.stagegate.dev/v1", "kind": "Widget", "metadata": {"name": "a"},
        "spec": {"colour": "red", "taste": "sour"},
    });
    let (refused, status) = send(&client, "POST", &format!("{path}?fieldValidation=Strict"), body.clone()).await;
    assert_eq!(refused, 400);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("unknown field \"spec.taste\""),
        "{status}"
    );
    let (made, object) = send(&client, "POST", path, body).await;
    assert_eq!((made, &object["spec"]), (201, &json!({"colour": "red"})));
    let typed = json!({"metadata": {"name": "a"}, "data": {"k": "v"}, "colour": "red"});
    let maps = "/api/v1/namespaces/default/configmaps?fieldValidation=Strict";
    assert_eq!(send(&client, "POST", maps, typed).await.0, 400);
    assert_eq!(
        send(
            &client,
            "POST",
            maps,
            json!({"metadata": {"name": "a"}, "data": {"k": 1}})
        )
        .await
        .0,
        400
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_secret_is_not_quoted() {
    let (_server, client) = server();
    for data in [json!({"k": "hunter2!"}), json!({"k": ["hunter2!"]}), json!("hunter2!")] {
        let body = json!({"metadata": {"name": "s"}, "data": data});
        let (code, answer) = send(&client, "POST", "/api/v1/namespaces/default/secrets", body).await;
        assert_eq!(code, 400);
        assert!(!answer.to_string().contains("hunter2"), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn large_objects_fit_up_to_the_limit() {
    let (_server, client) = server();
    let path = "/api/v1/namespaces/default/configmaps";
    let of = |bytes: usize| json!({"metadata": {"generateName": "big-"}, "data": {"k": "x".repeat(bytes)}});
    assert_eq!(send(&client, "POST", path, of(1 << 20)).await.0, 201);
    assert_eq!(
        send(&client, "POST", path, of(5_000_000)).await.0,
        422,
        "a ConfigMap holds 1 MiB"
    );
    assert_eq!(send(&client, "POST", path, of(9_000_000)).await.0, 413);
}

#[tokio::test(start_paused = true)]
async fn deleting_a_collection_takes_what_is_selected() {
    let (_server, client) = server();
    for name in ["a", "b", "c"] {
        create(&client, name).await;
    }
    let api = widgets(&client);
    api.patch(
        "b",
        &PatchParams::default(),
        &Patch::Merge(json!({"metadata": {"labels": {"keep": "no"}}})),
    )
    .await
    .unwrap();
    api.delete_collection(&DeleteParams::default(), &ListParams::default().labels("keep=no"))
        .await
        .unwrap();
    let left: Vec<_> = api
        .list(&ListParams::default())
        .await
        .unwrap()
        .into_iter()
        .map(|w| w.metadata.name.unwrap())
        .collect();
    assert_eq!(left, ["a", "c"]);
}
