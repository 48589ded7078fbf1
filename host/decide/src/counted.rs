//! Numbers with their nouns, for messages.

use std::fmt::Display;

/// `1 cluster`, `2 clusters`. The plural of the noun has an s at its end.
///
/// ```
/// use stagegate_decide::counted::counted;
///
/// assert_eq!(counted(1, "cluster"), "1 cluster");
/// assert_eq!(counted(0, "bound object"), "0 bound objects");
/// ```
pub fn counted<N: Display + From<u8> + PartialEq>(count: N, noun: &str) -> String {
    let plural = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{plural}")
}
