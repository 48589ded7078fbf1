//! The part of JSONPath that printer columns of definitions use. A path that is not understood finds nothing.

use serde_json::Value;

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

/// A value as the text of a cell.
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::find;

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
}
