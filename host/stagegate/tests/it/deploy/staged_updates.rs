//! What switches staged updates on: that it is off by default, that it adds one right and changes nothing else, and that the policy holds
//! Bindings for everybody. How it answers writes is for the tests with an API server.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::chart::objects;
use super::rights::{documented, rights};
use super::{KUSTOMIZATIONS, Rendered, STAGED_UPDATES, WITH_BINDINGS, identity};

const POLICY: &str = "stagegate-held-bindings";
const ROLE: &str = "stagegate-staged-updates";

#[test]
fn staged_updates_are_off_unless_they_are_switched_on() {
    for folder in KUSTOMIZATIONS {
        let Some(rendered) = Rendered::by_kustomize(folder) else {
            return;
        };
        let names = rendered.all().map(|object| &object["metadata"]["name"]);
        let found: Vec<&Value> = names.filter(|name| **name == POLICY || **name == ROLE).collect();
        assert!(found.is_empty(), "{folder}: {found:?}");
    }
}

#[test]
fn staged_updates_add_exactly_one_right_which_the_readme_tells() {
    let right = ["control.kubestellar.io", "bindings", "patch"].map(str::to_owned);
    let [group, resource, verb] = right;
    let further = BTreeSet::from([(ROLE.to_owned(), group, resource, verb)]);
    for folder in WITH_BINDINGS {
        let (Some(without), Some(with)) = (Rendered::by_kustomize(folder), Rendered::with_staged_updates(folder))
        else {
            return;
        };
        let (before, after) = (rights(&without), rights(&with));
        assert_eq!(&after - &before, further, "{folder}");
        assert!(before.is_subset(&after), "{folder}");
    }
    assert_eq!(documented("Staged updates"), further, "deploy/README.md");
}

#[test]
fn staged_updates_leave_everything_else_as_it_is() {
    for folder in WITH_BINDINGS {
        let (Some(without), Some(with)) = (Rendered::by_kustomize(folder), Rendered::with_staged_updates(folder))
        else {
            return;
        };
        let before = objects(&without);
        let mut after = objects(&with);
        let added = [
            format!("ClusterRole /{ROLE}"),
            format!("ClusterRoleBinding /{ROLE}"),
            format!("ValidatingAdmissionPolicy /{POLICY}"),
            format!("ValidatingAdmissionPolicyBinding /{POLICY}"),
        ];
        for name in added {
            let object = after.remove(&name).unwrap_or_else(|| panic!("{folder}: no {name}"));
            assert_eq!(
                object["metadata"]["labels"], before["ClusterRole /stagegate-staging"]["metadata"]["labels"],
                "{folder}: {name}"
            );
        }
        assert_eq!(after, before, "{folder}");
    }
}

/// The component can be applied alone, to an installation that is there.
#[test]
fn the_component_alone_is_what_it_adds() {
    let Some(alone) = Rendered::by_kustomize(STAGED_UPDATES) else {
        return;
    };
    let mut found: Vec<String> = alone.all().map(identity).collect();
    found.sort();
    assert_eq!(
        found,
        [
            format!("ClusterRole /{ROLE}"),
            format!("ClusterRoleBinding /{ROLE}"),
            format!("ValidatingAdmissionPolicy /{POLICY}"),
            format!("ValidatingAdmissionPolicyBinding /{POLICY}"),
        ]
    );
}

#[test]
fn every_update_of_a_binding_is_looked_at_and_unknown_is_no() {
    let Some(alone) = Rendered::by_kustomize(STAGED_UPDATES) else {
        return;
    };
    let policy = alone.find("ValidatingAdmissionPolicy", POLICY).expect("a policy");
    let spec = &policy["spec"];
    assert_eq!(spec["failurePolicy"], "Fail", "unknown is not pass");
    // Kubernetes loses parameters of a policy, and then stale ones count without any error.
    assert_eq!(spec["paramKind"], Value::Null);
    assert_eq!(
        spec["matchConstraints"],
        json!({
            "matchPolicy": "Equivalent",
            "resourceRules": [{
                "apiGroups": ["control.kubestellar.io"],
                "apiVersions": ["*"],
                "resources": ["bindings"],
                "operations": ["UPDATE"],
            }],
        })
    );
    let validations = spec["validations"].as_array().expect("a list");
    assert_eq!(validations.len(), 2);
    for validation in validations {
        assert_eq!(validation["reason"], "Forbidden", "{validation}");
        let message = validation["message"].as_str().expect("a message");
        assert!(
            message.starts_with("this Binding is held by a staged update: spec."),
            "{message}"
        );
    }
    let binding = alone
        .find("ValidatingAdmissionPolicyBinding", POLICY)
        .expect("a binding");
    assert_eq!(
        binding["spec"],
        json!({"policyName": POLICY, "validationActions": ["Deny"]})
    );
}
