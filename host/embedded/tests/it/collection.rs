//! Lists: selectors, pages, revisions, forms.

use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use serde_json::json;

use crate::fixture::{Widget, create, send, server, widgets};

const PATH: &str = "/apis/test.stagegate.dev/v1/namespaces/default/widgets";

#[tokio::test(start_paused = true)]
async fn selectors_narrow_lists() {
    let (_server, client) = server();
    let api = widgets(&client);
    for (name, colour, tier) in [("a", "red", "x"), ("b", "blue", "y"), ("c", "red", "")] {
        create(&client, name).await;
        let labels = if tier.is_empty() {
            json!({})
        } else {
            json!({"tier": tier})
        };
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}, "spec": {"colour": colour}}));
        api.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }
    let names = async |params: ListParams| {
        let list = api.list(&params).await.unwrap();
        list.into_iter()
            .map(|widget| widget.metadata.name.unwrap())
            .collect::<Vec<_>>()
            .join("")
    };
    let labels = |text: &str| ListParams::default().labels(text);
    for (selector, wanted) in [
        ("tier=x", "a"),
        ("tier!=x", "bc"),
        ("tier in (x, y)", "ab"),
        ("tier in(x,y)", "ab"),
        ("tier notin (x)", "bc"),
        ("tier", "ab"),
        ("!tier", "c"),
        ("tier,tier!=y", "a"),
    ] {
        assert_eq!(names(labels(selector)).await, wanted, "{selector}");
    }
    for (selector, wanted) in [
        ("metadata.name=b", "b"),
        ("spec.colour=red", "ac"),
        ("spec.colour!=red", "b"),
    ] {
        assert_eq!(
            names(ListParams::default().fields(selector)).await,
            wanted,
            "{selector}"
        );
    }
    assert_eq!(
        send(
            &client,
            "GET",
            &format!("{PATH}?fieldSelector=spec.size%3D1"),
            json!(null)
        )
        .await
        .0,
        400
    );
}

#[tokio::test(start_paused = true)]
async fn pages_show_the_state_of_the_first_one() {
    let (server, client) = server();
    let api = widgets(&client);
    for name in ["a", "b", "c", "d"] {
        create(&client, name).await;
    }
    let first = api.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(first.metadata.remaining_item_count, Some(2));
    api.delete("c", &Default::default()).await.unwrap();
    create(&client, "e").await;
    let token = first.metadata.continue_.clone().unwrap();
    let second = api
        .list(&ListParams::default().limit(5).continue_token(&token))
        .await
        .unwrap();
    let names: Vec<_> = second
        .items
        .iter()
        .map(|widget| widget.metadata.name.clone().unwrap())
        .collect();
    assert_eq!(names, ["c", "d"]);
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    server.compact();
    let expired = api.list(&ListParams::default().limit(5).continue_token(&token)).await;
    assert_eq!(crate::fixture::code(expired), 410);
}

#[tokio::test(start_paused = true)]
async fn metadata_can_be_read_alone() {
    let (_server, client) = server();
    create(&client, "a").await;
    let api: Api<PartialObjectMeta<Widget>> = Api::namespaced(client.clone(), "default");
    let one = api.get_metadata("a").await.unwrap();
    assert_eq!(one.types.unwrap().kind, "PartialObjectMetadata");
    let all = api.list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(all.items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn tables_have_the_definitions_columns() {
    let (_server, client) = server();
    create(&client, "a").await;
    let request = http::Request::builder()
        .uri(PATH)
        .header(
            "accept",
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        )
        .body(kube::client::Body::empty())
        .unwrap();
    let body = client
        .send(request)
        .await
        .unwrap()
        .into_body()
        .collect_bytes()
        .await
        .unwrap();
    let table: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(table["kind"], "Table");
    let names: Vec<_> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].clone())
        .collect();
    assert_eq!(names, ["Name", "Colour"]);
    assert_eq!(table["rows"][0]["cells"], json!(["a", "red"]));
}

#[tokio::test(start_paused = true)]
async fn a_list_can_be_read_as_it_was() {
    let (_server, client) = server();
    let version = create(&client, "a").await.metadata.resource_version.unwrap();
    create(&client, "b").await;
    let count = async |query: &str| {
        let (code, list) = send(&client, "GET", &format!("{PATH}?{query}"), json!(null)).await;
        (code, list["items"].as_array().map(Vec::len))
    };
    assert_eq!(
        count(&format!("resourceVersion={version}&resourceVersionMatch=Exact")).await,
        (200, Some(1))
    );
    assert_eq!(count(&format!("resourceVersion={version}")).await, (200, Some(2)));
    assert_eq!(count("resourceVersion=0").await, (200, Some(2)));
    assert_eq!(count("resourceVersion=999999").await, (504, None));
}

#[tokio::test(start_paused = true)]
async fn no_request_empties_more_than_one_namespace() {
    let (_server, client) = server();
    create(&client, "a").await;
    for path in ["/api/v1/namespaces", "/apis/test.stagegate.dev/v1/widgets"] {
        let (code, answer) = send(&client, "DELETE", path, json!(null)).await;
        assert_eq!((code, &answer["reason"]), (405, &json!("MethodNotAllowed")), "{path}");
    }
    assert!(widgets(&client).get_opt("a").await.unwrap().is_some());
    let (code, _) = send(&client, "GET", "/api/v1/namespaces/default", json!(null)).await;
    assert_eq!(code, 200);
}
