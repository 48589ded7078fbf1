//! Stored objects decode, and what we write ourselves comes back without loss.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use stagegate_api::{
    Binding, BindingPolicy, CellType, CombinedStatus, StagedBindingPolicy, StatusCollector, WorkStatus,
};

use crate::fixture;

fn comes_back_whole<T: DeserializeOwned + Serialize>(name: &str) {
    let stored: Value = fixture(name);
    let typed: T = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), stored, "{name}");
}

#[test]
fn stored_objects_come_back_without_loss() {
    comes_back_whole::<BindingPolicy>("kubestellar-0.30/bindingpolicy.yaml");
    comes_back_whole::<BindingPolicy>("original-bindingpolicy-nginx.yaml");
    comes_back_whole::<StatusCollector>("kubestellar-0.30/statuscollector.yaml");
    comes_back_whole::<Binding>("kubestellar-0.30/binding.yaml");
    comes_back_whole::<CombinedStatus>("kubestellar-0.30/combinedstatus.yaml");
    comes_back_whole::<CombinedStatus>("kubestellar-0.30/combinedstatus-no-workstatus.yaml");
    comes_back_whole::<WorkStatus>("kubestellar-0.30/workstatus.yaml");
}

#[test]
fn a_binding_before_its_first_status_decodes() {
    let binding: Binding = fixture("kubestellar-0.30/binding-first.yaml");
    assert!(binding.status.is_none());
    let object = binding.spec.workload.objects().next().unwrap();
    assert_eq!(
        (object.resource.as_str(), object.namespace.as_deref()),
        ("deployments", Some("default"))
    );
    assert_eq!(object.status_collectors, ["deployments-aggregator", "per-cluster"]);
}

#[test]
fn manifests_of_the_go_stager_decode_without_loss() {
    for name in ["original-nginx-obj.yaml", "original-nginx-combinedstatus.yaml"] {
        comes_back_whole::<StagedBindingPolicy>(name);
        let policy: StagedBindingPolicy = fixture(name);
        assert!(
            policy.spec.stages.iter().all(stagegate_api::Stage::has_checks),
            "{name}"
        );
    }
}

/// Unlike for the Go stager: whoever reads it must be able to refuse it.
#[test]
fn an_empty_expression_is_told_from_an_absent_one() {
    let stage: stagegate_api::Stage =
        serde_json::from_value(serde_json::json!({"name": "prod", "filter": "", "condition": ""})).unwrap();
    let empty = Some(String::new());
    assert_eq!((stage.filter, stage.condition), (empty.clone(), empty));
}

#[test]
fn an_empty_criterion_stays_present_because_kubestellar_asks_for_one() {
    let clause: stagegate_api::DownsyncClause = serde_json::from_value(serde_json::json!({"resources": []})).unwrap();
    assert_eq!(
        serde_json::to_value(&clause).unwrap(),
        serde_json::json!({"resources": []})
    );
}

#[test]
fn a_cell_of_an_unknown_type_is_kept_as_it_is() {
    let stored = serde_json::json!({"type": "Quantity", "string": "1Gi"});
    let cell: stagegate_api::Cell = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(cell.cell_type, CellType::Other("Quantity".to_owned()));
    assert_eq!(serde_json::to_value(&cell).unwrap(), stored);
}

#[test]
fn the_report_time_of_a_work_status_is_the_newest_of_those_who_own_its_status() {
    let mut work: WorkStatus = fixture("kubestellar-0.30/workstatus.yaml");
    assert_eq!(work.last_returned(), None);
    let entry =
        |time: &str, field: &str| serde_json::json!({"manager": "agent", "time": time, "fieldsV1": {field: {}}});
    work.metadata.managed_fields = serde_json::from_value(serde_json::json!([
        entry("2026-11-21T07:03:25Z", "f:status"),
        entry("2026-11-21T07:03:20Z", "f:status"),
        entry("2026-11-21T08:00:00Z", "f:spec"),
    ]))
    .unwrap();
    assert_eq!(work.last_returned().unwrap().to_string(), "2026-11-21T07:03:25Z");
}
