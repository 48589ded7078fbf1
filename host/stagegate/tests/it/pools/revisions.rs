//! Templates that change: ControllerRevisions, and what goes with them.

use kube::ResourceExt as _;
use serde_json::json;
use stagegate_api::workloads::TemplateType;

use super::world::{World, condition, daemon, edge, image, message};

async fn with_two_pools() -> World {
    let world = World::start().await;
    world.pool("hangzhou", edge()).await;
    world.pool("shanghai", edge()).await;
    world.create(&daemon("web")).await.unwrap();
    world.until_completed("web").await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_new_template_is_a_new_revision_that_is_current_once_every_pool_has_it() {
    let world = with_two_pools().await;
    let first = world.status("web").await.current_revision;
    world.edit("web", image(2)).await;
    world.pass(2).await;
    let status = world.status("web").await;
    assert_eq!(status.current_revision, first, "it is not rolled out yet");
    assert_ne!(status.update_revision.as_deref(), Some(first.as_str()));
    assert_eq!(condition(&status, "WorkLoadUpdated"), "False");
    let hangzhou = world.deployments().await["hangzhou"].clone();
    world.report(TemplateType::Deployment, &hangzhou, 1).await;
    let status = world.until("web", 5, |status| status.ready_workloads == 1).await;
    assert_eq!(
        message(&status, "Ready"),
        "0 of 2 pools updated; pool hangzhou has 1 of 2 replicas updated"
    );
    let status = world.until_completed("web").await;
    assert_ne!(status.current_revision, first);
    assert_eq!(status.update_revision, Some(status.current_revision.clone()));
    for view in world.deployments().await.values() {
        assert_eq!(
            view.labels()["apps.openyurt.io/controller-revision-hash"],
            status.current_revision
        );
        assert_eq!(view.spec.template.spec.containers[0].image.as_deref(), Some("web:2"));
    }
    let numbers: Vec<i64> = world
        .revisions()
        .await
        .iter()
        .map(|revision| revision.revision)
        .collect();
    assert_eq!(numbers, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_template_that_is_changed_back_raises_its_old_revision_and_makes_none() {
    let world = with_two_pools().await;
    let first = world.status("web").await.current_revision;
    world.edit("web", image(2)).await;
    world.until_completed("web").await;
    world.edit("web", image(1)).await;
    let status = world.until_completed("web").await;
    assert_eq!(status.current_revision, first);
    let revisions = world.revisions().await;
    let known: Vec<(String, i64)> = revisions
        .iter()
        .map(|revision| (revision.name_any(), revision.revision))
        .collect();
    assert_eq!(known.len(), 2);
    assert_eq!(known[1], (first, 3));
}

#[tokio::test(start_paused = true)]
async fn old_revisions_go_beyond_the_limit_and_never_one_that_a_workload_was_made_from() {
    for limit in [0, 3] {
        let world = with_two_pools().await;
        world
            .edit("web", json!({"spec": {"revisionHistoryLimit": limit}}))
            .await;
        for tag in 2..13 {
            world.edit("web", image(tag)).await;
            world.pass(2).await;
            let kept: Vec<String> = world
                .revisions()
                .await
                .iter()
                .map(|revision| revision.name_any())
                .collect();
            for view in world.deployments().await.values() {
                let made_from = &view.labels()["apps.openyurt.io/controller-revision-hash"];
                assert!(kept.contains(made_from), "{tag}: {made_from} is not among {kept:?}");
            }
        }
        let status = world.until_completed("web").await;
        world.pass(5).await;
        let revisions = world.revisions().await;
        assert!(
            revisions
                .iter()
                .any(|revision| revision.name_any() == status.current_revision)
        );
        assert_eq!(revisions.len(), limit + 1, "those that are kept and the live one");
    }
}

#[tokio::test(start_paused = true)]
async fn a_revision_name_that_other_data_has_taken_counts_as_a_collision() {
    let world = with_two_pools().await;
    world.edit("web", image(2)).await;
    world.until_completed("web").await;
    let taken = world.status("web").await.current_revision;
    // The same name with other data, and without the labels by which revisions are listed.
    let api: kube::Api<k8s_openapi::api::apps::v1::ControllerRevision> =
        kube::Api::namespaced(world.client.clone(), super::world::NAMESPACE);
    world.edit("web", image(1)).await;
    world.until_completed("web").await;
    let mut other = api.get(&taken).await.unwrap();
    super::world::delete(&api, &taken).await;
    other.metadata.labels = None;
    other.metadata.owner_references = None;
    other.metadata.resource_version = None;
    other.metadata.uid = None;
    other.data = serde_json::from_value(json!({"something": "else"})).unwrap();
    api.create(&Default::default(), &other).await.unwrap();
    world.edit("web", image(2)).await;
    let status = world.until_completed("web").await;
    assert_eq!(status.collision_count, Some(1));
    assert_ne!(status.current_revision, taken);
    assert_eq!(
        serde_json::to_value(api.get(&taken).await.unwrap().data).unwrap(),
        json!({"something": "else"})
    );
}

#[tokio::test(start_paused = true)]
async fn status_tells_of_a_new_revision_before_any_workload_is_changed() {
    let world = with_two_pools().await;
    world.tap.forget();
    world.edit("web", image(2)).await;
    world.until_completed("web").await;
    let writes: Vec<String> = world
        .tap
        .calls()
        .into_iter()
        .filter(|call| call.is_write() && !call.target.contains("/events"))
        .map(|call| format!("{} {}", call.method, call.target.split('?').next().unwrap_or_default()))
        .collect();
    let of = |part: &str| writes.iter().position(|write| write.contains(part)).unwrap();
    assert!(
        of("controllerrevisions") < of("yurtappdaemons/web/status"),
        "{writes:?}"
    );
    assert!(of("yurtappdaemons/web/status") < of("deployments/"), "{writes:?}");
}

#[tokio::test(start_paused = true)]
async fn an_empty_member_that_means_something_makes_another_revision() {
    let world = with_two_pools().await;
    let selecting = |extra: serde_json::Value| {
        let term = json!({"topologyKey": "zone", "labelSelector": extra});
        let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        json!({"spec": {"workloadTemplate": {"deploymentTemplate": {"spec": {"template": {"spec": {"affinity": affinity}}}}}}})
    };
    world.edit("web", selecting(json!(null))).await;
    world.until_completed("web").await;
    world.edit("web", selecting(json!({}))).await;
    world.until_completed("web").await;
    assert_eq!(world.revisions().await.len(), 3);
}
