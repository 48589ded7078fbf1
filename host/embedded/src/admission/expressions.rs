//! The expressions of one policy: compiled with what they may name, and evaluated with what one write gives them. Variables are evaluated
//! when an expression names them, once per write. Must not know what an answer means.

use std::collections::{BTreeMap, BTreeSet};

use stagegate_evaluate::{
    Answer, Budget, Compiled, EvalError, EvalErrorKind, Library, Shape, Value as Known, compile_shaped,
};

use super::review::declared;

/// What one expression may cost, and all of a policy for one write. The time is generous, because a busy machine must not turn a valid
/// object into a refused one.
const FUEL: u64 = 1_000_000;
const FUEL_OF_POLICY: u64 = 10_000_000;
const DEADLINE_MS: u64 = 10_000;
/// What a failed expression is taken to have cost, since a failure does not tell; a tenth of it where a variable failed.
const FUEL_OF_FAILURE: u64 = 100_000;

/// The longest text that is looked at, as in `stagegate-evaluate`.
const TEXT_BYTES_MAX: usize = 10 * 1024;

/// Nested lists and maps are copied and dropped one level per stack frame.
const DEPTH_MAX: usize = 256;
/// A chain of variables repeats the error of the first in each.
const ERROR_CHARS: usize = 1_000;
/// What is known of a variable beyond this many levels is forgotten: a chain of variables would nest without end.
const SHAPE_DEPTH_MAX: usize = 8;

/// One compiled expression.
pub(super) struct Expression {
    pub text: String,
    program: Compiled,
    /// The variables that it names, by their place in the policy.
    named: Vec<usize>,
}

/// One of the policy's variables.
pub(super) struct Variable {
    pub name: String,
    pub expression: Expression,
}

/// What the result of an expression must be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Bool,
    Text,
    Anything,
}

impl Expression {
    /// Compiles an expression that may name `variables`; says what is wrong with it otherwise.
    pub fn compile(text: &str, variables: &[Variable], wanted: Wanted) -> Result<Expression, String> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!(
                "compilation failed: the expression has {} bytes, more than {TEXT_BYTES_MAX}",
                text.len()
            ));
        }
        let named = named_variables(text, variables)?;
        if let Some(function) = foreign_function(text) {
            return Err(format!("compilation failed: undeclared reference to '{function}'"));
        }
        let mut scope = declared();
        if !variables.is_empty() {
            let members = variables.iter().map(|v| (v.name.clone(), v.expression.shape()));
            scope.push((
                "variables".to_owned(),
                Shape::Record(std::sync::Arc::new(members.collect())),
            ));
        }
        let program = compile_shaped(text, scope, Library::Extended).map_err(|error| {
            let foreign = ["authorizer", "request.options"]
                .iter()
                .find(|name| text.contains(**name));
            let why = foreign.map(|name| format!(" (this server has no {name})"));
            format!("compilation failed: {error}{}", why.unwrap_or_default())
        })?;
        if let (Wanted::Anything, Shape::Opaque(what)) = (wanted, program.shape()) {
            return Err(format!("this server keeps no value like {what} in a variable"));
        }
        let needed = match wanted {
            Wanted::Bool => Some(("bool", Shape::Bool)),
            Wanted::Text => Some(("string", Shape::String)),
            Wanted::Anything => None,
        };
        if let Some((needed, shape)) = needed
            && !matches!(program.shape(), found if *found == shape || *found == Shape::Any)
        {
            let found = program.shape().to_string();
            let found = found.trim_start_matches("an ").trim_start_matches("a ");
            return Err(format!("must evaluate to {needed} but got {found}"));
        }
        Ok(Expression {
            text: text.to_owned(),
            program,
            named,
        })
    }

    /// What is known of its result.
    fn shape(&self) -> Shape {
        let shape = self.program.shape();
        match shape_depth(shape, SHAPE_DEPTH_MAX) > SHAPE_DEPTH_MAX {
            true => Shape::Any,
            false => shape.clone(),
        }
    }
}

/// Levels of nesting of a shape, counted up to one more than `most`.
fn shape_depth(shape: &Shape, most: usize) -> usize {
    match shape {
        Shape::List(element) | Shape::Map(element) if most > 0 => 1 + shape_depth(element, most - 1),
        _ => 1,
    }
}

/// Functions of [`Library::Extended`] that Kubernetes does not give to admission policies; those of a namespace end in a dot.
const FOREIGN: &[&str] = &[
    "base64.",
    "cel.",
    "distinct",
    "existsOne",
    "flatten",
    "lists.",
    "math.",
    "reverse",
    "slice",
    "sort",
    "sortBy",
];

/// The first function in a text that a real API server would not know.
fn foreign_function(text: &str) -> Option<&'static str> {
    let text = without_literals(text);
    let is_foreign = |name: &&&str| {
        text.match_indices(name.trim_end_matches('.')).any(|(at, found)| {
            let (before, after) = (&text[..at], text[at + found.len()..].trim_start());
            let member = before.trim_end().ends_with('.');
            !before.ends_with(is_word)
                && match name.ends_with('.') {
                    true => !member && after.starts_with('.'),
                    false => member && after.starts_with('('),
                }
        })
    };
    let found = FOREIGN.iter().find(is_foreign);
    found.map(|name| name.trim_end_matches('.'))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The text with blanks for comments and quotation marks for all of each string, so that every position stays.
fn without_literals(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    while let Some(rest) = text.get(bare.len()..).filter(|rest| !rest.is_empty()) {
        let comment = rest.starts_with("//").then(|| rest.find('\n').unwrap_or(rest.len()));
        match (comment, string_bytes(rest, &bare)) {
            (Some(bytes), _) => bare.extend(std::iter::repeat_n(' ', bytes)),
            (None, Some(bytes)) => bare.extend(std::iter::repeat_n('"', bytes)),
            (None, None) => bare.extend(rest.chars().next()),
        }
    }
    bare
}

/// How long the string is that `rest` begins with, up to the end of the text if it is not closed.
fn string_bytes(rest: &str, before: &str) -> Option<usize> {
    let mut quotes = ["\"\"\"", "'''", "\"", "'"].into_iter();
    let quote = quotes.find(|quote| rest.starts_with(quote))?;
    let prefix = before.rsplit(|c| !is_word(c)).next().unwrap_or_default();
    let is_raw = matches!(prefix.to_ascii_lowercase().as_str(), "r" | "br" | "rb");
    let body = rest.get(quote.len()..).unwrap_or_default();
    let mut is_escaped = false;
    for (at, character) in body.char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if character == '\\' && !is_raw {
            is_escaped = true;
        } else if body.get(at..).is_some_and(|left| left.starts_with(quote)) {
            return Some(at + 2 * quote.len());
        }
    }
    Some(rest.len())
}

/// Which variables a text names. Whatever could tell that a variable is absent is refused, because one that has failed is absent, too.
fn named_variables(text: &str, variables: &[Variable]) -> Result<Vec<usize>, String> {
    let refused = || Err("this server reads variables as variables.NAME only".to_owned());
    let mut named = BTreeSet::new();
    let bare = without_literals(text);
    for (at, word) in bare.match_indices("variables") {
        let (before, after) = (&bare[..at], &bare[at + word.len()..]);
        if before.ends_with(is_word) || is_member_after(before) || after.starts_with(is_word) {
            continue;
        }
        let Some(member) = after.trim_start().strip_prefix('.').map(str::trim_start) else {
            return refused();
        };
        let name = member.split(|c| !is_word(c)).next().unwrap_or_default();
        let rest = member[name.len()..].trim_start();
        if name.is_empty() || rest.starts_with('(') {
            return refused();
        }
        // With a dot before it, it is the variable, too.
        let receiver = before.trim_end().trim_end_matches('.').trim_end();
        let tested = receiver.strip_suffix('(').map(str::trim_end);
        if rest.starts_with(')') && tested.is_some_and(|before| before.ends_with("has")) {
            return Err(format!("this server does not evaluate has(variables.{name})"));
        }
        named.extend(variables.iter().rposition(|variable| variable.name == name));
    }
    Ok(named.into_iter().collect())
}

/// Whether a name after this text is a member of what stands before it.
fn is_member_after(before: &str) -> bool {
    let before = before.trim_end();
    let receiver = before.strip_suffix(".?").or_else(|| before.strip_suffix('.'));
    let ends_a_value = |c: char| is_word(c) || matches!(c, ')' | ']' | '}' | '"');
    receiver.is_some_and(|receiver| receiver.trim_end().ends_with(ends_a_value))
}

/// The evaluation of one policy's expressions for one write.
pub(super) struct Evaluation<'p> {
    variables: &'p [Variable],
    given: Vec<(&'static str, Known)>,
    /// Variables that were evaluated.
    values: BTreeMap<usize, Result<Known, String>>,
    fuel: u64,
}

impl<'p> Evaluation<'p> {
    pub fn new(variables: &'p [Variable], given: Vec<(&'static str, Known)>) -> Self {
        Self {
            variables,
            given,
            values: BTreeMap::new(),
            fuel: FUEL_OF_POLICY,
        }
    }

    /// The answer, or why there is none, in the words of Kubernetes where it has some.
    pub fn answer(&mut self, expression: &Expression) -> Result<Answer, String> {
        let mut needed = BTreeSet::new();
        let mut open = expression.named.clone();
        while let Some(index) = open.pop() {
            if !self.values.contains_key(&index) && needed.insert(index) {
                open.extend(self.variables.get(index).into_iter().flat_map(|v| &v.expression.named));
            }
        }
        // A variable names earlier ones only.
        for index in needed {
            let Some(variable) = self.variables.get(index) else {
                continue;
            };
            let value = self.run(&variable.expression).and_then(|answer| value_of(&answer));
            self.values.insert(index, value);
        }
        self.run(expression)
    }

    fn run(&mut self, expression: &Expression) -> Result<Answer, String> {
        let Some(fuel) = Some(self.fuel.min(FUEL)).filter(|fuel| *fuel > 0) else {
            let why = "validation failed due to running out of cost budget, no further validation rules will be run";
            return Err(why.to_owned());
        };
        let budget = Budget {
            fuel,
            deadline_ms: DEADLINE_MS,
        };
        let mut known = self.given.clone();
        let (mut members, mut failed) = (Vec::new(), BTreeMap::new());
        for index in &expression.named {
            match (self.variables.get(*index), self.values.get(index)) {
                (Some(variable), Some(Ok(value))) => members.push((variable.name.clone(), value.clone())),
                (Some(variable), Some(Err(why))) => {
                    failed.insert(variable.name.as_str(), why);
                }
                _ => {}
            }
        }
        // One that has no value is left out: whoever reads it fails, and `||` looks at its other side.
        known.push(("variables", Known::map(members)));
        let used: BTreeSet<&str> = expression.program.variables().collect();
        known.retain(|(name, _)| used.contains(name));
        match expression.program.eval_metered(&known, budget) {
            Ok((answer, spent)) => {
                self.fuel -= spent.min(self.fuel);
                Ok(answer)
            }
            Err(error) => {
                let name = match &error.kind {
                    EvalErrorKind::NoSuchKey { name } => name.as_str(),
                    _ => "",
                };
                let (why, cost) = match failed.get(name) {
                    Some(why) => (
                        format!("composited variable {name:?} fails to evaluate: {why}"),
                        FUEL_OF_FAILURE / 10,
                    ),
                    None => (in_kubernetes_words(&error), cost_of(&error)),
                };
                self.fuel -= cost.min(self.fuel);
                Err(why.chars().take(ERROR_CHARS).collect())
            }
        }
    }
}

/// What an evaluation without an answer is taken to have cost.
fn cost_of(error: &EvalError) -> u64 {
    match error.kind {
        EvalErrorKind::BudgetExceeded | EvalErrorKind::DeadlineExceeded => FUEL,
        _ => FUEL_OF_FAILURE,
    }
}

fn in_kubernetes_words(error: &EvalError) -> String {
    match error.kind {
        EvalErrorKind::NoSuchOverload => "no such overload".to_owned(),
        EvalErrorKind::IndexOutOfRange => "index out of bounds".to_owned(),
        _ => error.message.clone(),
    }
}

fn value_of(answer: &Answer) -> Result<Known, String> {
    if depth(answer) > DEPTH_MAX {
        return Err("the value is nested too deeply".to_owned());
    }
    Known::from_answer(answer).ok_or_else(|| format!("a variable cannot hold a value of type {}", answer.kind()))
}

/// Levels of nesting. An answer is one expression deeper than the deepest variable, so this recursion is bounded, too.
fn depth(answer: &Answer) -> usize {
    match answer {
        Answer::List(items, _) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Answer::Map(entries, _) => 1 + entries.iter().map(|(_, value)| depth(value)).max().unwrap_or(0),
        _ => 1,
    }
}
