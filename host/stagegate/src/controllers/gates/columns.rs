//! CombinedStatus to columns, as gates see it. Must not judge a value: what fits no column's type is passed on as it is.

use stagegate_api::combined_status::{Cell, CellType};
use stagegate_api::combined_status_view::shown_results;
use stagegate_api::{CollectorResult, CombinedStatus};
use stagegate_evaluate::gate::wire;

/// Integers up to here are exact as floating-point numbers.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// The results of all collectors but the controller's own, in the order of their names.
pub fn of(combined: &CombinedStatus) -> wire::CombinedStatus {
    wire::CombinedStatus {
        namespace: combined.metadata.namespace.clone().unwrap_or_default(),
        name: combined.metadata.name.clone().unwrap_or_default(),
        results: shown_results(combined).into_iter().map(result_set).collect(),
    }
}

/// About as many bytes as it takes in a request.
pub fn size(combined: &wire::CombinedStatus) -> usize {
    let cell = |cell: &wire::Cell| match cell {
        wire::Cell::Text(text) | wire::Cell::Json(text) => 1 + text.len(),
        wire::Cell::Null | wire::Cell::Boolean(_) | wire::Cell::Integer(_) | wire::Cell::Decimal(_) => 9,
    };
    let column = |column: &wire::Column| {
        let data = match &column.data {
            wire::ColumnData::Booleans(values) => values.len(),
            wire::ColumnData::Integers(values) => values.len() * 8,
            wire::ColumnData::Decimals(values) => values.len() * 8,
            wire::ColumnData::Texts(arena) => arena.bytes.len() + arena.ends.len() * 4,
            wire::ColumnData::Cells(cells) => cells.iter().map(cell).sum(),
        };
        column.name.len() + column.nulls.len() * 4 + data
    };
    let columns = combined.results.iter().flat_map(|result| &result.columns);
    columns.map(column).sum()
}

fn result_set(result: &CollectorResult) -> wire::ResultSet {
    let columns = result.column_names.iter().enumerate();
    wire::ResultSet {
        collector: result.name.clone(),
        row_count: count(result.rows.len()),
        columns: columns.map(|(at, name)| column(result, at, name)).collect(),
    }
}

fn column(result: &CollectorResult, at: usize, name: &str) -> wire::Column {
    // A row that is too short has no value there.
    let values: Vec<Value<'_>> = result
        .rows
        .iter()
        .map(|row| row.columns.get(at).map_or(Value::Null, value))
        .collect();
    let nulls = values
        .iter()
        .enumerate()
        .filter(|(_, value)| matches!(value, Value::Null));
    wire::Column {
        name: name.to_owned(),
        nulls: nulls.map(|(row, _)| count(row)).collect(),
        data: data(values),
    }
}

/// What a cell says.
enum Value<'a> {
    Null,
    Boolean(bool),
    Integer(i64),
    Decimal(f64),
    Text(&'a str),
    /// A number that is none: infinite, not a number, or not to be read.
    Odd(&'a str),
    Json(String),
}

fn value(cell: &Cell) -> Value<'_> {
    let json = |value: &Option<serde_json::Value>| value.as_ref().map(|value| Value::Json(value.to_string()));
    let said = match &cell.cell_type {
        CellType::Null => None,
        CellType::Bool => cell.boolean.map(Value::Boolean),
        CellType::Number => cell.float.as_deref().map(number),
        CellType::String => cell.string.as_deref().map(Value::Text),
        CellType::Object => json(&cell.object),
        CellType::Array => json(&cell.array),
        // Unknown to us, perhaps not to the gate.
        CellType::Other(_) => Some(Value::Json(serde_json::to_string(cell).unwrap_or_default())),
    };
    said.unwrap_or(Value::Null)
}

fn number(text: &str) -> Value<'_> {
    if let Ok(integer) = text.parse() {
        return Value::Integer(integer);
    }
    match text.parse::<f64>() {
        Ok(decimal) if decimal.fract() == 0.0 && decimal.abs() <= EXACT_MAX => {
            // Integral and exact: nothing is cut off.
            Value::Integer(decimal as i64)
        }
        Ok(decimal) if decimal.is_finite() => Value::Decimal(decimal),
        _ => Value::Odd(text),
    }
}

/// One type for all values, or cells.
fn data(values: Vec<Value<'_>>) -> wire::ColumnData {
    let every = |is: fn(&Value<'_>) -> bool| {
        let mut present = values.iter().filter(|value| !matches!(value, Value::Null)).peekable();
        present.peek().is_some() && present.all(is)
    };
    if every(|value| matches!(value, Value::Integer(_))) {
        let integer = |value: &Value<'_>| {
            if let Value::Integer(integer) = value {
                *integer
            } else {
                0
            }
        };
        return wire::ColumnData::Integers(values.iter().map(integer).collect());
    }
    if every(|value| matches!(value, Value::Integer(_) | Value::Decimal(_))) {
        return wire::ColumnData::Decimals(values.iter().map(decimal).collect());
    }
    if every(|value| matches!(value, Value::Boolean(_))) {
        let boolean = |value: &Value<'_>| matches!(value, Value::Boolean(true));
        return wire::ColumnData::Booleans(values.iter().map(boolean).collect());
    }
    if every(|value| matches!(value, Value::Text(_))) {
        return wire::ColumnData::Texts(arena(&values));
    }
    wire::ColumnData::Cells(values.into_iter().map(cell).collect())
}

/// A column of decimals has their precision.
fn decimal(value: &Value<'_>) -> f64 {
    match value {
        Value::Integer(integer) => *integer as f64,
        Value::Decimal(decimal) => *decimal,
        _ => 0.0,
    }
}

fn arena(values: &[Value<'_>]) -> wire::Arena {
    let mut arena = wire::Arena::default();
    for value in values {
        if let Value::Text(text) = value {
            arena.bytes.push_str(text);
        }
        arena.ends.push(count(arena.bytes.len()));
    }
    arena
}

fn cell(value: Value<'_>) -> wire::Cell {
    match value {
        Value::Null => wire::Cell::Null,
        Value::Boolean(boolean) => wire::Cell::Boolean(boolean),
        Value::Integer(integer) => wire::Cell::Integer(integer),
        Value::Decimal(decimal) => wire::Cell::Decimal(decimal),
        Value::Text(text) | Value::Odd(text) => wire::Cell::Text(text.to_owned()),
        Value::Json(json) => wire::Cell::Json(json),
    }
}

/// No object of an API server comes near the limit.
fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use stagegate_api::{CombinedStatus, evidence};
    use stagegate_evaluate::gate::wire::{Arena, Cell, Column, ColumnData};

    /// The column of rows with these cells.
    fn column(cells: &[Value]) -> Column {
        let rows: Vec<Value> = cells.iter().map(|cell| json!({"columns": [cell]})).collect();
        let combined = json!({
            "metadata": {"namespace": "shop", "name": "u.b"},
            "results": [{"name": "c", "columnNames": ["x"], "rows": rows}],
        });
        let combined: CombinedStatus = serde_json::from_value(combined).unwrap();
        super::of(&combined).results.remove(0).columns.remove(0)
    }

    fn number(text: &str) -> Value {
        json!({"type": "Number", "float": text})
    }

    fn text(text: &str) -> Value {
        json!({"type": "String", "string": text})
    }

    #[test]
    fn numbers_are_integers_when_every_one_is() {
        assert_eq!(
            column(&[number("1"), number("-2"), number("3.0")]).data,
            ColumnData::Integers(vec![1, -2, 3])
        );
        let large = number("9223372036854775807");
        assert_eq!(column(&[large]).data, ColumnData::Integers(vec![i64::MAX]));
        assert_eq!(
            column(&[number("1"), number("0.5")]).data,
            ColumnData::Decimals(vec![1.0, 0.5])
        );
        assert_eq!(column(&[number("1e300")]).data, ColumnData::Decimals(vec![1e300]));
    }

    #[test]
    fn a_number_that_is_none_makes_cells_and_stays_as_it_is_written() {
        for odd in ["NaN", "+Inf", "-inf", "1e999", "many"] {
            let cells = vec![Cell::Integer(1), Cell::Text(odd.to_owned())];
            assert_eq!(
                column(&[number("1"), number(odd)]).data,
                ColumnData::Cells(cells),
                "{odd}"
            );
        }
    }

    #[test]
    fn rows_without_a_value_are_named_and_do_not_change_the_type() {
        let null = json!({"type": "Null"});
        let column = column(&[null.clone(), number("4"), json!({"type": "Number"}), null]);
        assert_eq!(
            (column.nulls, column.data),
            (vec![0, 2, 3], ColumnData::Integers(vec![0, 4, 0, 0]))
        );
    }

    #[test]
    fn a_row_that_is_too_short_has_no_value() {
        let combined = json!({"metadata": {}, "results": [{"name": "c", "columnNames": ["x", "y"], "rows": [
            {"columns": [number("1"), number("2")]}, {"columns": [number("3")]}, {},
        ]}]});
        let combined: CombinedStatus = serde_json::from_value(combined).unwrap();
        let result = super::of(&combined).results.remove(0);
        assert_eq!(result.row_count, 3);
        assert_eq!(result.columns[0].nulls, [2]);
        assert_eq!(result.columns[1].nulls, [1, 2]);
        assert_eq!(result.columns[1].data, ColumnData::Integers(vec![2, 0, 0]));
    }

    #[test]
    fn a_column_without_any_value_is_cells() {
        let column = column(&[json!({"type": "Null"})]);
        assert_eq!(
            (column.nulls, column.data),
            (vec![0], ColumnData::Cells(vec![Cell::Null]))
        );
    }

    #[test]
    fn texts_lie_one_behind_the_other() {
        let column = column(&[text("dev-1"), json!({"type": "Null"}), text("é")]);
        let arena = Arena {
            bytes: "dev-1é".to_owned(),
            ends: vec![5, 5, 7],
        };
        assert_eq!((column.nulls, column.data), (vec![1], ColumnData::Texts(arena)));
    }

    #[test]
    fn booleans_objects_lists_and_mixtures_keep_their_types() {
        let boolean = |value: bool| json!({"type": "Bool", "bool": value});
        assert_eq!(
            column(&[boolean(true), boolean(false)]).data,
            ColumnData::Booleans(vec![true, false])
        );
        let object = json!({"type": "Object", "object": {"b": 1, "a": [2]}});
        let list = json!({"type": "Array", "array": [1, "x"]});
        let cells = vec![
            Cell::Boolean(true),
            Cell::Json(r#"{"a":[2],"b":1}"#.to_owned()),
            Cell::Json(r#"[1,"x"]"#.to_owned()),
            Cell::Null,
            Cell::Decimal(0.5),
            Cell::Json(r#"{"type":"Quantity","string":"1Gi"}"#.to_owned()),
        ];
        let other = json!({"type": "Quantity", "string": "1Gi"});
        let given = [
            boolean(true),
            object,
            list,
            json!({"type": "Null"}),
            number("0.5"),
            other,
        ];
        assert_eq!(column(&given).data, ColumnData::Cells(cells));
    }

    #[test]
    fn the_hosts_own_collector_is_hidden_and_the_others_are_in_the_order_of_their_names() {
        let combined = json!({"metadata": {}, "results": [
            {"name": "b"}, {"name": evidence::collector_name()}, {"name": "a"},
        ]});
        let combined: CombinedStatus = serde_json::from_value(combined).unwrap();
        let names: Vec<String> = super::of(&combined)
            .results
            .into_iter()
            .map(|result| result.collector)
            .collect();
        assert_eq!(names, ["a", "b"]);
    }
}
