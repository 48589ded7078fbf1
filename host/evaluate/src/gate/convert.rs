//! Between [`super::wire`] and the types that are generated from `wit/`: the request lends its texts and columns, so that a
//! column of a million numbers is handed over without a copy on this side. Nothing is checked here.

pub(super) mod typed_world {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "gate-world",
        ownership: Borrowing { duplicate_if_necessary: false },
    });
}

pub(super) mod json_world {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "gate-json-world",
        ownership: Borrowing { duplicate_if_necessary: false },
        with: { "stagegate:gate/log": super::typed_world::stagegate::gate::log },
    });
}

use typed_world::stagegate::gate::{log, types as wit};

use super::wire;

/// Lends `request` to `call`. The nested lists of each kind lie one behind the other in one vector, of which every parent
/// has its part: a request of thousands of objects costs seven allocations.
pub(super) fn with_request<R>(request: &wire::Request, call: impl FnOnce(wit::Request<'_>) -> R) -> R {
    let results_in = || {
        request
            .objects
            .iter()
            .flat_map(|object| &object.combined_status.results)
    };
    let columns_in = || results_in().flat_map(|result| &result.columns);

    let cells: Vec<_> = columns_in().flat_map(cells_of).map(cell).collect();
    let mut cells = cells.as_slice();
    let columns: Vec<_> = columns_in()
        .map(|of| column(of, take(&mut cells, cells_of(of).len())))
        .collect();
    let mut columns = columns.as_slice();
    let results: Vec<_> = results_in()
        .map(|of| result_set(of, take(&mut columns, of.columns.len())))
        .collect();
    let mut results = results.as_slice();
    let evidence_in = || request.objects.iter().map(|object| &object.evidence);
    let reports = evidence_in().flat_map(|of| &of.reported);
    let reports: Vec<_> = reports.map(|of| reported(*of)).collect();
    let mut reports = reports.as_slice();
    let verdicts = evidence_in().flat_map(|of| &of.health);
    let verdicts: Vec<_> = verdicts.map(|of| health(*of)).collect();
    let mut verdicts = verdicts.as_slice();
    let objects: Vec<_> = request
        .objects
        .iter()
        .map(|of| {
            let states = (
                take(&mut reports, of.evidence.reported.len()),
                take(&mut verdicts, of.evidence.health.len()),
            );
            let results = take(&mut results, of.combined_status.results.len());
            object(of, evidence(&of.evidence, states), results)
        })
        .collect();

    let earlier: Vec<_> = request.earlier.iter().map(earlier_verdict).collect();
    call(wit::Request {
        policy: &request.policy,
        stage: &request.stage,
        attempt: request.attempt,
        now_ms: request.now_ms,
        config: &request.config,
        objects: &objects,
        destinations: destinations(&request.destinations),
        earlier: &earlier,
    })
}

pub(super) fn verdict(verdict: wit::Verdict) -> wire::Verdict {
    let decision = match verdict.decision {
        wit::Decision::Pass(wit::Pass { valid_for_ms }) => wire::Decision::Pass(wire::Pass { valid_for_ms }),
        wit::Decision::Hold(wit::Hold { reason, retry_after_ms }) => {
            wire::Decision::Hold(wire::Hold { reason, retry_after_ms })
        }
        wit::Decision::Fail(wit::Fail { reason }) => wire::Decision::Fail(wire::Fail { reason }),
    };
    let piece = |wit::EvidencePiece { name, value }| wire::EvidencePiece { name, value };
    wire::Verdict {
        decision,
        evidence: verdict.evidence.into_iter().map(piece).collect(),
    }
}

pub(super) fn description(description: wit::Description) -> wire::Description {
    let wit::Description {
        name,
        version,
        summary,
        config_schema,
    } = description;
    wire::Description {
        name,
        version,
        summary,
        config_schema,
    }
}

pub(super) fn level(level: log::Level) -> wire::Level {
    match level {
        log::Level::Debug => wire::Level::Debug,
        log::Level::Info => wire::Level::Info,
        log::Level::Warn => wire::Level::Warn,
        log::Level::Error => wire::Level::Error,
    }
}

/// Takes so many off the front. The lists were filled by the same walk that takes them apart, so there are as many.
fn take<'a, T>(rest: &mut &'a [T], many: usize) -> &'a [T] {
    let (taken, left) = rest.split_at(many);
    *rest = left;
    taken
}

fn cells_of(column: &wire::Column) -> &[wire::Cell] {
    match &column.data {
        wire::ColumnData::Cells(cells) => cells,
        _ => &[],
    }
}

fn cell(cell: &wire::Cell) -> wit::Cell<'_> {
    match cell {
        wire::Cell::Null => wit::Cell::Null,
        wire::Cell::Boolean(value) => wit::Cell::Boolean(*value),
        wire::Cell::Integer(value) => wit::Cell::Integer(*value),
        wire::Cell::Decimal(value) => wit::Cell::Decimal(*value),
        wire::Cell::Text(value) => wit::Cell::Text(value),
        wire::Cell::Json(value) => wit::Cell::Json(value),
    }
}

fn column<'a>(column: &'a wire::Column, cells: &'a [wit::Cell<'a>]) -> wit::Column<'a> {
    let data = match &column.data {
        wire::ColumnData::Booleans(values) => wit::ColumnData::Booleans(values),
        wire::ColumnData::Integers(values) => wit::ColumnData::Integers(values),
        wire::ColumnData::Decimals(values) => wit::ColumnData::Decimals(values),
        wire::ColumnData::Texts(texts) => wit::ColumnData::Texts(arena(texts)),
        wire::ColumnData::Cells(_) => wit::ColumnData::Cells(cells),
    };
    wit::Column {
        name: &column.name,
        nulls: &column.nulls,
        data,
    }
}

fn result_set<'a>(result: &'a wire::ResultSet, columns: &'a [wit::Column<'a>]) -> wit::ResultSet<'a> {
    wit::ResultSet {
        collector: &result.collector,
        row_count: result.row_count,
        columns,
    }
}

fn object<'a>(
    object: &'a wire::Object,
    evidence: wit::Evidence<'a>,
    results: &'a [wit::ResultSet<'a>],
) -> wit::Object<'a> {
    wit::Object {
        group: &object.group,
        resource: &object.resource,
        namespace: object.namespace.as_deref(),
        name: &object.name,
        uid: &object.uid,
        generation: object.generation,
        evidence,
        combined_status: wit::CombinedStatus {
            namespace: &object.combined_status.namespace,
            name: &object.combined_status.name,
            results,
        },
    }
}

/// The columns of one object. The two that had to be converted are passed in; the others are lent as they are.
fn evidence<'a>(
    evidence: &'a wire::Evidence,
    (reported, health): (&'a [wit::Reported], &'a [wit::Health]),
) -> wit::Evidence<'a> {
    wit::Evidence {
        reported,
        reported_at_ms: &evidence.reported_at_ms,
        generation: integers(&evidence.generation),
        ready: integers(&evidence.ready),
        available: integers(&evidence.available),
        total: integers(&evidence.total),
        updated: integers(&evidence.updated),
        health,
    }
}

fn integers(wire::Integers { nulls, values }: &wire::Integers) -> wit::Integers<'_> {
    wit::Integers { nulls, values }
}

fn reported(reported: wire::Reported) -> wit::Reported {
    match reported {
        wire::Reported::Never => wit::Reported::Never,
        wire::Reported::WithoutStatus => wit::Reported::WithoutStatus,
        wire::Reported::WithStatus => wit::Reported::WithStatus,
    }
}

fn health(health: wire::Health) -> wit::Health {
    match health {
        wire::Health::Healthy => wit::Health::Healthy,
        wire::Health::Progressing => wit::Health::Progressing,
        wire::Health::Failed => wit::Health::Failed,
    }
}

fn destinations(destinations: &wire::Destinations) -> wit::Destinations<'_> {
    let labels = destinations.labels.as_ref().map(|labels| wit::Labels {
        unknown: &labels.unknown,
        keys: arena(&labels.keys),
        values: arena(&labels.values),
        ends: &labels.ends,
    });
    wit::Destinations {
        names: arena(&destinations.names),
        labels,
    }
}

fn arena(wire::Arena { bytes, ends }: &wire::Arena) -> wit::Arena<'_> {
    wit::Arena { bytes, ends }
}

fn earlier_verdict(verdict: &wire::EarlierVerdict) -> wit::EarlierVerdict<'_> {
    wit::EarlierVerdict {
        name: &verdict.name,
        outcome: match verdict.outcome {
            wire::Outcome::Pass => wit::Outcome::Pass,
            wire::Outcome::Hold => wit::Outcome::Hold,
            wire::Outcome::Fail => wit::Outcome::Fail,
            wire::Outcome::Unknown => wit::Outcome::Unknown,
        },
        reason: &verdict.reason,
    }
}

#[cfg(test)]
mod tests;
