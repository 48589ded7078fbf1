//! The digest by which the program knows a text, a component or a set of values again.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::hex;

/// SHA-256 in lower-case hex, 64 characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(Arc<str>);

impl Digest {
    /// Of the value's JSON text. Struct fields are written in their declared order and maps in key order, so the
    /// same value always has the same digest.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        // Serialising to JSON fails only for maps with keys that are not strings; then the error's text stands in,
        // which is as stable as the value.
        let text = serde_json::to_vec(value).unwrap_or_else(|error| error.to_string().into_bytes());
        Self::of_bytes(&text)
    }

    /// Of the bytes as they are.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(hex::text(Sha256::digest(bytes)).into())
    }

    /// A digest that was stored as text.
    pub fn from_text(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// 64 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
