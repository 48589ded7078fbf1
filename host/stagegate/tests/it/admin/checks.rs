//! Health as the checks have it, in virtual time: what is away, what is stuck, what is only slow.

use std::sync::Arc;
use std::time::Duration;

use stagegate::metrics::KINDS;
use stagegate_api::{Phase, crd};
use stagegate_clock::TokioClock;
use stagegate_embedded::Server;
use stagegate_runtime::Runtime;
use stagegate_runtime::controller::{self, Controller, Next};
use stagegate_runtime::events::Events;
use stagegate_runtime::health::{Check, Health};
use stagegate_runtime::leader::LeaderState;
use stagegate_runtime::metrics::RuntimeMetrics;
use stagegate_runtime::queue::Queue;
use stagegate_runtime::request::{RequestError, request};
use tokio_util::sync::CancellationToken;

use crate::harness::{policy, shop, workload};
use crate::shell::wire::{Fault, Verb, Wire};
use crate::shell::world::World;

fn failed(checks: &[Check]) -> Vec<String> {
    let told = checks.iter().filter_map(|check| {
        let failure = check.failure.as_ref()?;
        Some(format!("{}: {failure}", check.name))
    });
    told.collect()
}

async fn wired() -> (World, Wire) {
    let server = Server::new(TokioClock::shared());
    server.install_crds(crd::all_for_playground()).unwrap();
    let wire = Wire::new(server.router());
    let world = World::start_on(server, wire.client()).await;
    (world, wire)
}

/// The kinds that the three controllers wait for.
const NEEDED: [&str; 9] = [
    "bindingpolicies",
    "bindings",
    "combinedstatuses",
    "customresourcedefinitions",
    "managedclusters",
    "namespaces",
    "stagedbindingpolicies",
    "statuscollectors",
    "workstatuses",
];

#[tokio::test(start_paused = true)]
async fn a_process_is_ready_once_every_needed_kind_is_listed_and_not_any_more_when_it_stops() {
    let (world, _wire) = wired().await;
    let health = world.running.health();
    let before = failed(&health.ready());
    assert_eq!(before.len(), NEEDED.len(), "nothing can be listed yet: {before:?}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let checks = health.ready();
    assert_eq!(failed(&checks), Vec::<String>::new());
    let watches: Vec<String> = NEEDED.iter().map(|kind| format!("watch/{kind}")).collect();
    let names: Vec<String> = checks.into_iter().map(|check| check.name).collect();
    assert_eq!(
        names,
        [watches, vec!["lease".to_owned(), "shutdown".to_owned()]].concat()
    );
    let queues: Vec<String> = health.live().into_iter().map(|check| check.name).collect();
    for controller in ["staging", "binding", "combine"] {
        assert!(queues.contains(&format!("queue/{controller}")), "{queues:?}");
    }
    world.stop().await;
    assert_eq!(failed(&health.ready()), ["shutdown: stopping"]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_refused_is_named_with_its_cause_and_a_restart_would_not_mend_it() {
    let server = Server::new(TokioClock::shared());
    server.install_crds(crd::all_for_playground()).unwrap();
    let wire = Wire::new(server.router());
    wire.fault(Verb::List, "combinedstatuses", Fault::Status(403));
    let world = World::start_on(server, wire.client()).await;
    for text in [shop(), workload("web"), policy("web")] {
        world.create(&text).await;
    }
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let health = world.running.health();
    let why = "watch/combinedstatuses: not listed yet: 403 Injected: refused on the way";
    assert_eq!(failed(&health.ready()), [why]);
    assert_eq!(failed(&health.live()), Vec::<String>::new());
    wire.mend(Verb::List, "combinedstatuses");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(failed(&health.ready()), Vec::<String>::new());
}

/// However it is away, and for how long.
#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_makes_a_process_unready_and_never_dead() {
    for fault in [Fault::Hang, Fault::Status(500), Fault::Status(401)] {
        let (world, wire) = wired().await;
        for text in [shop(), workload("web"), policy("web")] {
            world.create(&text).await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        let all = [Verb::Get, Verb::List, Verb::Watch];
        let kinds = NEEDED.iter().copied().chain(["deployments", "configmaps"]);
        let faults: Vec<(Verb, &str)> = kinds.flat_map(|kind| all.map(|verb| (verb, kind))).collect();
        for (verb, kind) in &faults {
            wire.fault(*verb, kind, fault.clone());
        }
        let health = world.running.health();
        let mut unready = 0;
        for _minute in 0..60 {
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(failed(&health.live()), Vec::<String>::new());
            unready += usize::from(!failed(&health.ready()).is_empty());
        }
        // A watch that runs is noticed when it ends, five minutes after it began at the latest.
        assert!(unready >= 50, "unready in {unready} of 60 minutes");
        for (verb, kind) in &faults {
            wire.mend(*verb, kind);
        }
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert_eq!(failed(&health.ready()), Vec::<String>::new());
        world
            .until_phase("web", Phase::Completed, Duration::from_secs(120))
            .await;
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_only_lists_is_in_trouble_all_the_same() {
    let (world, wire) = wired().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    wire.fault(Verb::Watch, "bindings", Fault::Status(403));
    tokio::time::sleep(Duration::from_secs(600)).await;
    let health = world.running.health();
    let told = failed(&health.ready());
    let [one] = &told[..] else { panic!("{told:?}") };
    assert!(
        one.starts_with("watch/bindings: for ") && one.ends_with("s: 403 Injected: refused on the way"),
        "{one}"
    );
    wire.mend(Verb::Watch, "bindings");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(failed(&health.ready()), Vec::<String>::new());
}

/// A controller whose keys say what becomes of them.
struct Scripted;

impl Controller for Scripted {
    type Key = String;

    const NAME: &'static str = "staging";

    async fn complete(&self) {}

    fn all(&self) -> Vec<String> {
        Vec::new()
    }

    async fn reconcile(&self, key: &String) -> Result<Next, RequestError> {
        match key.as_str() {
            "stuck" => std::future::pending().await,
            "panics" => panic!("on purpose"),
            // An hour of requests, none of which takes longer than a request may.
            "slow" => {
                for _ in 0..450 {
                    let call = async {
                        tokio::time::sleep(Duration::from_secs(8)).await;
                        Ok::<_, kube::Error>(())
                    };
                    request("ask", call).await?;
                }
                Ok(Next::default())
            }
            _ => Ok(Next::default()),
        }
    }
}

fn running(keys: &[&str]) -> Health {
    let (metrics, stop) = (Arc::new(RuntimeMetrics::new(KINDS)), CancellationToken::new());
    let queue = Arc::new(Queue::new(Duration::ZERO));
    for key in keys {
        queue.add((*key).to_owned());
    }
    let health = Health::new(metrics.clone(), LeaderState::unelected(), stop.clone());
    let (client, clock) = (Server::new(TokioClock::shared()).client(), TokioClock::shared());
    let (events, _writer) = Events::new(client.clone(), clock.clone(), metrics.clone());
    let runtime = Runtime {
        client,
        clock,
        leader_state: LeaderState::unelected(),
        events,
        metrics,
        stop,
    };
    tokio::spawn(controller::run(Scripted, queue, runtime));
    health
}

#[tokio::test(start_paused = true)]
async fn a_worker_without_a_step_for_ten_minutes_is_stuck_and_one_that_is_slow_or_panics_is_not() {
    let cases: [(&[&str], bool); 4] = [
        (&["fine", "panics"], false),
        (&["slow"], false),
        (&["slow", "stuck", "fine"], true),
        (&[], false),
    ];
    for (keys, is_stuck) in cases {
        let health = running(keys);
        tokio::time::sleep(Duration::from_secs(9 * 60)).await;
        assert_eq!(failed(&health.live()), Vec::<String>::new(), "{keys:?}");
        tokio::time::sleep(Duration::from_secs(2 * 60)).await;
        let told = failed(&health.live());
        let expected = "queue/staging: a key is being worked on without a step for 660 s";
        let expected = is_stuck.then(|| expected.to_owned());
        assert_eq!(told, expected.into_iter().collect::<Vec<_>>(), "{keys:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_nobody_takes_from_is_stuck_and_one_with_all_places_busy_is_not() {
    let (metrics, stop) = (Arc::new(RuntimeMetrics::new(KINDS)), CancellationToken::new());
    let health = Health::new(metrics.clone(), LeaderState::unelected(), stop);
    let queue = Arc::new(Queue::<String>::new(Duration::ZERO));
    queue.add("before".to_owned());
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    queue.open(2);
    metrics.add_queue("staging", queue.clone());
    assert_eq!(failed(&health.live()), Vec::<String>::new(), "it has only just begun");
    for key in ["a", "b", "c"] {
        queue.add(key.to_owned());
    }
    let [one, _two] = [queue.next().await, queue.next().await];
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(failed(&health.live()), Vec::<String>::new(), "both places are busy");
    queue.end(&one, stagegate_runtime::queue::Ended::Failed);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let told = failed(&health.live());
    assert_eq!(told, ["queue/staging: 3 keys due and none taken for 120 s"]);
}
