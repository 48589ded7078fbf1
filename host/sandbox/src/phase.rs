//! How far a child has come. Must not say what a phase allows: the filter does.

/// What a child still has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Files can be opened for reading: an artifact is mapped by its path under `/proc/self/fd`. No code of a module has run.
    Loading,
    Working,
}
