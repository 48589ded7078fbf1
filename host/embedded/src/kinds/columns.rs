//! Printer columns: reading cells out of an object with the part of JSONPath that definitions use. What built-in kinds
//! show beyond that is in [`super::tables`].

use jiff::Timestamp;
use serde_json::Value;

use super::tables::Shown;

/// One column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    /// OpenAPI type: string, integer, number, boolean or date.
    pub type_: String,
    pub format: String,
    pub description: String,
    pub priority: i64,
    pub source: Source,
}

/// Where a cell comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// The values at a path.
    Path(String),
    /// Worked out, as Kubernetes' own printers do it.
    Shown(Shown),
}

impl Column {
    pub fn new(name: &str, type_: &str, path: &str) -> Column {
        Column {
            name: name.to_owned(),
            type_: type_.to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            source: Source::Path(path.to_owned()),
        }
    }

    /// The cell for `object`; dates become ages at `now`.
    pub fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let path = match &self.source {
            Source::Path(path) => path,
            Source::Shown(shown) => return shown.cell(object, now),
        };
        let found = find(object, path);
        let Some(first) = found.first() else { return Value::Null };
        match self.type_.as_str() {
            "date" => Value::from(since(first, now)),
            "integer" | "number" | "boolean" if !first.is_string() => (*first).clone(),
            _ if found.len() > 1 => Value::from(found.iter().map(|v| text(v)).collect::<Vec<_>>().join(",")),
            _ => Value::from(text(first)),
        }
    }
}

/// The age of a time.
pub fn since(time: &Value, now: Timestamp) -> String {
    let time = time.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    time.map_or_else(
        || "<unknown>".to_owned(),
        |time| age(now.duration_since(time).as_secs()),
    )
}

pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Seconds as kubectl prints ages: two units below the small hours, one above.
pub fn age(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |big: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 {
            format!("{big}{unit}")
        } else {
            format!("{big}{unit}{small}{small_unit}")
        }
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        _ => two(days / 365, "y", days % 365, "d"),
    }
}

/// The values at a JSONPath: fields, `["quoted"]`, `[0]`, `[*]` and `[?(@.field=="value")]`.
pub fn find<'a>(root: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut found = vec![root];
    let mut rest = path.trim_start_matches('$');
    while !rest.is_empty() {
        let (step, after) = next_step(rest);
        found = found.into_iter().flat_map(|value| step.follow(value)).collect();
        rest = after;
    }
    found
}

enum Step {
    Field(String),
    Index(i64),
    Every,
    Equal { path: String, value: String },
    Nothing,
}

fn next_step(path: &str) -> (Step, &str) {
    if let Some(inside) = path.strip_prefix('[') {
        let Some(end) = closing_bracket(inside) else {
            return (Step::Nothing, "");
        };
        return (bracket(&inside[..end]), &inside[end + 1..]);
    }
    let mut name = String::new();
    let mut characters = path.strip_prefix('.').unwrap_or(path).char_indices();
    let body = path.strip_prefix('.').unwrap_or(path);
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return (Step::Field(name), &body[at..]),
            other => name.push(other),
        }
    }
    (Step::Field(name), "")
}

/// Where the bracket closes, skipping brackets inside quotes.
fn closing_bracket(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), character) if open == character => quote = None,
            (None, ']') => return Some(at),
            _ => {}
        }
    }
    None
}

fn bracket(inside: &str) -> Step {
    if inside == "*" {
        return Step::Every;
    }
    if let Ok(index) = inside.parse() {
        return Step::Index(index);
    }
    let unquote = |text: &str| text.trim().trim_matches(['"', '\'']).to_owned();
    if let Some(condition) = inside.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return match condition.split_once("==") {
            Some((path, value)) => Step::Equal {
                path: path.trim().trim_start_matches('@').to_owned(),
                value: unquote(value),
            },
            None => Step::Nothing,
        };
    }
    // kubectl's dialect escapes dots inside quotes, too.
    Step::Field(unquote(inside).replace('\\', ""))
}

impl Step {
    fn follow<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
        match self {
            Step::Field(name) => value.get(name).into_iter().collect(),
            Step::Index(index) => {
                let at = if *index < 0 { items.len() as i64 + index } else { *index };
                usize::try_from(at)
                    .ok()
                    .and_then(|at| items.get(at))
                    .into_iter()
                    .collect()
            }
            Step::Every => items.iter().collect(),
            Step::Equal { path, value } => items
                .iter()
                .filter(|item| find(item, path).iter().any(|found| text(found) == *value))
                .collect(),
            Step::Nothing => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{age, find};

    #[test]
    fn json_paths_of_printer_columns_are_followed() {
        let object = json!({"metadata": {"labels": {"a.b/c": "x"}}, "status": {"conditions": [
            {"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]}});
        for (path, wanted) in [
            (".metadata.labels.a\\.b/c", "x"),
            (".metadata.labels['a.b/c']", "x"),
            (".metadata.labels['a\\.b/c']", "x"),
            (".status.conditions[?(@.type==\"Ready\")].status", "True"),
            (".status.conditions[-1].type", "Ready"),
        ] {
            assert_eq!(find(&object, path), [wanted], "{path}");
        }
        assert!(find(&object, ".status.missing[0].x").is_empty());
    }

    #[test]
    fn ages_are_printed_as_kubectl_does() {
        for (seconds, wanted) in [
            (5, "5s"),
            (119, "119s"),
            (125, "2m5s"),
            (3600, "60m"),
            (90_000, "25h"),
            (864_000, "10d"),
        ] {
            assert_eq!(age(seconds), wanted);
        }
    }
}
