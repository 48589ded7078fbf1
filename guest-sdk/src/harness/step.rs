//! The ways in which evidence becomes worse. Every step takes knowledge away or moves a number the bad way; none may be
//! undone by another one.

use std::fmt::{self, Display};

use super::columns::{packed, unpacked};
use super::worse::Worse;
use crate::bindings::stagegate::gate::types::{
    Cell, Column, Evidence, Health, Integers, Outcome, Reported, Request, ResultSet,
};

/// One way to make a request worse. Indices are of the request that it is applied to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// What the host knows of an object in a cluster.
    Row {
        destination: usize,
        object: usize,
        change: RowChange,
    },
    /// The host cannot read the cluster's labels.
    NoLabels { destination: usize },
    /// What a collector says of an object.
    Table {
        object: usize,
        collector: usize,
        change: TableChange,
    },
    /// An earlier check of the stage could not be judged.
    EarlierUnknown { check: usize },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum RowChange {
    NeverReported,
    Ready(Number),
    Available(Number),
    /// The total is only removed: neither more nor fewer replicas are worse.
    NoTotal,
    Updated(Number),
    Health(Health),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum TableChange {
    Missing,
    NoColumn(usize),
    NoRow(usize),
    Value { column: usize, row: usize, to: Number },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Missing,
    /// A text, as the error of a collector's expression is.
    ErrorText,
    /// By one.
    Lower,
    Higher,
    /// To zero at most.
    FarLower,
    FarHigher,
}

/// Every step that the request has a place for.
pub(super) fn steps(request: &Request, columns: &[Worse]) -> Vec<Step> {
    let mut steps = Vec::new();
    for destination in 0..request.destinations.len() {
        steps.push(Step::NoLabels { destination });
        for object in 0..request.objects.len() {
            let row = |change| Step::Row {
                destination,
                object,
                change,
            };
            steps.extend([RowChange::NeverReported, RowChange::NoTotal].map(row));
            steps.extend([Health::Progressing, Health::Failed].map(|to| row(RowChange::Health(to))));
            for to in [Number::Missing, Number::Lower, Number::FarLower] {
                let changes = [RowChange::Ready(to), RowChange::Available(to), RowChange::Updated(to)];
                steps.extend(changes.map(row));
            }
        }
    }
    for (object, judged) in request.objects.iter().enumerate() {
        for (collector, result) in judged.combined_status.results.iter().enumerate() {
            let changes = table_changes(result, columns);
            steps.extend(changes.into_iter().map(|change| Step::Table {
                object,
                collector,
                change,
            }));
        }
    }
    steps.extend((0..request.earlier.len()).map(|check| Step::EarlierUnknown { check }));
    steps
}

fn table_changes(result: &ResultSet, columns: &[Worse]) -> Vec<TableChange> {
    let rows = result.row_count as usize;
    let mut changes = vec![TableChange::Missing];
    changes.extend((0..rows).map(TableChange::NoRow));
    for (column, Column { name, .. }) in result.columns.iter().enumerate() {
        changes.push(TableChange::NoColumn(column));
        let mut values = vec![Number::Missing, Number::ErrorText];
        if columns
            .iter()
            .any(|column| matches!(column, Worse::Lower(lower) if lower == name))
        {
            values.extend([Number::Lower, Number::FarLower]);
        }
        if columns
            .iter()
            .any(|column| matches!(column, Worse::Higher(higher) if higher == name))
        {
            values.extend([Number::Higher, Number::FarHigher]);
        }
        changes
            .extend((0..rows).flat_map(|row| values.iter().map(move |to| TableChange::Value { column, row, to: *to })));
    }
    changes
}

impl Step {
    /// None where there is nothing left to make worse.
    pub(super) fn apply(self, request: &Request) -> Option<Request> {
        let mut worse = request.clone();
        match self {
            Self::Row {
                destination,
                object,
                change,
            } => {
                change.apply(&mut worse.objects.get_mut(object)?.evidence, destination)?;
            }
            Self::NoLabels { destination } => {
                add(&mut worse.destinations.labels.as_mut()?.unknown, destination);
            }
            Self::Table {
                object,
                collector,
                change,
            } => {
                let results = &mut worse.objects.get_mut(object)?.combined_status.results;
                let result = results.get_mut(collector)?;
                match change {
                    TableChange::Missing => drop(results.remove(collector)),
                    change => change.apply(result)?,
                }
            }
            Self::EarlierUnknown { check } => worse.earlier.get_mut(check)?.outcome = Outcome::Unknown,
        }
        (worse != *request).then_some(worse)
    }

    /// The step in words, on the request that it is taken on.
    pub(super) fn on(self, request: &Request) -> String {
        let cluster = |at: usize| {
            let destination = request.destinations.get(at);
            destination.map_or("?", |destination| destination.name)
        };
        let object = |at: usize| request.objects.get(at).map(ToString::to_string).unwrap_or_default();
        match self {
            Self::Row {
                destination,
                object: at,
                change,
            } => format!("{} in {}: {change}", object(at), cluster(destination)),
            Self::NoLabels { destination } => format!("{}: its labels are unknown", cluster(destination)),
            Self::Table {
                object: at,
                collector,
                change,
            } => {
                let result = request
                    .objects
                    .get(at)
                    .and_then(|object| object.combined_status.results.get(collector));
                let (name, change) =
                    result.map_or(("?", String::new()), |result| (&result.collector, change.on(result)));
                format!("collector {name} of {}: {change}", object(at))
            }
            Self::EarlierUnknown { check } => {
                let name = request.earlier.get(check).map_or("?", |earlier| &earlier.name);
                format!("earlier check {name}: it is unknown")
            }
        }
    }
}

impl RowChange {
    fn apply(self, evidence: &mut Evidence, destination: usize) -> Option<()> {
        match self {
            Self::NeverReported => {
                *evidence.reported.get_mut(destination)? = Reported::Never;
                *evidence.reported_at_ms.get_mut(destination)? = 0;
                let Evidence {
                    generation,
                    ready,
                    available,
                    total,
                    updated,
                    ..
                } = evidence;
                for numbers in [generation, ready, available, total, updated] {
                    set(numbers, destination, None)?;
                }
                let health = evidence.health.get_mut(destination)?;
                *health = worst(*health, Health::Progressing);
            }
            Self::Ready(to) => lower(&mut evidence.ready, destination, to)?,
            Self::Available(to) => lower(&mut evidence.available, destination, to)?,
            Self::NoTotal => set(&mut evidence.total, destination, None)?,
            Self::Updated(to) => lower(&mut evidence.updated, destination, to)?,
            Self::Health(to) => {
                let health = evidence.health.get_mut(destination)?;
                *health = worst(*health, to);
            }
        }
        Some(())
    }
}

fn lower(numbers: &mut Integers, destination: usize, to: Number) -> Option<()> {
    let value = match to.of(&Cell::Integer(numbers.get(destination)?))? {
        // Kubernetes counts no replicas below zero.
        Cell::Integer(value) => Some(value.max(0)),
        _ => None,
    };
    set(numbers, destination, value)
}

/// A removed number leaves a zero, as the host writes it.
fn set(numbers: &mut Integers, destination: usize, value: Option<i64>) -> Option<()> {
    *numbers.values.get_mut(destination)? = value.unwrap_or_default();
    if value.is_none() {
        add(&mut numbers.nulls, destination);
    }
    Some(())
}

/// Adds the destination, and keeps the list ascending.
fn add(destinations: &mut Vec<u32>, destination: usize) {
    let destination = u32::try_from(destination).unwrap_or(u32::MAX);
    if let Err(at) = destinations.binary_search(&destination) {
        destinations.insert(at, destination);
    }
}

fn worst(a: Health, b: Health) -> Health {
    match (a, b) {
        (Health::Failed, _) | (_, Health::Failed) => Health::Failed,
        (Health::Progressing, _) | (_, Health::Progressing) => Health::Progressing,
        (Health::Healthy, Health::Healthy) => Health::Healthy,
    }
}

impl Display for RowChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverReported => formatter.write_str("it has never been reported"),
            Self::Ready(to) => write!(formatter, "ready is {to}"),
            Self::Available(to) => write!(formatter, "available is {to}"),
            Self::NoTotal => formatter.write_str("total is missing"),
            Self::Updated(to) => write!(formatter, "updated is {to}"),
            Self::Health(to) => write!(formatter, "it is {to}"),
        }
    }
}

impl TableChange {
    fn apply(self, result: &mut ResultSet) -> Option<()> {
        match self {
            Self::Missing => return None,
            Self::NoColumn(column) => {
                (column < result.columns.len()).then(|| result.columns.remove(column))?;
            }
            Self::NoRow(row) => {
                result.row_count = (row < result.row_count as usize).then(|| result.row_count - 1)?;
                for column in &mut result.columns {
                    let mut cells = unpacked(column);
                    cells.remove(row);
                    *column = packed(&column.name, cells);
                }
            }
            Self::Value { column, row, to } => {
                let column = result.columns.get_mut(column)?;
                let mut cells = unpacked(column);
                let cell = cells.get_mut(row)?;
                *cell = to.of(cell)?;
                *column = packed(&column.name, cells);
            }
        }
        Some(())
    }

    fn on(self, result: &ResultSet) -> String {
        let column = |at: usize| result.columns.get(at).map_or("?", |column| &column.name);
        match self {
            Self::Missing => "it is missing".to_owned(),
            Self::NoColumn(at) => format!("column {} is missing", column(at)),
            Self::NoRow(row) => format!("row {row} is missing"),
            Self::Value { column: at, row, to } => format!("{} in row {row} is {to}", column(at)),
        }
    }
}

impl Number {
    /// None for what is no number, or missing already.
    fn of(self, cell: &Cell) -> Option<Cell> {
        Some(match (self, cell) {
            (_, Cell::Null) => return None,
            (Self::Missing, _) => Cell::Null,
            (Self::ErrorText, _) => Cell::Text("no such key".to_owned()),
            (Self::Lower, Cell::Integer(value)) => Cell::Integer(value.saturating_sub(1)),
            (Self::Lower, Cell::Decimal(value)) => Cell::Decimal(value - 1.0),
            (Self::Higher, Cell::Integer(value)) => Cell::Integer(value.saturating_add(1)),
            (Self::Higher, Cell::Decimal(value)) => Cell::Decimal(value + 1.0),
            (Self::FarLower, Cell::Integer(value)) => Cell::Integer((*value).min(0)),
            (Self::FarLower, Cell::Decimal(value)) => Cell::Decimal(value.min(0.0)),
            (Self::FarHigher, Cell::Integer(value)) => Cell::Integer(value.saturating_mul(2).max(1_000)),
            (Self::FarHigher, Cell::Decimal(value)) => Cell::Decimal((value * 2.0).max(1_000.0)),
            (_, Cell::Boolean(_) | Cell::Text(_) | Cell::Json(_)) => return None,
        })
    }
}

impl Display for Number {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Missing => "missing",
            Self::ErrorText => "the text of an error",
            Self::Lower => "one lower",
            Self::Higher => "one higher",
            Self::FarLower => "zero or less",
            Self::FarHigher => "far higher",
        })
    }
}
