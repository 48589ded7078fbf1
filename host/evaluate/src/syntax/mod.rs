//! Why a text does not parse, for people who know other languages better: found in its tokens, after the parser has refused it. Must
//! not decide whether a text parses.

mod foreign;
mod tokens;

use crate::error::CompileError;
use foreign::not_an_operator;
use tokens::{Token, What};

/// What is wrong, and with which character of the text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slip {
    message: String,
    /// Counted from 0.
    at: usize,
}

impl Slip {
    fn new(at: usize, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { message, at }
    }

    /// As an error with its line and column.
    pub(crate) fn refused(self, text: &str) -> CompileError {
        let (mut line, mut column) = (1, 1);
        for c in text.chars().take(self.at) {
            (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        CompileError::new(self.message).at((line, column))
    }
}

/// The slip that is recognised: what CEL does not have, else a bracket, else the order of operands and operators.
pub(crate) fn slip(text: &str) -> Option<Slip> {
    let tokens = tokens::of(text);
    if tokens.is_empty() {
        return Some(Slip::new(0, "the expression is empty"));
    }
    let lexical = (0..tokens.len()).find_map(|at| foreign::slip(&tokens, at));
    lexical.or_else(|| brackets(&tokens)).or_else(|| order(&tokens))
}

/// What is between two brackets, or outside of all, and the `?` in it that have no `:` yet.
struct Frame {
    open: Option<(char, usize)>,
    questions: Vec<usize>,
}

impl Frame {
    const fn new(open: Option<(char, usize)>) -> Self {
        let questions = Vec::new();
        Self { open, questions }
    }

    fn unanswered(&self) -> Option<Slip> {
        let at = self.questions.last()?;
        Some(Slip::new(*at, "`?` has no `:`: write `condition ? one : other`"))
    }
}

fn brackets(tokens: &[Token]) -> Option<Slip> {
    let mut outer: Vec<Frame> = Vec::new();
    let mut frame = Frame::new(None);
    for token in tokens {
        match token.what {
            What::Open(open) => {
                let inner = Frame::new(Some((open, token.start)));
                outer.push(std::mem::replace(&mut frame, inner));
            }
            What::Close(close) => {
                let (Some((open, at)), Some(around)) = (frame.open, outer.pop()) else {
                    let message = format!(
                        "`{close}` closes nothing: remove it, or add `{}` before it",
                        other(close)
                    );
                    return Some(Slip::new(token.start, message));
                };
                if other(open) != close {
                    let message = format!("`{open}` is not closed before `{close}`: add `{}`", other(open));
                    return Some(Slip::new(at, message));
                }
                if let Some(slip) = frame.unanswered() {
                    return Some(slip);
                }
                frame = around;
            }
            What::Sign("?") => frame.questions.push(token.start),
            What::Sign(":") if frame.questions.pop().is_none() && !matches!(frame.open, Some(('{', _))) => {
                return Some(Slip::new(token.start, "`:` belongs to no `?`"));
            }
            _ => {}
        }
    }
    match frame.open {
        Some((open, at)) => Some(Slip::new(
            at,
            format!("`{open}` is never closed: add `{}`", other(open)),
        )),
        None => frame.unanswered(),
    }
}

/// The bracket that goes with this one.
const fn other(bracket: char) -> char {
    match bracket {
        '(' => ')',
        ')' => '(',
        '[' => ']',
        ']' => '[',
        '{' => '}',
        _ => '{',
    }
}

/// Words of other languages.
const WORDS: [(&str, &str); 4] = [("and", "&&"), ("or", "||"), ("not", "!"), ("is", "==")];

/// Operands and operators take turns.
fn order(tokens: &[Token]) -> Option<Slip> {
    let mut has_operand = false;
    let mut before: Option<&Token> = None;
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1);
        let is_member = before.is_some_and(|before| matches!(before.what, What::Sign("." | ".?")));
        let seen = if is_member {
            member(token)
        } else if has_operand {
            after_operand(token, (before, next))
        } else {
            before_operand(token, (before, next))
        };
        match seen {
            Ok(operand) => has_operand = operand,
            Err(message) => return Some(Slip::new(token.start, message)),
        }
        before = Some(token);
    }
    let last = before.filter(|_| !has_operand)?;
    let message = match &last.what {
        What::Sign("." | ".?") => "the expression ends after a dot: the name of a member must follow".to_owned(),
        what => format!("the expression ends after {}: an operand must follow it", shown(what)),
    };
    Some(Slip::new(last.start, message))
}

/// Whether there is an operand after the token, or why the token cannot stand there.
type Seen = Result<bool, String>;

fn member(token: &Token) -> Seen {
    match &token.what {
        What::Name(word) if matches!(word.as_str(), "in" | "true" | "false" | "null") => Err(format!(
            "`{word}` is a reserved word of CEL: write [\"{word}\"] for a member of that name"
        )),
        What::Name(_) => Ok(true),
        what => Err(format!(
            "the name of a member must follow the dot, and this is {}",
            shown(what)
        )),
    }
}

fn after_operand(token: &Token, (before, next): (Option<&Token>, Option<&Token>)) -> Seen {
    let is_next = |word: &str| next.is_some_and(|next| matches!(&next.what, What::Name(name) if name == word));
    let is_indexed = |before: Option<&Token>| before.is_some_and(|before| !matches!(before.what, What::Number(_)));
    let is_named = before.is_some_and(|before| matches!(before.what, What::Name(_)));
    match &token.what {
        What::Name(word) if word == "in" => Ok(false),
        What::Name(word) if word == "not" && is_next("in") => Err(not_an_operator("not in", "!(x in …)")),
        What::Name(word) if word == "is" && is_next("not") => Err(not_an_operator("is not", "!=")),
        What::Name(word) => Err(match WORDS.iter().find(|(foreign, _)| foreign == word) {
            Some((foreign, meant)) => not_an_operator(foreign, meant),
            None => "an operator is missing before this name".to_owned(),
        }),
        What::Number(number) => Err(match number.strip_prefix('.') {
            Some(index) if is_indexed(before) && index.chars().all(|c| c.is_ascii_digit()) => {
                format!("an index stands in brackets: write `[{index}]` instead of `{number}`")
            }
            _ => "an operator is missing before this number".to_owned(),
        }),
        What::Text => Err("an operator is missing before this string".to_owned()),
        What::Open('[') => Ok(false),
        What::Open('(' | '{') if is_named => Ok(false),
        What::Sign("!") | What::Open(_) => Err(format!("an operator is missing before {}", shown(&token.what))),
        What::Close(_) => Ok(true),
        _ => Ok(false),
    }
}

fn before_operand(token: &Token, (before, next): (Option<&Token>, Option<&Token>)) -> Seen {
    let begins_operand = |what: &What| {
        matches!(
            what,
            What::Name(_) | What::Number(_) | What::Text | What::Open(_) | What::Sign("!")
        )
    };
    let nothing_before = || match before.map(|before| &before.what) {
        None | Some(What::Open(_)) => format!("an operand is missing before {}", shown(&token.what)),
        Some(what) => format!(
            "an operand is missing between {} and {}",
            shown(what),
            shown(&token.what)
        ),
    };
    match &token.what {
        What::Name(word) if word == "not" && next.is_some_and(|next| begins_operand(&next.what)) => {
            Err(not_an_operator("not", "!"))
        }
        What::Name(word) if matches!(word.as_str(), "and" | "or" | "in") => Err(nothing_before()),
        What::Name(_) | What::Number(_) | What::Text => Ok(true),
        What::Open(_) | What::Sign("!" | "-" | ".") => Ok(false),
        What::Close(_) => match before.map(|before| &before.what) {
            // Lists and maps may end with a comma, and be empty.
            Some(What::Open(_) | What::Sign(",")) => Ok(true),
            Some(what) => Err(format!(
                "an operand is missing between {} and {}",
                shown(what),
                shown(&token.what)
            )),
            None => Err(nothing_before()),
        },
        _ => Err(nothing_before()),
    }
}

fn shown(what: &What) -> String {
    match what {
        What::Name(word) => format!("`{word}`"),
        What::Number(_) => "a number".to_owned(),
        What::Text | What::Unclosed(_) | What::BadEscape(..) => "a string".to_owned(),
        What::Open(c) | What::Close(c) | What::Unknown(c) => format!("`{c}`"),
        What::Sign(sign) => format!("`{sign}`"),
    }
}
