//! `stagegate cel`: expressions over objects, exactly as a stage's check or filter, or a StatusCollector's expression, would be evaluated.

use std::io::{self, Write as _};

use anyhow::{Context as _, anyhow};
use serde_json::{Value, json};
use stagegate_decide::checks::Root;
use stagegate_evaluate::{Answer, Budget, CompileError, EvalError, Value as CelValue};

use self::given::{Given, Unproven};
use super::{Failure, Outcome, Result};
use crate::args::{CelArgs, Format};
use crate::controllers::variables;

mod given;
mod pools;

/// Prints one answer a line: the value as JSON, and on standard error why it is false; with `-o json` `{"value": …, "type": "bool",
/// "fuel": 12}`, with `explain` where it is false, or `{"error": {"message", "kind", "line", "column"}}`. The answers for the items of
/// a List are named, with `-o json` by the member `item`.
///
/// # Errors
/// Files that cannot be read. An expression that is refused or fails is an answer: [`Outcome::Negative`].
pub fn evaluate(args: &CelArgs) -> Result {
    let expressions = expressions(args)?;
    let items = given::items(args)?;
    for item in &items {
        if let Some(note) = item.given.note() {
            let name = item.name.as_deref();
            let name = name.map(|name| format!("{name}: ")).unwrap_or_default();
            writeln!(io::stderr(), "note: {name}{note}")?;
        }
    }
    let mut outcome = Outcome::Success;
    for expression in &expressions {
        for item in &items {
            let answer = expression.answer(&item.given);
            if !matches!(&answer, Ok(answered) if answered.value != Answer::Bool(false)) {
                outcome = Outcome::Negative;
            }
            match args.output {
                Format::Text => text(item.name.as_deref(), expression, &answer)?,
                Format::Json => writeln!(io::stdout(), "{}", as_json(item.name.as_deref(), &answer))?,
            }
        }
    }
    Ok(outcome)
}

struct Expression {
    text: String,
    /// Lines before it in its file.
    lines_before: u32,
}

/// Why there is no answer.
struct Problem {
    message: String,
    kind: &'static str,
    /// In the expression, or in the file that it comes from.
    place: Option<(u32, u32)>,
}

struct Answered {
    value: Answer,
    /// Units that the value took.
    fuel: u64,
    /// Why the value is false.
    because: Option<String>,
}

type Tried = std::result::Result<Answered, Problem>;

impl Expression {
    fn answer(&self, given: &Given) -> Tried {
        let compiled = given.compile(&self.text).map_err(|error| self.refused(error))?;
        let bound = given.bind(&compiled)?;
        let metered = compiled.eval_metered(&bound, Budget::default());
        let (value, fuel) = metered.map_err(|error| self.failed(&error, (given.root(), &bound)))?;
        let is_false = value == Answer::Bool(false);
        let because = is_false.then(|| variables::why_false(&self.text, given.root(), &bound));
        Ok(Answered {
            value,
            fuel,
            because: because.flatten(),
        })
    }

    fn failed(&self, error: &EvalError, (root, bound): (Root, &[(&str, CelValue)])) -> Problem {
        Problem {
            message: variables::explained(error, (&self.text, root), bound),
            kind: error.kind.as_str(),
            place: None,
        }
    }

    fn refused(&self, error: CompileError) -> Problem {
        let place = error.line.zip(error.column);
        Problem {
            message: error.message,
            kind: "InvalidExpression",
            place: place.map(|(line, column)| (line + self.lines_before, column)),
        }
    }
}

impl From<Unproven> for Problem {
    fn from(Unproven { kind, message }: Unproven) -> Self {
        let place = None;
        Self { message, kind, place }
    }
}

fn as_json(item: Option<&str>, answer: &Tried) -> Value {
    let mut object = match answer {
        Ok(Answered { value, fuel, because }) => {
            let mut object = json!({"value": value.to_json(), "type": value.kind(), "fuel": fuel});
            if let Some(because) = because {
                object["explain"] = because.as_str().into();
            }
            object
        }
        Err(problem) => {
            let mut error = json!({"message": problem.message, "kind": problem.kind});
            if let Some((line, column)) = problem.place {
                error["line"] = line.into();
                error["column"] = column.into();
            }
            json!({"error": error})
        }
    };
    if let Some(item) = item {
        object["item"] = item.into();
    }
    object
}

fn text(item: Option<&str>, expression: &Expression, answer: &Tried) -> io::Result<()> {
    let item = item.map(|item| format!("{item}: ")).unwrap_or_default();
    let problem = match answer {
        Ok(answered) => {
            writeln!(io::stdout(), "{item}{}", answered.value.to_json())?;
            return match &answered.because {
                Some(because) => writeln!(io::stderr(), "{item}{because}"),
                None => Ok(()),
            };
        }
        Err(problem) => problem,
    };
    let mut err = io::stderr();
    let Some((line, column)) = problem.place else {
        return writeln!(err, "error: {item}{}", problem.message);
    };
    let message = &problem.message;
    writeln!(err, "error: {item}line {line}, column {column}: {message}")?;
    let shown = expression
        .text
        .lines()
        .nth(line.saturating_sub(1 + expression.lines_before) as usize)
        .unwrap_or_default();
    let shown: String = shown.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    writeln!(err, "  {shown}\n  {:>width$}", "^", width = column as usize)
}

fn expressions(args: &CelArgs) -> Result<Vec<Expression>> {
    let path = match (&args.expression, &args.file) {
        (Some(text), _) => {
            return Ok(vec![Expression {
                text: text.clone(),
                lines_before: 0,
            }]);
        }
        (None, Some(path)) => path,
        (None, None) => return Err(Failure::Input(anyhow!("an expression or -f FILE is needed"))),
    };
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {shown}"));
    let text = text.map_err(Failure::Input)?;
    let is_expression = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    let lines = (0..).zip(text.lines()).filter(|(_, line)| is_expression(line));
    let expressions: Vec<Expression> = lines
        .map(|(lines_before, line)| Expression {
            text: line.to_owned(),
            lines_before,
        })
        .collect();
    if expressions.is_empty() {
        return Err(Failure::Input(anyhow!("{shown} holds no expression")));
    }
    Ok(expressions)
}
