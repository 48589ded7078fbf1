//! Roles and who has them: that what is bound exists, that each flag has the role it needs, and that the table in
//! deploy/README.md says exactly what is granted. Whether all of it is used is for the tests with an audit log.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use stagegate::args::Controller;

use super::{BASE, HOSTING, KUSTOMIZATIONS, NODE_POOLS, PLAIN, Rendered, WDS, identity, pods, read, texts};

/// Role, group (`core` for none), resource, verb.
pub type Right = (String, String, String, String);

pub fn rights(rendered: &Rendered) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for role in [rendered.of_kind("ClusterRole"), rendered.of_kind("Role")].concat() {
        let name = role["metadata"]["name"].as_str().expect("a role has a name");
        if !of_people(role).is_empty() {
            continue;
        }
        for rule in role["rules"].as_array().into_iter().flatten() {
            for group in texts(&rule["apiGroups"]) {
                let group = if group.is_empty() { "core" } else { group };
                for resource in texts(&rule["resources"]) {
                    for verb in texts(&rule["verbs"]) {
                        let is_new = rights.insert((name.into(), group.into(), resource.into(), verb.into()));
                        assert!(is_new, "{name} grants {verb} {group} {resource} twice");
                    }
                }
            }
        }
    }
    rights
}

/// The roles of Kubernetes that it is added up into.
fn of_people(role: &Value) -> Vec<&'static str> {
    let is_added =
        |to: &&str| role["metadata"]["labels"][format!("rbac.authorization.k8s.io/aggregate-to-{to}")] == "true";
    ["view", "edit", "admin"].into_iter().filter(is_added).collect()
}

#[test]
fn people_who_may_view_read_what_the_controllers_are_for_and_those_who_may_edit_write_it_too() {
    for (folder, resource, roles) in [
        (BASE, "stagedbindingpolicies", "stagegate-policies"),
        (WDS, "stagedbindingpolicies", "stagegate-policies"),
        (PLAIN, "stagedbindingpolicies", "stagegate-policies"),
        (NODE_POOLS, "yurtappdaemons", "stagegate-yurtappdaemons"),
    ] {
        let Some(rendered) = Rendered::by_kustomize(folder) else {
            return;
        };
        let all = rendered.of_kind("ClusterRole").into_iter();
        let all: Vec<_> = all.filter(|role| !of_people(role).is_empty()).collect();
        assert_eq!(all.len(), 2, "{folder}");
        for (name, to, verbs) in [
            ("view", &["view", "edit", "admin"][..], json!(["get", "list", "watch"])),
            (
                "edit",
                &["edit", "admin"],
                json!(["create", "update", "patch", "delete", "deletecollection"]),
            ),
        ] {
            let role = rendered.find("ClusterRole", &format!("{roles}-{name}")).expect(name);
            assert_eq!(of_people(role), to, "{folder}: {name}");
            // Not status: that is the controller's alone.
            assert_eq!(role["rules"][0]["resources"], json!([resource]), "{folder}: {name}");
            assert_eq!(
                (&role["rules"][0]["verbs"], &role["rules"][1]),
                (&verbs, &Value::Null),
                "{folder}: {name}"
            );
        }
    }
}

#[test]
fn nothing_that_is_installed_is_a_webhook_and_overriders_of_pools_are_not_read() {
    for rendered in Rendered::everything().into_iter().flatten() {
        let kinds: BTreeSet<&str> = rendered.all().filter_map(|object| object["kind"].as_str()).collect();
        let is_webhook = |kind: &&str| kind.contains("Webhook");
        assert!(!kinds.iter().any(is_webhook), "{}: {kinds:?}", rendered.from);
        let resources: BTreeSet<String> = rights(&rendered).into_iter().map(|right| right.2).collect();
        let is_of_overriders = |resource: &String| resource == "*" || resource.starts_with("yurtappoverriders");
        assert!(
            !resources.iter().any(is_of_overriders),
            "{}: {resources:?}",
            rendered.from
        );
    }
}

#[test]
fn whoever_is_bound_exists_and_is_bound_to_a_role_that_exists() {
    for rendered in Rendered::everything().into_iter().flatten() {
        let folder = &rendered.from;
        for binding in [rendered.of_kind("ClusterRoleBinding"), rendered.of_kind("RoleBinding")].concat() {
            let (kind, name) = (&binding["roleRef"]["kind"], &binding["roleRef"]["name"]);
            let named = name.as_str().expect("a name");
            let role = rendered.find(kind.as_str().expect("a kind"), named);
            let role = role.unwrap_or_else(|| panic!("{folder}: {} binds {kind} {name}", identity(binding)));
            assert_eq!(
                role["metadata"]["namespace"], binding["metadata"]["namespace"],
                "{folder}: {named}"
            );
            assert_eq!(
                binding["subjects"],
                json!([{"kind": "ServiceAccount", "name": "stagegate", "namespace": "stagegate-system"}]),
                "{folder}: {named}"
            );
        }
        let accounts = rendered.of_kind("ServiceAccount");
        assert_eq!(
            accounts.into_iter().map(identity).collect::<Vec<_>>(),
            ["ServiceAccount stagegate-system/stagegate"],
            "{folder}"
        );
        if let Some(deployment) = rendered.deployment() {
            assert_eq!(
                deployment["spec"]["template"]["spec"]["serviceAccountName"], "stagegate",
                "{folder}"
            );
        }
        for role in rendered.of_kind("ClusterRole") {
            assert!(
                is_given(&rendered, role) || !of_people(role).is_empty(),
                "{folder}: {} is given to nobody",
                identity(role)
            );
        }
        let known: Vec<&Value> = rendered
            .of_kind("Namespace")
            .into_iter()
            .map(|namespace| &namespace["metadata"]["name"])
            .collect();
        for object in rendered.all() {
            let namespace = &object["metadata"]["namespace"];
            let exists = namespace.is_null() || *namespace == "default" || known.contains(&namespace);
            assert!(exists, "{folder}: nobody makes the namespace of {}", identity(object));
        }
    }
}

/// Bound, or part of the one that is summed up and bound.
fn is_given(rendered: &Rendered, role: &Value) -> bool {
    let name = &role["metadata"]["name"];
    let bindings = rendered.of_kind("ClusterRoleBinding");
    let is_bound = |name: &Value| bindings.iter().any(|binding| binding["roleRef"]["name"] == *name);
    let sums = rendered.of_kind("ClusterRole").into_iter().filter(|sum| {
        let selectors = sum["aggregationRule"]["clusterRoleSelectors"].as_array();
        let mut labels = selectors.into_iter().flatten().map(|selector| &selector["matchLabels"]);
        labels.any(|wanted| {
            let wanted = wanted.as_object().expect("a selector by labels");
            let has = |(label, value): (&String, &Value)| role["metadata"]["labels"][label] == *value;
            !wanted.is_empty() && wanted.iter().all(has)
        })
    });
    is_bound(name) || sums.into_iter().any(|sum| is_bound(&sum["metadata"]["name"]))
}

#[test]
fn every_flag_has_the_rights_it_needs() {
    for (program, rights) in [(BASE, BASE), (HOSTING, WDS), (PLAIN, PLAIN), (NODE_POOLS, NODE_POOLS)] {
        let (Some(program), Some(rights)) = (Rendered::by_kustomize(program), Rendered::by_kustomize(rights)) else {
            return;
        };
        let deployment = program.deployment().expect("a Deployment");
        let run = pods::parsed(deployment);
        let roles: BTreeSet<&str> = rights
            .of_kind("ClusterRoleBinding")
            .into_iter()
            .filter_map(|binding| binding["roleRef"]["name"].as_str())
            .collect();
        let wanted = run.controllers.iter().map(|controller| match controller {
            Controller::Staging => "stagegate-staging",
            Controller::Binding => "stagegate-binding",
            Controller::Combine => "stagegate-combine",
            Controller::Yurtappdaemon => "stagegate-yurtappdaemon",
        });
        // Objects that policies select are for the others.
        let is_of_policies = run.controllers != [Controller::Yurtappdaemon];
        let is_binding = run.controllers.contains(&Controller::Binding);
        let of_policies = [
            ("stagegate-workloads", is_of_policies),
            ("stagegate-workloads-get", is_of_policies),
            ("stagegate-workloads-watch", is_binding),
        ];
        let of_policies = of_policies.into_iter().filter(|(_, is)| *is).map(|(role, _)| role);
        let wanted: BTreeSet<&str> = wanted.chain(of_policies).collect();
        assert_eq!(roles, wanted, "{}", rights.from);
        for namespace in &run.gate_namespaces {
            let has = |role: &&Value| role["metadata"]["namespace"] == namespace.as_str();
            let role = rights.of_kind("Role").into_iter().find(has);
            assert!(role.is_some(), "{}: no right to read gates of {namespace}", rights.from);
        }
        let lease = rights.find("Role", "stagegate-lease").expect("a role for the lease");
        let arguments = texts(&deployment["spec"]["template"]["spec"]["containers"][0]["args"]);
        let namespace = lease["metadata"]["namespace"].as_str().expect("a namespace");
        assert!(arguments.contains(&"--leader-elect"), "{}", program.from);
        let wanted = format!("--lease-namespace={namespace}");
        assert!(arguments.contains(&wanted.as_str()), "{}: {arguments:?}", program.from);
    }
}

/// Rows `| role | group | resources | verbs | why |` below a heading of deploy/README.md.
pub fn documented(heading: &str) -> BTreeSet<Right> {
    let text = read("deploy/README.md");
    let chapter = text
        .split("\n## ")
        .find(|chapter| chapter.lines().next() == Some(heading))
        .unwrap_or_else(|| panic!("no chapter {heading}"));
    let mut rights = BTreeSet::new();
    for row in chapter.lines().filter(|line| line.starts_with("| `stagegate-")) {
        let cells: Vec<String> = row
            .split('|')
            .map(|cell| cell.replace('`', "").trim().to_owned())
            .collect();
        let [_, role, group, resources, verbs, why, _] = cells.as_slice() else {
            panic!("not five cells: {row}");
        };
        assert!(!why.is_empty(), "{row}: why?");
        for resource in resources.split(", ") {
            for verb in verbs.split(", ") {
                rights.insert((role.clone(), group.clone(), resource.to_owned(), verb.to_owned()));
            }
        }
    }
    rights
}

#[test]
fn the_readme_lists_exactly_what_is_granted() {
    let Some(plain) = Rendered::by_kustomize(PLAIN) else {
        return;
    };
    let (granted, documented) = (rights(&plain), documented("Rights"));
    let untold: Vec<_> = granted.difference(&documented).collect();
    let untrue: Vec<_> = documented.difference(&granted).collect();
    assert!(
        untold.is_empty() && untrue.is_empty(),
        "granted only: {untold:?}\ndocumented only: {untrue:?}"
    );
    assert!(granted.len() > 60, "only {} rights", granted.len());
    // Beside KubeStellar it is a part of these, without what its own controllers do.
    let wds = rights(&Rendered::by_kustomize(WDS).expect("kubectl was there a moment ago"));
    assert!(wds.is_subset(&granted));
    assert!(
        wds.iter()
            .all(|(role, ..)| !role.contains("binding") && !role.contains("combine"))
    );
}

#[test]
fn the_readme_lists_exactly_what_is_granted_where_workloads_run() {
    let Some(pools) = Rendered::by_kustomize(NODE_POOLS) else {
        return;
    };
    let (granted, documented) = (rights(&pools), documented("Node pools"));
    let untold: Vec<_> = granted.difference(&documented).collect();
    let untrue: Vec<_> = documented.difference(&granted).collect();
    assert!(
        untold.is_empty() && untrue.is_empty(),
        "granted only: {untold:?}\ndocumented only: {untrue:?}"
    );
    let roles: BTreeSet<&str> = granted.iter().map(|(role, ..)| role.as_str()).collect();
    assert_eq!(
        roles,
        BTreeSet::from(["stagegate-gates", "stagegate-lease", "stagegate-yurtappdaemon"]),
        "none of the staging controller's"
    );
}

#[test]
fn nothing_is_granted_by_a_star_and_no_secret_can_be_read() {
    for rendered in Rendered::everything().into_iter().flatten() {
        let folder = &rendered.from;
        for right in rights(&rendered) {
            let (_, group, resource, verb) = &right;
            assert!(
                [group, resource, verb].iter().all(|word| *word != "*"),
                "{folder}: {right:?}"
            );
            assert_ne!(resource, "secrets", "{folder}: {right:?}");
        }
    }
}

/// The controller that sums roles up writes the sum again when a part is deleted, also while the sum itself is being deleted: it would stay.
#[test]
fn no_role_of_ours_is_part_of_the_sum_that_users_add_to() {
    for rendered in Rendered::everything().into_iter().flatten() {
        let label = "community.kubestellar.io/aggregate-to-stagegate-workloads";
        let is_part = |object: &&Value| !object["metadata"]["labels"][label].is_null();
        let parts: Vec<String> = rendered.all().filter(is_part).map(identity).collect();
        assert_eq!(parts, Vec::<String>::new(), "{}", rendered.from);
    }
}

#[test]
fn what_may_be_watched_of_workloads_is_what_may_be_read() {
    let Some(plain) = Rendered::by_kustomize(PLAIN) else {
        return;
    };
    let kinds = |name: &str, verbs: Value| -> Vec<(Value, Value)> {
        let role = plain.find("ClusterRole", name).expect(name);
        let rules = role["rules"].as_array().expect("rules");
        assert!(
            rules.iter().all(|rule| rule["verbs"] == verbs),
            "{name} has {verbs} only"
        );
        rules
            .iter()
            .map(|rule| (rule["apiGroups"].clone(), rule["resources"].clone()))
            .collect()
    };
    assert_eq!(
        kinds("stagegate-workloads-get", json!(["get"])),
        kinds("stagegate-workloads-watch", json!(["list", "watch"]))
    );
}

#[test]
fn whoever_writes_a_policy_is_asked_for_the_same_right_on_what_it_places() {
    for folder in KUSTOMIZATIONS {
        let Some(rendered) = Rendered::by_kustomize(folder) else {
            return;
        };
        let policies = rendered.of_kind("ValidatingAdmissionPolicy");
        let bindings = rendered.of_kind("ValidatingAdmissionPolicyBinding");
        // It belongs in the API server with the policies: beside KubeStellar that is not the one with the pods, and where workloads run there
        // are none.
        let count = usize::from(![HOSTING, NODE_POOLS].contains(&folder));
        assert_eq!((policies.len(), bindings.len()), (count, count), "{folder}");
        let (Some(policy), Some(binding)) = (policies.first(), bindings.first()) else {
            continue;
        };
        assert_eq!(policy["spec"]["failurePolicy"], "Fail", "{folder}: unknown is not pass");
        assert_eq!(
            policy["spec"]["matchConstraints"]["resourceRules"],
            json!([{
                "apiGroups": ["community.kubestellar.io"],
                "apiVersions": ["*"],
                "resources": ["stagedbindingpolicies"],
                "operations": ["CREATE", "UPDATE"],
                "scope": "Cluster",
            }]),
            "{folder}"
        );
        assert_eq!(
            binding["spec"],
            json!({"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}),
            "{folder}: it denies, for everybody"
        );
    }
}
