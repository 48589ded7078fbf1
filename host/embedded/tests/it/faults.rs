//! Injected faults, the request log, and events in both spellings.

use std::time::Duration;

use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use stagegate_embedded::{Fault, FaultAnswer};

use crate::fixture::{code, create, send, server, widget, widgets};

#[tokio::test(start_paused = true)]
async fn the_nth_matching_write_conflicts() {
    let (server, client) = server();
    create(&client, "a").await;
    let fault = Fault {
        nth: 2,
        ..Fault::new("patch", "widgets.*/status", FaultAnswer::Status(409))
    };
    server.inject(fault);
    let api = widgets(&client);
    let write = async |seen: i64| {
        api.patch_status(
            "a",
            &PatchParams::default(),
            &Patch::Merge(json!({"status": {"seen": seen}})),
        )
        .await
    };
    write(1).await.unwrap();
    assert_eq!(code(write(2).await), 409);
    assert_eq!(write(3).await.unwrap().status.unwrap().seen, 3);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_the_write_and_a_lost_request_does_not() {
    let (server, client) = server();
    let api = widgets(&client);
    for (name, answer, stored) in [
        ("a", FaultAnswer::LoseAnswer, true),
        ("b", FaultAnswer::LoseRequest, false),
    ] {
        server.inject(Fault::new("create", "widgets.test.stagegate.dev", answer));
        let result = api.create(&PostParams::default(), &widget(name, "red")).await;
        assert!(
            !matches!(result, Ok(_) | Err(kube::Error::Api(_))),
            "{name}: the connection breaks"
        );
        assert_eq!(api.get_opt(name).await.unwrap().is_some(), stored, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delayed_answer_takes_its_time() {
    let (server, client) = server();
    server.inject(Fault::new("list", "*", FaultAnswer::Delay(Duration::from_secs(90))));
    let start = tokio::time::Instant::now();
    widgets(&client).list(&Default::default()).await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 90);
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_by_verb_and_resource() {
    let (server, client) = server();
    create(&client, "a").await;
    widgets(&client).get("a").await.unwrap();
    widgets(&client).get("a").await.unwrap();
    let log = server.requests();
    assert_eq!(log.count("create", "widgets.test.stagegate.dev"), 1);
    assert_eq!(log.count("get", "widgets.test.stagegate.dev"), 2);
    assert_eq!(log.writes(), 1);
    assert_eq!(log.recent.back().map(|request| request.name.as_str()), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn events_of_a_recorder_are_core_events_too() {
    use kube::runtime::events::{Event, EventType, Recorder, Reporter};
    let (_server, client) = server();
    let object = create(&client, "a").await;
    let recorder = Recorder::new(
        client.clone(),
        Reporter {
            controller: "test".to_owned(),
            instance: None,
        },
    );
    let event = Event {
        type_: EventType::Normal,
        reason: "Painted".to_owned(),
        note: Some("it is red now".to_owned()),
        action: "Paint".to_owned(),
        secondary: None,
    };
    for _ in 0..2 {
        recorder
            .publish(&event, &kube::Resource::object_ref(&object, &()))
            .await
            .unwrap();
    }
    let selector = "fieldSelector=involvedObject.name%3Da";
    let (_, list) = send(
        &client,
        "GET",
        &format!("/api/v1/namespaces/default/events?{selector}"),
        Value::Null,
    )
    .await;
    let found = list["items"].as_array().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["message"], "it is red now");
    assert_eq!(found[0]["series"]["count"], 2);
    let api: Api<k8s_openapi::api::events::v1::Event> = Api::namespaced(client, "default");
    let newer = &api.list(&Default::default()).await.unwrap().items[0];
    assert_eq!(newer.note.as_deref(), Some("it is red now"));
}
