//! What went wrong, said without repeating a value: these texts reach status and logs, and objects hold secrets.

use crate::syntax;
use cel::common::value::Val;
use cel::{ExecutionError, ParseErrors};
use std::collections::BTreeSet;
use std::fmt;

/// The longest message, in characters.
const MESSAGE_CHARS: usize = 256;
/// The longest name of a user that is repeated, in characters.
const NAME_CHARS: usize = 64;
/// How many errors of a parse are told. One typing error can cause one per character of the text.
const PARSE_ERRORS: usize = 3;

/// Why an expression was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    /// At most 256 characters.
    pub message: String,
    /// Counted from 1.
    pub line: Option<u32>,
    /// Counted from 1, in characters.
    pub column: Option<u32>,
}

impl CompileError {
    pub(crate) fn new(message: impl AsRef<str>) -> CompileError {
        CompileError {
            message: cut(message.as_ref(), MESSAGE_CHARS),
            line: None,
            column: None,
        }
    }

    pub(crate) fn at(self, (line, column): (u32, u32)) -> CompileError {
        CompileError {
            line: Some(line),
            column: Some(column),
            ..self
        }
    }

    /// The slip that explains why `text` does not parse; if none is recognised, the parser's first few errors in one message, at the
    /// place of the first. The parser's own text repeats the whole line for each of them.
    pub(crate) fn from_parse(errors: &ParseErrors, text: &str) -> CompileError {
        if let Some(slip) = syntax::slip(text) {
            return slip.refused(text);
        }
        let place = |(line, column): (isize, isize)| match (u32::try_from(line), u32::try_from(column)) {
            (Ok(line @ 1..), Ok(column @ 1..)) => Some((line, column)),
            _ => None,
        };
        let first = errors.errors.first().and_then(|first| place(first.pos));
        let placed = |error: CompileError| match first {
            Some(first) => error.at(first),
            None => error,
        };
        // The parser then finds more that is wrong with the rest, and a macro wraps the errors of its arguments in others.
        if errors
            .errors
            .iter()
            .any(|error| error.msg.contains("Recursion limit of "))
        {
            return placed(CompileError::new("the expression is nested too deeply"));
        }
        let mut texts: Vec<String> = Vec::new();
        for error in errors.errors.iter().take(PARSE_ERRORS) {
            let text = cut(&plain(&error.msg), MESSAGE_CHARS / PARSE_ERRORS);
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        placed(CompileError::new(format!("syntax error: {}", texts.join("; "))))
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (Some(line), Some(column)) => write!(f, "line {line}, column {column}: {}", self.message),
            _ => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for CompileError {}

/// Why an evaluation has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EvalError {
    /// What happened, for decisions.
    pub kind: EvalErrorKind,
    /// What happened, for people: at most 256 characters, and never a value or a part of one.
    pub message: String,
}

/// The ways in which an evaluation ends without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvalErrorKind {
    /// A map has no such key.
    NoSuchKey {
        /// The key as written in the expression; `(computed)` where it was not written but computed, since it may then
        /// be data.
        name: String,
    },
    /// A variable that was not given is read.
    NoValue {
        /// The variable.
        name: String,
    },
    /// An operator or function does not take operands of these types.
    NoSuchOverload,
    /// A division or remainder by zero.
    DivideByZero,
    /// A number, duration or timestamp out of range.
    Overflow,
    /// A list has no such index.
    IndexOutOfRange,
    /// The fuel is used up.
    BudgetExceeded,
    /// The time is over.
    DeadlineExceeded,
    /// The answer is larger than an answer may be.
    TooLarge,
    /// The engine panicked.
    Panicked,
    /// Anything else: a conversion that fails, a map that repeats a key.
    Other,
}

impl EvalErrorKind {
    /// Its name, for programs.
    pub const fn as_str(&self) -> &'static str {
        match self {
            EvalErrorKind::NoSuchKey { .. } => "NoSuchKey",
            EvalErrorKind::NoValue { .. } => "NoValue",
            EvalErrorKind::NoSuchOverload => "NoSuchOverload",
            EvalErrorKind::DivideByZero => "DivideByZero",
            EvalErrorKind::Overflow => "Overflow",
            EvalErrorKind::IndexOutOfRange => "IndexOutOfRange",
            EvalErrorKind::BudgetExceeded => "BudgetExceeded",
            EvalErrorKind::DeadlineExceeded => "DeadlineExceeded",
            EvalErrorKind::TooLarge => "TooLarge",
            EvalErrorKind::Panicked => "Panicked",
            EvalErrorKind::Other => "Other",
        }
    }
}

impl EvalError {
    pub(crate) fn new(kind: EvalErrorKind) -> EvalError {
        let message = match &kind {
            EvalErrorKind::NoSuchKey { name } => format!("no such key: {name}"),
            EvalErrorKind::NoValue { name } => format!("`{name}` has no value"),
            EvalErrorKind::NoSuchOverload => "no such overload".to_owned(),
            EvalErrorKind::DivideByZero => "division by zero".to_owned(),
            EvalErrorKind::Overflow => "result out of range".to_owned(),
            EvalErrorKind::IndexOutOfRange => "index out of range".to_owned(),
            EvalErrorKind::BudgetExceeded => "the evaluation takes more work than it may".to_owned(),
            EvalErrorKind::DeadlineExceeded => "the evaluation takes more time than it may".to_owned(),
            EvalErrorKind::TooLarge => "the result is too large".to_owned(),
            EvalErrorKind::Panicked => "the evaluation broke off".to_owned(),
            EvalErrorKind::Other => "the evaluation failed".to_owned(),
        };
        EvalError { kind, message }
    }

    fn with(kind: EvalErrorKind, message: &str) -> EvalError {
        EvalError {
            kind,
            message: cut(message, MESSAGE_CHARS),
        }
    }

    /// Translates an error of the engine. `written` are the field names and string literals of the expression: a key is
    /// repeated only if it is among them. `variables` are those that it names.
    pub(crate) fn from_engine(
        error: &ExecutionError,
        (written, variables): (&BTreeSet<String>, &BTreeSet<String>),
    ) -> EvalError {
        use EvalErrorKind::{DivideByZero, IndexOutOfRange, NoSuchKey, NoSuchOverload, NoValue, Other, Overflow};
        let overload = |operator: &str, types: &[&str]| {
            let types = types.join(", ");
            EvalError::with(
                NoSuchOverload,
                &format!("no such overload: {} applied to ({types})", written_as(operator)),
            )
        };
        match error {
            ExecutionError::NoSuchKey(name) => {
                let known = written.contains(name.as_str());
                let name = if known {
                    cut(name, NAME_CHARS)
                } else {
                    "(computed)".to_owned()
                };
                EvalError::new(NoSuchKey { name })
            }
            ExecutionError::NoSuchOverload(mismatch) => {
                let types: Vec<_> = mismatch.argument_types().iter().map(String::as_str).collect();
                match mismatch.is_member_function() {
                    // `add` is a method here, and an operator where the engine says so of operands.
                    true => method_overload(mismatch.function(), &types.join(", ")),
                    false => overload(mismatch.function(), &types),
                }
            }
            ExecutionError::UnsupportedBinaryOperator(operator, left, right) => {
                overload(operator, &[&type_name(left), &type_name(right)])
            }
            ExecutionError::ValuesNotComparable(left, right) => {
                overload("comparison", &[&type_name(left), &type_name(right)])
            }
            ExecutionError::UnsupportedIndex(index, list) => overload("_[_]", &[&type_name(list), &type_name(index)]),
            ExecutionError::UnsupportedKeyType(key) => EvalError::with(
                NoSuchOverload,
                &format!("no such overload: a {} cannot be a key", type_name(key)),
            ),
            ExecutionError::UnexpectedType { got, want } => {
                EvalError::with(NoSuchOverload, &format!("no such overload: expected {want}, got {got}"))
            }
            ExecutionError::DivisionByZero(_) => EvalError::new(DivideByZero),
            ExecutionError::RemainderByZero(_) => EvalError::with(DivideByZero, "remainder by zero"),
            ExecutionError::Overflow(..) => EvalError::new(Overflow),
            ExecutionError::IndexOutOfBounds(_) => EvalError::new(IndexOutOfRange),
            ExecutionError::DuplicateKey(_) => EvalError::with(Other, "a map literal repeats a key"),
            ExecutionError::UndeclaredReference(name) => {
                // A leading dot means: not a variable of a macro.
                let bare = name.strip_prefix('.').unwrap_or(name);
                match variables.get(bare) {
                    Some(variable) => EvalError::new(NoValue { name: variable.clone() }),
                    None => EvalError::with(
                        Other,
                        &format!("undeclared reference: {}", cut(written_as(name), NAME_CHARS)),
                    ),
                }
            }
            // The engine's message of a failed function repeats its argument.
            ExecutionError::FunctionError { function, .. } => {
                let function = cut(written_as(function), NAME_CHARS);
                EvalError::with(Other, &format!("{function}: not a valid argument"))
            }
            _ => EvalError::new(Other),
        }
    }
}

fn method_overload(method: &str, types: &str) -> EvalError {
    let method = method.trim_matches(['_', '@']);
    EvalError::with(
        EvalErrorKind::NoSuchOverload,
        &format!("no such overload: {method} applied to ({types})"),
    )
}

/// What the parser says in words that need no knowledge of it, and without the thirty tokens that it expected instead.
fn plain(message: &str) -> String {
    const KNOWN: [(&str, &str); 6] = [
        (
            "invalid argument to has() macro",
            "has() takes a member, for example has(object.version)",
        ),
        (
            "argument must be a simple name",
            "the variable of a loop or of cel.bind must be a simple name",
        ),
        (
            "invalid string literal",
            "an escape in this string is not known: write \\\\ for a backslash",
        ),
        (
            "invalid bytes literal",
            "an escape in these bytes is not known: write \\\\ for a backslash",
        ),
        ("invalid int literal", "this number is too large for an int"),
        ("invalid uint literal", "this number is too large for a uint"),
    ];
    let message = message.strip_prefix("Syntax error: ").unwrap_or(message);
    if let Some((_, known)) = KNOWN.iter().find(|(begin, _)| message.starts_with(begin)) {
        return (*known).to_owned();
    }
    let found = [
        "mismatched input ",
        "extraneous input ",
        "no viable alternative at input ",
    ]
    .iter()
    .find_map(|prefix| message.strip_prefix(prefix));
    match found.map(|rest| rest.split_once(" expecting ").unwrap_or((rest, ""))) {
        Some(("'<EOF>'", _)) => "unexpected end of the expression".to_owned(),
        Some((token, _)) => format!("unexpected {token}"),
        None => message.to_owned(),
    }
}

/// The operator or function as a user knows it: the engine says `_+_` or `add`, and our own versions begin with `@`.
fn written_as(function: &str) -> &str {
    match function {
        "_[_]" | "_?_:_" => function,
        "_._" => "field selection",
        "add" => "+",
        "sub" => "-",
        "mul" => "*",
        "div" => "/",
        "rem" => "%",
        _ => function.trim_matches(['_', '@']),
    }
}

fn type_name(value: &cel::Value) -> String {
    // Not `Value::type_of`, which says "function" for what has no counterpart there.
    match <Box<dyn Val>>::try_from(value.clone()) {
        Ok(value) => value.get_type().name().to_owned(),
        Err(_) => "value".to_owned(),
    }
}

/// `text` on one line, cut to `chars` characters.
pub(crate) fn cut(text: &str, chars: usize) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    if text.chars().count() <= chars {
        return text.chars().map(printable).collect();
    }
    text.chars()
        .take(chars.saturating_sub(1))
        .map(printable)
        .chain(['…'])
        .collect()
}
