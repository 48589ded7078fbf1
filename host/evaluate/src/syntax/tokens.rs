//! The tokens of a text that does not parse, with all that no expression has: other languages' operators, characters without a
//! meaning, strings without an end. Must not judge them.

/// One token and where its first character stands, counted in characters from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) what: What,
    pub(super) start: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A variable, member or function, or a word of the language.
    Name(String),
    /// As it is written.
    Number(String),
    Text,
    /// A string without an end, and what would close it.
    Unclosed(String),
    /// A string with an escape that is none, as it is written, and how far from the string's beginning that stands.
    BadEscape(String, usize),
    Open(char),
    Close(char),
    /// An operator, also of another language.
    Sign(&'static str),
    Unknown(char),
}

/// Longer ones first.
const SIGNS: [&str; 30] = [
    "===", "!==", "==", "!=", "<=", ">=", "&&", "||", "<>", "=>", "->", "=<", "=~", "??", "/*", ".?", "<", ">", "=",
    "&", "|", ".", ",", "+", "-", "*", "/", "%", "!", "?",
];

/// The tokens; comments are none.
pub(super) fn of(text: &str) -> Vec<Token> {
    let characters: Vec<char> = text.chars().collect();
    let mut tokens: Vec<Token> = Vec::new();
    let mut at = 0;
    while let Some(rest) = characters.get(at..).filter(|rest| !rest.is_empty()) {
        let (what, length) = next(rest);
        // `[?index]`, `{?key: value}` and `[a, ?b]` are optionals, and no conditionals.
        let is_optional = what == Some(What::Sign("?"))
            && tokens
                .last()
                .is_some_and(|last| matches!(last.what, What::Open('[' | '{') | What::Sign(",")));
        if let Some(what) = what.filter(|_| !is_optional) {
            tokens.push(Token { what, start: at });
        }
        at += length;
    }
    tokens
}

/// The token that the text begins with, if it begins with one, and how many characters to go on.
fn next(rest: &[char]) -> (Option<What>, usize) {
    let first = rest[0];
    // Other blanks, such as a no-break space, are none to the parser.
    if matches!(first, ' ' | '\t' | '\n' | '\r' | '\u{c}') {
        return (None, 1);
    }
    if rest.starts_with(&['/', '/']) {
        return (None, length_of(rest, |c| c != '\n'));
    }
    let prefix = length_of(rest, |c| matches!(c, 'r' | 'R' | 'b' | 'B'));
    if prefix <= 2 && matches!(rest.get(prefix), Some('\'' | '"')) {
        let is_raw = rest[..prefix].iter().any(|c| matches!(c, 'r' | 'R'));
        let (what, length) = match quoted(&rest[prefix..], is_raw) {
            (What::BadEscape(escape, further), length) => (What::BadEscape(escape, prefix + further), length),
            other => other,
        };
        return (Some(what), prefix + length);
    }
    if first.is_ascii_digit() || first == '.' && rest.get(1).is_some_and(char::is_ascii_digit) {
        let length = number(rest);
        return (Some(What::Number(rest[..length].iter().collect())), length);
    }
    if is_of_name(first) {
        let length = length_of(rest, is_of_name);
        return (Some(What::Name(rest[..length].iter().collect())), length);
    }
    match first {
        '(' | '[' | '{' => return (Some(What::Open(first)), 1),
        ')' | ']' | '}' => return (Some(What::Close(first)), 1),
        ':' => return (Some(What::Sign(":")), 1),
        _ => {}
    }
    let begins = |sign: &&&str| sign.chars().enumerate().all(|(at, c)| rest.get(at) == Some(&c));
    match SIGNS.iter().find(begins) {
        Some(sign) => (Some(What::Sign(sign)), sign.chars().count()),
        None => (Some(What::Unknown(first)), 1),
    }
}

/// The string that a quote begins.
fn quoted(rest: &[char], is_raw: bool) -> (What, usize) {
    let quote = rest[0];
    let is_triple = rest.starts_with(&[quote; 3]);
    let end = &[quote; 3][..if is_triple { 3 } else { 1 }];
    let mut at = end.len();
    let mut bad = None;
    while let Some(left) = rest.get(at..).filter(|left| !left.is_empty()) {
        if left.starts_with(end) {
            return (bad.unwrap_or(What::Text), at + end.len());
        }
        if !is_triple && matches!(left[0], '\n' | '\r') {
            return (What::Unclosed(end.iter().collect()), at);
        }
        if left[0] != '\\' || is_raw {
            at += 1;
            continue;
        }
        if !is_escape(left) && bad.is_none() {
            bad = Some(What::BadEscape(left.iter().take(2).collect(), at));
        }
        at += 2;
    }
    (What::Unclosed(end.iter().collect()), rest.len())
}

/// Whether an escape begins here.
fn is_escape(rest: &[char]) -> bool {
    let digits = |from: usize, count: usize, radix: u32| {
        let digits = rest.get(from..from + count);
        digits.is_some_and(|digits| digits.iter().all(|digit| digit.is_digit(radix)))
    };
    match rest.get(1) {
        Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\' | '?' | '"' | '\'' | '`') => true,
        Some('x' | 'X') => digits(2, 2, 16),
        Some('u') => digits(2, 4, 16),
        Some('U') => digits(2, 8, 16),
        Some('0'..='3') => digits(2, 2, 8),
        _ => false,
    }
}

/// `1`, `0x1f`, `1.5`, `1e-3`, `7u`.
fn number(rest: &[char]) -> usize {
    let mut at = 0;
    let mut has_point = false;
    while let Some(&c) = rest.get(at) {
        let is_sign = matches!(c, '+' | '-') && matches!(rest[at.saturating_sub(1)], 'e' | 'E') && rest[0] != '0';
        let is_point = c == '.' && !has_point && rest.get(at + 1).is_some_and(char::is_ascii_digit);
        has_point |= is_point;
        if !is_of_name(c) && !is_sign && !is_point {
            break;
        }
        at += 1;
    }
    at.max(1)
}

fn length_of(rest: &[char], is_of: impl Fn(char) -> bool) -> usize {
    rest.iter().position(|c| !is_of(*c)).unwrap_or(rest.len())
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
