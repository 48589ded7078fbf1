//! Makes text from outside (a cluster, an object, a guest, a user) safe to show on a terminal. Must not know where a text comes
//! from.
//!
//! The API server restricts little of it: names of clusters, policies and namespaces are DNS-like, but a ClusterRole may have any
//! name without `/` and `%`, and a returned status holds whatever its controller writes. Only sentences are changed; identifiers
//! that later decisions compare stay as they are.

/// `text` on one line. A space replaces each character that is invisible or changes how others are shown.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_unseen(c) { ' ' } else { c }).collect()
}

/// The same, cut to at most `chars_max` characters.
pub fn printable_cut(text: &str, chars_max: usize) -> String {
    let mut chars = text.chars();
    let mut cut = printable(chars.by_ref().take(chars_max).collect::<String>().as_str());
    if chars.next().is_some() {
        cut.pop();
        cut.push('…');
    }
    cut
}

/// Control characters, line and paragraph separators, bidirectional controls, and Unicode's default ignorable characters.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::{printable, printable_cut};

    #[test]
    fn what_is_not_seen_becomes_a_space_and_letters_of_any_script_stay() {
        let cases = [
            ("a\u{1b}[2J\u{9b}31m\r\nb", "a [2J 31m  b"),
            ("\u{202e}txt.exe\u{2066}\u{200b}", " txt.exe  "),
            ("\u{e0041}\u{3164}\u{34f}", "   "),
            ("größer 東京 ✓ — 🚀", "größer 東京 ✓ — 🚀"),
        ];
        for (text, shown) in cases {
            assert_eq!(printable(text), shown);
        }
    }

    #[test]
    fn a_text_that_is_cut_says_so() {
        let cases = [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("ü\u{1b}üü", 3, "ü …"),
            ("", 3, ""),
            ("a", 0, "…"),
        ];
        for (text, chars_max, shown) in cases {
            assert_eq!(printable_cut(text, chars_max), shown, "{text:?}");
        }
    }
}
