//! Every shape of a request is lent as it is: what was lent is read back into plain values. There is no other use for the way
//! back, so it is here.

use super::*;

#[test]
fn a_request_of_every_shape_comes_back_as_it_was() {
    let request = request();
    assert_eq!(with_request(&request, back), request);
}

#[test]
fn an_empty_request_comes_back_as_it_was() {
    let request = wire::Request {
        objects: Vec::new(),
        destinations: Vec::new(),
        earlier: Vec::new(),
        ..request()
    };
    assert_eq!(with_request(&request, back), request);
}

#[test]
fn verdicts_descriptions_and_levels_keep_what_they_say() {
    let piece = |n: &str| (format!("name {n}"), format!("value {n}"));
    let evidence = |names: &[&str]| names.iter().map(|n| piece(n)).collect::<Vec<_>>();
    let decisions = [
        (
            wit::Decision::Pass(wit::Pass { valid_for_ms: Some(7) }),
            wire::Decision::Pass(wire::Pass { valid_for_ms: Some(7) }),
        ),
        (
            wit::Decision::Pass(wit::Pass { valid_for_ms: None }),
            wire::Decision::Pass(wire::Pass { valid_for_ms: None }),
        ),
        (
            wit::Decision::Hold(wit::Hold {
                reason: "h".to_owned(),
                retry_after_ms: Some(8),
            }),
            wire::Decision::Hold(wire::Hold {
                reason: "h".to_owned(),
                retry_after_ms: Some(8),
            }),
        ),
        (
            wit::Decision::Fail(wit::Fail { reason: "f".to_owned() }),
            wire::Decision::Fail(wire::Fail { reason: "f".to_owned() }),
        ),
    ];
    for (given, expected) in decisions {
        let given = wit::Verdict {
            decision: given,
            evidence: evidence(&["a", "b"])
                .into_iter()
                .map(|(name, value)| wit::EvidencePiece { name, value })
                .collect(),
        };
        let expected = wire::Verdict {
            decision: expected,
            evidence: evidence(&["a", "b"])
                .into_iter()
                .map(|(name, value)| wire::EvidencePiece { name, value })
                .collect(),
        };
        assert_eq!(verdict(given), expected);
    }
    let given = wit::Description {
        name: "n".to_owned(),
        version: "v".to_owned(),
        summary: "s".to_owned(),
        config_schema: "c".to_owned(),
    };
    let said = description(given);
    let said = [said.name, said.version, said.summary, said.config_schema];
    assert_eq!(said, ["n", "v", "s", "c"]);
    let levels = [log::Level::Debug, log::Level::Info, log::Level::Warn, log::Level::Error].map(level);
    assert_eq!(
        levels,
        [
            wire::Level::Debug,
            wire::Level::Info,
            wire::Level::Warn,
            wire::Level::Error
        ]
    );
}

fn request() -> wire::Request {
    let column = |name: &str, nulls: &[u32], data| wire::Column {
        name: name.to_owned(),
        nulls: nulls.to_vec(),
        data,
    };
    let texts = wire::Arena {
        bytes: "aébc".to_owned(),
        ends: vec![1, 3, 3, 5],
    };
    let cells = [
        wire::Cell::Null,
        wire::Cell::Boolean(true),
        wire::Cell::Integer(i64::MIN),
        wire::Cell::Decimal(-0.5),
        wire::Cell::Text("text".to_owned()),
        wire::Cell::Json("[1]".to_owned()),
    ];
    let columns = vec![
        column("booleans", &[], wire::ColumnData::Booleans(vec![true, false])),
        column("cells", &[0], wire::ColumnData::Cells(cells.to_vec())),
        column(
            "integers",
            &[1, 3],
            wire::ColumnData::Integers(vec![i64::MAX, 0, -1, 0]),
        ),
        column("decimals", &[], wire::ColumnData::Decimals(vec![1e300, 0.0])),
        column("texts", &[2], wire::ColumnData::Texts(texts)),
        column("more cells", &[], wire::ColumnData::Cells(cells[2..].to_vec())),
    ];
    let result = |collector: &str, columns: &[wire::Column]| wire::ResultSet {
        collector: collector.to_owned(),
        row_count: 4,
        columns: columns.to_vec(),
    };
    let object = |name: &str, results: Vec<wire::ResultSet>| wire::Object {
        group: "apps".to_owned(),
        resource: "deployments".to_owned(),
        namespace: (name == "a").then(|| "default".to_owned()),
        name: name.to_owned(),
        uid: format!("uid of {name}"),
        generation: (name != "a").then_some(-4),
        combined_status: wire::CombinedStatus {
            namespace: "default".to_owned(),
            name: format!("status of {name}"),
            results,
        },
    };
    wire::Request {
        policy: "p".to_owned(),
        stage: "s".to_owned(),
        attempt: u64::MAX,
        now_ms: 1,
        config: "{\"a\":1}".to_owned(),
        objects: vec![
            object(
                "a",
                vec![
                    result("all", &columns),
                    result("none", &[]),
                    result("two", &columns[1..3]),
                ],
            ),
            object("b", Vec::new()),
            object("c", vec![result("one", &columns[5..])]),
        ],
        destinations: destinations(),
        earlier: [
            wire::Outcome::Pass,
            wire::Outcome::Hold,
            wire::Outcome::Fail,
            wire::Outcome::Unknown,
        ]
        .map(|outcome| wire::EarlierVerdict {
            name: format!("{outcome:?}"),
            outcome,
            reason: format!("because {outcome:?}"),
        })
        .into(),
    }
}

fn destinations() -> Vec<wire::Destination> {
    let row = |reported, number| wire::EvidenceRow {
        reported,
        generation: number,
        ready: number.map(|number: i64| number + 1),
        available: number.map(|number| number + 2),
    };
    let labels = |many: i64| (0..many).map(|i| (format!("key {i}"), format!("value {i}"))).collect();
    let destination = |name: &str, labels, evidence| wire::Destination {
        name: name.to_owned(),
        labels,
        evidence,
    };
    vec![
        destination(
            "some",
            Some(labels(2)),
            vec![row(wire::Reported::At(5), Some(1)), row(wire::Reported::Never, None)],
        ),
        destination("unknown", None, vec![row(wire::Reported::WithoutStatus, None)]),
        destination("empty", Some(Vec::new()), Vec::new()),
        destination("last", Some(labels(1)), vec![row(wire::Reported::At(6), Some(-9))]),
    ]
}

fn back(request: wit::Request<'_>) -> wire::Request {
    wire::Request {
        policy: request.policy.to_owned(),
        stage: request.stage.to_owned(),
        attempt: request.attempt,
        now_ms: request.now_ms,
        config: request.config.to_owned(),
        objects: request.objects.iter().map(object_back).collect(),
        destinations: request.destinations.iter().map(destination_back).collect(),
        earlier: request.earlier.iter().map(earlier_back).collect(),
    }
}

fn object_back(object: &wit::Object<'_>) -> wire::Object {
    wire::Object {
        group: object.group.to_owned(),
        resource: object.resource.to_owned(),
        namespace: object.namespace.map(str::to_owned),
        name: object.name.to_owned(),
        uid: object.uid.to_owned(),
        generation: object.generation,
        combined_status: wire::CombinedStatus {
            namespace: object.combined_status.namespace.to_owned(),
            name: object.combined_status.name.to_owned(),
            results: object.combined_status.results.iter().map(result_back).collect(),
        },
    }
}

fn result_back(result: &wit::ResultSet<'_>) -> wire::ResultSet {
    let column = |column: &wit::Column<'_>| wire::Column {
        name: column.name.to_owned(),
        nulls: column.nulls.to_vec(),
        data: match column.data {
            wit::ColumnData::Booleans(values) => wire::ColumnData::Booleans(values.to_vec()),
            wit::ColumnData::Integers(values) => wire::ColumnData::Integers(values.to_vec()),
            wit::ColumnData::Decimals(values) => wire::ColumnData::Decimals(values.to_vec()),
            wit::ColumnData::Texts(wit::Arena { bytes, ends }) => wire::ColumnData::Texts(wire::Arena {
                bytes: bytes.to_owned(),
                ends: ends.to_vec(),
            }),
            wit::ColumnData::Cells(cells) => wire::ColumnData::Cells(cells.iter().map(cell_back).collect()),
        },
    };
    wire::ResultSet {
        collector: result.collector.to_owned(),
        row_count: result.row_count,
        columns: result.columns.iter().map(column).collect(),
    }
}

fn cell_back(cell: &wit::Cell<'_>) -> wire::Cell {
    match *cell {
        wit::Cell::Null => wire::Cell::Null,
        wit::Cell::Boolean(value) => wire::Cell::Boolean(value),
        wit::Cell::Integer(value) => wire::Cell::Integer(value),
        wit::Cell::Decimal(value) => wire::Cell::Decimal(value),
        wit::Cell::Text(value) => wire::Cell::Text(value.to_owned()),
        wit::Cell::Json(value) => wire::Cell::Json(value.to_owned()),
    }
}

fn destination_back(destination: &wit::Destination<'_>) -> wire::Destination {
    let label = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let row = |row: &wit::EvidenceRow| wire::EvidenceRow {
        reported: match row.reported {
            wit::Reported::Never => wire::Reported::Never,
            wit::Reported::WithoutStatus => wire::Reported::WithoutStatus,
            wit::Reported::At(ms) => wire::Reported::At(ms),
        },
        generation: row.generation,
        ready: row.ready,
        available: row.available,
    };
    wire::Destination {
        name: destination.name.to_owned(),
        labels: destination.labels.map(|labels| labels.iter().map(label).collect()),
        evidence: destination.evidence.iter().map(row).collect(),
    }
}

fn earlier_back(verdict: &wit::EarlierVerdict<'_>) -> wire::EarlierVerdict {
    wire::EarlierVerdict {
        name: verdict.name.to_owned(),
        outcome: match verdict.outcome {
            wit::Outcome::Pass => wire::Outcome::Pass,
            wit::Outcome::Hold => wire::Outcome::Hold,
            wit::Outcome::Fail => wire::Outcome::Fail,
            wit::Outcome::Unknown => wire::Outcome::Unknown,
        },
        reason: verdict.reason.to_owned(),
    }
}
