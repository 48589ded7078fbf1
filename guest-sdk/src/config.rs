//! Reads a gate's config: JSON into whatever the gate derives `Deserialize` for. An error names the member that is
//! wrong. serde_json with serde_path_to_error does so, too, and makes the component of a small gate two thirds larger (196 kB
//! instead of 116).

use std::fmt::{self, Display};

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::json::{Json, parse};

/// # Errors
/// The text is no JSON, or does not fit: which member, and why.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, Misfit> {
    let config = parse(text).map_err(Misfit::custom)?;
    T::deserialize(config)
}

/// Why a config does not fit.
#[derive(Debug)]
pub(crate) struct Misfit {
    /// Innermost first.
    path: Vec<String>,
    message: String,
}

impl Misfit {
    fn below(mut self, step: String) -> Self {
        self.path.push(step);
        self
    }
}

impl Display for Misfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.path.iter().rev().enumerate() {
            let dot = if at == 0 || step.starts_with('[') { "" } else { "." };
            formatter.write_str(dot)?;
            formatter.write_str(step)?;
        }
        let colon = if self.path.is_empty() { "" } else { ": " };
        formatter.write_str(colon)?;
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Misfit {}

impl serde::de::Error for Misfit {
    fn custom<T: Display>(message: T) -> Self {
        Self {
            path: Vec::new(),
            message: message.to_string(),
        }
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!("{} instead of {expected}", found(unexpected)))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!("{} out of range, expected {expected}", found(unexpected)))
    }
}

/// The kind alone: serde's own words for a number need twenty kilobytes to write its digits.
fn found(unexpected: Unexpected<'_>) -> &'static str {
    match unexpected {
        Unexpected::Unit | Unexpected::Option => "null",
        Unexpected::Bool(_) => "a boolean",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) => "an integer",
        Unexpected::Float(_) => "a decimal",
        Unexpected::Str(_) | Unexpected::Char(_) => "a text",
        Unexpected::Seq => "a list",
        Unexpected::Map => "an object",
        _ => "something",
    }
}

impl<'de> Deserializer<'de> for Json {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self {
            Self::Null => visitor.visit_unit(),
            Self::Boolean(value) => visitor.visit_bool(value),
            Self::Integer(value) => visitor.visit_i64(value),
            Self::Decimal(value) => visitor.visit_f64(value),
            Self::Text(value) => visitor.visit_string(value),
            Self::List(values) => visitor.visit_seq(Elements {
                values: values.into_iter(),
                at: 0,
            }),
            Self::Object(members) => visitor.visit_map(Members {
                members: members.into_iter(),
                value: None,
            }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self {
            Self::Null => visitor.visit_none(),
            value => visitor.visit_some(value),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    /// A list is no struct, though a derived visitor would take one.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        match self {
            Self::List(_) => Err(Misfit::invalid_type(Unexpected::Seq, &visitor)),
            value => value.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        match self {
            Self::Text(name) => visitor.visit_enum(Variant {
                name,
                value: Self::Null,
            }),
            Self::Object(mut members) if members.len() == 1 => {
                let (name, value) = members.remove(0);
                visitor.visit_enum(Variant { name, value })
            }
            _ => Err(Misfit::custom("neither a text nor an object with one member")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

impl IntoDeserializer<'_, Misfit> for Json {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

struct Elements {
    values: std::vec::IntoIter<Json>,
    at: usize,
}

impl<'de> SeqAccess<'de> for Elements {
    type Error = Misfit;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Misfit> {
        let Some(value) = self.values.next() else {
            return Ok(None);
        };
        self.at += 1;
        seed.deserialize(value)
            .map(Some)
            .map_err(|misfit| misfit.below(format!("[{}]", self.at - 1)))
    }
}

struct Members {
    members: std::vec::IntoIter<(String, Json)>,
    value: Option<(String, Json)>,
}

impl<'de> MapAccess<'de> for Members {
    type Error = Misfit;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Misfit> {
        let Some((name, value)) = self.members.next() else {
            return Ok(None);
        };
        let key = seed.deserialize(StrDeserializer::<Misfit>::new(&name))?;
        self.value = Some((name, value));
        Ok(Some(key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Misfit> {
        let (name, value) = self
            .value
            .take()
            .ok_or_else(|| Misfit::custom("a value was asked for before its name"))?;
        seed.deserialize(value).map_err(|misfit| misfit.below(name))
    }
}

struct Variant {
    name: String,
    value: Json,
}

impl<'de> EnumAccess<'de> for Variant {
    type Error = Misfit;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Misfit> {
        let variant = seed.deserialize(StrDeserializer::<Misfit>::new(&self.name))?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for Variant {
    type Error = Misfit;

    fn unit_variant(self) -> Result<(), Misfit> {
        match self.value {
            Json::Null => Ok(()),
            _ => Err(Misfit::custom("it holds nothing").below(self.name)),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Misfit> {
        seed.deserialize(self.value).map_err(|misfit| misfit.below(self.name))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Misfit> {
        self.value
            .deserialize_any(visitor)
            .map_err(|misfit| misfit.below(self.name))
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Misfit> {
        self.value
            .deserialize_struct("", fields, visitor)
            .map_err(|misfit| misfit.below(self.name))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::read;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Config {
        windows: Vec<Window>,
        ratio: Option<f64>,
        #[serde(default)]
        mode: Mode,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Window {
        from: String,
        count: u8,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase")]
    enum Mode {
        #[default]
        Plain,
        AtMost(u64),
        Between {
            low: i32,
            high: i32,
        },
    }

    fn misfit(text: &str) -> String {
        read::<Config>(text).unwrap_err().to_string()
    }

    #[test]
    fn a_config_that_fits_is_read() {
        let config: Config =
            read(r#"{"windows": [{"from": "17:00", "count": 3}], "ratio": 1, "mode": {"atMost": 7}}"#).unwrap();
        let windows = vec![Window {
            from: "17:00".to_owned(),
            count: 3,
        }];
        assert_eq!(
            config,
            Config {
                windows,
                ratio: Some(1.0),
                mode: Mode::AtMost(7)
            }
        );
        let config: Config =
            read(r#"{"windows": [], "ratio": null, "mode": {"between": {"low": -1, "high": 2}}}"#).unwrap();
        assert_eq!(
            config,
            Config {
                windows: vec![],
                ratio: None,
                mode: Mode::Between { low: -1, high: 2 }
            }
        );
        assert_eq!(
            read::<Config>(r#"{"windows": [], "mode": "plain"}"#).unwrap().mode,
            Mode::Plain
        );
    }

    #[test]
    fn an_error_names_the_member() {
        assert_eq!(
            misfit(r#"{"windows": [{"from": 5, "count": 1}]}"#),
            "windows[0].from: an integer instead of a string"
        );
        assert_eq!(
            misfit(r#"{"windows": [{"from": "", "count": 256}]}"#),
            "windows[0].count: an integer out of range, expected u8"
        );
        assert_eq!(
            misfit(r#"{"windows": [{"from": ""}]}"#),
            "windows[0]: missing field `count`"
        );
        assert_eq!(
            misfit(r#"{"windows": [], "raito": 1}"#),
            "unknown field `raito`, expected one of `windows`, `ratio`, `mode`"
        );
        assert_eq!(
            misfit(r#"{"windows": [], "mode": {"between": {"low": true, "high": 2}}}"#),
            "mode.between.low: a boolean instead of i32"
        );
        assert_eq!(misfit("[]"), "a list instead of struct Config");
    }
}
