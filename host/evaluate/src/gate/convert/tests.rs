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
        destinations: wire::Destinations::default(),
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
        evidence: evidence(name),
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

/// Evidence that differs from object to object. The last has columns of different lengths, which this side does not check.
fn evidence(of: &str) -> wire::Evidence {
    let number = |first: i64| wire::Integers {
        nulls: vec![1],
        values: vec![first, 0, i64::MIN],
    };
    let columns = wire::Evidence {
        reported: vec![
            wire::Reported::WithStatus,
            wire::Reported::Never,
            wire::Reported::WithoutStatus,
        ],
        reported_at_ms: vec![5, 0, u64::MAX],
        generation: number(1),
        ready: number(2),
        available: number(3),
        total: number(4),
        updated: number(5),
        health: vec![wire::Health::Healthy, wire::Health::Progressing, wire::Health::Failed],
    };
    match of {
        "a" => columns,
        "b" => wire::Evidence::default(),
        _ => wire::Evidence {
            reported: vec![wire::Reported::WithStatus],
            health: vec![wire::Health::Failed, wire::Health::Healthy],
            ..columns
        },
    }
}

fn destinations() -> wire::Destinations {
    let arena = |texts: &[&str]| {
        let mut arena = wire::Arena::default();
        texts.iter().for_each(|text| arena.push(text));
        arena
    };
    wire::Destinations {
        names: arena(&["some", "unknown", "empty", "läst"]),
        labels: Some(wire::Labels {
            unknown: vec![1],
            keys: arena(&["key 0", "key 1", "key 2"]),
            values: arena(&["value 0", "", "value 2"]),
            ends: vec![2, 2, 2, 3],
        }),
    }
}

fn back(request: wit::Request<'_>) -> wire::Request {
    wire::Request {
        policy: request.policy.to_owned(),
        stage: request.stage.to_owned(),
        attempt: request.attempt,
        now_ms: request.now_ms,
        config: request.config.to_owned(),
        objects: request.objects.iter().map(object_back).collect(),
        destinations: destinations_back(&request.destinations),
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
        evidence: evidence_back(&object.evidence),
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
            wit::ColumnData::Texts(ref texts) => wire::ColumnData::Texts(arena_back(texts)),
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

fn evidence_back(evidence: &wit::Evidence<'_>) -> wire::Evidence {
    let reported = |reported: &wit::Reported| match reported {
        wit::Reported::Never => wire::Reported::Never,
        wit::Reported::WithoutStatus => wire::Reported::WithoutStatus,
        wit::Reported::WithStatus => wire::Reported::WithStatus,
    };
    let health = |health: &wit::Health| match health {
        wit::Health::Healthy => wire::Health::Healthy,
        wit::Health::Progressing => wire::Health::Progressing,
        wit::Health::Failed => wire::Health::Failed,
    };
    let integers = |wit::Integers { nulls, values }: &wit::Integers<'_>| wire::Integers {
        nulls: nulls.to_vec(),
        values: values.to_vec(),
    };
    wire::Evidence {
        reported: evidence.reported.iter().map(reported).collect(),
        reported_at_ms: evidence.reported_at_ms.to_vec(),
        generation: integers(&evidence.generation),
        ready: integers(&evidence.ready),
        available: integers(&evidence.available),
        total: integers(&evidence.total),
        updated: integers(&evidence.updated),
        health: evidence.health.iter().map(health).collect(),
    }
}

fn destinations_back(destinations: &wit::Destinations<'_>) -> wire::Destinations {
    let labels = |labels: &wit::Labels<'_>| wire::Labels {
        unknown: labels.unknown.to_vec(),
        keys: arena_back(&labels.keys),
        values: arena_back(&labels.values),
        ends: labels.ends.to_vec(),
    };
    wire::Destinations {
        names: arena_back(&destinations.names),
        labels: destinations.labels.as_ref().map(labels),
    }
}

fn arena_back(wit::Arena { bytes, ends }: &wit::Arena<'_>) -> wire::Arena {
    wire::Arena {
        bytes: (*bytes).to_owned(),
        ends: ends.to_vec(),
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
