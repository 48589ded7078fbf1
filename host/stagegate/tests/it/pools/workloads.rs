//! What is in each pool: names, labels, nodes and tolerations.

use kube::ResourceExt as _;
use serde_json::{Value, json};
use stagegate_api::workloads::TemplateType;

use super::world::{World, condition, daemon, delete, edge, stateful};

/// Three pools, of which two match.
async fn with_pools() -> World {
    let world = World::start().await;
    world.pool("hangzhou", edge()).await;
    world.pool("shanghai", edge()).await;
    world.pool("cloud", json!({"tier": "cloud"})).await;
    world
}

fn tolerations(workload: &Value) -> Vec<Value> {
    let found = &workload["spec"]["template"]["spec"]["tolerations"];
    found.as_array().cloned().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn each_pool_that_matches_gets_a_deployment_of_its_own() {
    let world = with_pools().await;
    world.create(&daemon("web")).await.unwrap();
    let status = world.until_completed("web").await;
    assert_eq!(status.nodepools, ["hangzhou", "shanghai"]);
    assert_eq!(
        (status.total_workloads, status.updated_workloads, status.ready_workloads),
        (2, 2, 2)
    );
    assert_eq!(status.template_type, Some(TemplateType::Deployment));
    for (type_, state) in [
        ("WorkLoadProvisioned", "True"),
        ("WorkLoadUpdated", "True"),
        ("WorkLoadFailure", "False"),
        ("Reconciling", "False"),
        ("Stalled", "False"),
    ] {
        assert_eq!(condition(&status, type_), state, "{type_}");
    }
    let deployments = world.deployments().await;
    assert_eq!(deployments.keys().collect::<Vec<_>>(), ["hangzhou", "shanghai"]);
    let revisions = world.revisions().await;
    assert_eq!(revisions.len(), 1);
    let revision = revisions[0].name_any();
    assert_eq!(status.current_revision, revision);
    assert_eq!(status.update_revision.as_deref(), Some(revision.as_str()));
    let owner = world.daemons().get("web").await.unwrap().metadata.uid.unwrap();
    for (pool, view) in &deployments {
        let found = world.deployment(pool).await;
        assert!(
            view.name_any().starts_with(&format!("web-{pool}-")),
            "{}",
            view.name_any()
        );
        assert_eq!(view.controller_uid(), Some(owner.as_str()));
        let labels = json!({
            "app": "web", "apps.openyurt.io/pool-name": pool, "apps.openyurt.io/controller-revision-hash": revision,
        });
        assert_eq!(found["metadata"]["labels"], labels);
        let container = &found["spec"]["template"]["spec"]["containers"][0];
        assert_ne!(
            container["imagePullPolicy"], "Always",
            "the template says nothing of it"
        );
        assert_eq!(
            found["metadata"]["annotations"]["apps.openyurt.io/ref-nodepool"],
            json!(pool)
        );
        assert_eq!(found["spec"]["template"]["metadata"]["labels"], labels);
        assert_eq!(
            found["spec"]["selector"]["matchLabels"],
            json!({"app": "web", "apps.openyurt.io/pool-name": pool})
        );
        assert_eq!(
            found["spec"]["template"]["spec"]["nodeSelector"],
            json!({"apps.openyurt.io/nodepool": pool})
        );
        assert!(tolerations(&found).is_empty());
    }
    assert_eq!(world.writes_in(60).await, 0);
}

#[tokio::test(start_paused = true)]
async fn each_pool_that_matches_gets_a_stateful_set_with_its_service_and_its_claims() {
    let world = with_pools().await;
    world.create(&stateful("db")).await.unwrap();
    let status = world.until_completed("db").await;
    assert_eq!(status.template_type, Some(TemplateType::StatefulSet));
    let all = world.views(TemplateType::StatefulSet).await;
    assert_eq!(all.len(), 2);
    for view in all {
        assert!(view.name_any().len() <= 52);
        let found = world
            .workloads(TemplateType::StatefulSet)
            .get(&view.name_any())
            .await
            .unwrap();
        assert_eq!(found.data["spec"]["serviceName"], json!("headless"));
        assert_eq!(
            found.data["spec"]["volumeClaimTemplates"][0]["metadata"]["name"],
            json!("data")
        );
    }
    assert!(world.deployments().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_taint_of_the_pool_is_tolerated_as_long_as_it_is_there_and_its_value_restarts_nothing() {
    let world = World::start().await;
    world.pool("hangzhou", edge()).await;
    world.create(&daemon("web")).await.unwrap();
    world.until_completed("web").await;
    let taint = |value: &str| json!({"spec": {"taints": [{"key": "edge", "value": value, "effect": "NoSchedule"}]}});
    world.edit_pool("hangzhou", taint("a")).await;
    world.until_completed("web").await;
    world.pass(5).await;
    let added = json!([{"key": "edge", "operator": "Exists", "effect": "NoSchedule"}]);
    assert_eq!(json!(tolerations(&world.deployment("hangzhou").await)), added);
    let before = world.deployment("hangzhou").await["metadata"]["generation"].clone();
    world.edit_pool("hangzhou", taint("b")).await;
    assert_eq!(world.writes_in(30).await, 0);
    assert_eq!(world.deployment("hangzhou").await["metadata"]["generation"], before);
    world.edit_pool("hangzhou", json!({"spec": {"taints": null}})).await;
    world.pass(5).await;
    assert!(tolerations(&world.deployment("hangzhou").await).is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_templates_own_nodes_affinity_and_tolerations_are_kept() {
    let world = World::start().await;
    let taints = json!({"taints": [
        {"key": "edge", "effect": "NoSchedule"}, {"key": "gpu", "value": "yes", "effect": "NoExecute"},
    ]});
    world.pool_with("hangzhou", edge(), taints).await;
    let mut web = daemon("web");
    let affinity = json!({
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}],
        }},
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []},
    });
    let own =
        json!({"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoExecute", "tolerationSeconds": 30});
    let pod = &mut web["spec"]["workloadTemplate"]["deploymentTemplate"]["spec"]["template"]["spec"];
    pod["nodeSelector"] = json!({"disk": "ssd"});
    pod["affinity"] = affinity.clone();
    pod["tolerations"] = json!([own]);
    world.create(&web).await.unwrap();
    world.until_completed("web").await;
    let pod = world.deployment("hangzhou").await["spec"]["template"]["spec"].clone();
    assert_eq!(
        pod["nodeSelector"],
        json!({"disk": "ssd", "apps.openyurt.io/nodepool": "hangzhou"})
    );
    assert_eq!(
        pod["affinity"]["nodeAffinity"], affinity["nodeAffinity"],
        "what the template requires of nodes"
    );
    assert_eq!(
        pod["tolerations"],
        json!([own, {"key": "edge", "operator": "Exists", "effect": "NoSchedule"}])
    );
}

#[tokio::test(start_paused = true)]
async fn a_template_with_anti_affinity_alone_and_a_selector_of_expressions_works() {
    let world = World::start().await;
    world.pool("hangzhou", edge()).await;
    let mut web = daemon("web");
    web["spec"]["selector"] = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]});
    web["spec"]["workloadTemplate"]["deploymentTemplate"]["spec"]["template"]["spec"]["affinity"] =
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}});
    world.create(&web).await.unwrap();
    world.until_completed("web").await;
    let found = world.deployment("hangzhou").await;
    assert_eq!(
        found["spec"]["selector"],
        json!({
            "matchLabels": {"apps.openyurt.io/pool-name": "hangzhou"},
            "matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}],
        })
    );
}

#[tokio::test(start_paused = true)]
async fn long_names_are_cut_before_the_hash_and_are_valid_labels() {
    let world = World::start().await;
    let (daemon_name, pool) = ("d".repeat(60), "p".repeat(63));
    world.pool(&pool, edge()).await;
    for object in [daemon(&daemon_name), stateful(&format!("s{}", &daemon_name[1..]))] {
        let mut object = object;
        let labels = json!({"app": "web"});
        object["spec"]["selector"]["matchLabels"] = labels.clone();
        for member in ["deploymentTemplate", "statefulSetTemplate"] {
            if let Some(template) = object["spec"]["workloadTemplate"].get_mut(member) {
                template["metadata"]["labels"] = labels.clone();
                template["spec"]["template"]["metadata"]["labels"] = labels.clone();
            }
        }
        world.create(&object).await.unwrap();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let status = world.until_completed(&name).await;
        assert!(status.current_revision.len() <= 63);
    }
    let deployment = &world.views(TemplateType::Deployment).await[0];
    assert_eq!(deployment.name_any().len(), 63);
    assert_eq!(deployment.labels()["apps.openyurt.io/pool-name"], pool);
    assert_eq!(world.views(TemplateType::StatefulSet).await[0].name_any().len(), 52);
}

#[tokio::test(start_paused = true)]
async fn what_is_changed_by_hand_is_put_back_and_replicas_only_if_the_template_has_them() {
    let world = World::start().await;
    world.pool("hangzhou", edge()).await;
    world.create(&daemon("web")).await.unwrap();
    let mut scaled = daemon("scaled");
    scaled["spec"]["workloadTemplate"]["deploymentTemplate"]["spec"]
        .as_object_mut()
        .unwrap()
        .remove("replicas");
    world.create(&scaled).await.unwrap();
    world.until_completed("web").await;
    world.until_completed("scaled").await;
    let all = world.views(TemplateType::Deployment).await;
    let name = |of: &str| {
        all.iter()
            .map(|view| view.name_any())
            .find(|name| name.starts_with(of))
            .unwrap()
    };
    let (web, scaled) = (name("web-"), name("scaled-"));
    let patches = [
        json!({"spec": {"replicas": 7}}),
        json!({"spec": {"template": {"spec": {"nodeSelector": {"apps.openyurt.io/nodepool": "elsewhere"}}}}}),
        json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "mine:9"}]}}}}),
        json!({"spec": {"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}}}),
        json!({"metadata": {"labels": {"apps.openyurt.io/controller-revision-hash": "mine"}}}),
        json!({"metadata": {"labels": {"app": null}}}),
        json!({"metadata": {"annotations": {"community.kubestellar.io/revision-number": "9"}}}),
    ];
    let seen = async |name: &str| {
        let found = world.workloads(TemplateType::Deployment).get(name).await.unwrap();
        let metadata = json!([found.metadata.labels, found.metadata.annotations]);
        (metadata, found.data["spec"].clone())
    };
    world.pass(1).await;
    let before = seen(&web).await;
    for patch in patches {
        world.edit_workload(&web, patch.clone()).await;
        // The pause between two of them grows with each.
        world.pass(70).await;
        assert_eq!(seen(&web).await, before, "{patch}");
        world.edit_workload(&scaled, patch).await;
        world.pass(3).await;
    }
    assert_eq!(
        seen(&scaled).await.1["replicas"],
        json!(7),
        "an autoscaler may change it"
    );
    world.roll_out().await;
    world.pass(5).await;
    assert_eq!(world.writes_in(60).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_is_deleted_by_hand_is_there_again_within_seconds() {
    let world = World::start().await;
    world.pool("hangzhou", edge()).await;
    world.create(&daemon("web")).await.unwrap();
    world.until_completed("web").await;
    let before = world.deployments().await["hangzhou"].clone();
    delete(&world.workloads(TemplateType::Deployment), &before.name_any()).await;
    world.pass(2).await;
    let after = world.deployments().await["hangzhou"].clone();
    assert_eq!(after.name_any(), before.name_any());
    assert_ne!(after.metadata.uid, before.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_is_changed_again_and_again_is_put_back_ever_more_rarely() {
    let world = World::start().await;
    world.pool("hangzhou", edge()).await;
    world.create(&daemon("web")).await.unwrap();
    world.until_completed("web").await;
    let name = world.deployments().await["hangzhou"].name_any();
    let before = world.tap.writes();
    for second in 0..300 {
        world
            .edit_workload(&name, json!({"spec": {"replicas": 3 + second % 5}}))
            .await;
        world.pass(1).await;
    }
    let writes = world.tap.writes() - before;
    assert!((5..60).contains(&writes), "{writes} writes");
    world.pass(70).await;
    assert_eq!(world.deployments().await["hangzhou"].spec.replicas, Some(2));
}
