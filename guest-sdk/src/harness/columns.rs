//! Columns as lists of cells, and back with the types that the host gives them.

use crate::bindings::stagegate::gate::types::{Arena, Cell, Column, ColumnData, Integers};

/// One type where all values are of one, cells otherwise; rows without a value are nulls.
pub(super) fn packed(name: &str, cells: Vec<Cell>) -> Column {
    let present = || cells.iter().filter(|cell| **cell != Cell::Null);
    let data = if present().next().is_none() {
        ColumnData::Cells(cells.clone())
    } else if present().all(|cell| matches!(cell, Cell::Boolean(_))) {
        ColumnData::Booleans(cells.iter().map(|cell| *cell == Cell::Boolean(true)).collect())
    } else if present().all(|cell| matches!(cell, Cell::Integer(_))) {
        ColumnData::Integers(
            cells
                .iter()
                .map(|cell| if let Cell::Integer(value) = cell { *value } else { 0 })
                .collect(),
        )
    } else if present().all(|cell| matches!(cell, Cell::Integer(_) | Cell::Decimal(_))) {
        ColumnData::Decimals(cells.iter().map(decimal).collect())
    } else if present().all(|cell| matches!(cell, Cell::Text(_))) {
        let text = |cell: &'_ Cell| {
            if let Cell::Text(text) = cell {
                text.clone()
            } else {
                String::new()
            }
        };
        ColumnData::Texts(arena(cells.iter().map(text)))
    } else {
        ColumnData::Cells(cells.clone())
    };
    let nulls = rows_where(cells.iter().map(|cell| *cell == Cell::Null));
    Column {
        name: name.to_owned(),
        nulls,
        data,
    }
}

/// The texts, one after the other in one string.
pub(super) fn arena(texts: impl Iterator<Item = impl AsRef<str>>) -> Arena {
    let mut arena = Arena {
        bytes: String::new(),
        ends: Vec::new(),
    };
    for text in texts {
        arena.bytes.push_str(text.as_ref());
        arena.ends.push(u32::try_from(arena.bytes.len()).unwrap_or(u32::MAX));
    }
    arena
}

pub(super) fn integers(values: impl Iterator<Item = Option<i64>> + Clone) -> Integers {
    Integers {
        nulls: rows_where(values.clone().map(|value| value.is_none())),
        values: values.map(Option::unwrap_or_default).collect(),
    }
}

/// The indices of the rows for which this is true, ascending.
pub(super) fn rows_where(is_so: impl Iterator<Item = bool>) -> Vec<u32> {
    (0..)
        .zip(is_so)
        .filter(|(_, is_so)| *is_so)
        .map(|(row, _)| row)
        .collect()
}

fn decimal(cell: &Cell) -> f64 {
    match cell {
        Cell::Integer(value) => *value as f64,
        Cell::Decimal(value) => *value,
        _ => 0.0,
    }
}

/// The column's values row by row.
pub(super) fn unpacked(column: &Column) -> Vec<Cell> {
    let mut cells: Vec<Cell> = match &column.data {
        ColumnData::Booleans(values) => values.iter().map(|value| Cell::Boolean(*value)).collect(),
        ColumnData::Integers(values) => values.iter().map(|value| Cell::Integer(*value)).collect(),
        ColumnData::Decimals(values) => values.iter().map(|value| Cell::Decimal(*value)).collect(),
        ColumnData::Texts(arena) => texts(arena).map(Cell::Text).collect(),
        ColumnData::Cells(cells) => cells.clone(),
    };
    for row in &column.nulls {
        if let Some(cell) = cells.get_mut(*row as usize) {
            *cell = Cell::Null;
        }
    }
    cells
}

fn texts(arena: &Arena) -> impl Iterator<Item = String> {
    let begins = std::iter::once(0).chain(arena.ends.iter().copied());
    begins.zip(&arena.ends).map(|(begin, end)| {
        let text = arena.bytes.get(begin as usize..*end as usize);
        text.unwrap_or_default().to_owned()
    })
}
