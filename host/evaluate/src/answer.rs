//! The answer of an expression, typed and bounded.

use crate::value::{DataList, DataMap};
use base64::Engine;
use cel::common::types::{
    CelBool, CelBytes, CelDouble, CelDuration, CelInt, CelList, CelMap, CelMapKey, CelString, CelTimestamp, CelType,
    CelUInt, Kind,
};
use cel::common::value::Val;

/// The most nodes of an answer: values, and keys of maps.
const MAX_NODES: usize = 65_536;
/// The most bytes of strings and byte strings in an answer. An object of a cluster may have one and a half times that.
const MAX_BYTES: usize = 1 << 20;

/// The result of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// `null`.
    Null,
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating-point number; may be infinite or not a number.
    Double(f64),
    /// Text.
    String(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A point in time, after 1970-01-01T00:00:00Z; `nanos` counts forward and is below a billion.
    Timestamp {
        /// Whole seconds, negative before 1970.
        seconds: i64,
        /// The rest.
        nanos: u32,
    },
    /// A span of time; both parts have the same sign.
    Duration {
        /// Whole seconds.
        seconds: i64,
        /// The rest, less than a billion either way.
        nanos: i32,
    },
    /// A list.
    List(Vec<Answer>, Origin),
    /// A map, sorted by key: integers, unsigned integers, truth values, text.
    Map(Vec<(Answer, Answer)>, Origin),
    /// A type, by its name.
    Type(String),
    /// A value outside of this list: an optional.
    Other,
}

/// Where a list or map was made. Writers of KubeStellar's columns treat the two differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It is (a part of) a variable.
    Data,
    /// The expression built it.
    Expression,
}

impl Answer {
    /// The name of the type: `null`, `bool`, `int`, `uint`, `double`, `string`, `bytes`, `timestamp`, `duration`, `list`,
    /// `map`, `type` or `other`.
    pub fn kind(&self) -> &'static str {
        match self {
            Answer::Null => "null",
            Answer::Bool(_) => "bool",
            Answer::Int(_) => "int",
            Answer::Uint(_) => "uint",
            Answer::Double(_) => "double",
            Answer::String(_) => "string",
            Answer::Bytes(_) => "bytes",
            Answer::Timestamp { .. } => "timestamp",
            Answer::Duration { .. } => "duration",
            Answer::List(..) => "list",
            Answer::Map(..) => "map",
            Answer::Type(_) => "type",
            Answer::Other => "other",
        }
    }

    /// Whether this is a list or map out of the caller's data and not one that the expression built.
    pub fn from_data(&self) -> bool {
        matches!(self, Answer::List(_, Origin::Data) | Answer::Map(_, Origin::Data))
    }

    /// The answer as JSON, by the rules of protobuf's JSON mapping where JSON has no such type: bytes in base 64,
    /// timestamps by RFC 3339, durations as seconds (`1.5s`), `"NaN"`, `"Infinity"` and `"-Infinity"`. Keys of maps
    /// become text, a type its name, an optional `null`.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Answer::Null | Answer::Other => serde_json::Value::Null,
            Answer::Bool(value) => (*value).into(),
            Answer::Int(value) => (*value).into(),
            Answer::Uint(value) => (*value).into(),
            Answer::Double(value) => match serde_json::Number::from_f64(*value) {
                Some(number) => number.into(),
                None if value.is_nan() => "NaN".into(),
                None if *value > 0.0 => "Infinity".into(),
                None => "-Infinity".into(),
            },
            Answer::String(text) | Answer::Type(text) => text.as_str().into(),
            Answer::Bytes(bytes) => base64::engine::general_purpose::STANDARD.encode(bytes).into(),
            Answer::Timestamp { seconds, nanos } => rfc3339(*seconds, *nanos).into(),
            Answer::Duration { seconds, nanos } => duration_text(*seconds, *nanos).into(),
            Answer::List(items, _) => items.iter().map(Answer::to_json).collect(),
            Answer::Map(entries, _) => {
                let member = |(key, value): &(Answer, Answer)| {
                    let key = match key.to_json() {
                        serde_json::Value::String(text) => text,
                        other => other.to_string(),
                    };
                    (key, value.to_json())
                };
                serde_json::Value::Object(entries.iter().map(member).collect())
            }
        }
    }
}

fn rfc3339(seconds: i64, nanos: u32) -> String {
    let Some(time) = chrono::DateTime::from_timestamp(seconds, nanos) else {
        return String::new();
    };
    let whole = time.format("%Y-%m-%dT%H:%M:%S");
    if nanos == 0 {
        format!("{whole}Z")
    } else {
        format!("{whole}.{}Z", format!("{nanos:09}").trim_end_matches('0'))
    }
}

fn duration_text(seconds: i64, nanos: i32) -> String {
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    let (seconds, nanos) = (seconds.unsigned_abs(), nanos.unsigned_abs());
    if nanos == 0 {
        format!("{sign}{seconds}s")
    } else {
        format!("{sign}{seconds}.{}s", format!("{nanos:09}").trim_end_matches('0'))
    }
}

/// The result has more nodes or bytes than an answer may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Copies a result of the engine.
pub(crate) fn read(value: &dyn Val) -> Result<Answer, TooLarge> {
    Reader {
        nodes: MAX_NODES,
        bytes: MAX_BYTES,
    }
    .read(value)
}

/// What may still be read.
struct Reader {
    nodes: usize,
    bytes: usize,
}

impl Reader {
    fn read(&mut self, value: &dyn Val) -> Result<Answer, TooLarge> {
        self.nodes = self.nodes.checked_sub(1).ok_or(TooLarge)?;
        let answer = match value.get_type().kind() {
            Kind::NullType => Some(Answer::Null),
            Kind::Boolean => value.downcast_ref::<CelBool>().map(|v| Answer::Bool(*v.inner())),
            Kind::Int => value.downcast_ref::<CelInt>().map(|v| Answer::Int(*v.inner())),
            Kind::UInt => value.downcast_ref::<CelUInt>().map(|v| Answer::Uint(*v.inner())),
            Kind::Double => value.downcast_ref::<CelDouble>().map(|v| Answer::Double(*v.inner())),
            Kind::String => match value.downcast_ref::<CelString>() {
                Some(text) => Some(Answer::String(self.text(text.inner())?)),
                None => None,
            },
            Kind::Bytes => match value.downcast_ref::<CelBytes>() {
                Some(bytes) => {
                    self.bytes = self.bytes.checked_sub(bytes.inner().len()).ok_or(TooLarge)?;
                    Some(Answer::Bytes(bytes.inner().to_vec()))
                }
                None => None,
            },
            Kind::Timestamp => value.downcast_ref::<CelTimestamp>().map(|v| Answer::Timestamp {
                seconds: v.inner().timestamp(),
                nanos: v.inner().timestamp_subsec_nanos(),
            }),
            Kind::Duration => value.downcast_ref::<CelDuration>().map(|v| Answer::Duration {
                seconds: v.inner().num_seconds(),
                nanos: v.inner().subsec_nanos(),
            }),
            Kind::List => match value.downcast_ref::<CelList>() {
                Some(list) => Some(self.list(list, origin(value.downcast_ref::<DataList>().is_some()))?),
                None => None,
            },
            Kind::Map => match value.downcast_ref::<CelMap>() {
                Some(map) => Some(self.map(map, origin(value.downcast_ref::<DataMap>().is_some()))?),
                None => None,
            },
            Kind::Type => match value.downcast_ref::<CelType>() {
                Some(named) => Some(Answer::Type(self.text(named.name())?)),
                None => None,
            },
            _ => None,
        };
        Ok(answer.unwrap_or(Answer::Other))
    }

    fn text(&mut self, text: &str) -> Result<String, TooLarge> {
        self.bytes = self.bytes.checked_sub(text.len()).ok_or(TooLarge)?;
        Ok(text.to_owned())
    }

    fn list(&mut self, list: &CelList<'_>, origin: Origin) -> Result<Answer, TooLarge> {
        let items: Result<_, _> = list.inner().iter().map(|item| self.read(item.as_ref())).collect();
        Ok(Answer::List(items?, origin))
    }

    fn map(&mut self, map: &CelMap<'_>, origin: Origin) -> Result<Answer, TooLarge> {
        if map.inner().len() > self.nodes {
            return Err(TooLarge);
        }
        let mut entries: Vec<(&CelMapKey<'_>, _)> = map.inner().iter().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        let entries: Result<_, _> = entries
            .into_iter()
            .map(|(key, value)| Ok((self.read(key.inner())?, self.read(value.as_ref())?)))
            .collect();
        Ok(Answer::Map(entries?, origin))
    }
}

fn origin(from_data: bool) -> Origin {
    if from_data { Origin::Data } else { Origin::Expression }
}
