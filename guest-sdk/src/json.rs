//! JSON text as a value, for configs. Whatever is no JSON is an error; nothing is repaired.

/// Values may be nested this deep; a gate's stack is small.
const DEPTH_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Boolean(bool),
    /// Of 64 bits; a longer one is a decimal.
    Integer(i64),
    Decimal(f64),
    Text(String),
    List(Vec<Json>),
    /// In the text's order; a name that is there twice is an error.
    Object(Vec<(String, Json)>),
}

/// # Errors
/// What was expected, and at which byte.
pub(crate) fn parse(text: &str) -> Result<Json, String> {
    let mut parser = Parser { text, at: 0 };
    let value = parser.value(0)?;
    parser.skip_space();
    if parser.at == text.len() {
        Ok(value)
    } else {
        parser.error("the end")
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn value(&mut self, depth: usize) -> Result<Json, String> {
        self.skip_space();
        match self.peek() {
            _ if depth > DEPTH_MAX => self.error("fewer levels"),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Ok(Json::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let words = [
                    ("null", Json::Null),
                    ("true", Json::Boolean(true)),
                    ("false", Json::Boolean(false)),
                ];
                for (word, value) in words {
                    if self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
                        self.at += word.len();
                        return Ok(value);
                    }
                }
                self.error("a value")
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, String> {
        let mut members: Vec<(String, Json)> = Vec::new();
        self.at += 1;
        self.skip_space();
        if self.take(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return self.error("the name of a member");
            }
            let name = self.string()?;
            if members.iter().any(|(known, _)| *known == name) {
                return Err(format!("the member `{name}` is there twice"));
            }
            self.skip_space();
            if !self.take(b':') {
                return self.error("a colon");
            }
            members.push((name, self.value(depth + 1)?));
            self.skip_space();
            if self.take(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.take(b',') {
                return self.error("a comma or the end of the object");
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json, String> {
        let mut values = Vec::new();
        self.at += 1;
        self.skip_space();
        if self.take(b']') {
            return Ok(Json::List(values));
        }
        loop {
            values.push(self.value(depth + 1)?);
            self.skip_space();
            if self.take(b']') {
                return Ok(Json::List(values));
            }
            if !self.take(b',') {
                return self.error("a comma or the end of the list");
            }
        }
    }

    fn string(&mut self) -> Result<String, String> {
        let mut text = Vec::new();
        self.at += 1;
        loop {
            let Some(byte) = self.peek() else {
                return self.error("the end of the text");
            };
            self.at += 1;
            match byte {
                // What is between the quotes of a `str` is UTF-8, and every escape writes whole characters.
                b'"' => return String::from_utf8(text).or_else(|_| self.error("a text")),
                b'\\' => {
                    let character = self.escaped()?;
                    text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                0..0x20 => return self.error("no control character"),
                byte => text.push(byte),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, String> {
        let Some(byte) = self.peek() else {
            return self.error("an escape");
        };
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let mut code = self.hex()?;
                // Above the basic plane a character is a pair of surrogates.
                if (0xd800..0xdc00).contains(&code) && self.take(b'\\') && self.take(b'u') {
                    let low = self.hex()?;
                    if !(0xdc00..0xe000).contains(&low) {
                        return self.error("the second half of a character");
                    }
                    code = 0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                }
                return char::from_u32(code).map_or_else(|| self.error("a character"), Ok);
            }
            _ => return self.error("an escape"),
        })
    }

    fn hex(&mut self) -> Result<u32, String> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = self.peek().and_then(|byte| char::from(byte).to_digit(16)) else {
                return self.error("four hexadecimal digits");
            };
            self.at += 1;
            code = code * 16 + digit;
        }
        Ok(code)
    }

    /// The digits that fit into 64 bits, times a power of ten: exact up to 15 digits, within some units in the last
    /// place beyond, and zero below 1e-308.
    fn number(&mut self) -> Result<Json, String> {
        let is_negative = self.take(b'-');
        let begin = self.at;
        let (mut digits, mut exponent) = (0_u64, 0_i32);
        self.digits(&mut digits, &mut exponent, 0)?;
        if self.at - begin > 1 && self.text.as_bytes()[begin] == b'0' {
            return self.error("no leading zero");
        }
        let mut is_integer = exponent == 0;
        if self.take(b'.') {
            is_integer = false;
            self.digits(&mut digits, &mut exponent, -1)?;
        }
        if self.take(b'e') || self.take(b'E') {
            is_integer = false;
            let is_down = self.take(b'-');
            if !is_down {
                self.take(b'+');
            }
            let mut power = 0_u64;
            self.digits(&mut power, &mut 0, 0)?;
            let power = i32::try_from(power.min(10_000)).unwrap_or(10_000);
            exponent = exponent.saturating_add(if is_down { -power } else { power });
        }
        if is_integer && let Ok(value) = i64::try_from(digits) {
            return Ok(Json::Integer(if is_negative { -value } else { value }));
        }
        let scale = 10_f64.powi(exponent.clamp(-330, 330).abs());
        let value = if exponent < 0 {
            digits as f64 / scale
        } else {
            digits as f64 * scale
        };
        if value.is_finite() {
            Ok(Json::Decimal(if is_negative { -value } else { value }))
        } else {
            self.error("a smaller number")
        }
    }

    /// Adds digits to the number as long as they fit, and moves its exponent by `step` for each that does, by one more
    /// for each that does not.
    fn digits(&mut self, number: &mut u64, exponent: &mut i32, step: i32) -> Result<(), String> {
        let begin = self.at;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            self.at += 1;
            match number
                .checked_mul(10)
                .and_then(|number| number.checked_add(u64::from(digit - b'0')))
            {
                Some(more) if *exponent <= 0 || step < 0 => {
                    *number = more;
                    *exponent = exponent.saturating_add(step);
                }
                _ => *exponent = exponent.saturating_add(step + 1),
            }
        }
        if self.at == begin {
            self.error("a digit")
        } else {
            Ok(())
        }
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn error<T>(&self, expected: &str) -> Result<T, String> {
        Err(format!("expected {expected} at byte {}", self.at))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{Json, parse};

    fn value(json: Json) -> Value {
        match json {
            Json::Null => Value::Null,
            Json::Boolean(value) => value.into(),
            Json::Integer(value) => value.into(),
            Json::Decimal(value) => value.into(),
            Json::Text(value) => value.into(),
            Json::List(values) => values.into_iter().map(value).collect(),
            Json::Object(members) => members
                .into_iter()
                .map(|(name, member)| (name, value(member)))
                .collect(),
        }
    }

    #[test]
    fn it_reads_what_others_read_as_they_do() {
        let texts = [
            " { } ",
            "[]",
            "[1, -2 ,3.25, 0, -0.5, 1e3, 1.5E-2, 12345678901234567890.5, 9223372036854775807, 0.1, 99.95, 1E+2]",
            r#"{"a": {"b": [null, true, false, "x\"\\\/\b\f\n\r\t"]}, "é": "\u00e9 \ud83d\ude00 ✓"}"#,
            "\"\"",
            "null",
        ];
        for text in texts {
            assert_eq!(parse(text).map(value).ok(), serde_json::from_str(text).ok(), "{text}");
        }
    }

    #[test]
    fn it_refuses_what_others_refuse() {
        let texts = [
            "",
            "{",
            "}",
            "[1,]",
            "[1 2]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a: 1}",
            "nul",
            "tru e",
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "+1",
            "\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"\\udc00\"",
            "\"\n\"",
            "[1] 2",
            "1e999",
            "'a'",
            "NaN",
        ];
        for text in texts {
            assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn deep_nesting_and_doubled_names_are_refused() {
        assert!(parse(&("[".repeat(60) + &"]".repeat(60))).is_ok());
        assert!(parse(&"[".repeat(100_000)).is_err());
        assert_eq!(
            parse(r#"{"a": 1, "a": 2}"#),
            Err("the member `a` is there twice".to_owned())
        );
    }
}
