//! Runs `tests/health/kinds.yaml`: evidence rows by kind, with the health that each must have.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use stagegate_api::evidence::{ReportedConditions, ReportedPhase};
use stagegate_api::{EvidenceRow, Reported};
use stagegate_decide::health::{Health, health};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    row: Row,
    /// `Healthy`, or `Progressing: ` or `Failed: ` and the text.
    is: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    at: Option<Special>,
    #[serde(default)]
    r#gen: String,
    desired: Option<i64>,
    total: Option<i64>,
    updated: Option<i64>,
    ready: Option<i64>,
    available: Option<i64>,
    phase: Option<ReportedPhase>,
    #[serde(default)]
    conditions: Vec<String>,
}

#[derive(Clone, Copy, Deserialize)]
enum Special {
    Never,
    WithoutStatus,
}

impl Row {
    fn evidence(self) -> EvidenceRow {
        EvidenceRow {
            cluster: "dev-1".into(),
            at: match self.at {
                None => Reported::At { seconds: 1_767_225_600 },
                Some(Special::Never) => Reported::Never,
                Some(Special::WithoutStatus) => Reported::WithoutStatus,
            },
            r#gen: self.r#gen,
            ready: self.ready,
            available: self.available,
            desired: self.desired,
            total: self.total,
            updated: self.updated,
            phase: self.phase,
            conditions: ReportedConditions::try_from(self.conditions).unwrap(),
        }
    }
}

fn cases() -> BTreeMap<String, Vec<Case>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/health/kinds.yaml");
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn said(health: &Health) -> String {
    match health {
        Health::Healthy => "Healthy".to_owned(),
        Health::Progressing(text) => format!("Progressing: {text}"),
        Health::Failed(text) => format!("Failed: {text}"),
    }
}

#[test]
fn each_kind_is_healthy_in_the_states_that_it_should_be() {
    let mut failures = Vec::new();
    let mut count = 0;
    for (kind, cases) in cases() {
        let (resource, group) = kind.split_once('.').unwrap_or((&kind, ""));
        for case in cases {
            count += 1;
            let row = case.row.evidence();
            let found = said(&health(group, resource, &row));
            if found != case.is {
                failures.push(format!("{kind}: {found:?}, not {:?}, of {row:?}", case.is));
            }
        }
    }
    crate::tell(&format!("states of kinds: {count} cases"));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_kind_that_counts_replicas_is_never_healthier_with_fewer_of_them() {
    let kinds = ["deployments", "statefulsets", "replicasets", "daemonsets"];
    for kind in kinds {
        for counts in 0..3_i64.pow(5) {
            let of = |place: u32| counts / 3_i64.pow(place) % 3;
            let row = |less: Option<u32>| {
                let count = |place: u32| match of(place) - i64::from(less == Some(place)) {
                    count @ 1.. => Some(count),
                    _ => None,
                };
                let conditions = ["Available=True", "Progressing=True:NewReplicaSetAvailable"];
                EvidenceRow {
                    cluster: "dev-1".into(),
                    at: Reported::At { seconds: 1 },
                    r#gen: "1".to_owned(),
                    ready: count(0),
                    available: count(1),
                    updated: count(2),
                    desired: Some(of(3)),
                    total: Some(of(4)),
                    phase: None,
                    conditions: ReportedConditions::try_from(conditions.map(str::to_owned).to_vec()).unwrap(),
                }
            };
            let health_of = |less| health("apps", kind, &row(less)).is_healthy();
            for less in 0..3 {
                // A count above the total is inconsistent, and not healthy either.
                let is_odd = of(less) > of(4).max(of(3));
                assert!(
                    is_odd || health_of(None) || !health_of(Some(less)),
                    "{kind}: {counts} with less of {less}"
                );
            }
            if health_of(None) && kind != "daemonsets" {
                assert!(of(4) >= of(3) && of(0) == of(4) && of(1) == of(4), "{kind}: {counts}");
            }
        }
    }
}
