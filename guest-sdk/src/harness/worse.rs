//! Which numbers are worse than others: the author of a gate says so of each column. Must not know a request.

/// Which way the numbers of a column are worse, in any collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worse {
    /// Less is worse, for example of `available`.
    Lower(&'static str),
    /// More is worse, for example of `restarts`.
    Higher(&'static str),
}
