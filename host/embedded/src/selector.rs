//! Label and field selectors: parsed once, then asked about each revision.

use std::borrow::Cow;

use crate::kinds::{Kind, events};
use crate::names::{is_label_value, is_qualified_name};
use crate::refusal::Refusal;
use crate::store::Revision;

/// What a list or watch is narrowed to.
#[derive(Clone, Debug, Default)]
pub struct Selector {
    labels: Vec<LabelTerm>,
    fields: Vec<FieldTerm>,
}

#[derive(Clone, Debug)]
enum LabelTerm {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
    Above(String, i64),
    Below(String, i64),
}

#[derive(Clone, Debug)]
struct FieldTerm {
    field: Field,
    value: String,
    equal: bool,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    Name,
    Namespace,
    /// Index into the kind's selectable fields.
    Declared(usize),
}

impl Selector {
    pub fn parse(kind: &Kind, labels: &str, fields: &str) -> Result<Selector, Refusal> {
        Ok(Selector {
            labels: parse_labels(labels)?,
            fields: parse_fields(kind, fields)?,
        })
    }

    /// Whether it leaves anything out.
    pub fn selects(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    pub fn matches(&self, revision: &Revision) -> bool {
        self.labels.iter().all(|term| term.matches(revision)) && self.fields.iter().all(|term| term.matches(revision))
    }
}

impl LabelTerm {
    fn matches(&self, revision: &Revision) -> bool {
        let value = |key: &str| revision.labels.get(key);
        let number = |key: &str| value(key).and_then(|text| text.parse::<i64>().ok());
        match self {
            LabelTerm::In(key, values) => value(key).is_some_and(|value| values.contains(value)),
            LabelTerm::NotIn(key, values) => value(key).is_none_or(|value| !values.contains(value)),
            LabelTerm::Exists(key) => value(key).is_some(),
            LabelTerm::Absent(key) => value(key).is_none(),
            LabelTerm::Above(key, limit) => number(key).is_some_and(|number| number > *limit),
            LabelTerm::Below(key, limit) => number(key).is_some_and(|number| number < *limit),
        }
    }
}

impl FieldTerm {
    fn matches(&self, revision: &Revision) -> bool {
        let value = match self.field {
            Field::Name => &revision.key.name,
            Field::Namespace => &revision.key.namespace,
            Field::Declared(index) => match revision.fields.get(index) {
                Some(value) => value,
                None => return false,
            },
        };
        (*value == self.value) == self.equal
    }
}

/// Splits at commas that are not inside parentheses.
fn terms(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut out) = (0_usize, 0, Vec::new());
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                out.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(text[start..].trim());
    out.retain(|term| !term.is_empty());
    out
}

fn parse_labels(text: &str) -> Result<Vec<LabelTerm>, Refusal> {
    terms(text).into_iter().map(parse_label).collect()
}

fn parse_label(term: &str) -> Result<LabelTerm, Refusal> {
    let wrong = || Refusal::bad_request(format!("unable to parse requirement: {term:?}"));
    let key = |text: &str| {
        let text = text.trim();
        if is_qualified_name(text) {
            Ok(text.to_owned())
        } else {
            Err(wrong())
        }
    };
    let value = |text: &str| {
        let text = text.trim();
        if is_label_value(text) {
            Ok(text.to_owned())
        } else {
            Err(wrong())
        }
    };
    let values = |text: &str| {
        let inner = text
            .trim()
            .strip_prefix('(')
            .and_then(|rest| rest.strip_suffix(')'))
            .ok_or_else(wrong)?;
        inner.split(',').map(value).collect::<Result<Vec<_>, _>>()
    };
    if let Some((left, right)) = term
        .split_once(" notin ")
        .or_else(|| term.split_once(" notin(").map(|_| split_at_parenthesis(term, " notin")))
    {
        return Ok(LabelTerm::NotIn(key(left)?, values(right)?));
    }
    if let Some((left, right)) = term
        .split_once(" in ")
        .or_else(|| term.split_once(" in(").map(|_| split_at_parenthesis(term, " in")))
    {
        return Ok(LabelTerm::In(key(left)?, values(right)?));
    }
    if let Some((left, right)) = term.split_once("!=") {
        return Ok(LabelTerm::NotIn(key(left)?, vec![value(right)?]));
    }
    if let Some((left, right)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Ok(LabelTerm::In(key(left)?, vec![value(right)?]));
    }
    if let Some((left, right)) = term.split_once('>') {
        return Ok(LabelTerm::Above(key(left)?, right.trim().parse().map_err(|_| wrong())?));
    }
    if let Some((left, right)) = term.split_once('<') {
        return Ok(LabelTerm::Below(key(left)?, right.trim().parse().map_err(|_| wrong())?));
    }
    match term.strip_prefix('!') {
        Some(absent) => Ok(LabelTerm::Absent(key(absent)?)),
        None => Ok(LabelTerm::Exists(key(term)?)),
    }
}

fn split_at_parenthesis<'a>(term: &'a str, operator: &str) -> (&'a str, &'a str) {
    let (left, right) = term.split_at(term.find('(').unwrap_or(term.len()));
    (left.strip_suffix(operator).unwrap_or(left), right)
}

fn parse_fields(kind: &Kind, text: &str) -> Result<Vec<FieldTerm>, Refusal> {
    terms(text).into_iter().map(|term| parse_field(kind, term)).collect()
}

fn parse_field(kind: &Kind, term: &str) -> Result<FieldTerm, Refusal> {
    let (name, value, equal) = if let Some((name, value)) = term.split_once("!=") {
        (name, value, false)
    } else if let Some((name, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        (name, value, true)
    } else {
        let message = format!("invalid selector: '{term}'; can't understand '{term}'");
        return Err(Refusal::bad_request(message));
    };
    let name = match kind.is_event_alias() {
        true => events::core_field(name.trim()),
        false => Cow::Borrowed(name.trim()),
    };
    let field = match &*name {
        "metadata.name" => Field::Name,
        "metadata.namespace" => Field::Namespace,
        other => match kind.selectable.iter().position(|declared| declared == other) {
            Some(index) => Field::Declared(index),
            None => return Err(Refusal::bad_request(unknown_field(kind, other))),
        },
    };
    Ok(FieldTerm {
        field,
        value: value.trim().to_owned(),
        equal,
    })
}

fn unknown_field(kind: &Kind, field: &str) -> String {
    if kind.is_custom() {
        return format!("field label not supported: {field}");
    }
    let always = ["metadata.name", "metadata.namespace"].map(str::to_owned);
    let known: Vec<String> = always
        .iter()
        .chain(&kind.selectable)
        .map(|name| format!("{name:?}"))
        .collect();
    format!("{field:?} is not a known field selector: only {}", known.join(", "))
}
