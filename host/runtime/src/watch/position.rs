//! From where a watch goes on. Must not be used for another kind: versions are ordered within one kind only.

/// Up to where the watch has told everything.
#[derive(Clone, Debug)]
pub struct Position {
    pub version: String,
}
