//! Columns as lists of cells, and back with the types that the host gives them.

use crate::bindings::stagegate::gate::types::{Arena, Cell, Column, ColumnData};

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
        let mut arena = Arena {
            bytes: String::new(),
            ends: Vec::new(),
        };
        for cell in &cells {
            if let Cell::Text(text) = cell {
                arena.bytes.push_str(text);
            }
            arena.ends.push(u32::try_from(arena.bytes.len()).unwrap_or(u32::MAX));
        }
        ColumnData::Texts(arena)
    } else {
        ColumnData::Cells(cells.clone())
    };
    let nulls = (0_u32..)
        .zip(&cells)
        .filter(|(_, cell)| **cell == Cell::Null)
        .map(|(row, _)| row)
        .collect();
    Column {
        name: name.to_owned(),
        nulls,
        data,
    }
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
