//! From text to something that can be run, and running it. Both happen on a thread of the pool, with nothing of the caller's
//! stack in between.

use crate::answer::Answer;
use crate::budget::{self, Budget};
use crate::check::Checked;
use crate::error::{CompileError, EvalError, EvalErrorKind};
use crate::library::Library;
use crate::shape::Shape;
use crate::threads::{self, Lost};
use crate::value::Value;
use crate::{charged, check, rewrite};
use cel::common::ast::IdedExpr;
use cel::{Context, Env};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// The longest text that is parsed. Kubernetes takes ten times as much, but the stack a chain needs grows with its length.
pub(crate) const SOURCE_BYTES: usize = 10 * 1024;

/// An expression that was parsed and checked. Cloning it copies a pointer.
#[derive(Clone)]
pub struct Compiled(Arc<Tree>);

/// Parses and checks `text`, whose free variables are `variables`, and which may use the standard library.
///
/// # Errors
/// For a text of more than 10 KiB, a syntax error, a name that is neither a variable nor a type, an unknown function or a
/// wrong number of its arguments, a struct, and a literal argument that its function never takes: what is no regular expression, duration,
/// timestamp, quantity, IP address, ….
pub fn compile(text: &str, variables: &[&str]) -> Result<Compiled, CompileError> {
    let variables = variables.iter().map(|&name| (name.to_owned(), Shape::Any));
    compile_shaped(text, variables.collect(), Library::Standard)
}

/// [`compile`] with variables whose shape is known, and with the functions of a library.
///
/// # Errors
/// Those of `compile`, and what can give no answer: a member that is not there, operands of types that do not go together.
pub fn compile_shaped(text: &str, variables: Vec<(String, Shape)>, library: Library) -> Result<Compiled, CompileError> {
    if text.len() > SOURCE_BYTES {
        return Err(CompileError::new(format!(
            "the expression has {} bytes, more than {SOURCE_BYTES}",
            text.len()
        )));
    }
    let text = text.to_owned();
    match threads::run(move || parse(&text, &variables, library)) {
        Ok(tree) => Ok(Compiled(Arc::new(tree?))),
        Err(Lost::Panicked) => Err(CompileError::new("the expression cannot be parsed")),
        Err(Lost::NoThread) => Err(CompileError::new("no thread to parse the expression on")),
    }
}

impl Compiled {
    /// Those of its variables that the expression names: no other one needs a value. To read one that is not given is an error.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.0.variables.iter().map(String::as_str)
    }

    /// What is known of its result.
    pub fn shape(&self) -> &Shape {
        &self.0.shape
    }

    /// The expression, if its result may be a boolean.
    ///
    /// # Errors
    /// For a result that is known to be something else.
    pub fn of_bool(self) -> Result<Compiled, CompileError> {
        match &self.0.shape {
            Shape::Bool | Shape::Any => Ok(self),
            other => Err(CompileError::new(format!(
                "the result is {other}, and true or false is needed"
            ))),
        }
    }

    /// Evaluates the expression with the given variables, within `budget`. Blocks until it is done; may be called from any
    /// thread, however small its stack.
    ///
    /// # Errors
    /// See [`EvalErrorKind`]. An evaluation that went over its budget has no answer, even if the expression would have
    /// swallowed that error.
    pub fn eval(&self, vars: &[(&str, Value)], budget: Budget) -> Result<Answer, EvalError> {
        self.eval_metered(vars, budget).map(|(answer, _)| answer)
    }

    /// [`Self::eval`], and the units of fuel that the answer took.
    ///
    /// # Errors
    /// Those of `eval`.
    pub fn eval_metered(&self, vars: &[(&str, Value)], budget: Budget) -> Result<(Answer, u64), EvalError> {
        let tree = Arc::clone(&self.0);
        let vars: Vec<(String, Value)> = vars
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        match threads::run(move || run(&tree, vars, budget)) {
            Ok(answer) => answer,
            Err(Lost::Panicked) => Err(EvalError::new(EvalErrorKind::Panicked)),
            Err(Lost::NoThread) => Err(EvalError {
                kind: EvalErrorKind::Other,
                message: "no thread to evaluate on".to_owned(),
            }),
        }
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compiled")
    }
}

/// A syntax tree, as deep as its text is long.
struct Tree {
    /// Rewritten to charge for its work. Taken only by `drop`.
    expression: IdedExpr,
    /// The field names and string literals that were written: what an error may repeat.
    written: BTreeSet<String>,
    variables: BTreeSet<String>,
    shape: Shape,
    env: Arc<Env>,
}

impl Drop for Tree {
    fn drop(&mut self) {
        threads::drop_deep(std::mem::take(&mut self.expression));
    }
}

fn parse(text: &str, variables: &[(String, Shape)], library: Library) -> Result<Tree, CompileError> {
    let parsed = library.env().parser().parse_with_source_info(text);
    let (tree, source) = parsed.map_err(|errors| CompileError::from_parse(&errors, text))?;
    let Checked {
        written,
        variables,
        shape,
    } = check::check(&tree, &source, variables, library)?;
    Ok(Tree {
        expression: rewrite::charging(tree, library),
        written,
        variables,
        shape,
        env: Arc::clone(library.env()),
    })
}

/// An expression as [`compile_shaped`] makes it, but without the check, and with names that stand in a container.
#[cfg(test)]
pub(crate) fn unchecked(text: &str, container: &str, library: Library) -> Result<Compiled, CompileError> {
    let (text, container) = (text.to_owned(), container.to_owned());
    let parse = move || {
        let mut env = library.new_env();
        env.set_container(&container).expect("a container of a test has a name");
        let parsed = env.parser().parse(&text);
        let tree = parsed.map_err(|errors| CompileError::from_parse(&errors, &text))?;
        Ok(Compiled(Arc::new(Tree {
            expression: rewrite::charging(tree, library),
            written: BTreeSet::new(),
            variables: BTreeSet::new(),
            shape: Shape::Any,
            env: Arc::new(env),
        })))
    };
    threads::run(parse).expect("the thread answers")
}

/// The answer, and the fuel that it took.
fn run(tree: &Tree, vars: Vec<(String, Value)>, budget: Budget) -> Result<(Answer, u64), EvalError> {
    let mut context = Context::with_env(Arc::clone(&tree.env));
    for (name, value) in vars {
        context.add_variable_as_val(name, value.to_val());
    }
    budget::open(budget);
    // Not `Value::resolve_val`, although it would give the result itself: being always inlined it would be compiled
    // here, in a debug build with twenty times the stack.
    let evaluated = cel::Value::resolve(&tree.expression, &context);
    let answer = charged::answer();
    // The account first: `||`, `all` and the like turn an exhausted budget into a value.
    let spent = budget::settle().map_err(EvalError::new)?;
    evaluated.map_err(|error| EvalError::from_engine(&error, (&tree.written, &tree.variables)))?;
    match answer {
        Some(Ok(answer)) => Ok((answer, spent)),
        Some(Err(_)) => Err(EvalError::new(EvalErrorKind::TooLarge)),
        None => Err(EvalError::new(EvalErrorKind::Other)),
    }
}
