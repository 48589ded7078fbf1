//! What the gate saw of its request, as named pieces: tests compare them with what the host meant to say.

use stagegate_guest::bindings::stagegate::gate::types::{Cell, Column, ColumnData, Reported, Request};

pub fn pieces(request: &Request) -> Vec<(String, String)> {
    let mut pieces = vec![
        ("now-ms".to_owned(), request.now_ms.to_string()),
        ("policy".to_owned(), request.policy.clone()),
        ("stage".to_owned(), request.stage.clone()),
        ("attempt".to_owned(), request.attempt.to_string()),
        ("config".to_owned(), request.config.clone()),
    ];
    for object in &request.objects {
        let namespace = object.namespace.as_deref().unwrap_or("-");
        let generation = object
            .generation
            .map_or("-".to_owned(), |generation| generation.to_string());
        let said = format!(
            "{}/{} {namespace}/{} {} {generation}",
            object.group, object.resource, object.name, object.uid
        );
        pieces.push(("object".to_owned(), said));
        for result in &object.combined_status.results {
            for column in &result.columns {
                let name = format!("{}.{}", result.collector, column.name);
                pieces.push((name, format!("{} rows, first {}", result.row_count, first(column))));
            }
        }
    }
    for destination in &request.destinations {
        let labels = destination.labels.as_ref().map_or("-".to_owned(), |labels| {
            labels
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect::<Vec<_>>()
                .join(",")
        });
        let evidence: Vec<_> = destination
            .evidence
            .iter()
            .map(|row| {
                let reported = match row.reported {
                    Reported::Never => "never".to_owned(),
                    Reported::WithoutStatus => "without-status".to_owned(),
                    Reported::At(at) => at.to_string(),
                };
                format!("{reported} {:?} {:?} {:?}", row.generation, row.ready, row.available)
            })
            .collect();
        pieces.push((
            "destination".to_owned(),
            format!("{} {labels} {}", destination.name, evidence.join("; ")),
        ));
    }
    for earlier in &request.earlier {
        pieces.push((
            "earlier".to_owned(),
            format!("{} {} {}", earlier.name, earlier.outcome, earlier.reason),
        ));
    }
    pieces
}

fn first(column: &Column) -> String {
    if column.nulls.first() == Some(&0) {
        return "null".to_owned();
    }
    let said = match &column.data {
        ColumnData::Booleans(values) => values.first().map(|value| format!("boolean {value}")),
        ColumnData::Integers(values) => values.first().map(|value| format!("integer {value}")),
        ColumnData::Decimals(values) => values.first().map(|value| format!("decimal {value}")),
        ColumnData::Texts(arena) => arena
            .ends
            .first()
            .and_then(|end| arena.bytes.get(..usize::try_from(*end).ok()?))
            .map(|text| format!("text {text}")),
        ColumnData::Cells(cells) => cells.first().map(|cell| match cell {
            Cell::Null => "cell null".to_owned(),
            Cell::Boolean(value) => format!("cell boolean {value}"),
            Cell::Integer(value) => format!("cell integer {value}"),
            Cell::Decimal(value) => format!("cell decimal {value}"),
            Cell::Text(value) => format!("cell text {value}"),
            Cell::Json(value) => format!("cell json {value}"),
        }),
    };
    said.unwrap_or_else(|| "none".to_owned())
}
