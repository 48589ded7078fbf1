//! What the queue promises, under paused time.

use std::collections::BTreeMap;
use std::time::Duration;

use stagegate_runtime::queue::{Ended, Queue};
use tokio::time::{Instant, timeout};

const DONE: Ended = Ended::Done { wake_in: None };

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

async fn none_within(queue: &Queue<u32>, wait: Duration) -> bool {
    timeout(wait, queue.next()).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn a_debounce_counts_from_the_first_change_and_is_not_armed_again() {
    let queue = Queue::new(ms(2000));
    let start = Instant::now();
    queue.add(1);
    tokio::time::sleep(ms(1500)).await;
    queue.add(1);
    assert_eq!(queue.next().await, 1);
    assert_eq!(start.elapsed(), ms(2000));
    queue.end(&1, DONE);
    assert!(
        none_within(&queue, ms(10_000)).await,
        "both changes were taken in together"
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_handed_out_is_handed_out_to_nobody_else_and_comes_again_after_a_change() {
    let queue = Queue::new(Duration::ZERO);
    queue.add(1);
    assert_eq!(queue.next().await, 1);
    queue.add(1);
    assert!(none_within(&queue, ms(60_000)).await, "it is still being worked on");
    queue.end(&1, DONE);
    assert_eq!(queue.next().await, 1);
    queue.end(&1, DONE);
    assert!(none_within(&queue, ms(60_000)).await);
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_comes_without_an_event_and_an_event_comes_before_it() {
    let queue = Queue::new(Duration::ZERO);
    queue.add(1);
    queue.next().await;
    queue.end(
        &1,
        Ended::Done {
            wake_in: Some(ms(3000)),
        },
    );
    let start = Instant::now();
    assert_eq!(queue.next().await, 1);
    assert_eq!(start.elapsed(), ms(3000));
    queue.end(
        &1,
        Ended::Done {
            wake_in: Some(ms(3000)),
        },
    );
    tokio::time::sleep(ms(1000)).await;
    queue.add(1);
    assert_eq!(queue.next().await, 1);
    assert_eq!(start.elapsed(), ms(4000));
    queue.end(&1, DONE);
    assert!(
        none_within(&queue, ms(60_000)).await,
        "the wake-up was for the state that the event replaced"
    );
}

#[tokio::test(start_paused = true)]
async fn failures_are_put_off_from_5_ms_doubling_to_a_minute_and_a_success_forgets_them() {
    let queue = Queue::new(Duration::ZERO);
    queue.add(1);
    let mut delays = Vec::new();
    for _ in 0..16 {
        let start = Instant::now();
        queue.next().await;
        delays.push(start.elapsed());
        queue.end(&1, Ended::Failed);
    }
    assert_eq!(delays[1..4], [ms(5), ms(10), ms(20)]);
    assert_eq!(delays[14..], [ms(40_960), ms(60_000)]);
    queue.next().await;
    queue.end(&1, DONE);
    queue.add(1);
    queue.next().await;
    queue.end(&1, Ended::Failed);
    let start = Instant::now();
    queue.next().await;
    assert_eq!(start.elapsed(), ms(5));
}

#[tokio::test(start_paused = true)]
async fn an_event_brings_a_failing_key_back_sooner_but_never_faster_than_once_a_second() {
    let queue = Queue::new(Duration::ZERO);
    queue.add(1);
    for _ in 0..14 {
        queue.next().await;
        queue.end(&1, Ended::Failed);
    }
    let start = Instant::now();
    queue.add(1);
    queue.next().await;
    assert_eq!(
        start.elapsed(),
        ms(1000),
        "not after the 40 s of its back-off, and not at once"
    );
}

#[tokio::test(start_paused = true)]
async fn one_key_that_fails_for_ever_holds_up_no_other() {
    let queue = Queue::new(Duration::ZERO);
    let mut turns = BTreeMap::new();
    queue.add(1);
    queue.add(2);
    let end = Instant::now() + ms(1000);
    while Instant::now() < end {
        let Ok(key) = timeout(ms(50), queue.next()).await else {
            continue;
        };
        *turns.entry(key).or_insert(0) += 1;
        let ended = if key == 1 {
            Ended::Failed
        } else {
            Ended::Done { wake_in: Some(ms(10)) }
        };
        queue.end(&key, ended);
    }
    assert!(turns[&2] > 90, "{turns:?}");
    assert!(turns[&1] < 10, "{turns:?}");
}
