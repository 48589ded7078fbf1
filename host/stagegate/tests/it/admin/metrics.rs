//! The numbers after a rollout: that they are true, that they are few, and that `deploy/metrics.md` knows each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::api::DeleteParams;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use stagegate::policy_series::{POLICIES_MAX, PolicyProgress, PolicySeries};
use stagegate_api::{Phase, StagedBindingPolicy};
use stagegate_clock::TokioClock;

use super::{asked, serve};
use crate::harness::{policy, shop, workload};
use crate::shell::world::{World, three_stages};

/// Most series of one process, whatever it watches.
const SERIES_MAX: usize = 1_500;

struct Family {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

/// The text as families, and the value of each series.
fn parsed(text: &str) -> (BTreeMap<String, Family>, BTreeMap<String, f64>) {
    let (mut families, mut series) = (BTreeMap::<String, Family>::new(), BTreeMap::new());
    let mut current = String::new();
    assert!(text.ends_with("# EOF\n"), "no end mark");
    assert_eq!(text.matches("# EOF").count(), 1);
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            current = name.to_owned();
            let family = Family {
                kind: String::new(),
                help: help.trim_end_matches('.').to_owned(),
                labels: BTreeSet::new(),
            };
            assert!(families.insert(current.clone(), family).is_none(), "{name} twice");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            families.get_mut(&current).unwrap().kind = rest.split_once(' ').unwrap().1.to_owned();
        } else {
            let (of, value) = line.rsplit_once(' ').unwrap();
            assert!(of.starts_with(&current), "{line} is none of {current}");
            series.insert(of.to_owned(), value.parse().unwrap());
            let labels = of
                .split_once('{')
                .map_or("", |(_, labels)| labels.trim_end_matches('}'));
            let names = labels
                .split("\",")
                .filter_map(|pair| Some(pair.split_once('=')?.0.to_owned()));
            families.get_mut(&current).unwrap().labels.extend(names);
        }
    }
    (families, series)
}

/// As a client of Prometheus shows it: of a counter and of an info with their endings.
fn shown(name: &str, kind: &str) -> String {
    match kind {
        "counter" => format!("{name}_total"),
        "info" => format!("{name}_info"),
        _ => name.to_owned(),
    }
}

fn table(families: &BTreeMap<String, Family>) -> String {
    let mut text = "\
# Metrics

What `/metrics` of the port of `--admin-address` serves, as OpenMetrics text. Written by a test from what is served. Except for
`policy`, and for `stage` beside it, no label has a value that users or clusters choose: how many series there are depends on the
program alone. The metrics with the label `policy` are served with `--metrics-per-policy` only, for the first 1,000 policies by name: at
most 10,000 series. [operations.md](../docs/operations.md#alerts) says which of all these to alert on.

| metric | type | labels | what it says |
| --- | --- | --- | --- |
"
    .to_owned();
    for (name, family) in families {
        let labels: Vec<String> = family
            .labels
            .iter()
            .filter(|label| *label != "le")
            .map(|label| format!("`{label}`"))
            .collect();
        let name = shown(name, &family.kind);
        writeln!(
            text,
            "| `{name}` | {} | {} | {} |",
            family.kind,
            labels.join(", "),
            family.help
        )
        .unwrap();
    }
    text
}

/// The three-stage sample, to its end.
async fn roll_out(world: &World) {
    for text in three_stages() {
        world.create(&text).await;
    }
    world
        .until_phase("nginx", Phase::Completed, Duration::from_secs(60))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_numbers_of_a_rollout_are_true_and_few_and_the_table_of_them_is_fresh() {
    let world = World::start().await;
    let port = serve(&world.running).await;
    roll_out(&world).await;
    let (code, text) = asked(port.address, "/metrics").await;
    assert_eq!(code, 200);
    let (_, series) = parsed(&text);
    let value = |of: &str| *series.get(of).unwrap_or_else(|| panic!("no {of} in\n{text}"));

    assert_eq!(value("stagegate_stages_opened_total"), 3.0);
    assert_eq!(value("stagegate_transition_duration_seconds_count"), 3.0);
    assert_eq!(value("stagegate_policies{phase=\"Completed\"}"), 1.0);
    assert_eq!(value("stagegate_policies{phase=\"Progressing\"}"), 0.0);
    assert!(value("stagegate_gate_verdicts_total{outcome=\"pass\"}") >= 1.0);
    assert!(value("stagegate_gate_verdicts_total{outcome=\"hold\"}") >= 1.0);
    assert_eq!(value("stagegate_sandbox_children"), 1.0);
    assert_eq!(value("stagegate_sandbox_kills_total"), 0.0);
    let counters = world.counters();
    assert!(value("stagegate_writes_total") >= 7.0 && counters.writes as f64 >= value("stagegate_writes_total"));
    assert_eq!(value("stagegate_cel_evaluations_total"), counters.evaluations as f64);
    assert_eq!(
        value("stagegate_cel_evaluation_duration_seconds_count"),
        counters.evaluations as f64
    );
    assert_eq!(value("stagegate_watch_lists_total{kind=\"bindings\"}"), 1.0);
    assert_eq!(value("stagegate_watch_listed{kind=\"bindings\"}"), 1.0);
    assert!(value("stagegate_watch_last_event_age_seconds{kind=\"bindings\"}") < 60.0);
    assert!(value("stagegate_reconciles_total{controller=\"staging\",outcome=\"done\"}") >= 6.0);
    assert_eq!(
        value("stagegate_reconciles_total{controller=\"staging\",outcome=\"panic\"}"),
        0.0
    );
    let created = "stagegate_api_requests_total{verb=\"create\",kind=\"bindingpolicies\",code=\"2xx\"}";
    assert_eq!(value(created), 3.0);
    assert!(value("process_resident_memory_bytes") > 1e6);
    assert!(value("process_start_time_seconds") > 1.7e9);

    assert!(series.len() < SERIES_MAX, "{} series", series.len());
    for chosen in ["nginx", "dev-1", "test-1", "min-available", "shop", "deployments"] {
        assert!(!text.contains(chosen), "{chosen} is a name that a user chose");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_of_metrics_has_what_is_served_and_rules_and_panels_read_nothing_else() {
    let world = World::start_with_series_of_each_policy().await;
    let port = serve(&world.running).await;
    roll_out(&world).await;
    world.create(&policy("waits")).await;
    world
        .until("waits", Duration::from_secs(30), |policy| policy.status.is_some())
        .await;
    let (_, text) = asked(port.address, "/metrics").await;
    let (families, _) = parsed(&text);
    let path = root().join("deploy/metrics.md");
    let fresh = table(&families);
    if std::env::var_os("STAGEGATE_WRITE").is_some() {
        std::fs::write(&path, &fresh).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap();
    assert_eq!(known, fresh, "STAGEGATE_WRITE=1 writes it anew");

    let served: BTreeSet<String> = families
        .iter()
        .flat_map(|(name, family)| {
            let of_histogram = ["_bucket", "_count", "_sum"].map(|part| format!("{name}{part}"));
            let is_histogram = family.kind == "histogram";
            let parts = of_histogram.into_iter().filter(move |_| is_histogram);
            parts.chain([shown(name, &family.kind)])
        })
        .collect();
    for file in ["deploy/monitoring/alerts.yaml", "deploy/monitoring/dashboard.json"] {
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        let named = metrics_in(&text);
        assert!(named.len() > 5, "{file} reads {named:?}");
        let unknown: Vec<&String> = named.difference(&served).collect();
        assert!(unknown.is_empty(), "{file} reads {unknown:?}, which are not served");
    }
    world.stop().await;
}

/// Words that begin as the names of our metrics do.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    let is_metric = |word: &&str| word.starts_with("stagegate_") || word.starts_with("process_");
    words.filter(is_metric).map(str::to_owned).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_policy_has_series_of_its_own_for_those_who_ask_until_it_is_deleted() {
    let world = World::start_with_series_of_each_policy().await;
    let port = serve(&world.running).await;
    world.create(&shop()).await;
    world.create(&workload("web")).await;
    world.create(&policy("web")).await;
    world.create(&policy("waits")).await;
    world
        .until_phase("web", Phase::Completed, Duration::from_secs(60))
        .await;
    let (_, text) = asked(port.address, "/metrics").await;
    let (_, series) = parsed(&text);
    let phase =
        |policy: &str, phase: &str| series[&format!("stagegate_policy_phase{{policy=\"{policy}\",phase=\"{phase}\"}}")];
    assert_eq!(
        [
            "Progressing",
            "Holding",
            "Paused",
            "Completed",
            "Failed",
            "Stalled",
            "None",
            "InvalidObject"
        ]
        .map(|name| phase("web", name)),
        [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    );
    assert_eq!(phase("waits", "Completed"), 0.0);
    let of_stage = |policy: &str| {
        let prefix = format!("stagegate_policy_stage_seconds{{policy=\"{policy}\"");
        let found = series.iter().find(|(name, _)| name.starts_with(&prefix));
        found.map(|(_, seconds)| *seconds)
    };
    assert_eq!(of_stage("web"), None);
    assert!(
        of_stage("waits").is_some_and(|seconds| (0.0..60.0).contains(&seconds)),
        "{text}"
    );
    let moved = "stagegate_policy_last_transition_timestamp_seconds";
    assert!(series[&format!("{moved}{{policy=\"web\"}}")] > 1.7e9);
    assert_eq!(series["stagegate_policies_without_series"], 0.0);

    let policies: Api<StagedBindingPolicy> = Api::all(world.client.clone());
    policies.delete("waits", &DeleteParams::default()).await.unwrap();
    let gone = async {
        while asked(port.address, "/metrics").await.1.contains("policy=\"waits\"") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.unwrap();
    world.stop().await;
}

#[test]
fn of_more_policies_than_the_bound_the_first_by_name_have_series_and_the_others_are_counted() {
    let all = Shown(PolicySeries::new(TokioClock::shared()));
    for number in (0..POLICIES_MAX + 5).rev() {
        all.0.set(&format!("p{number:04}"), Some(PolicyProgress::UNREADABLE));
    }
    let series = all.shown();
    assert_eq!(series["policies_without_series"], 5.0);
    let moved = series.keys().filter(|name| name.starts_with("policy_last_transition"));
    let moved: Vec<&String> = moved.collect();
    assert_eq!(moved.len(), POLICIES_MAX);
    assert!(
        moved[0].contains("p0000") && moved[POLICIES_MAX - 1].contains("p0999"),
        "{moved:?}"
    );
}

#[test]
fn a_policy_waits_for_its_stage_from_its_placement_or_the_last_move_or_its_creation_on() {
    let clock = TokioClock::starting_at("2026-01-01T01:00:00Z".parse().unwrap());
    let all = Shown(PolicySeries::new(Arc::new(clock)));
    let placed = json!({"name": "test", "state": "Active", "placedAt": "2026-01-01T00:30:00Z"});
    let passed = json!({"name": "dev", "state": "Passed", "placedAt": "2026-01-01T00:10:00Z", "passedAt": "2026-01-01T00:20:00Z"});
    let pending = json!({"name": "test", "state": "Pending"});
    let status = |phase: &str, last: &Value| json!({"phase": phase, "activeStage": "test", "stages": [&passed, last]});
    let table = [
        ("new", Value::Null, Some(("", 3_600.0)), 0.0),
        (
            "placed",
            status("Progressing", &placed),
            Some(("test", 1_800.0)),
            1_800.0,
        ),
        ("pending", status("Stalled", &pending), Some(("test", 2_400.0)), 2_400.0),
        ("done", status("Completed", &placed), None, 1_800.0),
    ];
    for (name, status, ..) in &table {
        let mut policy: StagedBindingPolicy = serde_saphyr::from_str(&policy(name)).unwrap();
        policy.metadata.creation_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        policy.status = serde_json::from_value(status.clone()).unwrap();
        all.0.set(name, Some(PolicyProgress::of(&policy)));
    }
    let series = all.shown();
    for (name, _, waits, moved_before) in table {
        let prefix = format!("policy_stage_seconds{{policy=\"{name}\"");
        let found = series.iter().find(|(of, _)| of.starts_with(&prefix));
        let found = found.map(|(of, seconds)| (of.clone(), seconds.round()));
        let expected = waits.map(|(stage, seconds)| (format!("{prefix},stage=\"{stage}\"}}"), seconds));
        assert_eq!(found, expected, "{name}");
        let moved = series[&format!("policy_last_transition_timestamp_seconds{{policy=\"{name}\"}}")];
        let expected = if moved_before == 0.0 {
            0.0
        } else {
            1_767_229_200.0 - moved_before
        };
        assert_eq!(moved, expected, "{name}");
    }
}

#[derive(Debug)]
struct Shown(Arc<PolicySeries>);

impl Shown {
    fn shown(self) -> BTreeMap<String, f64> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        parsed(&text).1
    }
}

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        self.0.encode(&mut encoder)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_policies_are_no_more_series() {
    let world = World::start().await;
    let port = serve(&world.running).await;
    world.create(&shop()).await;
    let series = async |names: &[&str]| {
        for name in names {
            world.create(&workload(name)).await;
            world.create(&policy(name)).await;
        }
        for name in names {
            world.until_phase(name, Phase::Completed, Duration::from_secs(60)).await;
        }
        let (_, text) = asked(port.address, "/metrics").await;
        parsed(&text).1.into_keys().collect::<BTreeSet<String>>()
    };
    let few = series(&["one", "two", "three"]).await;
    let many = series(&["four", "five", "six", "seven", "eight", "nine", "ten"]).await;
    // Codes and outcomes that had not come up before may come up; they are words of the program.
    let added: Vec<&String> = many
        .difference(&few)
        .filter(|of| !of.contains("code=") && !of.contains("le="))
        .collect();
    assert_eq!(added, Vec::<&String>::new());
}
