//! Runs `tests/binding_cases/*.yaml` and compares with a Binding that KubeStellar 0.30 wrote.
//!
//! A case is a sentence (`why`), a world and all the writes that must come of it. `match-*.yaml` holds clauses and, for
//! each object, what becomes of it: `false`, `true`, or how it travels.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stagegate_api::{Binding, BindingPolicy, BoundObject, DownsyncClause};
use stagegate_decide::binding::{Candidate, Clauses, Cluster, Facts, Labels, Plan, Write, decide, is_watched};
use stagegate_decide::names::ObjectKey;
use stagegate_decide::selector::Selector;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    why: String,
    /// Over a policy `p` of generation 3 with our finalizer.
    #[serde(default)]
    policy: Value,
    #[serde(default)]
    objects: Vec<Object>,
    #[serde(default)]
    namespaces: BTreeMap<String, Labels>,
    #[serde(default)]
    clusters: Vec<Cluster>,
    /// Over a Binding that the policy owns.
    binding: Option<Value>,
    #[serde(default)]
    adds_finalizer: bool,
    writes: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MatchCase {
    why: String,
    clauses: Vec<DownsyncClause>,
    #[serde(default)]
    namespaces: BTreeMap<String, Labels>,
    objects: Vec<Object>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Object {
    /// As `deployments.apps shop/web`.
    object: ObjectKey,
    #[serde(default = "first_version")]
    version: String,
    #[serde(default = "first_version")]
    resource_version: String,
    #[serde(default)]
    labels: Labels,
    #[serde(default)]
    bound: Value,
}

fn first_version() -> String {
    "v1".to_owned()
}

impl Object {
    fn candidate(&self) -> Candidate {
        let ObjectKey {
            group,
            resource,
            namespace,
            name,
        } = self.object.clone();
        let (version, resource_version) = (self.version.clone(), self.resource_version.clone());
        Candidate {
            group,
            version,
            resource,
            namespace,
            name,
            resource_version,
            labels: self.labels.clone(),
        }
    }
}

/// The case over the base, object members merged.
fn over(mut base: Value, change: &Value) -> Value {
    match (&mut base, change) {
        (Value::Object(members), Value::Object(changes)) => {
            for (key, change) in changes {
                let member = members.remove(key).unwrap_or_default();
                members.insert(key.clone(), over(member, change));
            }
            base
        }
        (_, Value::Null) => base,
        _ => change.clone(),
    }
}

fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A write in few words: what is written, and the version it is conditional on.
fn short(write: &Write) -> Value {
    let owners = |binding: &Binding| {
        let owners = binding.metadata.owner_references.clone().unwrap();
        owners
            .into_iter()
            .map(|owner| format!("{} {}", owner.kind, owner.uid))
            .collect::<Vec<_>>()
            .join(", ")
    };
    match write {
        Write::AddFinalizer { precondition, .. } => {
            json!(format!("add finalizer at {}", precondition.resource_version))
        }
        Write::RemoveFinalizer { precondition, .. } => {
            json!(format!("remove finalizer at {}", precondition.resource_version))
        }
        Write::CreateBinding(binding) => json!({"create": binding.spec, "owner": owners(binding)}),
        Write::UpdateBinding { precondition, binding } => {
            json!({"update": binding.spec, "owner": owners(binding), "at": precondition.resource_version})
        }
        Write::PolicyStatus {
            precondition, status, ..
        } => {
            json!({"status": status, "at": precondition.resource_version})
        }
    }
}

fn run(case: &Case) -> Plan {
    let policy = over(
        json!({
            "metadata": {
                "name": "p", "uid": "p-uid", "resourceVersion": "10", "generation": 3,
                "finalizers": ["community.kubestellar.io/binding"],
            },
            "spec": {},
        }),
        &case.policy,
    );
    let owner = json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy", "name": "p", "uid": "p-uid",
        "controller": true, "blockOwnerDeletion": false,
    });
    let metadata = json!({"name": "p", "uid": "b-uid", "resourceVersion": "20", "ownerReferences": [owner]});
    let base = json!({"metadata": metadata, "spec": {"workload": {}}});
    let policy: BindingPolicy = typed(policy);
    let binding: Option<Binding> = case.binding.as_ref().map(|change| typed(over(base.clone(), change)));
    let objects: Vec<Candidate> = case.objects.iter().map(Object::candidate).collect();
    decide(&Facts {
        policy: &policy,
        objects: &objects,
        namespaces: &case.namespaces,
        clusters: &case.clusters,
        binding: binding.as_ref(),
        adds_finalizer: case.adds_finalizer,
    })
}

fn cases<T: DeserializeOwned>(wanted: fn(&str) -> bool) -> Vec<(String, T)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/binding_cases");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = paths.map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), path));
    let mut cases: Vec<_> = named
        .filter(|(name, _)| wanted(name))
        .map(|(name, path)| {
            let case = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap());
            let case = case.unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, case)
        })
        .collect();
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(!cases.is_empty());
    cases
}

#[test]
fn every_binding_case_ends_in_the_writes_it_names() {
    let mut failed = Vec::new();
    for (name, case) in cases::<Case>(|name| !name.starts_with("match-")) {
        let writes: Vec<Value> = run(&case).writes.iter().map(short).collect();
        if writes != case.writes {
            let (is, should) = (json!(writes), json!(case.writes));
            failed.push(format!("{name}: {}\n      is {is}\n  should {should}", case.why));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_matching_case_binds_the_objects_it_names() {
    let mut failed = Vec::new();
    for (name, case) in cases::<MatchCase>(|name| name.starts_with("match-")) {
        let clauses = Clauses::new(&case.clauses);
        for object in &case.objects {
            let bound = clauses.bind(&object.candidate(), &case.namespaces);
            let as_expected = match &object.bound {
                Value::Bool(expected) => bound.is_some() == *expected,
                travels => bound.as_ref().is_some_and(|bound| how_it_travels(bound) == *travels),
            };
            if !as_expected {
                failed.push(format!(
                    "{name}: {}: {} should be {}, is {bound:?}",
                    case.why, object.object, object.bound
                ));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn how_it_travels(bound: &BoundObject) -> Value {
    let mut value = json!(bound);
    let travels = [
        "createOnly",
        "statusCollectors",
        "wantSingletonReportedState",
        "wantMultiWECReportedState",
    ];
    value
        .as_object_mut()
        .unwrap()
        .retain(|key, _| travels.contains(&key.as_str()));
    value
}

fn stored<T: DeserializeOwned>(name: &str) -> T {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/data/kubestellar-0.30")
        .join(name);
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// What KubeStellar's controller saw when it wrote the stored Bindings.
fn as_kubestellar_saw_it(policy: &BindingPolicy, binding: Option<&Binding>) -> Plan {
    let cluster = |name: &str, env: &str| Cluster {
        name: name.to_owned(),
        labels: label("env", env),
    };
    let object = Object {
        object: "deployments.apps default/nginx0".parse().unwrap(),
        version: "v1".to_owned(),
        resource_version: "282".to_owned(),
        labels: label("rig/probe", "p0"),
        bound: Value::Null,
    };
    decide(&Facts {
        policy,
        objects: &[object.candidate()],
        namespaces: &BTreeMap::new(),
        clusters: &[cluster("dev2", "dev"), cluster("prod1", "prod"), cluster("dev1", "dev")],
        binding,
        adds_finalizer: false,
    })
}

fn label(key: &str, value: &str) -> Labels {
    [(key.to_owned(), value.to_owned())].into()
}

#[test]
fn the_binding_is_the_one_that_kubestellar_wrote() {
    let mut policy: BindingPolicy = stored("bindingpolicy.yaml");
    policy.status = None;
    let plan = as_kubestellar_saw_it(&policy, None);
    let Some(Write::CreateBinding(binding)) = plan.writes.first() else {
        panic!("{plan:?}")
    };
    let theirs: Binding = stored("binding-first.yaml");
    assert_eq!(binding.metadata.owner_references, theirs.metadata.owner_references);
    assert_eq!(
        (&binding.metadata.name, &binding.spec),
        (&theirs.metadata.name, &theirs.spec)
    );
}

#[test]
fn there_is_nothing_to_do_after_kubestellar_has_done_it() {
    let plan = as_kubestellar_saw_it(&stored("bindingpolicy.yaml"), Some(&stored("binding.yaml")));
    assert_eq!(plan, Plan::default());
}

#[test]
fn kinds_that_are_no_workload_are_not_watched() {
    let workload = [
        ("apps", "deployments"),
        ("", "secrets"),
        ("", "namespaces"),
        ("storage.k8s.io", "storageclasses"),
    ];
    assert!(workload.iter().all(|(group, resource)| is_watched(group, resource)));
    let none = [
        ("control.kubestellar.io", "bindings"),
        ("coordination.k8s.io", "leases"),
        ("playground.community.kubestellar.io", "simulatedclusters"),
        ("", "events"),
        ("events.k8s.io", "events"),
        ("storage.k8s.io", "csinodes"),
    ];
    assert!(none.iter().all(|(group, resource)| !is_watched(group, resource)));
}

#[test]
fn selectors_match_and_are_refused_as_kubernetes_does_it() {
    let table = [
        ("{}", "{}", "true"),
        ("{matchLabels: {a: '1'}}", "{a: '1', b: '2'}", "true"),
        ("{matchLabels: {a: '1', b: '2'}}", "{a: '1'}", "false"),
        (
            "{matchExpressions: [{key: a, operator: In, values: ['1', '2']}]}",
            "{a: '2'}",
            "true",
        ),
        (
            "{matchExpressions: [{key: a, operator: In, values: ['1', '2']}]}",
            "{}",
            "false",
        ),
        (
            "{matchExpressions: [{key: a, operator: NotIn, values: ['1']}]}",
            "{}",
            "true",
        ),
        (
            "{matchExpressions: [{key: a, operator: NotIn, values: ['1']}]}",
            "{a: '1'}",
            "false",
        ),
        (
            "{matchExpressions: [{key: x.io/a, operator: Exists}]}",
            "{x.io/a: ''}",
            "true",
        ),
        (
            "{matchExpressions: [{key: a, operator: DoesNotExist}]}",
            "{a: ''}",
            "false",
        ),
        (
            "{matchLabels: {a: '1'}, matchExpressions: [{key: b, operator: Exists}]}",
            "{a: '1'}",
            "false",
        ),
        (
            "{matchExpressions: [{key: a, operator: In}]}",
            "{}",
            "operator In of label \"a\" needs values",
        ),
        (
            "{matchExpressions: [{key: a, operator: Exists, values: ['1']}]}",
            "{}",
            "operator Exists of label \"a\" takes no values",
        ),
        (
            "{matchExpressions: [{key: a, operator: Gt, values: ['1']}]}",
            "{}",
            "operator \"Gt\" of label \"a\" is not",
        ),
        ("{matchLabels: {a: 'x y'}}", "{}", "value \"x y\" of label \"a\" is not"),
        ("{matchLabels: {X.io/a: x}}", "{}", "label key \"X.io/a\" is not"),
        ("{matchLabels: {x.io/: x}}", "{}", "label key \"x.io/\" is not"),
        ("{matchLabels: {-a: x}}", "{}", "label key \"-a\" is not"),
    ];
    for (selector, labels, expected) in table {
        let read = serde_saphyr::from_str(selector).unwrap();
        let labels: Labels = serde_saphyr::from_str(labels).unwrap();
        let answer = match Selector::try_from(&read) {
            Ok(selector) => selector.matches(&labels).to_string(),
            Err(error) => error.to_string(),
        };
        assert!(answer.starts_with(expected), "{selector} over {labels:?}: {answer}");
    }
}
