//! What an expression or a gate was asked about, and what an expression answered. Must not evaluate anything.

use serde::Deserialize;

use crate::names::Digest;

/// What a verdict answers: the check's text, the evidence it saw, and the attempt. The time is not part of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VerdictKey {
    pub check: Digest,
    pub evidence: Digest,
    pub attempt: i64,
}

impl serde::Serialize for VerdictKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{} {} {}", self.check, self.evidence, self.attempt))
    }
}

/// What an evaluation answered.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Verdict {
    True,
    False,
    /// An error, a budget that ran out, a value that is no bool, an object that is too large: at most 256 characters,
    /// and never a part of the object.
    Unknown {
        message: String,
    },
}
