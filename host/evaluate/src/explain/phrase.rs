//! Values in the words of an explanation: scalars as CEL writes them, of anything larger only what it is.

use crate::answer::Answer;
use crate::error::cut;

/// The longest text that is repeated, in characters.
const TEXT_CHARS: usize = 64;

/// `None` for what has no short form.
pub(super) fn of(value: &Answer) -> Option<String> {
    Some(match value {
        Answer::String(text) => quoted(text),
        Answer::List(items, _) => match items.len() {
            0 => "an empty list".to_owned(),
            1 => "a list of 1".to_owned(),
            several => format!("a list of {several}"),
        },
        Answer::Map(entries, _) => match entries.len() {
            0 => "an empty map".to_owned(),
            1 => "a map of 1".to_owned(),
            several => format!("a map of {several}"),
        },
        Answer::Double(number) if number.fract() == 0.0 && number.abs() < 1e15 => format!("{number:.1}"),
        Answer::Null
        | Answer::Bool(_)
        | Answer::Int(_)
        | Answer::Uint(_)
        | Answer::Double(_)
        | Answer::Timestamp { .. }
        | Answer::Duration { .. } => plain(&match value.to_json() {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        }),
        Answer::Bytes(bytes) => format!("{} bytes", bytes.len()),
        Answer::Type(name) => plain(name),
        Answer::Other => return None,
    })
}

fn quoted(text: &str) -> String {
    format!("'{}'", plain(text))
}

/// On one line, and not too long.
pub(super) fn plain(text: &str) -> String {
    cut(text, TEXT_CHARS)
}
