//! Two controllers at work on one cluster, which no Lease keeps apart: both say so. One alone never does, however it fares.

use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use serde_json::{Value, json};
use stagegate::options::Options;
use stagegate::start::{self, RunningControllers};
use stagegate_api::{Phase, StagedBindingPolicyStatus};
use stagegate_runtime::leader::Election;

use super::interceptor::Interceptor;
use super::{election, put_lease};

use crate::harness::{Call, Disturbance, Pace, World, policy, shop, workload};

/// How a controller is started.
#[derive(Clone, Copy)]
struct Start {
    /// The name of its Lease.
    lease: Option<&'static str>,
    settle_ms: i64,
}

impl Start {
    /// `delay`: of each of its requests.
    async fn start(self, world: &World, delay: fn(u64) -> Duration) -> RunningControllers {
        let election = self.lease.map(|name| Election {
            name: name.to_owned(),
            ..election(name)
        });
        let options = Options {
            election,
            settle_ms: self.settle_ms,
            ..world.host_options()
        };
        let interceptor = Interceptor::new(world.server.router(), "host").delayed(delay);
        start::start(interceptor.client(), world.clock(), options)
            .await
            .unwrap()
    }
}

fn paused(paused: bool) -> Value {
    json!({"spec": {"paused": paused}})
}

/// Without renewals of Leases.
fn written(world: &World) -> usize {
    let commits = world.server.commits(0).into_iter();
    commits.filter(|commit| !commit.resource.starts_with("leases")).count()
}

fn contested(status: &StagedBindingPolicyStatus) -> Option<&Condition> {
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Contested")
}

/// Who reports a second controller, for each Event.
async fn events(world: &World) -> Vec<String> {
    let events = Api::<Event>::all(world.client.clone()).list(&Default::default()).await;
    let events = events.unwrap().items.into_iter();
    let of_second = events.filter(|event| event.reason.as_deref() == Some("SecondController"));
    of_second.filter_map(|event| event.reporting_instance).collect()
}

#[tokio::test(start_paused = true)]
async fn two_controllers_that_no_lease_keeps_apart_both_report_it_until_one_has_ended() {
    let fast = 200;
    let alike = |lease| Start { lease, settle_ms: fast };
    let slow = Start {
        lease: None,
        settle_ms: 3 * fast,
    };
    for (what, pair) in [
        ("alike", [alike(None), alike(None)]),
        ("of two settings", [alike(None), slow]),
        ("of two Leases", [alike(Some("one")), alike(Some("other"))]),
    ] {
        let mut world = World::start_without_host(Pace::Fast).await;
        world.waive("quiet", "each controller says what it sees");
        world.waive("intent", "each controller says what it sees");
        world.apply(&shop()).await;
        world.apply(&workload("web")).await;
        world.note_host();
        let first = pair[0].start(&world, |_| Duration::ZERO).await;
        // No two processes do the same at the same nanosecond.
        let second = pair[1].start(&world, |_| Duration::from_millis(7)).await;
        // Where there are Leases, both have led for some time by now.
        world.pass(20).await;
        world.apply(&policy("web")).await;
        world.until_phase("web", Phase::Completed, 180).await;
        world
            .until("web", 120, |status| {
                contested(status).is_some_and(|it| it.status == "True")
            })
            .await;
        let status = world.status("web").await;
        let condition = contested(&status).unwrap();
        assert_eq!(condition.reason, "SecondController", "{what}");
        assert!(
            condition.message.contains("--leader-elect"),
            "{what}: {}",
            condition.message
        );
        world
            .until_so("both have sent an Event", 60, async || events(&world).await.len() == 2)
            .await;
        let machine = Election::identity();
        for instance in events(&world).await {
            assert!(
                machine.starts_with(&format!("{instance}_")),
                "{instance} is not of {machine}"
            );
        }
        if what == "alike" {
            world.pass(40 * 60).await;
            let before = written(&world);
            world.pass(40 * 60).await;
            assert_eq!(written(&world), before, "{what}: written although nothing has happened");
            assert_eq!(
                contested(&world.status("web").await),
                None,
                "{what}: neither has written anything"
            );
        }
        second.stop().await;
        world.until("web", 25 * 60, |status| contested(status).is_none()).await;
        let (status, written) = (world.status("web").await, written(&world));
        assert_eq!(status.phase, Some(Phase::Completed), "{what}");
        world.pass(60 * 60).await;
        assert_eq!(
            self::written(&world),
            written,
            "{what}: written although nothing has happened"
        );
        first.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn leaders_by_two_leases_do_not_raise_fencing_tokens_against_each_other_without_a_pause() {
    let mut world = World::start_without_host(Pace::Fast).await;
    world.waive("quiet", "each controller says what it sees");
    world.waive("intent", "each controller says what it sees");
    put_lease(&world.server, json!({"leaseTransitions": 6})).await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    let never = json!({"rules": [{"status": {"availableReplicas": 0}}]});
    world.edit_cluster("dev-2", never).await;
    world.note_host();
    let start = |lease| Start {
        lease: Some(lease),
        settle_ms: 200,
    };
    let _first = start("stagegate").start(&world, |_| Duration::ZERO).await;
    let _second = start("other").start(&world, |_| Duration::from_millis(7)).await;
    world.pass(20).await;
    world.apply(&policy("web")).await;
    world.until_phase("web", Phase::Holding, 120).await;
    world.pass(120).await;
    let before = written(&world);
    world.pass(10 * 60).await;
    let most = 3 * 2 * 10;
    assert!(
        written(&world) - before <= most,
        "{} writes in ten minutes",
        written(&world) - before
    );
    world.edit_cluster("dev-2", json!({"rules": []})).await;
    world.until_phase("web", Phase::Completed, 600).await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_killed_and_started_again_and_again_reports_no_second_one() {
    let mut world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    world.apply(&policy("web")).await;
    for _ in 0..12 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        world.kill_host();
        world.start_host().await;
    }
    world.until_phase("web", Phase::Completed, 180).await;
    assert_eq!(events(&world).await, Vec::<String>::new());
    assert_eq!(contested(&world.status("web").await), None);
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_gets_no_answer_to_its_writes_reports_no_second_one() {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    world.apply(&policy("web")).await;
    world.until_stage("web", "dev", 60).await;
    let mut lost = 0;
    for round in 0..20 {
        let nth = world.tap.calls().len();
        world.tap.disturb(nth + 1, Disturbance::AnswerLost);
        world.edit_policy("web", paused(round % 2 == 0)).await;
        world.pass(2).await;
        let is_status = |call: &Call| call.is_write() && call.target.contains("/stagedbindingpolicies/web/status");
        lost += usize::from(world.tap.calls().get(nth).is_some_and(is_status));
    }
    world.until_phase("web", Phase::Completed, 180).await;
    assert!(lost >= 5, "{lost} answers to writes of status were lost");
    assert_eq!(events(&world).await, Vec::<String>::new());
    assert_eq!(contested(&world.status("web").await), None);
}

#[tokio::test(start_paused = true)]
async fn a_person_who_edits_the_policy_and_once_its_status_is_no_second_controller() {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    world.apply(&policy("web")).await;
    world.until_stage("web", "dev", 60).await;
    for is_paused in [true, false, true, false] {
        world.edit_policy("web", paused(is_paused)).await;
        world.pass(2).await;
    }
    let patch = kube::api::Patch::Merge(json!({"status": {"reason": "Unheard"}}));
    world
        .policies()
        .patch_status("web", &Default::default(), &patch)
        .await
        .unwrap();
    world.until_phase("web", Phase::Completed, 180).await;
    assert_eq!(events(&world).await, Vec::<String>::new());
    assert_eq!(contested(&world.status("web").await), None);
}
