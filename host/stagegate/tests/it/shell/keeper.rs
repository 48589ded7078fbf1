//! What keeps a store in step with the server, alone, on a wire that breaks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use stagegate_clock::TokioClock;
use stagegate_embedded::Server;
use stagegate_runtime::metrics::RuntimeMetrics;
use stagegate_runtime::store::Store;
use stagegate_runtime::watch::{ManagedFields, Need, keep};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::wire::{Fault, Verb, Wire};

const KIND: &str = "configmaps";
const MINUTE: Duration = Duration::from_secs(60);

/// A store of ConfigMaps, what keeps it, and all that it told.
struct Kept {
    server: Server,
    wire: Wire,
    store: Arc<Store<ConfigMap>>,
    told: Arc<Mutex<Vec<Told>>>,
    keeping: JoinHandle<()>,
}

/// A change: which object, and its value after it.
type Told = (String, Option<String>);

impl Drop for Kept {
    fn drop(&mut self) {
        self.keeping.abort();
    }
}

impl Kept {
    /// With `a` and `b` there from the start.
    async fn start() -> Kept {
        let server = Server::new(TokioClock::shared());
        let kept = Self::on(&server);
        kept.write("a", "1").await;
        kept.write("b", "1").await;
        kept.settled(Duration::from_secs(1)).await;
        kept
    }

    fn on(server: &Server) -> Kept {
        let wire = Wire::new(server.router());
        let store: Arc<Store<ConfigMap>> = Arc::default();
        let told: Arc<Mutex<Vec<Told>>> = Arc::default();
        let telling = told.clone();
        store.listen(move |change| {
            let value = change.after.map(|after| value(after));
            telling.lock().unwrap().push((change.id.name.clone(), value));
        });
        let keeping = keep(
            Api::all(wire.client()),
            store.clone(),
            ManagedFields::Dropped,
            RuntimeMetrics::new(&[]).add_watch("configmaps", Need::Always),
        );
        Kept {
            server: server.clone(),
            wire,
            store,
            told,
            keeping: tokio::spawn(keeping),
        }
    }

    fn api(&self) -> Api<ConfigMap> {
        api(&self.server)
    }

    async fn write(&self, name: &str, value: &str) {
        write(&self.api(), name, value).await;
    }

    async fn remove(&self, name: &str) {
        self.api().delete(name, &DeleteParams::default()).await.unwrap();
    }

    fn stored(&self) -> Vec<(String, String)> {
        let objects = self.store.all();
        objects
            .iter()
            .map(|object| (object.name_any(), value(object)))
            .collect()
    }

    async fn served(&self) -> Vec<(String, String)> {
        let objects = self.api().list(&Default::default()).await.unwrap().items;
        objects
            .iter()
            .map(|object| (object.name_any(), value(object)))
            .collect()
    }

    /// Waits until the store is what the server has; says how long it took.
    async fn settled(&self, limit: Duration) -> Duration {
        let begun = Instant::now();
        let served = self.served().await;
        while self.stored() != served || self.store.listed_at().is_none() {
            let took = begun.elapsed();
            assert!(
                took < limit,
                "not right within {limit:?}: {:?}, not {served:?}",
                self.stored()
            );
            sleep(Duration::from_millis(50)).await;
        }
        begun.elapsed()
    }

    fn told(&self) -> Vec<Told> {
        std::mem::take(&mut self.told.lock().unwrap())
    }

    /// The answer to the list as it is now.
    async fn list_now(&self) -> Bytes {
        let client = self.server.client();
        let request = http::Request::get("/api/v1/configmaps").body(Vec::new()).unwrap();
        client.request_text(request).await.unwrap().into()
    }

    /// Makes the running watch end, and the next one be refused for its version.
    fn force_a_list(&self) {
        self.wire.fault(Verb::Watch, KIND, Fault::Status(410));
    }
}

/// Past the wire.
fn api(server: &Server) -> Api<ConfigMap> {
    Api::namespaced(server.client(), "default")
}

/// Creates or changes.
async fn write(api: &Api<ConfigMap>, name: &str, value: &str) {
    let object: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": name}, "data": {"value": value}})).unwrap();
    if api.get_opt(name).await.unwrap().is_some() {
        api.replace(name, &PostParams::default(), &object).await.unwrap();
    } else {
        api.create(&PostParams::default(), &object).await.unwrap();
    }
}

fn value(object: &ConfigMap) -> String {
    let data = object.data.as_ref();
    data.and_then(|data| data.get("value")).cloned().unwrap_or_default()
}

/// What breaks a watch, and within which time all is right again. Until then nothing of what happened was told.
#[tokio::test(start_paused = true)]
async fn whatever_breaks_a_watch_the_store_is_right_again_in_time() {
    let error = |code: u16| Fault::Instead(json!({"type": "ERROR", "object": status(code)}));
    let unreadable = Fault::Instead(json!({"type": "ADDED", "object": {"metadata": 5}}));
    // A fault, how long it stays, and how long it may be felt after it has begun.
    let faults: Vec<(&str, Fault, Duration, Duration)> = vec![
        ("the watch request answered 410", Fault::Status(410), MINUTE, 2 * MINUTE),
        ("the watch request answered 504", Fault::Status(504), MINUTE, 2 * MINUTE),
        ("the watch request answered 500", Fault::Status(500), MINUTE, 2 * MINUTE),
        ("the watch request answered 503", Fault::Status(503), MINUTE, 2 * MINUTE),
        ("the watch request answered 429", Fault::Status(429), MINUTE, 2 * MINUTE),
        ("the watch request answered 404", Fault::Status(404), MINUTE, 2 * MINUTE),
        ("an event replaced by the error 410", error(410), MINUTE, 2 * MINUTE),
        ("an event replaced by the error 500", error(500), MINUTE, 2 * MINUTE),
        ("an event replaced by the error 504", error(504), MINUTE, 2 * MINUTE),
        ("an event that cannot be read", unreadable, MINUTE, 2 * MINUTE),
        ("the watch request never answered", Fault::Hang, MINUTE, 2 * MINUTE),
        ("a silent watch", Fault::Silence, Duration::from_secs(200), 5 * MINUTE),
        ("events swallowed", Fault::Swallow, 5 * MINUTE, 10 * MINUTE),
        (
            "cut every 100 ms",
            Fault::Cut(Duration::from_millis(100)),
            MINUTE,
            2 * MINUTE,
        ),
        ("cut at once", Fault::Cut(Duration::ZERO), MINUTE, 2 * MINUTE),
    ];
    let mut slow = Vec::new();
    let count = faults.len();
    for (name, fault, stays, limit) in faults {
        let kept = Kept::start().await;
        kept.wire.fault(Verb::Watch, KIND, fault);
        // The running watch ends with its time; the fault is on the next one.
        sleep(Duration::from_secs(300)).await;
        let begun = Instant::now();
        kept.write("a", "2").await;
        kept.remove("b").await;
        kept.write("c", "1").await;
        sleep(stays).await;
        kept.wire.mend(Verb::Watch, KIND);
        let served = kept.served().await;
        while kept.stored() != served && begun.elapsed() < 20 * MINUTE {
            sleep(Duration::from_secs(1)).await;
        }
        let took = begun.elapsed();
        if took > limit {
            slow.push(format!("{name}: right again after {took:?}, not within {limit:?}"));
        }
    }
    crate::tell(&format!("broken watches: {count} cases"));
    assert!(slow.is_empty(), "{slow:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_cut_at_once_is_not_begun_in_a_busy_loop_and_loses_nothing() {
    for after in [Duration::from_millis(1), Duration::from_millis(100)] {
        let kept = Kept::start().await;
        kept.wire.fault(Verb::Watch, KIND, Fault::Cut(after));
        sleep(Duration::from_secs(300)).await;
        kept.told();
        let (watches, lists) = (kept.wire.count(Verb::Watch, KIND), kept.wire.count(Verb::List, KIND));
        for change in 0..60 {
            kept.write("a", &format!("changed {change}")).await;
            sleep(Duration::from_secs(1)).await;
        }
        kept.settled(Duration::from_secs(6)).await;
        let begun = kept.wire.count(Verb::Watch, KIND) - watches;
        assert!((5..=25).contains(&begun), "{begun} watches in a minute");
        assert_eq!(
            kept.wire.count(Verb::List, KIND),
            lists,
            "a cut watch goes on from where it was"
        );
        let told: Vec<Told> = (0..60)
            .map(|change| ("a".to_owned(), Some(format!("changed {change}"))))
            .collect();
        assert_eq!(kept.told(), told, "every change is told, once and in order");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_never_comes_is_asked_for_again() {
    let server = Server::new(TokioClock::shared());
    let kept = Kept::on(&server);
    kept.wire.fault(Verb::List, KIND, Fault::Hang);
    kept.write("a", "1").await;
    sleep(Duration::from_secs(40)).await;
    kept.wire.mend(Verb::List, KIND);
    kept.settled(MINUTE).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_older_than_what_was_seen_is_not_taken_in() {
    let kept = Kept::start().await;
    let old = kept.list_now().await;
    kept.write("a", "2").await;
    kept.write("c", "1").await;
    kept.settled(MINUTE).await;
    kept.told();
    let lists = kept.wire.count(Verb::List, KIND);
    kept.wire.fault(Verb::List, KIND, Fault::Replay(old));
    kept.force_a_list();
    sleep(8 * MINUTE).await;
    assert_eq!(kept.told(), [], "an older state was taken in");
    let asked = kept.wire.count(Verb::List, KIND) - lists;
    assert!((5..=100).contains(&asked), "{asked} lists in eight minutes");
    kept.wire.mend(Verb::Watch, KIND);
    kept.wire.mend(Verb::List, KIND);
    kept.remove("b").await;
    kept.settled(Duration::from_secs(10)).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_older_was_restored_and_is_followed_after_ten_minutes() {
    let kept = Kept::start().await;
    let old = kept.list_now().await;
    kept.write("a", "2").await;
    kept.settled(MINUTE).await;
    kept.wire.fault(Verb::List, KIND, Fault::Replay(old));
    kept.force_a_list();
    sleep(9 * MINUTE).await;
    assert_eq!(kept.stored()[0].1, "2");
    sleep(7 * MINUTE).await;
    assert_eq!(kept.stored()[0].1, "1");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_expires_in_the_middle_of_a_list_leads_to_a_whole_list_and_never_to_a_part() {
    let server = Server::new(TokioClock::shared());
    for index in 0..1100 {
        write(&api(&server), &format!("map-{index:04}"), "1").await;
    }
    let kept = Kept::on(&server);
    kept.wire.fault(Verb::List, KIND, Fault::Expire);
    sleep(MINUTE).await;
    assert_eq!(kept.store.all().len(), 0, "a part of a list was taken in");
    assert!(kept.store.listed_at().is_none());
    kept.wire.mend(Verb::List, KIND);
    kept.settled(Duration::from_secs(10)).await;
    let whole = kept.told().len();
    assert_eq!(whole, 1100);
    kept.wire.fault(Verb::List, KIND, Fault::Expire);
    kept.force_a_list();
    sleep(10 * MINUTE).await;
    assert_eq!(kept.told(), [], "what is on a page that did not come is not gone");
}

#[tokio::test(start_paused = true)]
async fn events_that_come_again_change_nothing() {
    let kept = Kept::start().await;
    kept.wire.fault(Verb::Watch, KIND, Fault::Echo);
    sleep(Duration::from_secs(300)).await;
    kept.told();
    for step in 2..6 {
        kept.write("a", &step.to_string()).await;
    }
    kept.remove("b").await;
    kept.write("b", "anew").await;
    kept.remove("a").await;
    kept.settled(MINUTE).await;
    let told = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
    let once = [
        told("a", "2"),
        told("a", "3"),
        told("a", "4"),
        told("a", "5"),
        ("b".to_owned(), None),
        told("b", "anew"),
        ("a".to_owned(), None),
    ];
    assert_eq!(kept.told(), once);
}

#[tokio::test(start_paused = true)]
async fn what_a_server_never_tells_is_found_within_ten_minutes() {
    // From any moment of two rounds of comparisons; of a watch that goes on, and of none that lasts.
    let mut longest = Duration::ZERO;
    for fault in [Fault::Swallow, Fault::Cut(Duration::ZERO)] {
        for after_s in (300..1320).step_by(17) {
            let kept = Kept::start().await;
            kept.wire.fault(Verb::Watch, KIND, fault.clone());
            sleep(Duration::from_secs(after_s)).await;
            kept.write("a", "2").await;
            kept.remove("b").await;
            longest = longest.max(kept.settled(10 * MINUTE).await);
        }
    }
    assert!(longest > 7 * MINUTE, "{longest:?}: the worst moment was not among them");
}

#[tokio::test(start_paused = true)]
async fn comparing_costs_few_lists_and_finds_nothing_amiss_however_much_is_going_on() {
    let kept = Kept::start().await;
    kept.told();
    let (lists, listed_at) = (kept.wire.count(Verb::List, KIND), kept.store.listed_at());
    sleep(180 * MINUTE).await;
    let asked = kept.wire.count(Verb::List, KIND) - lists;
    assert!((18..=26).contains(&asked), "{asked} lists in three quiet hours");
    // The list is ahead of the watch when it comes.
    kept.wire.fault(Verb::List, KIND, Fault::Late(Duration::from_secs(2)));
    for change in 0..3000 {
        kept.write("a", &change.to_string()).await;
        sleep(Duration::from_millis(700)).await;
    }
    kept.settled(MINUTE).await;
    assert_eq!(kept.store.listed_at(), listed_at, "nothing was missed");
    assert_eq!(kept.told().len(), 3000);
}

#[tokio::test(start_paused = true)]
async fn what_a_watch_cannot_tell_a_list_tells_while_the_watch_is_still_broken() {
    let error = |code: u16| Fault::Instead(json!({"type": "ERROR", "object": status(code)}));
    let faults = [
        ("the watch request answered 410", Fault::Status(410)),
        ("the watch request answered 504", Fault::Status(504)),
        ("the watch request answered 500", Fault::Status(500)),
        ("every event replaced by the error 410", error(410)),
        ("every event replaced by the error 500", error(500)),
        (
            "every event unreadable",
            Fault::Instead(json!({"type": "ADDED", "object": {"metadata": 5}})),
        ),
    ];
    for (name, fault) in faults {
        println!("{name}");
        let kept = Kept::start().await;
        kept.wire.fault(Verb::Watch, KIND, fault);
        sleep(Duration::from_secs(300)).await;
        for round in 0..3 {
            kept.write("a", &format!("round {round}")).await;
            kept.settled(Duration::from_secs(30)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_refused_as_too_old_is_asked_for_once_and_then_listed_anew() {
    let kept = Kept::start().await;
    kept.force_a_list();
    sleep(Duration::from_secs(300)).await;
    let (lists, watches) = (kept.wire.count(Verb::List, KIND), kept.wire.count(Verb::Watch, KIND));
    sleep(MINUTE).await;
    let (lists, watches) = (
        kept.wire.count(Verb::List, KIND) - lists,
        kept.wire.count(Verb::Watch, KIND) - watches,
    );
    assert!(
        lists.abs_diff(watches) <= 1 && lists > 5,
        "{lists} lists, {watches} watches"
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_replaced_within_five_minutes_though_nothing_is_missing() {
    let kept = Kept::start().await;
    kept.wire.fault(Verb::Watch, KIND, Fault::Silence);
    sleep(Duration::from_secs(300)).await;
    for _ in 0..6 {
        let watches = kept.wire.count(Verb::Watch, KIND);
        sleep(5 * MINUTE).await;
        assert!(kept.wire.count(Verb::Watch, KIND) > watches, "five minutes of silence");
    }
}

fn status(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "Injected",
        "message": "told on the way"})
}
