//! The charts, rendered by the real Helm and compared with what kustomize renders, object by object and field by field. Helm is
//! the program that the environment variable `HELM` names; without it this is skipped, and says so.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use serde_json::Value;

use super::{BASE, HOSTING, NODE_POOLS, PLAIN, Rendered, WDS, identity, printed, read, root};

/// Of a server that the charts are made for: without one Helm renders for a version of its own.
const KUBE_VERSION: &str = "1.34.1";

/// Each of the two says that it is the one.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The release.
const INSTANCE: &str = "app.kubernetes.io/instance";

fn helm(chart: &str, settings: &[&str]) -> Option<Output> {
    let Some(helm) = std::env::var_os("HELM") else {
        crate::tell("SKIPPED: HELM does not name the program; the charts were not rendered");
        return None;
    };
    let mut command = Command::new(&helm);
    command
        .args(["template", "stagegate"])
        .arg(root().join("deploy/helm").join(chart))
        .args(["--namespace", "stagegate-system", "--kube-version", KUBE_VERSION]);
    for setting in settings {
        command.args(["--set-json", setting]);
    }
    Some(command.output().unwrap_or_else(|error| panic!("{helm:?}: {error}")))
}

/// What Helm makes of the chart stagegate with these values, or says of them.
pub fn chart_with(values: &Value) -> Option<Output> {
    let members = values.as_object().into_iter().flatten();
    let settings: Vec<String> = members.map(|(name, value)| format!("{name}={value}")).collect();
    helm("stagegate", &settings.iter().map(String::as_str).collect::<Vec<_>>())
}

pub fn rendered(chart: &str, settings: &[&str]) -> Option<Rendered> {
    let output = helm(chart, settings)?;
    let from = format!("helm template {chart} {settings:?}");
    let text = printed(&output, &from);
    Some(Rendered::new(from, &text))
}

/// By kind and name, without what a chart has on top: Helm's labels, and the mark of what is not uninstalled.
pub fn objects(rendered: &Rendered) -> BTreeMap<String, Value> {
    let mut objects = BTreeMap::new();
    for object in rendered.all() {
        let mut object = object.clone();
        if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
            labels.retain(|name, _| name != "helm.sh/chart" && name != MANAGED_BY);
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            let is_keep = metadata.get("annotations") == Some(&serde_json::json!({"helm.sh/resource-policy": "keep"}));
            if is_keep {
                metadata.remove("annotations");
            }
        }
        let twice = objects.insert(identity(&object), object);
        assert!(twice.is_none(), "{}: twice: {twice:?}", rendered.from);
    }
    objects
}

/// Every leaf that differs, by its path.
pub fn differences(path: &str, left: &Value, right: &Value, found: &mut Vec<String>) {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let names: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for name in names {
                let of = |side: &serde_json::Map<String, Value>| side.get(name).cloned().unwrap_or_default();
                differences(&format!("{path}/{name}"), &of(left), &of(right), found);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                differences(&format!("{path}/{index}"), left, right, found);
            }
        }
        _ if left == right => {}
        _ => found.push(format!("{path}: {left} and {right}")),
    }
}

/// How kustomize is asked for a folder.
type Render = fn(&str) -> Option<Rendered>;

#[test]
fn the_chart_renders_what_kustomize_renders() {
    let pods = r#"install="program""#;
    let to_wds = r#"kubeconfig={"secret":"stagegate-wds"}"#;
    let rights = r#"install="rights""#;
    let all = r#"controllers=["staging","binding","combine"]"#;
    let pools = r#"controllers=["yurtappdaemon"]"#;
    let staged = "stagedUpdates=true";
    let monitored =
        r#"monitoring={"podMonitor":{"create":true},"prometheusRule":{"create":true},"dashboard":{"create":true}}"#;
    let (plain, with_component) = (Rendered::by_kustomize, Rendered::with_staged_updates);
    let with_monitoring = Rendered::with_monitoring;
    let table: [(Render, &str, &[&str]); 15] = [
        (plain, BASE, &[]),
        (plain, HOSTING, &[pods, to_wds]),
        (plain, WDS, &[rights]),
        (plain, PLAIN, &[all]),
        (plain, NODE_POOLS, &[pools]),
        (with_component, BASE, &[staged]),
        (with_component, WDS, &[rights, staged]),
        (with_component, PLAIN, &[all, staged]),
        (with_monitoring, BASE, &[monitored]),
        (with_monitoring, HOSTING, &[pods, to_wds, monitored]),
        (with_monitoring, PLAIN, &[all, monitored]),
        (with_monitoring, NODE_POOLS, &[pools, monitored]),
        // There are no pods to monitor.
        (plain, WDS, &[rights, monitored]),
        // Nothing of it belongs where only the pods are.
        (plain, HOSTING, &[pods, to_wds, staged]),
        // Nor where there are no policies.
        (plain, NODE_POOLS, &[pools, staged]),
    ];
    let mut fields = 0;
    for (kustomize, folder, settings) in table {
        let (Some(kustomize), Some(helm)) = (kustomize(folder), rendered("stagegate", settings)) else {
            return;
        };
        let (mut left, right) = (objects(&kustomize), objects(&helm));
        // The release's own namespace is there before the chart, and definitions are not the chart's.
        left.retain(|name, _| name != "Namespace /stagegate-system" && !name.starts_with("CustomResourceDefinition"));
        let mut found = Vec::new();
        if let Some(pods) = left.get_mut("Deployment stagegate-system/stagegate") {
            let labels = pods["spec"]["template"]["metadata"]["labels"].as_object_mut();
            labels.into_iter().for_each(|labels| drop(labels.remove(MANAGED_BY)));
        }
        for name in left.keys().chain(right.keys()) {
            let (of, to) = (left.get(name), right.get(name));
            let none = Value::Null;
            differences(name, of.unwrap_or(&none), to.unwrap_or(&none), &mut found);
        }
        found.sort();
        found.dedup();
        assert!(
            found.is_empty(),
            "{} and {}:\n{}",
            kustomize.from,
            helm.from,
            found.join("\n")
        );
        fields += left.values().map(leaves).sum::<usize>();
    }
    crate::tell(&format!("kustomize and Helm: {fields} fields alike"));
    assert!(fields > 500, "only {fields} fields were compared");
}

fn leaves(value: &Value) -> usize {
    match value {
        Value::Object(members) => members.values().map(leaves).sum(),
        Value::Array(items) => items.iter().map(leaves).sum(),
        _ => 1,
    }
}

/// What the chart of definitions is asked for, and the generated files that hold it.
const DEFINITIONS: [(&[&str], &[&str]); 3] = [
    (&[], &["deploy/crds/stagedbindingpolicies.yaml"]),
    (
        &[r#"definitions=["workloads"]"#],
        &["deploy/crds/workloads/yurtappdaemons.yaml"],
    ),
    (
        &[r#"definitions=["staging","workloads"]"#],
        &[
            "deploy/crds/stagedbindingpolicies.yaml",
            "deploy/crds/workloads/yurtappdaemons.yaml",
        ],
    ),
];

#[test]
fn the_definitions_chart_renders_the_generated_files_that_it_is_asked_for_and_keeps_them() {
    for (settings, files) in DEFINITIONS {
        let Some(helm) = rendered("stagegate-crds", settings) else {
            return;
        };
        let mut generated = BTreeMap::new();
        for path in files {
            generated.extend(objects(&Rendered::new((*path).to_owned(), &read(path))));
        }
        let mut installed = objects(&helm);
        for definition in installed.values_mut() {
            let labels = definition["metadata"]["labels"].as_object_mut();
            let instance = labels.and_then(|labels| labels.remove(INSTANCE));
            assert_eq!(
                instance,
                Some("stagegate".into()),
                "{settings:?}: only who installs knows it"
            );
        }
        assert_eq!(installed, generated, "{settings:?}");
        for definition in helm.all() {
            assert_eq!(
                definition["metadata"]["annotations"]["helm.sh/resource-policy"], "keep",
                "{settings:?}"
            );
        }
        let Some(gone) = rendered("stagegate-crds", &[settings, &["keep=false"]].concat()) else {
            return;
        };
        assert!(
            gone.all()
                .all(|definition| definition["metadata"]["annotations"].is_null()),
            "{settings:?}"
        );
    }
}

#[test]
fn the_definitions_chart_holds_every_file_that_is_generated() {
    let below = |folder: &str| -> Vec<String> {
        let folder = root().join(folder);
        let relative = |path: &std::path::PathBuf| {
            let path = path.strip_prefix(&folder).expect("it is below the folder");
            path.display().to_string()
        };
        let mut names: Vec<String> = super::manifests(&folder).iter().map(relative).collect();
        names.sort();
        names
    };
    let files = below("deploy/crds");
    assert_eq!(below("deploy/helm/stagegate-crds/files/crds"), files);
    assert_eq!(files, ["stagedbindingpolicies.yaml", "workloads/yurtappdaemons.yaml"]);
    for name in files {
        // The chart takes a file for one definition.
        let text = read(&format!("deploy/crds/{name}"));
        assert_eq!(Rendered::new(name.clone(), &text).all().count(), 1, "{name}");
    }
}

/// Settings, and the kind of the object they reach, where, and as what.
const REACHED: [(&[&str], &str, &str, &str); 20] = [
    (
        &["image={\"repository\":\"r/s\",\"tag\":\"9\"}"],
        "Deployment",
        "/spec/template/spec/containers/0/image",
        "\"r/s:9\"",
    ),
    (
        &[
            "image={\"repository\":\"r/s\",\"digest\":\"sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}",
        ],
        "Deployment",
        "/spec/template/spec/containers/0/image",
        "\"r/s@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"",
    ),
    (&["replicaCount=3"], "Deployment", "/spec/replicas", "3"),
    (
        &["settle=\"5s\""],
        "Deployment",
        "/spec/template/spec/containers/0/args/2",
        "\"--settle=5s\"",
    ),
    (
        &["gates={\"namespaces\":[\"a\",\"b\"]}"],
        "Deployment",
        "/spec/template/spec/containers/0/args/3",
        "\"--gate-namespaces=a,b\"",
    ),
    (
        &["lease={\"namespace\":\"l\"}"],
        "Deployment",
        "/spec/template/spec/containers/0/args/5",
        "\"--lease-namespace=l\"",
    ),
    (&["admin={\"port\":9000}"], "Service", "/spec/ports/0/port", "9000"),
    (
        &["imagePullSecrets=[\"p\"]"],
        "Deployment",
        "/spec/template/spec/imagePullSecrets",
        "[{\"name\":\"p\"}]",
    ),
    (
        &["networkPolicy={\"apiServerPorts\":[9443]}"],
        "NetworkPolicy",
        "/spec/egress/1/ports",
        "[{\"port\":9443,\"protocol\":\"TCP\"}]",
    ),
    (
        &["lease={\"duration\":\"30s\"}"],
        "Deployment",
        "/spec/template/spec/containers/0/args/6",
        "\"--lease-duration=30s\"",
    ),
    (
        &["log={\"format\":\"text\"}"],
        "Deployment",
        "/spec/template/spec/containers/0/args/8",
        "\"--log-format=text\"",
    ),
    (
        &["nodeSelector={\"disk\":\"fast\"}"],
        "Deployment",
        "/spec/template/spec/nodeSelector",
        "{\"disk\":\"fast\"}",
    ),
    (
        &["tolerations=[{\"key\":\"k\",\"operator\":\"Exists\"}]"],
        "Deployment",
        "/spec/template/spec/tolerations",
        "[{\"key\":\"k\",\"operator\":\"Exists\"}]",
    ),
    (
        &["podAnnotations={\"a\":\"b\"}"],
        "Deployment",
        "/spec/template/metadata/annotations",
        "{\"a\":\"b\"}",
    ),
    (
        &["podLabels={\"team\":\"a\"}"],
        "Deployment",
        "/spec/template/metadata/labels/team",
        "\"a\"",
    ),
    (
        &["extraEnv=[{\"name\":\"A\",\"value\":\"b\"}]"],
        "Deployment",
        "/spec/template/spec/containers/0/env/2",
        "{\"name\":\"A\",\"value\":\"b\"}",
    ),
    (
        &["serviceAccount={\"annotations\":{\"a\":\"b\"}}"],
        "ServiceAccount",
        "/metadata/annotations",
        "{\"a\":\"b\"}",
    ),
    (
        &["affinity={\"nodeAffinity\":{}}"],
        "Deployment",
        "/spec/template/spec/affinity",
        "{\"nodeAffinity\":{}}",
    ),
    (
        &["priorityClassName=\"high\""],
        "Deployment",
        "/spec/template/spec/priorityClassName",
        "\"high\"",
    ),
    (
        &["resources={\"limits\":{\"memory\":\"3Gi\"}}"],
        "Deployment",
        "/spec/template/spec/containers/0/resources/limits/memory",
        "\"3Gi\"",
    ),
];

#[test]
fn values_reach_what_they_are_for() {
    for (settings, kind, pointer, expected) in REACHED {
        let Some(rendered) = rendered("stagegate", settings) else {
            return;
        };
        let object = rendered.find(kind, "stagegate").expect(kind);
        let found = object.pointer(pointer).unwrap_or(&Value::Null);
        assert_eq!(found.to_string(), expected, "{settings:?}");
        if let Some(deployment) = rendered.deployment() {
            super::pods::parsed(deployment);
        }
    }
    for (setting, kind) in [
        ("networkPolicy={\"create\":false}", "NetworkPolicy"),
        ("disruptionBudget={\"create\":false}", "PodDisruptionBudget"),
        ("placementRights={\"check\":false}", "ValidatingAdmissionPolicy"),
        ("placementRights={\"check\":false}", "ValidatingAdmissionPolicyBinding"),
    ] {
        let (Some(with), Some(without)) = (rendered("stagegate", &[]), rendered("stagegate", &[setting])) else {
            return;
        };
        assert_eq!(
            (with.of_kind(kind).len(), without.of_kind(kind).len()),
            (1, 0),
            "{setting}"
        );
    }
    let Some(more) = rendered(
        "stagegate",
        &["workloads={\"rules\":[{\"apiGroups\":[\"\"],\"resources\":[\"secrets\"],\"verbs\":[\"get\"]}]}"],
    ) else {
        return;
    };
    let role = more
        .find("ClusterRole", "stagegate-workloads-more")
        .expect("the rules have a role");
    assert_eq!(role["rules"][0]["resources"][0], "secrets");
    let binding = more
        .find("ClusterRoleBinding", "stagegate-workloads-more")
        .expect("the role is bound");
    assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
}

#[test]
fn every_object_has_the_labels_that_kubernetes_recommends() {
    let everything = [
        r#"controllers=["staging","binding","combine","yurtappdaemon"]"#,
        "stagedUpdates=true",
        r#"monitoring={"podMonitor":{"create":true},"prometheusRule":{"create":true},"dashboard":{"create":true}}"#,
    ];
    let (Some(helm), Some(definitions)) = (
        rendered("stagegate", &everything),
        rendered("stagegate-crds", &[r#"definitions=["staging","workloads"]"#]),
    ) else {
        return;
    };
    let kustomize = Rendered::everything().into_iter().flatten();
    for rendered in kustomize.chain([helm, definitions]) {
        // KubeStellar's definitions are as KubeStellar has them.
        let is_ours = |object: &&Value| object["spec"]["group"] != "control.kubestellar.io";
        for object in rendered.all().filter(is_ours) {
            let is_definition = object["kind"] == "CustomResourceDefinition";
            let component = if is_definition { "definition" } else { "controller" };
            for (label, expected) in [
                ("name", Some("stagegate")),
                ("instance", Some("stagegate")),
                ("version", Some(env!("CARGO_PKG_VERSION"))),
                ("component", Some(component)),
                ("part-of", Some("stagegate")),
                ("managed-by", None),
            ] {
                let found = object["metadata"]["labels"][format!("app.kubernetes.io/{label}")].as_str();
                let is_right = expected.is_none_or(|expected| found == Some(expected));
                assert!(
                    found.is_some() && is_right,
                    "{}: {}: {label} is {found:?}",
                    rendered.from,
                    identity(object)
                );
            }
        }
    }
}

#[test]
fn helm_refuses_what_the_schema_refuses() {
    for setting in ["install=\"program\"", "replicaCount=\"two\"", "extraFlags=[\"--x\"]"] {
        let Some(output) = helm("stagegate", &[setting]) else {
            return;
        };
        assert!(!output.status.success(), "{setting} was taken");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("schema"), "{setting}: {said}");
    }
}
