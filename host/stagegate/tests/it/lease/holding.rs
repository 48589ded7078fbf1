//! Taking, keeping, losing and releasing the Lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use stagegate_clock::{Clock, TokioClock};
use stagegate_embedded::{CommitAuthor, Server};
use stagegate_runtime::leader::{WriteBlocked, WriteGuard, guard_writes};
use tokio::time::Instant;

use super::interceptor::{Cut, Interceptor};
use super::{Candidate, LEASE, NAMESPACE, TAKEOVER_MAX, put_lease, record, watch};
use crate::harness::seeded::{Seeded, seeds};
use crate::matrices::in_virtual_time;

/// From nothing to one second, another one for each request.
fn slow(nth: u64) -> Duration {
    Duration::from_millis(Seeded::new(nth.wrapping_mul(0x9e37)).below(1_000))
}

#[test]
fn of_five_that_race_for_an_expired_lease_over_bad_connections_never_two_may_write() {
    let mut led = 0;
    for seed in seeds(60) {
        led += in_virtual_time(race(seed));
    }
    assert!(
        led > 60,
        "somebody else led now and then, else nothing was tried: {led} changes of hands"
    );
}

async fn race(seed: u64) -> u64 {
    let mut chance = Seeded::new(seed);
    let server = Server::new(TokioClock::shared());
    put_lease(
        &server,
        json!({"holderIdentity": "gone", "leaseDurationSeconds": 15, "leaseTransitions": 3}),
    )
    .await;
    let candidates: Vec<Candidate> = (0..5)
        .map(|nth| {
            let identity = format!("candidate-{seed}-{nth}");
            let interceptor = Interceptor::new(server.router(), &identity);
            let interceptor = if chance.percent(50) {
                interceptor.delayed(slow)
            } else {
                interceptor
            };
            Candidate::start_by(interceptor, &identity, TokioClock::shared())
        })
        .collect();
    for _ in 0..8 {
        for candidate in &candidates {
            candidate
                .interceptor
                .cut(*chance.pick(&[Cut::Nothing, Cut::Nothing, Cut::Everything]));
        }
        watch(&candidates, Duration::from_secs(3 + chance.below(25))).await;
    }
    candidates
        .iter()
        .for_each(|candidate| candidate.interceptor.cut(Cut::Nothing));
    watch(&candidates, 2 * LEASE).await;
    let leading = candidates.iter().filter(|candidate| candidate.leads()).count();
    assert_eq!(leading, 1, "STAGEGATE_SEED={seed}");
    let transitions = record(&server).await["leaseTransitions"].as_u64().unwrap();
    let known = candidates.iter().find_map(Candidate::transitions);
    assert_eq!(known, Some(transitions), "STAGEGATE_SEED={seed}");
    transitions - 3
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_falls_silent_is_replaced_within_the_lease_and_five_seconds() {
    let server = Server::new(TokioClock::shared());
    let mut first = Candidate::start(&server, "first");
    first.until_leading(Duration::from_secs(1)).await;
    assert_eq!(first.transitions(), Some(0));
    let second = Candidate::start(&server, "second");
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(first.standing.may_write() && !second.leads());
    first.kill();
    let killed = Instant::now();
    second.until_leading(TAKEOVER_MAX).await;
    // Two seconds may have passed since the last renewal.
    assert!(
        killed.elapsed() > LEASE - Duration::from_secs(3),
        "{:?}",
        killed.elapsed()
    );
    assert_eq!(second.transitions(), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_by_another_process_at_its_next_look() {
    let server = Server::new(TokioClock::shared());
    let mut candidates = vec![Candidate::start(&server, "first")];
    candidates[0].until_leading(Duration::from_secs(1)).await;
    candidates.push(Candidate::start(&server, "second"));
    watch(&candidates, Duration::from_secs(20)).await;
    candidates[0].release().await;
    let released = record(&server).await;
    assert_eq!(
        (&released["holderIdentity"], &released["leaseDurationSeconds"]),
        (&json!(null), &json!(1))
    );
    assert!(!candidates[0].standing.may_write());
    candidates[1].until_leading(Duration::from_secs(3)).await;
    assert_eq!(candidates[1].transitions(), Some(1));
}

/// Writes every 50 ms, as a controller might that never looks whether it leads.
async fn write_on(client: Client) {
    let api: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    for nth in 0.. {
        let patch = json!({"data": {"nth": format!("{nth}")}});
        let _refused = api.patch("target", &PatchParams::default(), &Patch::Merge(patch)).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_write_leaves_a_process_that_could_not_renew_and_the_same_process_goes_on_when_it_can() {
    let clock = TokioClock::shared();
    let server = Server::new(clock.clone());
    server.log_commits();
    let target = json!({"metadata": {"name": "target", "namespace": NAMESPACE}});
    let api: Api<ConfigMap> = Api::namespaced(server.client(), NAMESPACE);
    let target = serde_json::from_value(target).unwrap();
    api.create(&PostParams::default(), &target).await.unwrap();
    let host = Candidate::start_by(Interceptor::new(server.router(), "host"), "host", clock.clone());
    let writing = tokio::spawn(write_on(guard_writes(
        &host.interceptor.client(),
        WriteGuard::Lease(host.standing.clone()),
    )));
    let written = || -> Vec<Timestamp> {
        let commits = server
            .commits(0)
            .into_iter()
            .filter(|commit| commit.resource == "configmaps");
        let by_host = commits.filter(|commit| matches!(&commit.author, CommitAuthor::Request(it) if it.user == "host"));
        by_host.map(|commit| commit.at).collect()
    };
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(written().len() > 500);
    // Only the renewals fail: every other request of the process would get through.
    host.interceptor.cut(Cut::Leases);
    let cut = clock.now();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let last = *written().last().unwrap();
    let deadline = SignedDuration::from_secs(10);
    assert!(
        last > cut + SignedDuration::from_secs(7) && last <= cut + deadline,
        "{cut} to {last}"
    );
    assert!(!host.leads());
    host.interceptor.cut(Cut::Nothing);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(
        host.leads() && written().last().unwrap() > &last,
        "an outage needs no restart"
    );
    writing.abort();
}

/// How late answers are. Two of them, to a read and to a write, take less than a look at the lease may: two ninths of its duration.
const ANSWERED_AFTER: Duration = Duration::from_millis(1_500);

#[tokio::test(start_paused = true)]
async fn a_holder_counts_from_the_sending_of_a_renewal_and_not_from_its_answer() {
    let clock = TokioClock::shared();
    let server = Server::new(clock.clone());
    // Requests arrive at once; their answers are late.
    let interceptor = Interceptor::new(server.router(), "host").answered(|_| ANSWERED_AFTER);
    let host = Candidate::start_by(interceptor, "host", clock);
    host.until_leading(Duration::from_secs(30)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(host.standing.may_write(), "slow answers cost no lease");
    // The renewal whose answer comes next is the last one that gets through.
    let renewed = record(&server).await["renewTime"].clone();
    while record(&server).await["renewTime"] == renewed {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let sent = Instant::now();
    host.interceptor.cut(Cut::Leases);
    tokio::time::sleep(2 * ANSWERED_AFTER).await;
    assert!(host.standing.may_write(), "it has its answer");
    while host.standing.may_write() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let wrote_for = sent.elapsed();
    assert!(
        wrote_for > LEASE * 2 / 3 - Duration::from_millis(50) && wrote_for <= LEASE * 2 / 3,
        "{wrote_for:?} after the renewal was sent, a third of the lease is not left to whoever takes over"
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_that_hangs_is_given_up_when_the_lease_is_lost() {
    let server = Server::new(TokioClock::shared());
    let host = Candidate::start(&server, "host");
    host.until_leading(Duration::from_secs(1)).await;
    let client = guard_writes(&host.interceptor.client(), WriteGuard::Lease(host.standing.clone()));
    let api: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    host.interceptor.cut(Cut::Everything);
    let begun = Instant::now();
    let params = Default::default();
    let deleting = tokio::time::timeout(Duration::from_secs(60), api.delete("target", &params));
    let error = deleting.await.expect("it is given up").unwrap_err();
    let kube::Error::Service(error) = error else {
        panic!("{error}");
    };
    assert_eq!(error.downcast_ref(), Some(&WriteBlocked::GivenUp));
    assert!(begun.elapsed() <= Duration::from_secs(10), "{:?}", begun.elapsed());
    let reading = tokio::time::timeout(Duration::from_secs(60), api.get("target"));
    host.interceptor.cut(Cut::Nothing);
    assert!(reading.await.is_ok(), "reads need no lease");
}

/// A wall clock that somebody sets.
struct Stepped {
    clock: TokioClock,
    by_s: AtomicI64,
}

impl Clock for Stepped {
    fn now(&self) -> Timestamp {
        self.clock.now() + SignedDuration::from_secs(self.by_s.load(SeqCst))
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_moves_no_lease() {
    let server = Server::new(TokioClock::shared());
    let stepped = |by_s| {
        Arc::new(Stepped {
            clock: TokioClock::starting_now(),
            by_s: AtomicI64::new(by_s),
        })
    };
    // One is a day behind the other.
    let clocks = [stepped(0), stepped(-86_400)];
    let start = |nth: usize, identity: &str| {
        Candidate::start_by(
            Interceptor::new(server.router(), identity),
            identity,
            clocks[nth].clone(),
        )
    };
    let mut candidates = vec![start(0, "first")];
    candidates[0].until_leading(Duration::from_secs(1)).await;
    candidates.push(start(1, "second"));
    for (nth, by_s) in [(0, 3_600), (0, -3_600), (1, 7_200), (0, -200_000), (1, 400_000)] {
        clocks[nth].by_s.store(by_s, SeqCst);
        let nobody = watch(&candidates, Duration::from_secs(40)).await;
        assert_eq!(nobody, Duration::ZERO, "clock {nth} by {by_s} s");
        assert!(candidates[0].leads());
    }
    assert_eq!(record(&server).await["leaseTransitions"], json!(0));
}
