//! Typed access to what StatusCollectors say: one column, all of its rows, as one type. Whatever is missing is an
//! error.

use std::fmt;
use std::ops::Deref;

use crate::Error;
use crate::bindings::stagegate::gate::types::{Arena, Cell, Column, ColumnData, Object, Request, ResultSet};
use crate::index::Index;

impl Object {
    /// The column `column` of what the StatusCollector `collector` says about this object.
    ///
    /// # Errors
    /// There is no such collector, or no such column in it.
    pub fn column(&self, collector: &str, column: &str) -> Result<Rows<'_>, Error> {
        let mut results = self.combined_status.results.iter();
        let result = results
            .find(|result| result.collector == collector)
            .ok_or_else(|| Error::new(format_args!("there is no collector `{collector}` for {self}")))?;
        Rows::of(self, result, column)
    }
}

impl Arena {
    /// The text at this index. None also if the ends do not fit the bytes.
    pub(crate) fn text(&self, index: usize) -> Option<&str> {
        let end = |index: usize| usize::try_from(*self.ends.get(index)?).ok();
        let begin = index.checked_sub(1).map_or(Some(0), end)?;
        self.bytes.get(begin..end(index)?)
    }
}

/// Kind and name, for people: `deployments shop/web`.
impl fmt::Display for Object {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(formatter, "{} {namespace}/{}", self.resource, self.name),
            None => write!(formatter, "{} {}", self.resource, self.name),
        }
    }
}

/// A column whose type was not asked for yet.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    object: &'a Object,
    result: &'a ResultSet,
    column: &'a Column,
}

impl<'a> Rows<'a> {
    fn of(object: &'a Object, result: &'a ResultSet, name: &str) -> Result<Self, Error> {
        let mut columns = result.columns.iter();
        let column = columns.find(|column| column.name == name).ok_or_else(|| {
            Error::new(format_args!(
                "collector `{}` has no column `{name}` for {object}",
                result.collector
            ))
        })?;
        let rows = Self { object, result, column };
        let count = match &column.data {
            ColumnData::Booleans(values) => values.len(),
            ColumnData::Integers(values) => values.len(),
            ColumnData::Decimals(values) => values.len(),
            ColumnData::Texts(arena) => arena.ends.len(),
            ColumnData::Cells(cells) => cells.len(),
        };
        if count as u64 == u64::from(result.row_count) {
            Ok(rows)
        } else {
            Err(rows.error("is not as long as its table"))
        }
    }

    /// Integers beyond 2^53 lose their last digits here, see [`Self::integers`].
    ///
    /// # Errors
    /// A row has no value, or one that is no number.
    pub fn numbers(self) -> Result<Values<'a, f64>, Error> {
        self.all("number", |data, row| {
            let number = match data {
                ColumnData::Integers(values) => *values.get(row)? as f64,
                ColumnData::Decimals(values) => *values.get(row)?,
                ColumnData::Cells(cells) => match cells.get(row)? {
                    Cell::Integer(value) => *value as f64,
                    Cell::Decimal(value) => *value,
                    _ => return None,
                },
                ColumnData::Booleans(_) | ColumnData::Texts(_) => return None,
            };
            // What is not a number compares as neither short nor enough.
            number.is_finite().then_some(number)
        })
    }

    /// # Errors
    /// A row has no value, or one that is no integer.
    pub fn integers(self) -> Result<Values<'a, i64>, Error> {
        self.all("integer", |data, row| match data {
            ColumnData::Integers(values) => values.get(row).copied(),
            ColumnData::Cells(cells) => match cells.get(row)? {
                Cell::Integer(value) => Some(*value),
                _ => None,
            },
            _ => None,
        })
    }

    /// # Errors
    /// A row has no value, or one that is neither true nor false.
    pub fn booleans(self) -> Result<Values<'a, bool>, Error> {
        self.all("boolean", |data, row| match data {
            ColumnData::Booleans(values) => values.get(row).copied(),
            ColumnData::Cells(cells) => match cells.get(row)? {
                Cell::Boolean(value) => Some(*value),
                _ => None,
            },
            _ => None,
        })
    }

    /// # Errors
    /// A row has no value, or one that is no text.
    pub fn texts(self) -> Result<Values<'a, &'a str>, Error> {
        self.all("text", |data, row| match data {
            ColumnData::Texts(arena) => arena.text(row),
            ColumnData::Cells(cells) => match cells.get(row)? {
                Cell::Text(value) => Some(value.as_str()),
                _ => None,
            },
            _ => None,
        })
    }

    fn all<T>(self, wanted: &str, value: impl Fn(&'a ColumnData, usize) -> Option<T>) -> Result<Values<'a, T>, Error> {
        if let Some(row) = self.column.nulls.first() {
            return Err(self.error(format_args!("has no value in row {row}")));
        }
        let data = &self.column.data;
        let values = (0..self.result.row_count as usize)
            .map(|row| value(data, row).ok_or_else(|| self.error(format_args!("holds no {wanted} in row {row}"))))
            .collect::<Result<_, _>>()?;
        Ok(Values { rows: self, values })
    }

    fn error(&self, what: impl fmt::Display) -> Error {
        let (column, collector, object) = (&self.column.name, &self.result.collector, self.object);
        Error::new(format_args!(
            "column `{column}` of collector `{collector}` for {object} {what}"
        ))
    }
}

/// The values of one column, one for each row, in the table's order.
pub struct Values<'a, T> {
    rows: Rows<'a>,
    values: Vec<T>,
}

impl<T> Deref for Values<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values
    }
}

impl<'a, T: Copy> Values<'a, T> {
    /// One value for each destination of the stage, in their order: the row's in which the same table's column
    /// `cluster_column` has the destination's name.
    ///
    /// # Errors
    /// A destination has no row or several, or a row belongs to no destination.
    pub fn per_cluster(self, cluster_column: &str, request: &'a Request) -> Result<Vec<(&'a str, T)>, Error> {
        let rows = Rows::of(self.rows.object, self.rows.result, cluster_column)?;
        let clusters = rows.texts()?;
        let destinations = || request.destinations.iter().map(|destination| destination.name);
        if destinations().eq(clusters.iter().copied()) {
            return Ok(destinations().zip(self.values).collect());
        }
        let twice = |cluster| rows.error(format_args!("names the cluster {cluster} twice"));
        let index = Index::of(&clusters).map_err(twice)?;
        let mut taken = Vec::with_capacity(clusters.len());
        for cluster in destinations() {
            let row = index
                .row(cluster)
                .ok_or_else(|| rows.error(format_args!("has no row of {cluster}")))?;
            taken.push((cluster, self.values[row]));
        }
        if taken.len() == clusters.len() {
            return Ok(taken);
        }
        let is_foreign = |cluster: &&&str| destinations().all(|destination| destination != **cluster);
        let foreign = clusters.iter().find(is_foreign).copied().unwrap_or_default();
        Err(rows.error(format_args!("names {foreign}, which is no destination of the stage")))
    }
}
