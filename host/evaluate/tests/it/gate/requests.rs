//! Requests that the tests ask with.

use stagegate_evaluate::gate::wire::{
    Arena, Cell, Column, ColumnData, CombinedStatus, Destination, EarlierVerdict, EvidenceRow, Object, Outcome,
    Reported, Request, ResultSet,
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
        destinations: vec![
            Destination {
                name: "dev-1".to_owned(),
                labels: Some(vec![("env".to_owned(), "dev".to_owned())]),
                evidence: vec![row(Reported::At(NOW_MS - 1_000)), row(Reported::WithoutStatus)],
            },
            Destination {
                name: "dev-2".to_owned(),
                labels: None,
                evidence: vec![row(Reported::Never), row(Reported::WithoutStatus)],
            },
        ],
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

fn row(reported: Reported) -> EvidenceRow {
    let with_numbers = matches!(reported, Reported::At(_));
    EvidenceRow {
        reported,
        generation: with_numbers.then_some(4),
        ready: with_numbers.then_some(3),
        available: None,
    }
}

fn deployment() -> Object {
    let column = |name: &str, nulls: &[u32], data| Column {
        name: name.to_owned(),
        nulls: nulls.to_vec(),
        data,
    };
    let texts = Arena {
        bytes: "dev-1dev-2".to_owned(),
        ends: vec![5, 10],
    };
    let columns = vec![
        column("cluster", &[], ColumnData::Texts(texts)),
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
        combined_status: CombinedStatus::default(),
    }
}
