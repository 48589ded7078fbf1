//! An answer in the form in which it is stored: without what differs between two runs on the same server. Must not leave out anything
//! else.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::conversation::Raw;
use super::subject::Request;

/// What a client can act on.
const HEADERS: [&str; 5] = ["allow", "content-type", "location", "retry-after", "warning"];

/// Shorter values may stand in a text by chance.
const REPLACED_WITHIN_TEXTS_MIN: usize = 8;

/// Texts that no two runs share. Times of requests are in 2001 and stay.
static VARYING: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let patterns = [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
        (r"20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", "<time, microseconds>"),
        (r"20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<time>"),
        (
            r"too old resource version: (\d+) \(\d+\)",
            "too old resource version: $1 (<resourceVersion>)",
        ),
        (
            r"Too large resource version: (\d+), current: \d+",
            "Too large resource version: $1, current: <resourceVersion>",
        ),
        (r"(precondition|record) \(\d+\)", "$1 (<resourceVersion>)"),
        (r#"(resourceVersion\\?":\\?")\d+"#, "${1}<resourceVersion>"),
        (r"\bhash=[0-9A-F]{32,}", "hash=<hash>"),
        (r"127\.0\.0\.1:\d+", "<address>"),
    ];
    let compiled = patterns.map(|(pattern, put)| (Regex::new(pattern).expect("a constant pattern"), put));
    compiled.into()
});

static AGE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\d+m?s$").expect("a constant pattern"));

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    pub request: String,
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Value,
}

impl Answer {
    pub fn of(request: &Request, raw: Raw, words: &Words) -> Answer {
        let mut headers = BTreeMap::new();
        for name in HEADERS {
            let values: Vec<String> = raw
                .headers
                .get_all(name)
                .iter()
                .map(|value| words.stored_text(&String::from_utf8_lossy(value.as_bytes())))
                .collect();
            if !values.is_empty() {
                headers.insert(name.to_owned(), values.join(", "));
            }
        }
        let mut body = raw.body;
        for reduce in &request.reduce {
            if let Some(Value::Array(elements)) = body.pointer_mut(&reduce.list) {
                let key = |element: &Value| element.pointer(&reduce.by).and_then(Value::as_str).map(str::to_owned);
                elements.retain(|element| {
                    reduce.to.is_empty() || key(element).is_some_and(|value| reduce.to.contains(&value))
                });
                elements.sort_by_key(key);
            }
        }
        if let Value::Array(events) = &mut body {
            events.retain(|event| !is_chance(event));
        }
        if !request.only.is_empty() {
            let part = |at: &String| (at.clone(), body.pointer(at).cloned().unwrap_or_default());
            body = request.only.iter().map(part).collect::<Map<_, _>>().into();
        }
        words.normalise("", &mut body);
        Answer {
            request: request.name.clone(),
            status: raw.status,
            headers,
            body,
        }
    }
}

/// A bookmark that a watch gets when its time is nearly over, or not.
fn is_chance(event: &Value) -> bool {
    event["type"] == "BOOKMARK" && event.pointer("/object/metadata/annotations").is_none()
}

/// A server orders owners by the second in which they wrote.
fn owner(entry: &Value) -> [String; 3] {
    ["manager", "operation", "subresource"].map(|name| entry[name].as_str().unwrap_or_default().to_owned())
}

/// Words for values that earlier answers held.
#[derive(Default)]
pub struct Words(BTreeMap<String, String>);

impl Words {
    pub fn keep(&mut self, request: &Request, raw: &Raw) {
        for (word, at) in &request.keep {
            // What is not there is a difference between the answers, and will be seen as one.
            let value = raw.body.pointer(at).and_then(Value::as_str).unwrap_or("absent");
            self.0.insert(word.clone(), value.to_owned());
        }
    }

    /// The text with each `${word}` replaced.
    pub fn fill(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for (word, value) in &self.0 {
            filled = filled.replace(&format!("${{{word}}}"), value);
        }
        filled
    }

    fn normalise(&self, member: &str, value: &mut Value) {
        match value {
            Value::Object(members) => {
                let all = std::mem::take(members).into_iter();
                members.extend(all.map(|(name, mut value)| {
                    self.normalise(&name, &mut value);
                    (self.stored_text(&name), value)
                }));
            }
            Value::Array(elements) => {
                elements.iter_mut().for_each(|value| self.normalise(member, value));
                // A part of an answer has its whole path as its name.
                if member.ends_with("managedFields") {
                    elements.sort_by_cached_key(owner);
                }
            }
            Value::String(text) => *text = self.stored(member, text),
            _ => {}
        }
    }

    fn stored(&self, member: &str, text: &str) -> String {
        if let Some((word, _)) = self.0.iter().find(|(_, value)| *value == text) {
            return format!("<{word}>");
        }
        match member {
            "resourceVersion" if text.parse::<u64>().is_ok_and(|version| version > 0) => "<resourceVersion>".to_owned(),
            "continue" if !text.is_empty() => "<continue>".to_owned(),
            cells if cells.ends_with("cells") && AGE.is_match(text) => "<age>".to_owned(),
            _ => self.stored_text(text),
        }
    }

    fn stored_text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (word, value) in &self.0 {
            if value.len() >= REPLACED_WITHIN_TEXTS_MIN {
                text = text.replace(value.as_str(), &format!("<{word}>"));
            }
        }
        for (pattern, put) in VARYING.iter() {
            text = pattern.replace_all(&text, *put).into_owned();
        }
        text
    }
}
