//! Pools that come and go, and daemons that are deleted.

use kube::ResourceExt as _;
use kube::api::{DeleteParams, PropagationPolicy};
use serde_json::{Value, json};
use stagegate_api::workloads::TemplateType;
use stagegate_embedded::{Fault, FaultAnswer};

use super::world::{NAMESPACE, World, condition, daemon, delete, edge, message};

async fn with_three_pools() -> World {
    let world = World::start().await;
    for pool in ["beijing", "hangzhou", "shanghai"] {
        world.pool(pool, edge()).await;
    }
    world.create(&daemon("web")).await.unwrap();
    world.until_completed("web").await;
    world
}

async fn pools(world: &World) -> Vec<String> {
    world.deployments().await.into_keys().collect()
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_comes_gets_a_workload_and_one_that_goes_loses_it_and_the_others_are_left_alone() {
    let world = with_three_pools().await;
    let before = world.deployment("hangzhou").await;
    world
        .edit_pool("beijing", json!({"metadata": {"labels": {"tier": "cloud"}}}))
        .await;
    world.pass(2).await;
    assert_eq!(pools(&world).await, ["hangzhou", "shanghai"]);
    delete(&world.pools(), "shanghai").await;
    world.pool("ningbo", edge()).await;
    world.pass(20).await;
    assert_eq!(
        pools(&world).await,
        ["hangzhou", "ningbo", "shanghai"],
        "it may be the definition that goes"
    );
    world.pass(15).await;
    assert_eq!(pools(&world).await, ["hangzhou", "ningbo"]);
    assert_eq!(world.deployment("hangzhou").await, before);
    assert_eq!(world.status("web").await.nodepools, ["hangzhou", "ningbo"]);
}

#[tokio::test(start_paused = true)]
async fn selectors_of_pools_match_as_those_of_kubernetes_do() {
    let world = World::start().await;
    world.pool("beijing", json!({"tier": "edge", "gpu": "yes"})).await;
    world.pool("hangzhou", edge()).await;
    world.pool("cloud", json!({})).await;
    let cases: [(Value, &[&str]); 6] = [
        (json!({}), &["beijing", "cloud", "hangzhou"]),
        (
            json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["edge"]}]}),
            &["beijing", "hangzhou"],
        ),
        (
            json!({"matchExpressions": [{"key": "gpu", "operator": "NotIn", "values": ["yes"]}]}),
            &["cloud", "hangzhou"],
        ),
        (
            json!({"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}),
            &["beijing"],
        ),
        (
            json!({"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}),
            &["cloud", "hangzhou"],
        ),
        (json!({"matchLabels": {"tier": "edge", "gpu": "yes"}}), &["beijing"]),
    ];
    let mut web = daemon("web");
    web["spec"]["nodepoolSelector"] = json!({});
    world.create(&web).await.unwrap();
    let unchanged = world.revisions().await;
    for (selector, matching) in cases {
        let mut whole = json!({"matchLabels": null, "matchExpressions": null});
        for (member, value) in selector.as_object().unwrap() {
            whole[member] = value.clone();
        }
        world.edit("web", json!({"spec": {"nodepoolSelector": whole}})).await;
        world.pass(3).await;
        assert_eq!(pools(&world).await, matching, "{selector}");
    }
    assert_eq!(world.revisions().await.len(), unchanged.len().max(1), "no new revision");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_pool_selector_restarts_nothing_in_pools_that_still_match() {
    let world = with_three_pools().await;
    let before = world.deployment("hangzhou").await;
    let selector = json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}], "matchLabels": null});
    world.edit("web", json!({"spec": {"nodepoolSelector": selector}})).await;
    world.until_completed("web").await;
    assert_eq!(world.revisions().await.len(), 1);
    assert_eq!(
        world.deployment("hangzhou").await["metadata"]["generation"],
        before["metadata"]["generation"]
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_while_node_pools_cannot_be_listed() {
    let world = with_three_pools().await;
    world.server.inject(Fault {
        times: u32::MAX,
        ..Fault::new("list", "nodepools.apps.openyurt.io", FaultAnswer::Status(500))
    });
    world
        .edit(
            "web",
            json!({"spec": {"nodepoolSelector": {"matchLabels": {"tier": "nowhere"}}}}),
        )
        .await;
    world.pass(120).await;
    assert_eq!(pools(&world).await.len(), 3);
    assert!(world.events("web").await.contains("NodePoolsUnknown"));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_when_the_definition_of_node_pools_goes_with_all_pools() {
    let world = with_three_pools().await;
    let definitions: kube::Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = kube::Api::all(world.client.clone());
    for pool in ["beijing", "hangzhou", "shanghai"] {
        delete(&world.pools(), pool).await;
    }
    world.pass(5).await;
    assert_eq!(pools(&world).await.len(), 3);
    let status = world.status("web").await;
    assert_eq!(status.reason.as_deref(), Some("PoolsGone"));
    delete(&definitions, "nodepools.apps.openyurt.io").await;
    world.pass(120).await;
    assert_eq!(pools(&world).await.len(), 3);
    let status = world.status("web").await;
    assert_eq!(status.reason.as_deref(), Some("NodePoolsUnserved"));
    assert_eq!(condition(&status, "WorkLoadProvisioned"), "Unknown");
    world
        .server
        .install_crds(vec![stagegate_api::crd::node_pools("v1beta2")])
        .unwrap();
    for pool in ["beijing", "hangzhou", "shanghai"] {
        world.pool(pool, edge()).await;
    }
    world.until_completed("web").await;
}

#[tokio::test(start_paused = true)]
async fn when_all_pools_are_gone_their_workloads_go_after_half_a_minute() {
    let world = with_three_pools().await;
    for pool in ["beijing", "hangzhou", "shanghai"] {
        delete(&world.pools(), pool).await;
    }
    world.pass(25).await;
    assert_eq!(pools(&world).await.len(), 3);
    world.pass(15).await;
    assert!(pools(&world).await.is_empty());
    let status = world.status("web").await;
    assert_eq!(status.reason.as_deref(), Some("NoPools"));
    assert_eq!(condition(&status, "Ready"), "False");
    assert_eq!(message(&status, "Ready"), "no NodePool matches spec.nodepoolSelector");
}

#[tokio::test(start_paused = true)]
async fn node_pools_are_found_in_whichever_version_they_are_served_also_later() {
    for version in ["v1alpha1", "v1beta1"] {
        let world = World::start_with(version).await;
        let pool = json!({
            "apiVersion": format!("apps.openyurt.io/{version}"), "kind": "NodePool", "metadata": {"name": "hangzhou", "labels": edge()},
            "spec": {"taints": [{"key": "edge", "effect": "NoSchedule"}]},
        });
        let pool = serde_json::from_value(pool).unwrap();
        world
            .pools_in(version)
            .create(&Default::default(), &pool)
            .await
            .unwrap();
        world.create(&daemon("web")).await.unwrap();
        world.until_completed("web").await;
        assert_eq!(pools(&world).await, ["hangzhou"], "{version}");
    }
    let mut world = World::start_without_controller(None).await;
    world.start_controller().await;
    world.create(&daemon("web")).await.unwrap();
    let status = world.until("web", 30, |status| status.reason.is_some()).await;
    assert_eq!(status.reason.as_deref(), Some("NodePoolsUnserved"));
    world
        .server
        .install_crds(vec![stagegate_api::crd::node_pools("v1beta2")])
        .unwrap();
    world.pool("hangzhou", edge()).await;
    world.until_completed("web").await;
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_of_a_pool_decides_nothing_and_twenty_idle_pools_cost_no_write() {
    let world = World::start().await;
    for nth in 0..20 {
        world.pool(&format!("pool-{nth}"), edge()).await;
    }
    world.create(&daemon("web")).await.unwrap();
    world.until_completed("web").await;
    world.pass(5).await;
    let (decisions, writes) = (world.decisions(), world.tap.writes());
    for second in 0..60 {
        let beat = json!({"status": {"readyNodeNum": second}});
        let patch = kube::api::Patch::Merge(beat);
        let pool = format!("pool-{}", second % 20);
        world
            .pools()
            .patch_status(&pool, &Default::default(), &patch)
            .await
            .unwrap();
        world.pass(1).await;
    }
    assert_eq!((world.decisions(), world.tap.writes()), (decisions, writes));
    world
        .edit_pool("pool-7", json!({"metadata": {"labels": {"seen": "yes"}}}))
        .await;
    world.pass(1).await;
    assert_eq!(world.decisions(), decisions + 1, "a label may belong to a selector");
    assert_eq!(world.tap.writes(), writes, "the status is as it was");
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_is_deleted_takes_its_workloads_with_it_or_leaves_them_as_kubectl_says() {
    for (propagation, left) in [(PropagationPolicy::Background, 0), (PropagationPolicy::Orphan, 3)] {
        let world = with_three_pools().await;
        let params = DeleteParams {
            propagation_policy: Some(propagation.clone()),
            ..DeleteParams::default()
        };
        world.daemons().delete("web", &params).await.unwrap();
        world.pass(30).await;
        let all = world.views(TemplateType::Deployment).await;
        assert_eq!(all.len(), left, "{propagation:?}");
        assert!(all.iter().all(|view| view.controller_uid().is_none()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_daemon_without_workloads_is_looked_at_once_more_when_it_is_gone_so_that_nothing_is_kept_of_it() {
    let world = World::start().await;
    world.create(&daemon("web")).await.unwrap();
    world.pass(5).await;
    let before = world.decisions();
    assert_eq!(world.writes_in(60).await, 0);
    assert_eq!(world.decisions(), before, "it is idle");
    delete(&world.daemons(), "web").await;
    assert_eq!(world.writes_in(5).await, 0);
    assert_eq!(world.decisions(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn orphans_are_adopted_and_what_belongs_to_others_is_left_alone() {
    let world = World::start().await;
    world.pool("hangzhou", edge()).await;
    let web = daemon("web");
    let template = &web["spec"]["workloadTemplate"]["deploymentTemplate"];
    let of_pool = json!({"app": "web", "apps.openyurt.io/pool-name": "hangzhou"});
    let of = |name: &str, labels: Value, annotations: Value, owners: Value| {
        let mut spec = template["spec"].clone();
        let selected = if name == "own-pods" {
            json!({"app": "web"})
        } else {
            of_pool.clone()
        };
        spec["selector"] = json!({"matchLabels": selected});
        spec["template"]["metadata"]["labels"] = of_pool.clone();
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": name, "namespace": NAMESPACE, "labels": labels, "annotations": annotations, "ownerReferences": owners,
            },
            "spec": spec,
        })
    };
    let pool = json!({"apps.openyurt.io/ref-nodepool": "hangzhou"});
    let config_maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
        kube::Api::namespaced(world.client.clone(), NAMESPACE);
    let other = serde_json::from_value(json!({"metadata": {"name": "x"}})).unwrap();
    let other = config_maps
        .create(&Default::default(), &other)
        .await
        .unwrap()
        .metadata
        .uid;
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": other, "controller": true}]);
    let objects = [
        of("orphan", json!({"app": "web"}), pool.clone(), json!([])),
        of("other-labels", json!({"app": "db"}), pool.clone(), json!([])),
        of("owned", json!({"app": "web"}), pool.clone(), owner),
        of("own-pods", json!({"app": "web"}), pool, json!([])),
    ];
    let before = |all: Vec<stagegate_api::workloads::WorkloadView>| {
        let others = all.into_iter().filter(|view| view.name_any() != "orphan");
        others
            .map(|view| (view.name_any(), view.metadata.resource_version))
            .collect::<Vec<_>>()
    };
    for object in &objects {
        let object = serde_json::from_value(object.clone()).unwrap();
        let api = world.workloads(TemplateType::Deployment);
        api.create(&Default::default(), &object).await.unwrap();
    }
    let others = before(world.views(TemplateType::Deployment).await);
    world.create(&web).await.unwrap();
    world.pass(10).await;
    let all = world.views(TemplateType::Deployment).await;
    assert_eq!(all.len(), objects.len(), "no second one is created");
    let uid = world.daemons().get("web").await.unwrap().metadata.uid;
    let orphan = all.iter().find(|view| view.name_any() == "orphan").unwrap();
    assert_eq!(orphan.controller_uid(), uid.as_deref());
    assert_eq!(before(all), others);
}

#[tokio::test(start_paused = true)]
async fn a_workload_whose_labels_were_edited_gets_no_twin_and_a_second_one_of_a_pool_goes() {
    let world = with_three_pools().await;
    let before = world.deployments().await["hangzhou"].clone();
    let gone = json!({"metadata": {"labels": {"app": null, "apps.openyurt.io/pool-name": null}}});
    world.edit_workload(&before.name_any(), gone).await;
    world.pass(5).await;
    let after = world.deployments().await["hangzhou"].clone();
    assert_eq!(world.views(TemplateType::Deployment).await.len(), 3);
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(after.labels(), before.labels());
    let mut twin = world.deployment("hangzhou").await;
    twin["metadata"]["name"] = json!("web-hangzhou-abcde");
    for member in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
    ] {
        twin["metadata"].as_object_mut().unwrap().remove(member);
    }
    world.pass(2).await;
    let twin = serde_json::from_value(twin).unwrap();
    let api = world.workloads(TemplateType::Deployment);
    api.create(&Default::default(), &twin).await.unwrap();
    world.pass(5).await;
    let left = world.views(TemplateType::Deployment).await;
    assert_eq!(left.len(), 3);
    assert!(left.iter().any(|view| view.metadata.uid == before.metadata.uid));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_when_the_definition_of_node_pools_goes_and_one_pool_stays_for_its_finalizer() {
    let world = with_three_pools().await;
    world
        .edit_pool("hangzhou", json!({"metadata": {"finalizers": ["example.com/kept"]}}))
        .await;
    let definitions: kube::Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = kube::Api::all(world.client.clone());
    for pool in ["beijing", "shanghai"] {
        delete(&world.pools(), pool).await;
    }
    delete(&definitions, "nodepools.apps.openyurt.io").await;
    world.pass(25).await;
    assert_eq!(pools(&world).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_annotation_or_a_label_that_names_another_pool_deletes_nothing_and_is_put_back() {
    let world = with_three_pools().await;
    let before = world.deployments().await;
    let name = before["beijing"].name_any();
    for wrong in [
        json!({"annotations": {"apps.openyurt.io/ref-nodepool": "hangzhou"}}),
        json!({"annotations": {"apps.openyurt.io/ref-nodepool": "no-such-pool"}}),
        json!({"labels": {"apps.openyurt.io/pool-name": "hangzhou"}}),
    ] {
        world.edit_workload(&name, json!({"metadata": wrong})).await;
        world.pass(70).await;
        let after = world.deployments().await;
        assert_eq!(after.len(), 3, "{wrong}");
        for (pool, view) in &before {
            assert_eq!(after[pool].metadata.uid, view.metadata.uid, "{wrong}: {pool}");
        }
    }
}
