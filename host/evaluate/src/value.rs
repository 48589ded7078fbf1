//! Values handed to an expression: built once for an object version, shared by every evaluation.
//!
//! Lists and maps are reference-counted around the engine's own, so that binding a loop variable copies a pointer. They
//! show the engine its own type ([`Val::as_builtin`]), which makes `==`, `in`, `+` and indexing work in both directions.
//! Nothing here prints the data: a debug text of a `Value` names its type only, because objects hold secrets.

use crate::answer::{self, Answer};
use cel::ExecutionError;
use cel::common::traits::{Adder, Container, Indexer, Iterable, Sizer, Zeroer};
use cel::common::types::{
    CelBool, CelBytes, CelDouble, CelDuration, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelTimestamp,
    CelUInt, Type,
};
use cel::common::value::{Builtin, BuiltinRef, CowVal, StaticVal, Val};
use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// One immutable CEL value. Cloning it copies a pointer.
#[derive(Clone)]
pub struct Value(Arc<dyn Val>);

impl Value {
    /// Converts a JSON document. Integers stay integers: those of an `i64` become `int`; other numbers, among them
    /// integers beyond it, become `double`, which is what Kubernetes makes of them.
    ///
    /// Recurses once per level of nesting; `serde_json` itself parses at most 128.
    pub fn from_json(json: &serde_json::Value) -> Value {
        Value(Arc::from(from_json(json)))
    }

    /// A map with string keys. Of a key given twice the last value counts.
    pub fn map(entries: impl IntoIterator<Item = (String, Value)>) -> Value {
        let entries = entries
            .into_iter()
            .map(|(key, value)| (CelMapKey::from(key), value.to_val()));
        Value(Arc::new(DataMap(Arc::new(CelMap::from(
            entries.collect::<HashMap<_, _>>(),
        )))))
    }

    /// A list.
    pub fn list(items: impl IntoIterator<Item = Value>) -> Value {
        let items: Vec<_> = items.into_iter().map(|item| item.to_val()).collect();
        Value(Arc::new(DataList(Arc::new(CelList::from(items)))))
    }

    /// The value `null`.
    pub fn null() -> Value {
        Value(Arc::new(CelNull))
    }

    /// A timestamp, `seconds` and `nanoseconds` after 1970-01-01T00:00:00Z.
    ///
    /// # Errors
    /// Outside of the years 1 to 9999, which are CEL's range, and for a second of a billion nanoseconds or more.
    pub fn timestamp(seconds: i64, nanoseconds: u32) -> Result<Value, OutOfRange> {
        /// 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z (<https://github.com/google/cel-spec>, language definition,
        /// "Overflow").
        const RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
        if !RANGE.contains(&seconds) || nanoseconds >= 1_000_000_000 {
            return Err(OutOfRange);
        }
        let time = chrono::DateTime::from_timestamp(seconds, nanoseconds).ok_or(OutOfRange)?;
        Ok(Value(Arc::new(CelTimestamp::from(time.fixed_offset()))))
    }

    /// What an expression gave, to be bound to a variable again. `None` for what is no data, such as a type.
    pub fn from_answer(answer: &Answer) -> Option<Value> {
        Some(match answer {
            Answer::Null => Value::null(),
            Answer::Bool(value) => Value::from(*value),
            Answer::Int(value) => Value::from(*value),
            Answer::Uint(value) => Value::from(*value),
            Answer::Double(value) => Value::from(*value),
            Answer::String(text) => Value::from(text.as_str()),
            Answer::Bytes(bytes) => Value(Arc::new(CelBytes::from(bytes.clone()))),
            Answer::Timestamp { seconds, nanos } => Value::timestamp(*seconds, *nanos).ok()?,
            Answer::Duration { seconds, nanos } => {
                let duration = chrono::TimeDelta::try_seconds(*seconds)?;
                let duration = duration.checked_add(&chrono::TimeDelta::nanoseconds(i64::from(*nanos)))?;
                Value(Arc::new(CelDuration::from(duration)))
            }
            Answer::List(items, _) => Value::list(items.iter().map(Value::from_answer).collect::<Option<Vec<_>>>()?),
            Answer::Map(entries, _) => {
                let mut members = HashMap::with_capacity(entries.len());
                for (key, value) in entries {
                    let key = match key {
                        Answer::Bool(key) => CelMapKey::from(*key),
                        Answer::Int(key) => CelMapKey::from(*key),
                        Answer::Uint(key) => CelMapKey::from(*key),
                        Answer::String(key) => CelMapKey::from(key.clone()),
                        _ => return None,
                    };
                    members.insert(key, Value::from_answer(value)?.to_val());
                }
                Value(Arc::new(DataMap(Arc::new(CelMap::from(members)))))
            }
            Answer::Type(_) | Answer::Other => return None,
        })
    }

    /// The elements of a list.
    pub fn items(&self) -> Option<Vec<Value>> {
        let list = self.0.downcast_ref::<DataList>()?;
        let items = list.0.inner().iter();
        Some(items.map(|item| Value(Arc::from(item.clone_as_boxed()))).collect())
    }

    /// The text keys of a map, sorted; empty for anything else.
    pub fn keys(&self) -> Vec<String> {
        let map = self.0.downcast_ref::<DataMap>();
        let entries = map.into_iter().flat_map(|map| map.0.inner().keys());
        let mut keys: Vec<String> = entries
            .filter_map(|key| match key {
                CelMapKey::String(key) => Some(key.inner().to_owned()),
                _ => None,
            })
            .collect();
        keys.sort_unstable();
        keys
    }

    /// The value under a key of a map.
    pub fn member(&self, key: &str) -> Option<Value> {
        let map = self.0.downcast_ref::<DataMap>()?;
        let value = map.0.inner().get(&CelMapKey::from(key.to_owned()))?;
        Some(Value(Arc::from(value.clone_as_boxed())))
    }

    /// The text under a key of a map.
    pub(crate) fn member_text(&self, key: &str) -> Option<String> {
        let map = self.0.downcast_ref::<DataMap>()?;
        let text = map.0.inner().get(&CelMapKey::from(key.to_owned()))?;
        Some(text.downcast_ref::<CelString>()?.inner().to_owned())
    }

    /// The value as an expression would give it. `None` for one that is too large for that.
    pub(crate) fn answer(&self) -> Option<Answer> {
        answer::read(self.0.as_ref()).ok()
    }

    #[cfg(test)]
    pub(crate) fn from_val(value: impl Val + 'static) -> Value {
        Value(Arc::new(value))
    }

    /// The value as the engine binds it to a variable.
    pub(crate) fn to_val(&self) -> Box<dyn Val> {
        self.0.clone_as_boxed()
    }
}

/// A time that CEL cannot express.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the time is not within the years 1 to 9999")]
pub struct OutOfRange;

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({})", self.0.get_type().name())
    }
}

impl From<&serde_json::Value> for Value {
    fn from(json: &serde_json::Value) -> Self {
        Value::from_json(json)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value(Arc::new(CelString::from(text.to_owned())))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value(Arc::new(CelString::from(text)))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value(Arc::new(CelBool::from(value)))
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Value(Arc::new(CelInt::from(value)))
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Value(Arc::new(CelUInt::from(value)))
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Value(Arc::new(CelDouble::from(value)))
    }
}

fn from_json(json: &serde_json::Value) -> Box<dyn Val> {
    match json {
        serde_json::Value::Null => Box::new(CelNull),
        serde_json::Value::Bool(value) => Box::new(CelBool::from(*value)),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(int) => Box::new(CelInt::from(int)),
            None => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
        },
        serde_json::Value::String(text) => Box::new(CelString::from(text.clone())),
        serde_json::Value::Array(items) => {
            let items: Vec<_> = items.iter().map(from_json).collect();
            Box::new(DataList(Arc::new(CelList::from(items))))
        }
        serde_json::Value::Object(members) => {
            let mut entries = HashMap::with_capacity(members.len());
            for (key, value) in members {
                entries.insert(CelMapKey::from(key.clone()), from_json(value));
            }
            Box::new(DataMap(Arc::new(CelMap::from(entries))))
        }
    }
}

/// A list of the caller's data.
#[derive(Clone)]
pub(crate) struct DataList(Arc<CelList<'static>>);

/// A map of the caller's data.
#[derive(Clone)]
pub(crate) struct DataMap(Arc<CelMap<'static>>);

/// Implements what lists and maps share: everything is answered by the engine's container inside, except what would move
/// elements out of it, because it is shared.
macro_rules! delegate_to_builtin {
    ($shared:ident, $inner:ident, $variant:ident) => {
        impl fmt::Debug for $shared {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($shared), self.0.inner().len())
            }
        }

        impl StaticVal for $shared {}

        impl Val for $shared {
            fn get_type(&self) -> &Type {
                <$inner as Val>::cel_type()
            }

            fn cel_type() -> &'static Type {
                <$inner as Val>::cel_type()
            }

            fn as_adder<'b, 'v>(&'b self) -> Option<&'b (dyn Adder + 'v)>
            where
                Self: 'v,
            {
                self.0.as_adder()
            }

            fn as_container(&self) -> Option<&dyn Container> {
                self.0.as_container()
            }

            fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
            where
                Self: 'v,
            {
                self.0.as_indexer()
            }

            fn into_indexer<'v>(self: Box<Self>) -> Option<Box<dyn Indexer + 'v>>
            where
                Self: 'v,
            {
                Some(self)
            }

            fn as_iterable<'b, 'v>(&'b self) -> Option<&'b (dyn Iterable + 'v)>
            where
                Self: 'v,
            {
                self.0.as_iterable()
            }

            fn as_sizer(&self) -> Option<&dyn Sizer> {
                self.0.as_sizer()
            }

            fn as_zeroer(&self) -> Option<&dyn Zeroer> {
                self.0.as_zeroer()
            }

            fn equals(&self, other: &dyn Val) -> bool {
                self.0.equals(other)
            }

            fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
            where
                Self: 'v,
            {
                Box::new(self.clone())
            }

            fn as_any(&self) -> Option<&dyn Any> {
                Some(self)
            }

            fn as_builtin<'b, 'v>(&'b self) -> BuiltinRef<'b, 'v>
            where
                Self: 'v,
            {
                BuiltinRef::$variant(&self.0)
            }

            /// Answers whenever [`Val::as_builtin`] does: the engine relies on it.
            fn into_builtin<'v>(self: Box<Self>) -> Option<Builtin<'v>>
            where
                Self: 'v,
            {
                Some(Builtin::$variant(self.0.as_ref().clone()))
            }
        }

        impl Indexer for $shared {
            fn get<'b, 'v>(&'b self, index: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
            where
                Self: 'v,
            {
                self.0.get(index)
            }

            fn steal<'v>(self: Box<Self>, index: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
            where
                Self: 'v,
            {
                Indexer::get(self.0.as_ref(), index).map(CowVal::into_owned)
            }
        }
    };
}

delegate_to_builtin!(DataList, CelList, List);
delegate_to_builtin!(DataMap, CelMap, Map);

/// A map without anything that can be done with one: still a map to whoever says that an operator does not take it.
pub(crate) struct Unaddable<'v>(pub(crate) Box<dyn Val + 'v>);

impl fmt::Debug for Unaddable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unaddable")
    }
}

impl Val for Unaddable<'_> {
    fn get_type(&self) -> &Type {
        self.0.get_type()
    }

    fn cel_type() -> &'static Type {
        <CelMap as Val>::cel_type()
    }

    fn clone_as_boxed<'w>(&self) -> Box<dyn Val + 'w>
    where
        Self: 'w,
    {
        Box::new(Self(self.0.clone()))
    }

    fn as_builtin<'b, 'w>(&'b self) -> BuiltinRef<'b, 'w>
    where
        Self: 'w,
    {
        self.0.as_builtin()
    }
}
