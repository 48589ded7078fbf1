//! A CEL expression as tokens: enough to recognise patterns in it, not to understand it. Texts that do not compile are
//! reported elsewhere; here they give some tokens or other, never an error.

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// Variables, fields, functions, and the words `in`, `true`, `false`, `null`.
    Word(String),
    /// A string's content as written, escapes included.
    Text(String),
    Number,
    /// An operator or bracket.
    Sign(&'static str),
}

/// Two characters before one, so that `==` is not two tokens.
const SIGNS: [&str; 26] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", ".", ",", "(", ")", "[", "]", "{", "}", "+", "-", "*", "/", "%", "!",
    "?", ":", "=", "|",
];

/// The tokens of an expression.
pub fn of(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (token, length) = next(rest, first);
        tokens.extend(token);
        rest = rest.get(length..).unwrap_or_default();
    }
    tokens
}

fn next(rest: &str, first: char) -> (Option<Token>, usize) {
    if rest.starts_with("//") {
        return (None, rest.find('\n').unwrap_or(rest.len()));
    }
    if first == '\'' || first == '"' {
        return text(rest, first);
    }
    if is_word(first) {
        let length = rest.find(|character| !is_word(character)).unwrap_or(rest.len());
        let word = &rest[..length];
        return match first.is_ascii_digit() {
            true => (Some(Token::Number), number(rest)),
            false => (Some(Token::Word(word.to_owned())), length),
        };
    }
    match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
        Some(sign) => (Some(Token::Sign(sign)), sign.len()),
        None => (None, first.len_utf8()),
    }
}

fn text(rest: &str, quote: char) -> (Option<Token>, usize) {
    let triple: String = std::iter::repeat_n(quote, 3).collect();
    let end = if rest.starts_with(&triple) {
        triple
    } else {
        quote.to_string()
    };
    let start = end.len();
    let mut escaped = false;
    for (at, character) in rest.char_indices().skip_while(|(at, _)| *at < start) {
        if !escaped && rest.get(at..).is_some_and(|rest| rest.starts_with(&end)) {
            return (Some(Token::Text(rest[start..at].to_owned())), at + end.len());
        }
        escaped = character == '\\' && !escaped;
    }
    (
        Some(Token::Text(rest.get(start..).unwrap_or_default().to_owned())),
        rest.len(),
    )
}

fn number(rest: &str) -> usize {
    rest.find(|character| !is_word(character) && character != '.')
        .unwrap_or(rest.len())
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_at_their_own_quote_and_comments_at_the_line() {
        let word = |text: &str| Token::Word(text.to_owned());
        let text = |content: &str| Token::Text(content.to_owned());
        let cases = [
            (r#"a == "b'c""#, vec![word("a"), Token::Sign("=="), text("b'c")]),
            (r"'it\'s'+x", vec![text(r"it\'s"), Token::Sign("+"), word("x")]),
            ("a // b\nc", vec![word("a"), word("c")]),
            ("'''a'b''' c", vec![text("a'b"), word("c")]),
            (
                "x.f1 >= 1.5e3",
                vec![
                    word("x"),
                    Token::Sign("."),
                    word("f1"),
                    Token::Sign(">="),
                    Token::Number,
                ],
            ),
            ("'open", vec![text("open")]),
            ("é ~ 'ü'", vec![word("é"), text("ü")]),
        ];
        for (expression, expected) in cases {
            assert_eq!(of(expression), expected, "{expression}");
        }
    }
}
