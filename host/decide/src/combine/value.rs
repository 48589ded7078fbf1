//! What an expression gave, and how KubeStellar writes it into a cell.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use stagegate_api::{Cell, CellType};

/// The value of an expression, with the types that make a difference in a cell.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub enum Computed {
    /// `null`.
    Null,
    /// `bool`.
    Bool(bool),
    /// `int`.
    Int(i64),
    /// `uint`.
    Uint(u64),
    /// `double`.
    Double(f64),
    /// `string`.
    String(String),
    /// The name of a type.
    Type(String),
    /// `bytes`.
    Bytes(Vec<u8>),
    /// `google.protobuf.Timestamp`.
    Timestamp(Timestamp),
    /// A duration in nanoseconds.
    Nanoseconds(i64),
    /// A list or map out of the data, or a list that the expression built.
    Json(Value),
    /// A map that the expression built; KubeStellar cannot write it.
    BuiltMap,
}

/// What evaluating an expression came to.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// It has this value.
    Value(Computed),
    /// The error's text, without an object's content.
    Error(String),
}

/// The cell for a value.
pub fn cell(value: &Computed) -> Cell {
    match value {
        Computed::Null => object(json!(0)),
        Computed::Bool(value) => Cell {
            cell_type: CellType::Bool,
            boolean: Some(*value),
            ..Cell::default()
        },
        Computed::Int(value) => number(value.to_string()),
        Computed::Uint(value) => number(value.to_string()),
        Computed::Double(value) => number(go_float(*value)),
        Computed::String(text) | Computed::Type(text) => string(text.clone()),
        Computed::Bytes(bytes) => object(json!(base64(bytes))),
        Computed::Timestamp(time) => object(json!(time.to_string())),
        Computed::Nanoseconds(nanoseconds) => object(json!(nanoseconds)),
        Computed::Json(value) => object(value.clone()),
        Computed::BuiltMap => Cell {
            cell_type: CellType::Null,
            ..Cell::default()
        },
    }
}

/// The cell of a selected column whose expression failed: a text that looks like a value.
pub(super) fn error_cell(error: &str) -> Cell {
    string(error_text(error))
}

/// How KubeStellar words an evaluation error, in cells and in row errors.
pub(super) fn error_text(error: &str) -> String {
    format!("failed to evaluate expression: {error}")
}

pub(super) fn number(text: String) -> Cell {
    Cell {
        cell_type: CellType::Number,
        float: Some(text),
        ..Cell::default()
    }
}

/// Go's shortest `g` form: an exponent below -4 or from 6 on, of at least two digits; `NaN`, `+Inf`, `-Inf`.
pub fn go_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

fn string(text: String) -> Cell {
    Cell {
        cell_type: CellType::String,
        string: Some(text),
        ..Cell::default()
    }
}

fn object(mut value: Value) -> Cell {
    // Key order is part of a digest; decoding sorts likewise.
    value.sort_all_objects();
    Cell {
        cell_type: CellType::Object,
        object: Some(value),
        ..Cell::default()
    }
}

/// Standard base64 with padding, as Go's JSON writes bytes.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let filled = digit <= chunk.len();
            let index = (bits >> (18 - 6 * digit) & 63) as usize;
            text.push(if filled { char::from(ALPHABET[index]) } else { '=' });
        }
    }
    text
}
