//! What happens to the dependents of a deleted object, and the finalizers that stand for it until it has happened. Must not delete anything.

pub(super) const ORPHAN: &str = "orphan";
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// Finalizers that a delete request sets and takes away.
pub(super) const PROPAGATION_FINALIZERS: &[&str] = &[ORPHAN, FOREGROUND];

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    #[default]
    Background,
    Foreground,
    Orphan,
}

impl Propagation {
    pub(super) fn finalizer(self) -> Option<&'static str> {
        match self {
            Propagation::Background => None,
            Propagation::Foreground => Some(FOREGROUND),
            Propagation::Orphan => Some(ORPHAN),
        }
    }
}
