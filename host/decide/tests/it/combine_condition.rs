//! The condition `StatusCollectorsAvailable` on a Binding, compared with the one that KubeStellar 0.30 wrote.

use std::collections::BTreeSet;

use jiff::Timestamp;
use stagegate_api::Binding;
use stagegate_decide::combine::{Write, binding_status};

use crate::combine::stored;

#[test]
fn the_condition_is_the_one_that_kubestellar_wrote() {
    let theirs: Binding = stored("binding.yaml");
    let binding: Binding = stored("binding-first.yaml");
    let existing: BTreeSet<String> = ["deployments-aggregator", "per-cluster", "other"]
        .map(str::to_owned)
        .into();
    let now = "2026-11-21T07:03:20Z".parse().unwrap();
    let Some(Write::BindingStatus {
        precondition, status, ..
    }) = binding_status(&binding, &existing, now)
    else {
        panic!("nothing is written")
    };
    assert_eq!(precondition.resource_version.as_str(), "285");
    assert_eq!(Some(&status), theirs.status.as_ref());
    let later = "2026-11-21T08:00:00Z".parse().unwrap();
    assert_eq!(binding_status(&theirs, &existing, later), None);
}

#[test]
fn the_condition_lists_missing_collectors_and_keeps_the_rest_of_the_status() {
    let mut binding: Binding = stored("binding.yaml");
    let status = binding.status.as_mut().unwrap();
    (status.observed_generation, status.errors) = (4, vec!["transport is unhappy".to_owned()]);
    let now = "2026-11-21T08:00:00Z".parse().unwrap();
    let one_is_there = ["per-cluster".to_owned()].into();
    let mut missing_at = |existing: &BTreeSet<String>, now: Timestamp| {
        let Some(Write::BindingStatus { status, .. }) = binding_status(&binding, existing, now) else {
            panic!("nothing is written")
        };
        assert_eq!(
            (status.observed_generation, status.errors.len(), status.conditions.len()),
            (4, 1, 1)
        );
        let condition = status.conditions[0].clone();
        binding.status = Some(status);
        (condition.status, condition.message, condition.last_transition_time.0)
    };
    let missing = |names: &str| ("False".to_owned(), format!("missing StatusCollector(s): {names}"), now);
    assert_eq!(missing_at(&one_is_there, now), missing("deployments-aggregator"));
    let later = "2026-11-21T09:00:00Z".parse().unwrap();
    assert_eq!(
        missing_at(&BTreeSet::new(), later),
        missing("deployments-aggregator, per-cluster")
    );
}
