//! What is asked of the API server while many stages are held and nothing is pending. Must not edit anything.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use stagegate_cluster_tests::audit::{self, Answered};
use stagegate_cluster_tests::bench::figures::{count, counts};
use stagegate_cluster_tests::bench::objects;
use stagegate_cluster_tests::bench::requests::{is_write, mark, per};
use stagegate_cluster_tests::controller::Pace;
use stagegate_cluster_tests::installation::USER;

use crate::table::{self, Row};
use crate::world::{self, World};

/// For how many seconds nothing is pending.
const IDLE: &str = "STAGEGATE_IDLE_S";
const IDLE_DEFAULT_S: u64 = 600;
const POLICIES: usize = 100;
const STAGES: [(&str, usize); 3] = [("dev", 1), ("test", 1), ("prod", 1)];
const COMPLETED_MAX: Duration = Duration::from_secs(1_200);
/// A list may be renewed half a minute after the last one, and CombinedStatuses be asked for as late.
const REST: Duration = Duration::from_secs(60);
/// What KubeStellar's controller-manager calls itself; with its transport and this benchmark it shares a user.
const KUBESTELLAR: &str = "kubestellar-controller-manager/";

/// # Errors
/// Whatever does not come up or does not get done.
pub async fn measure(folder: &Path) -> anyhow::Result<()> {
    let seconds = match std::env::var(IDLE) {
        Ok(text) => text.parse().with_context(|| format!("{IDLE}: {text:?} is no number"))?,
        Err(_) => IDLE_DEFAULT_S,
    };
    let shape = world::Shape {
        pace: Pace::Raised,
        stages: &STAGES,
        deployments: POLICIES,
    };
    let mut world = World::start(folder, &shape).await?;
    let policies = (0..POLICIES).map(|number| {
        let name = objects::name(number);
        world::policy(&name, &json!({"matchLabels": {"app": name}}), &STAGES)
    });
    world.place(policies).await?;
    world.completed(COMPLETED_MAX).await?;
    tokio::time::sleep(REST).await;
    let from = mark(&world.servers.plane)?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let answered = audit::answered(&world.servers.plane.audit_log(), from)?;
    world.completed(Duration::ZERO).await?;
    print(seconds, answered);
    Ok(())
}

fn print(seconds: u64, answered: Vec<Answered>) {
    // Both go on whatever the stages do.
    let is_steady = |answered: &Answered| answered.right.resource == "leases" || answered.right.verb == "watch";
    let (ours, others): (Vec<Answered>, Vec<Answered>) = answered
        .into_iter()
        .filter(|answered| !is_steady(answered))
        .partition(|answered| answered.user == USER);
    let theirs: Vec<Answered> = others
        .into_iter()
        .filter(|answered| answered.agent.starts_with(KUBESTELLAR))
        .collect();
    let writes = ours.iter().filter(|answered| is_write(answered)).count();
    let refused = theirs.iter().filter(|answered| answered.code == 403).count();
    let rows = [
        Row::new(
            "requests of Stagegate, without watches and its lease",
            count(ours.len()),
        ),
        Row::new("… writes, without dry runs and Events", count(writes)).goal(0.0),
        Row::new(
            "requests of KubeStellar's controller-manager, without watches",
            count(theirs.len()),
        ),
        Row::new("… refused", count(refused)).goal(0.0),
    ];
    let title = format!(
        "{POLICIES} policies of {} stages each, all completed, for {seconds} s",
        STAGES.len()
    );
    table::print(&title, "", &rows);
    println!("stagegate, requests: {}", counts(&per(&ours, 1)));
    println!("KubeStellar, requests: {}", counts(&per(&theirs, 1)));
}
