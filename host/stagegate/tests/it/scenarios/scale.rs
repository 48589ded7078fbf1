//! What an event costs when many policies wait: what it touches, not what there is.

use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use stagegate_api::{Phase, WorkStatus};

use crate::harness::{Pace, World, policy, shop, workload};

const POLICIES: usize = 1_000;

#[tokio::test(start_paused = true)]
async fn among_a_thousand_waiting_policies_one_changed_answer_costs_one_policys_work() {
    let mut world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world.edit_cluster("dev-2", json!({"rules": [{"status": {"availableReplicas": 0}}]})).await;
    for n in 0..POLICIES {
        world.apply(&workload(&format!("app-{n}"))).await;
        world.apply(&policy(&format!("app-{n}"))).await;
    }
    world.until_so("all wait", 600, async || {
        let all = world.policies().list(&ListParams::default()).await.unwrap();
        all.iter().all(|policy| policy.status.as_ref().and_then(|status| status.phase) == Some(Phase::Holding))
    })
    .await;
    world.pass(120).await;
    let (counters, requests) = (world.host().counters(), world.tap.requests());
    world.pass(3600).await;
    assert_eq!(world.tap.requests(), requests, "nothing changes, nothing is asked");
    assert_eq!(world.host().counters(), counters);

    let reports: Api<WorkStatus> = Api::namespaced(world.client.clone(), "dev-2");
    let all = reports.list(&ListParams::default()).await.unwrap();
    let mut one = all.items.into_iter().find(|report| report.spec.source_ref.name == "app-500").unwrap();
    one.status.as_mut().unwrap()["availableReplicas"] = json!(1);
    let name = one.metadata.name.clone().unwrap();
    reports.replace_status(&name, &PostParams::default(), &one).await.unwrap();
    world.pass(60).await;
    let after = world.host().counters();
    assert!((1..=2).contains(&(after.evaluations - counters.evaluations)), "{:?} → {after:?}", counters);
    assert!(after.reconciles - counters.reconciles <= 6, "{counters:?} → {after:?}");
    let asked = world.tap.requests() - requests;
    assert!((1..=12).contains(&asked), "{asked} requests");
    world.stop_host().await;
}
