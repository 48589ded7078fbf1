//! Requests that the tests ask with.

use stagegate_evaluate::gate::wire::{
    Arena, Cell, Column, ColumnData, CombinedStatus, Destinations, EarlierVerdict, Evidence, Health, Integers, Labels,
    Object, Outcome, Reported, Request, ResultSet,
};

/// 2026-11-21T16:00:00Z
pub const NOW_MS: u64 = 1_795_276_800_000;

/// A request with one of every shape.
pub fn request() -> Request {
    Request {
        policy: "nginx".to_owned(),
        stage: "dev".to_owned(),
        attempt: 2,
        now_ms: NOW_MS,
        config: "{}".to_owned(),
        objects: vec![deployment(), namespace()],
        destinations: destinations(),
        earlier: [
            ("condition", Outcome::Pass),
            ("first", Outcome::Hold),
            ("second", Outcome::Fail),
            ("third", Outcome::Unknown),
        ]
        .map(|(name, outcome)| EarlierVerdict {
            name: name.to_owned(),
            outcome,
            reason: format!("{name} said so"),
        })
        .into(),
    }
}

/// Two, and the labels of the first.
fn destinations() -> Destinations {
    Destinations {
        names: arena(&["dev-1", "dev-2"]),
        labels: Some(Labels {
            unknown: vec![1],
            keys: arena(&["env", "tier"]),
            values: arena(&["dev", ""]),
            ends: vec![2, 2],
        }),
    }
}

fn arena(texts: &[&str]) -> Arena {
    let mut arena = Arena::default();
    texts.iter().for_each(|text| arena.push(text));
    arena
}

fn integers(values: [Option<i64>; 2]) -> Integers {
    let mut integers = Integers::default();
    values.into_iter().for_each(|value| integers.push(value));
    integers
}

fn deployment() -> Object {
    let column = |name: &str, nulls: &[u32], data| Column {
        name: name.to_owned(),
        nulls: nulls.to_vec(),
        data,
    };
    let columns = vec![
        column("cluster", &[], ColumnData::Texts(arena(&["dev-1", "dev-2"]))),
        column("up", &[], ColumnData::Booleans(vec![true, false])),
        column("count", &[1], ColumnData::Integers(vec![-3, 0])),
        column("rate", &[], ColumnData::Decimals(vec![0.25, -1e300])),
        column(
            "mixed",
            &[],
            ColumnData::Cells(vec![Cell::Text("a".to_owned()), Cell::Json("{\"b\":[]}".to_owned())]),
        ),
        column("more", &[0], ColumnData::Cells(vec![Cell::Null, Cell::Boolean(true)])),
        column(
            "numbers",
            &[],
            ColumnData::Cells(vec![Cell::Integer(i64::MIN), Cell::Decimal(0.5)]),
        ),
    ];
    Object {
        group: "apps".to_owned(),
        resource: "deployments".to_owned(),
        namespace: Some("default".to_owned()),
        name: "nginx".to_owned(),
        uid: "u1".to_owned(),
        generation: Some(4),
        evidence: Evidence {
            reported: vec![Reported::WithStatus, Reported::Never],
            reported_at_ms: vec![NOW_MS - 1_000, 0],
            generation: integers([Some(4), None]),
            ready: integers([Some(3), None]),
            available: integers([None, None]),
            total: integers([Some(5), None]),
            updated: integers([Some(-2), None]),
            health: vec![Health::Failed, Health::Progressing],
        },
        combined_status: CombinedStatus {
            namespace: "default".to_owned(),
            name: "u1.b1".to_owned(),
            results: vec![
                ResultSet {
                    collector: "counts".to_owned(),
                    row_count: 2,
                    columns,
                },
                ResultSet {
                    collector: "nothing".to_owned(),
                    row_count: 0,
                    columns: Vec::new(),
                },
            ],
        },
    }
}

fn namespace() -> Object {
    Object {
        group: String::new(),
        resource: "namespaces".to_owned(),
        namespace: None,
        name: "web".to_owned(),
        uid: "u2".to_owned(),
        generation: None,
        evidence: Evidence {
            reported: vec![Reported::WithoutStatus; 2],
            reported_at_ms: vec![0; 2],
            generation: integers([None, None]),
            ready: integers([None, None]),
            available: integers([None, None]),
            total: integers([None, None]),
            updated: integers([None, None]),
            health: vec![Health::Healthy; 2],
        },
        combined_status: CombinedStatus::default(),
    }
}
