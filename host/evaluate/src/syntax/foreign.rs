//! What other languages have and CEL has not: operators, loops, comments, quotes, escapes. Must not know what a whole expression means.

use super::Slip;
use super::tokens::{Token, What};

/// Operators of other languages, and what they are called here.
const OPERATORS: [(&str, &str); 8] = [
    ("===", "=="),
    ("!==", "!="),
    ("<>", "!="),
    ("=>", ">="),
    ("=<", "<="),
    ("=", "=="),
    ("&", "&&"),
    ("|", "||"),
];

/// Characters that are operators elsewhere.
const CHARACTERS: [(char, &str); 4] = [('≥', ">="), ('≤', "<="), ('≠', "!="), ('−', "-")];

/// What begins a loop.
const LOOPS: [&str; 6] = ["all", "exists", "existsOne", "exists_one", "filter", "map"];

pub(super) fn not_an_operator(shown: &str, meant: &str) -> String {
    format!("`{shown}` is not an operator: write `{meant}`")
}

/// What is wrong with the token at the index, whatever the other tokens mean.
pub(super) fn slip(tokens: &[Token], at: usize) -> Option<Slip> {
    let token = tokens.get(at)?;
    let mut start = token.start;
    let message = match &token.what {
        What::Unclosed(end) => format!("this string is not closed: add {end}"),
        What::BadEscape(escape, further) => {
            start += further;
            bad_escape(escape)
        }
        What::Sign(sign) => of_sign(tokens, at, sign)?,
        What::Unknown(character) => of_character(*character),
        _ => return None,
    };
    Some(Slip::new(start, message))
}

fn bad_escape(escape: &str) -> String {
    let needs = match escape.chars().nth(1) {
        Some('x' | 'X') => "two hexadecimal digits",
        Some('u') => "four hexadecimal digits",
        Some('U') => "eight hexadecimal digits",
        Some('0'..='3') => "two more octal digits",
        Some(c) if !c.is_control() => {
            return format!("`{escape}` is not an escape of a string: write `\\{escape}`, or r'…'");
        }
        _ => return "this backslash begins no escape of a string: write `\\\\`, or r'…'".to_owned(),
    };
    format!("`{escape}` needs {needs}: add them, or write `\\{escape}` or r'…'")
}

fn of_character(character: char) -> String {
    if let Some((_, meant)) = CHARACTERS.iter().find(|(foreign, _)| *foreign == character) {
        return not_an_operator(&character.to_string(), meant);
    }
    match character {
        '#' => "`#` does not begin a comment: write `//`".to_owned(),
        '`' => "backquotes do not quote a name: write obj[\"a-b\"] instead of obj.`a-b`".to_owned(),
        '“' | '”' | '„' | '‘' | '’' => format!("{character} is not a quotation mark of CEL: write \" or '"),
        blank if blank.is_whitespace() => {
            let code = u32::from(blank);
            format!("this character (U+{code:04X}) is not a plain space: write a space")
        }
        character if character.is_control() => "this character has no meaning: remove it".to_owned(),
        character => format!("{character:?} has no meaning in an expression: remove it"),
    }
}

fn of_sign(tokens: &[Token], at: usize, sign: &str) -> Option<String> {
    let is_before = |meant: &dyn Fn(&What) -> bool| {
        let before = at.checked_sub(1).and_then(|before| tokens.get(before));
        before.is_some_and(|before| meant(&before.what))
    };
    let is_operand = |what: &What| matches!(what, What::Name(_) | What::Close(_));
    if let ("=>" | "->" | "|", Some((name, variable))) = (sign, loop_before(&tokens[..at])) {
        return Some(format!(
            "a comma follows the variable of a loop, not `{sign}`: write `{name}({variable}, …)`"
        ));
    }
    match sign {
        "/*" => Some("`/*` does not begin a comment: a comment begins with `//`".to_owned()),
        "=~" => Some(not_an_operator("=~", ".matches(\"…\")")),
        "??" => Some(not_an_operator("??", "a.?b.orValue(x)")),
        "?" if is_before(&is_operand) && is_optional_member(&tokens[at..]) => Some(not_an_operator("?.", ".?")),
        "->" => Some(not_an_operator("->", ".")),
        "=" if is_key(&tokens[..at]) => Some("`=` does not separate a key from its value: write `:`".to_owned()),
        _ => {
            let (_, meant) = OPERATORS.iter().find(|(foreign, _)| *foreign == sign)?;
            Some(not_an_operator(sign, meant))
        }
    }
}

/// Whether the tokens begin with `?.name`, without a `:` after it, which would make it a conditional.
fn is_optional_member(tokens: &[Token]) -> bool {
    match tokens {
        [question, dot, name, rest @ ..] => {
            dot.what == What::Sign(".")
                && dot.start == question.start + 1
                && matches!(name.what, What::Name(_))
                && !rest.iter().any(|token| token.what == What::Sign(":"))
        }
        _ => false,
    }
}

/// A loop and its variable at the end of the tokens: `all(x` or `all((x)`.
fn loop_before(before: &[Token]) -> Option<(&str, &str)> {
    let (name, variable) = match before {
        [.., name, open, inner, variable, close]
            if [&open.what, &inner.what] == [&What::Open('('); 2] && close.what == What::Close(')') =>
        {
            (&name.what, &variable.what)
        }
        [.., name, open, variable] if open.what == What::Open('(') => (&name.what, &variable.what),
        _ => return None,
    };
    match (name, variable) {
        (What::Name(name), What::Name(variable)) if LOOPS.contains(&name.as_str()) => Some((name, variable)),
        _ => None,
    }
}

/// Whether the tokens end with a key of a map that is not closed: `{x`, `{"a": 1, x`.
fn is_key(before: &[Token]) -> bool {
    let [earlier @ .., separator, key] = before else {
        return false;
    };
    let is_one = matches!(key.what, What::Name(_) | What::Text | What::Number(_));
    match separator.what {
        What::Open('{') => is_one,
        What::Sign(",") => is_one && innermost(earlier) == Some('{'),
        _ => false,
    }
}

/// The bracket that the tokens leave open last.
fn innermost(tokens: &[Token]) -> Option<char> {
    let mut closed = 0_usize;
    for token in tokens.iter().rev() {
        match token.what {
            What::Close(_) => closed += 1,
            What::Open(open) if closed == 0 => return Some(open),
            What::Open(_) => closed -= 1,
            _ => {}
        }
    }
    None
}
