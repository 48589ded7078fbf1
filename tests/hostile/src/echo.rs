//! What the gate saw of its request, as named pieces: tests compare them with what the host meant to say.

use stagegate_guest::bindings::stagegate::gate::types::{
    Arena, Cell, Column, ColumnData, Evidence, Integers, Labels, Reported, Request,
};

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
    for (index, destination) in request.destinations.iter().enumerate() {
        let labels = request.destinations.labels.as_ref();
        let labels = labels.and_then(|labels| labels_of(index, labels));
        let rows: Vec<_> = request
            .objects
            .iter()
            .map(|object| row(index, &object.evidence))
            .collect();
        pieces.push((
            "destination".to_owned(),
            format!(
                "{} {} {}",
                destination.name,
                labels.unwrap_or("-".to_owned()),
                rows.join("; ")
            ),
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

/// Not by the SDK, which refuses a cluster that has never reported.
fn row(index: usize, evidence: &Evidence) -> String {
    let reported = match evidence.reported[index] {
        Reported::Never => "never".to_owned(),
        Reported::WithoutStatus => "without-status".to_owned(),
        Reported::WithStatus => evidence.reported_at_ms[index].to_string(),
    };
    let number = |of: &Integers| of.get(index).map_or("-".to_owned(), |value| value.to_string());
    let numbers = [
        &evidence.generation,
        &evidence.ready,
        &evidence.available,
        &evidence.total,
        &evidence.updated,
    ];
    format!(
        "{} {reported} {}",
        evidence.health[index],
        numbers.map(number).join(" ")
    )
}

fn labels_of(index: usize, labels: &Labels) -> Option<String> {
    if labels.unknown.iter().any(|unknown| *unknown as usize == index) {
        return None;
    }
    let of_it = begin_of(index, &labels.ends)..labels.ends[index] as usize;
    let said = of_it.map(|label| format!("{}={}", text(label, &labels.keys), text(label, &labels.values)));
    Some(said.collect::<Vec<_>>().join(","))
}

fn text(index: usize, arena: &Arena) -> &str {
    &arena.bytes[begin_of(index, &arena.ends)..arena.ends[index] as usize]
}

fn begin_of(index: usize, ends: &[u32]) -> usize {
    index.checked_sub(1).map_or(0, |before| ends[before] as usize)
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
