//! Texts that a gate may have chosen, made fit for terminals, logs and statuses. There is one rule of what may be shown, and
//! whatever a gate says passes through it.

use std::fmt;

/// Most characters of a failure's message.
pub const FAILURE_CHARS_MAX: usize = 256;

/// `c`, or a space in the place of what ends a line, controls a terminal, turns the direction of writing or is not seen.
pub(super) fn shown(c: char) -> char {
    if is_shown(c) { c } else { ' ' }
}

fn is_shown(c: char) -> bool {
    let is_unseen = matches!(
        c,
        // Soft hyphen, Arabic letter mark, zero-width spaces and marks of direction, separators and embeddings, joiners and
        // isolates, byte order mark, tags.
        '\u{ad}'
            | '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}'
    );
    !is_unseen && !c.is_control()
}

/// The start of `text`, at most `bytes_max` bytes.
pub(super) fn one_line(text: &str, bytes_max: usize) -> String {
    let end = text.floor_char_boundary(bytes_max);
    text[..end].chars().map(shown).collect()
}

/// A message of at most [`FAILURE_CHARS_MAX`] characters.
pub fn sentence(message: impl fmt::Display) -> String {
    message.to_string().chars().map(shown).take(FAILURE_CHARS_MAX).collect()
}

/// The same JSON with escapes in the place of what is not to be shown. For JSON on one line: outside of strings nothing of that
/// kind is there then.
pub fn escaped(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if is_shown(c) {
            escaped.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            escaped += &format!("\\u{unit:04x}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each kind: DEL, CSI, bell, line ends, marks, overrides, isolates, joiners, a tag.
    const UNSEEN: &str =
        "\u{7f}\u{9b}\u{7}\n\u{ad}\u{61c}\u{200b}\u{200f}\u{2028}\u{202e}\u{2060}\u{2069}\u{feff}\u{e0041}";

    #[test]
    fn what_is_not_to_be_shown_becomes_spaces_and_the_rest_stays() {
        assert_eq!(one_line(UNSEEN, 4_096).trim(), "");
        assert_eq!(sentence(UNSEEN).chars().count(), UNSEEN.chars().count());
        assert_eq!(sentence(UNSEEN).trim(), "");
        let seen = "é 漢字 … \u{a0}„quoted“ – 🚦";
        assert_eq!(one_line(seen, 4_096), seen);
        assert_eq!(escaped(seen), seen);
    }

    #[test]
    fn escaped_json_says_the_same_and_shows_nothing_else() {
        let value = serde_json::json!({UNSEEN: [UNSEEN, "é"]});
        let escaped = escaped(&value.to_string());
        assert!(escaped.chars().all(is_shown), "{escaped:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }
}
