//! What an expression or a gate was asked about, and what an expression answered. Must not evaluate anything.

use serde::Deserialize;

use crate::names::Digest;

/// What a verdict answers: the check's text, the evidence it saw, and the attempt. The time is not part of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VerdictKey {
    /// Of the expression, or of the gate with its config and limits.
    pub check: Digest,
    /// Of all that the answer rests on.
    pub evidence: Digest,
    /// Which placement of the stage.
    pub attempt: i64,
}

impl serde::Serialize for VerdictKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{} {} {}", self.check, self.evidence, self.attempt))
    }
}

/// What an evaluation answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The check passes.
    True,
    /// The check does not pass.
    False {
        /// The parts of a condition that are false, and what they looked at. `None`: not known.
        because: Option<String>,
    },
    /// An error, a budget that ran out, a value that is no bool, an object that is too large: at most 256 characters,
    /// and never a part of the object.
    Unknown {
        /// Why there is no boolean, at most 256 characters.
        message: String,
    },
}

impl<'de> Deserialize<'de> for Verdict {
    /// `true`, `false`, `{false: {because: …}}` or `{unknown: {message: …}}`.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        enum Word {
            True,
            False,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
        enum Reasoned {
            False { because: Option<String> },
            Unknown { message: String },
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Word(Word),
            Reasoned(Reasoned),
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::Word(Word::True) => Self::True,
            Written::Word(Word::False) => Self::False { because: None },
            Written::Reasoned(Reasoned::False { because }) => Self::False { because },
            Written::Reasoned(Reasoned::Unknown { message }) => Self::Unknown { message },
        })
    }
}
