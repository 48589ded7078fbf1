//! What an event costs when many policies wait: what it touches, not what there is.

use kube::ResourceExt as _;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use stagegate_api::{Phase, label};

use crate::harness::{Pace, World, policy, shop, workload};

const POLICIES: usize = 1_000;

#[tokio::test(start_paused = true)]
async fn among_a_thousand_waiting_policies_one_changed_answer_costs_one_policys_work() {
    let mut world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world
        .edit_cluster("dev-2", json!({"rules": [{"status": {"availableReplicas": 0}}]}))
        .await;
    world.apply(&workload("web")).await;
    // One stage each: no next one is prepared, which would double everything here.
    let text = policy("web");
    let text = &text[..text.find("  - name: test").unwrap()];
    for n in 0..POLICIES {
        world
            .apply(&text.replacen("metadata: {name: web}", &format!("metadata: {{name: web-{n}}}"), 1))
            .await;
    }
    world.pass(120).await;
    let all = world.policies().list(&ListParams::default()).await.unwrap();
    let waits = |phase: Option<Phase>| phase == Some(Phase::Holding);
    assert!(
        all.iter()
            .all(|policy| waits(policy.status.as_ref().and_then(|status| status.phase)))
    );
    assert_eq!(all.items.len(), POLICIES);

    // From here on a test writes the answers, and nobody else.
    world.stop_parts().await;
    world.pass(60).await;
    let (counters, requests) = (world.host().counters(), world.tap.requests());
    world.pass(3600).await;
    assert_eq!(world.tap.requests(), requests, "nothing changes, nothing is asked");
    assert_eq!(world.host().counters(), counters);

    let of_one = ListParams::default().labels(&format!("{}=web-500.stage.dev", label::BINDING_POLICY));
    let mut one = world.combined().list(&of_one).await.unwrap().items.remove(0);
    let worst = one.results.iter_mut().find(|result| result.name == "worst").unwrap();
    worst.rows[0].columns[0].float = Some("1".to_owned());
    world
        .combined()
        .replace(&one.name_any(), &PostParams::default(), &one)
        .await
        .unwrap();
    world.pass(60).await;
    let after = world.host().counters();
    assert_eq!(
        after.evaluations - counters.evaluations,
        1,
        "one answer, one evaluation"
    );
    assert!(after.reconciles - counters.reconciles <= 3, "{counters:?} → {after:?}");
    let asked = world.tap.requests() - requests;
    assert_eq!(
        asked, 1,
        "few values come with the watch; status is written once, as it names the value that the condition compared"
    );
}
