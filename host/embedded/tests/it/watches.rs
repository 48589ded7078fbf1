//! Watches, bare and under kube-runtime.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, WatchEvent, WatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use serde_json::json;

use crate::fixture::{Widget, create, server, widgets};

async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited for nothing: {what}");
}

#[tokio::test(start_paused = true)]
async fn a_selector_turns_changes_into_additions_and_deletions() {
    let (_server, client) = server();
    let api = widgets(&client);
    create(&client, "a").await;
    let params = WatchParams::default().labels("on=yes").timeout(5);
    let events = api.watch(&params, "0").await.unwrap();
    for labels in [json!({"on": "yes"}), json!({"x": "y"}), json!({"on": null})] {
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    }
    let kinds: Vec<&str> = events
        .map_ok(|event| match event {
            WatchEvent::Added(_) => "added",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => "deleted",
            WatchEvent::Bookmark(_) => "bookmark",
            WatchEvent::Error(_) => "error",
        })
        .try_collect()
        .await
        .unwrap();
    assert_eq!(kinds, ["added", "modified", "deleted", "bookmark"]);
}

#[tokio::test(start_paused = true)]
async fn the_last_finalizer_goes_with_the_object() {
    let (_server, client) = server();
    let api = widgets(&client);
    create(&client, "a").await;
    let finalizers = |names: serde_json::Value| Patch::Merge(json!({"metadata": {"finalizers": names}}));
    let held = api
        .patch("a", &PatchParams::default(), &finalizers(json!(["x.y/z"])))
        .await
        .unwrap();
    api.delete("a", &Default::default()).await.unwrap();
    api.patch("a", &PatchParams::default(), &finalizers(json!(null)))
        .await
        .unwrap();
    let version = held.metadata.resource_version.unwrap();
    let events: Vec<_> = api
        .watch(&WatchParams::default().timeout(1), &version)
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert!(
        matches!(
            &events[..],
            [WatchEvent::Modified(_), WatchEvent::Deleted(_), WatchEvent::Bookmark(_)]
        ),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_version_is_410_inside_the_stream() {
    let (server, client) = server();
    let first = create(&client, "a").await.metadata.resource_version.unwrap();
    create(&client, "b").await;
    server.compact();
    let mut events = widgets(&client)
        .watch(&WatchParams::default(), &first)
        .await
        .unwrap()
        .boxed();
    let Some(Ok(WatchEvent::Error(status))) = events.next().await else {
        panic!("an error event")
    };
    assert_eq!(status.code, 410);
    assert!(events.next().await.is_none());
}

async fn reflects(config: watcher::Config) {
    let (server, client) = server();
    for name in ["a", "b", "c"] {
        create(&client, name).await;
    }
    let (reader, writer) = reflector::store::<Widget>();
    let stream = watcher(widgets(&client), config)
        .default_backoff()
        .reflect(writer)
        .touched_objects();
    let task = tokio::spawn(stream.for_each(|_| std::future::ready(())));
    wait_until("three objects", || reader.len() == 3).await;
    server.compact();
    widgets(&client).delete("b", &Default::default()).await.unwrap();
    create(&client, "d").await;
    wait_until("the change", || {
        let mut names: Vec<_> = reader
            .state()
            .iter()
            .map(|w| w.metadata.name.clone().unwrap())
            .collect();
        names.sort();
        names == ["a", "c", "d"]
    })
    .await;
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_reflector_follows_by_paged_lists() {
    reflects(watcher::Config::default().page_size(2)).await;
}

#[tokio::test(start_paused = true)]
async fn a_reflector_follows_by_streaming_lists() {
    reflects(watcher::Config::default().streaming_lists()).await;
}

#[tokio::test(start_paused = true)]
async fn a_metadata_watch_sees_no_spec() {
    let (_server, client) = server();
    create(&client, "a").await;
    let api: Api<PartialObjectMeta<Widget>> = Api::namespaced(client.clone(), "default");
    let mut events = watcher(api, watcher::Config::default()).boxed();
    loop {
        if let watcher::Event::InitApply(object) = events.next().await.unwrap().unwrap() {
            assert_eq!(object.types.unwrap().kind, "PartialObjectMetadata");
            assert_eq!(object.metadata.name.as_deref(), Some("a"));
            break;
        }
    }
}

/// Makes a child for each widget and counts, in the widget's status, how often it saw it.
async fn reconcile(widget: Arc<Widget>, client: Arc<kube::Client>) -> Result<Action, kube::Error> {
    use kube::ResourceExt;
    let maps: Api<ConfigMap> = Api::namespaced((*client).clone(), "default");
    let owner = kube::Resource::controller_owner_ref(&*widget, &()).unwrap();
    let child = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": widget.name_any(), "ownerReferences": [owner]},
        "data": {"colour": widget.spec.colour},
    });
    maps.patch(
        &widget.name_any(),
        &PatchParams::apply("test").force(),
        &Patch::Apply(child),
    )
    .await?;
    let seen = json!({"status": {"seen": widget.metadata.generation}});
    widgets(&client)
        .patch_status(&widget.name_any(), &PatchParams::default(), &Patch::Merge(seen))
        .await?;
    Ok(Action::await_change())
}

#[tokio::test(start_paused = true)]
async fn a_controller_keeps_children_and_status() {
    let (server, client) = server();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let controller = Controller::new(widgets(&client), watcher::Config::default())
        .owns(maps.clone(), watcher::Config::default())
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_secs(1)),
            Arc::new(client.clone()),
        )
        .for_each(|_| std::future::ready(()));
    let controller = tokio::spawn(controller);
    create(&client, "a").await;
    let colour = async || {
        tokio::time::sleep(Duration::from_secs(2)).await;
        maps.get_opt("a")
            .await
            .unwrap()
            .and_then(|map| map.data.unwrap().remove("colour"))
    };
    assert_eq!(colour().await.as_deref(), Some("red"));
    widgets(&client)
        .patch(
            "a",
            &PatchParams::default(),
            &Patch::Merge(json!({"spec": {"colour": "blue"}})),
        )
        .await
        .unwrap();
    assert_eq!(colour().await.as_deref(), Some("blue"));
    maps.delete("a", &Default::default()).await.unwrap();
    assert_eq!(colour().await.as_deref(), Some("blue"), "the child is made again");
    assert_eq!(widgets(&client).get("a").await.unwrap().status.unwrap().seen, 2);
    let before = server.requests().writes();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(
        server.requests().writes(),
        before,
        "nothing changes, nothing is written"
    );
    widgets(&client).delete("a", &Default::default()).await.unwrap();
    assert_eq!(colour().await, None);
    controller.abort();
}
