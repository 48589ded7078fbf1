//! The charts' values: the schemas are schemas, the defaults satisfy them, and what is wrong is refused.

use jsonschema::Validator;
use serde_json::{Value, json};

use super::read;

pub const CHART: &str = "deploy/helm/stagegate";
pub const DEFINITIONS: &str = "deploy/helm/stagegate-crds";

pub fn schema(chart: &str) -> Value {
    serde_json::from_str(&read(&format!("{chart}/values.schema.json"))).expect("a schema is JSON")
}

pub fn validator(schema: &Value) -> Validator {
    jsonschema::meta::validate(schema).unwrap_or_else(|error| panic!("no JSON schema: {error}"));
    jsonschema::validator_for(schema).unwrap_or_else(|error| panic!("{error}"))
}

pub fn defaults(chart: &str) -> Value {
    serde_saphyr::from_str(&read(&format!("{chart}/values.yaml"))).expect("values are YAML")
}

/// A value put at a path of the defaults; objects on the way are made.
fn with(changes: &[(&str, Value)]) -> Value {
    let mut values = defaults(CHART);
    for (path, value) in changes {
        let place = path.split('.').fold(&mut values, |place, member| &mut place[member]);
        *place = value.clone();
    }
    values
}

/// Whether every object that names its members takes no others.
fn refusing(schema: &Value) -> bool {
    let Some(members) = schema["properties"].as_object() else {
        return true;
    };
    schema["additionalProperties"] == false && members.values().all(refusing)
}

/// The limit is the sum of the rows of the chapter, which says that it is never to be reached.
#[test]
fn the_limit_of_memory_is_what_the_sizes_add_up_to() {
    let text = read("deploy/README.md");
    let sizing = text.split("\n## ").find(|chapter| chapter.starts_with("Sizing\n"));
    let sizing = sizing.expect("a chapter about sizes");
    let number = |before: &str, after: &str| -> u32 {
        let row = sizing.lines().find(|row| row.contains(before) && row.contains(after));
        let row = row.unwrap_or_else(|| panic!("Sizing has no row with {before:?} and {after:?}"));
        let (_, rest) = row.split_once(before).expect("the row contains it");
        let (number, _) = rest
            .split_once(after)
            .unwrap_or_else(|| panic!("{row}: {after:?} comes first"));
        let number = number.replace(',', "");
        number.parse().unwrap_or_else(|error| panic!("{number:?}: {error}"))
    };
    let of_gate = number("by default, ", "Mi at most") + number("and some ", " MiB; never");
    let gates = number("| ", " running gates") * of_gate;
    let others = [
        number("kept in memory | ", " MiB"),
        number("at a time | ", " MiB"),
        number("for 1,000 of them, ", " MiB for 10,000"),
    ];
    let sum = gates + others.into_iter().sum::<u32>();
    let limit = &defaults(CHART)["resources"]["limits"]["memory"];
    let limit = limit.as_str().and_then(|limit| limit.strip_suffix("Gi"));
    let limit: u32 = limit.expect("GiB").parse().expect("a number");
    assert!(
        sum <= limit * 1024 && sum > (limit - 1) * 1024,
        "the sizes add up to {sum} MiB, and the limit is {limit} GiB"
    );
}

#[test]
fn the_defaults_satisfy_their_schemas_which_take_nothing_else() {
    for chart in [CHART, DEFINITIONS] {
        let (schema, values) = (schema(chart), defaults(chart));
        if let Err(error) = validator(&schema).validate(&values) {
            panic!("{chart}: {error} at {}", error.instance_path());
        }
        let refuses_others = refusing(&schema);
        assert!(refuses_others, "{chart}: an object takes members that it does not name");
    }
}

#[test]
fn other_values_are_taken() {
    let validator = validator(&schema(CHART));
    let table = [
        vec![("controllers", json!(["staging", "binding", "combine"]))],
        vec![("controllers", json!(["yurtappdaemon"]))],
        vec![("controllers", json!(["staging", "yurtappdaemon"]))],
        vec![("install", json!("program")), ("kubeconfig.secret", json!("wds"))],
        vec![("install", json!("rights"))],
        vec![("image.repository", json!("registry.example:5000/team/stagegate"))],
        vec![("image.digest", json!(format!("sha256:{}", "a".repeat(64))))],
        vec![("image.repository", json!("localhost:5000/stagegate"))],
        vec![("lease.duration", json!("2s")), ("settle", json!("500ms"))],
        vec![("lease.duration", json!("1000ms")), ("settle", json!("10ms"))],
        vec![("lease.duration", json!("600s")), ("settle", json!("600000ms"))],
        vec![("lease.duration", json!("10m")), ("settle", json!("1m"))],
        vec![("gates.namespaces", json!(["a", "b-1"]))],
        vec![(
            "workloads.rules",
            json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]),
        )],
        vec![("resources.limits.memory", json!("512Mi")), ("replicaCount", json!(1))],
        vec![("networkPolicy.apiServerPorts", json!([9443]))],
        vec![("placementRights.check", json!(false))],
        vec![("stagedUpdates", json!(true))],
        vec![
            ("podAnnotations", json!({"a/b": "c"})),
            ("podLabels", json!({"team": "a"})),
        ],
        vec![(
            "extraEnv",
            json!([{"name": "A", "value": "b"}, {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}]),
        )],
        vec![
            ("serviceAccount.annotations", json!({"a": "b"})),
            ("affinity", json!({"nodeAffinity": {}})),
        ],
        vec![("serviceAccount.name", json!("other"))],
        vec![
            ("serviceAccount.create", json!(false)),
            ("serviceAccount.name", json!("other")),
        ],
        vec![
            ("extraArgs", json!(["--gate-cache=/c"])),
            ("log.level", json!("warn,stagegate::controllers=debug")),
        ],
        vec![("otel.endpoint", json!("http://collector.monitoring.svc:4318"))],
        vec![("otel.endpoint", json!("http://$(HOST_IP):4318/v1"))],
        vec![("otel.endpoint", json!("http://[fd00::1]:4318"))],
        vec![
            ("monitoring.podMonitor.create", json!(true)),
            ("monitoring.podMonitor.interval", json!("1m")),
            ("monitoring.podMonitor.labels", json!({"release": "prometheus"})),
        ],
        vec![("userRoles.create", json!(false))],
        vec![("global", json!({"any": "thing"}))],
    ];
    for changes in table {
        if let Err(error) = validator.validate(&with(&changes)) {
            panic!("{changes:?}: {error} at {}", error.instance_path());
        }
    }
}

#[test]
fn wrong_values_are_refused() {
    let table = [
        ("controllers", json!([])),
        ("controllers", json!(["stage"])),
        ("controllers", json!(["YurtAppDaemon"])),
        ("controllers", json!("staging")),
        ("controllers", json!(["staging", "staging"])),
        ("replicaCount", json!(-1)),
        ("replicaCount", json!("2")),
        ("replicas", json!(2)),
        ("install", json!("pods")),
        // The pods need to know where the rights are, and nobody else does.
        ("install", json!("program")),
        ("kubeconfig.secret", json!("wds")),
        ("kubeconfig.key", json!("a/../b")),
        ("image.repository", json!("")),
        // Two tags would be none that a container runtime takes.
        ("image.repository", json!("registry.example/stagegate:1")),
        ("image.repository", json!("stagegate:1")),
        ("image.tag", json!("a b")),
        ("image.digest", json!("sha256:abc")),
        ("image.pullPolicy", json!("Sometimes")),
        ("settle", json!("3")),
        ("settle", json!(3)),
        // What the program would refuse, too: its pods would never be ready.
        ("settle", json!("9ms")),
        ("settle", json!("0s")),
        ("settle", json!("600001ms")),
        ("settle", json!("601s")),
        ("settle", json!("11m")),
        ("lease.duration", json!("999ms")),
        ("lease.duration", json!("0s")),
        ("lease.duration", json!("601s")),
        ("lease.duration", json!("11m")),
        ("lease.duration", json!("-1s")),
        ("lease.namespace", json!("Upper")),
        ("lease.name", json!("other")),
        ("gates.namespaces", json!([])),
        ("gates.namespaces", json!(["with.dot"])),
        ("gates.namespaces", json!(["a,b"])),
        ("admin.port", json!(80)),
        ("admin.port", json!(70000)),
        ("log.format", json!("xml")),
        ("networkPolicy.apiServerPorts", json!([])),
        ("networkPolicy.apiServerPorts", json!([0])),
        ("networkPolicy.create", json!("yes")),
        ("resources.limits.memory", json!("much")),
        ("resources.limit", json!({})),
        (
            "workloads.rules",
            json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["delete"]}]),
        ),
        ("workloads.rules", json!([{"resources": ["secrets"], "verbs": ["get"]}])),
        ("placementRights.check", json!("no")),
        ("placementRights.deny", json!(true)),
        ("stagedUpdates", json!("yes")),
        ("stagedUpdates", json!({"create": true})),
    ];
    are_refused(&table);
}

#[test]
fn wrong_values_of_the_pods_and_of_what_belongs_to_them_are_refused() {
    let table = [
        ("extraArgs", json!("--gate-cache=/c")),
        ("extraArgs", json!(["gate-cache"])),
        ("extraArgs", json!(["--settle=1s"])),
        ("extraArgs", json!(["--leader-elect"])),
        // The right to the Lease is for one name.
        ("extraArgs", json!(["--lease-name=other"])),
        ("extraEnv", json!([{"value": "b"}])),
        ("extraEnv", json!([{"name": "MALLOC_ARENA_MAX", "value": "8"}])),
        ("extraEnv", json!([{"name": "RUST_LOG", "value": "debug"}])),
        (
            "extraEnv",
            json!([{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://c:4318"}]),
        ),
        ("log.level", json!("verbose")),
        ("log.level", json!("")),
        ("log.level", json!("info stagegate=debug")),
        ("log.levels", json!("info")),
        // Plain HTTP only, and the NetworkPolicy needs the port.
        ("otel.endpoint", json!("https://c:4318")),
        ("otel.endpoint", json!("http://c")),
        ("otel.endpoint", json!("http://c/4318:1")),
        ("otel.endpoint", json!("c:4318")),
        ("monitoring.podMonitor.interval", json!("often")),
        ("monitoring.podMonitor.enabled", json!(true)),
        ("monitoring.serviceMonitor", json!({"create": true})),
        ("monitoring.prometheusRule.create", json!("yes")),
        (
            "monitoring.dashboard.labels",
            json!({"app.kubernetes.io/name": "other"}),
        ),
        // The chart's own, which selectors rest on.
        ("podLabels", json!({"app.kubernetes.io/name": "other"})),
        ("podAnnotations", json!({"a": 1})),
        ("serviceAccount.name", json!("Upper")),
        // Rights for whatever account is there by default would be rights for every pod of the namespace.
        ("serviceAccount.create", json!(false)),
        ("userRoles.create", json!("no")),
        ("affinity", json!([])),
        ("nodeSelector", json!({"a": 1})),
    ];
    are_refused(&table);
}

fn are_refused(table: &[(&str, Value)]) {
    let validator = validator(&schema(CHART));
    for (path, value) in table {
        assert!(
            !validator.is_valid(&with(&[(*path, value.clone())])),
            "{path}: {value} is taken"
        );
    }
}

#[test]
fn the_chart_of_definitions_takes_known_groups_of_them_and_at_least_one() {
    let validator = validator(&schema(DEFINITIONS));
    let with = |definitions: Value| json!({"definitions": definitions, "keep": true});
    for taken in [
        json!(["staging"]),
        json!(["workloads"]),
        json!(["staging", "workloads"]),
    ] {
        assert!(validator.is_valid(&with(taken.clone())), "{taken} is refused");
    }
    for refused in [
        json!([]),
        json!(["yurtappdaemon"]),
        json!(["workloads", "workloads"]),
        json!("workloads"),
        json!(true),
    ] {
        assert!(!validator.is_valid(&with(refused.clone())), "{refused} is taken");
    }
}

#[test]
fn the_charts_have_the_programs_version() {
    for chart in [CHART, DEFINITIONS] {
        let described: Value = serde_saphyr::from_str(&read(&format!("{chart}/Chart.yaml"))).expect("a chart is YAML");
        let text = |name: &str| described[name].as_str().map(str::to_owned);
        assert_eq!(
            text("appVersion").as_deref(),
            Some(env!("CARGO_PKG_VERSION")),
            "{chart}"
        );
        assert_eq!(text("version"), text("appVersion"), "{chart}");
    }
}
