//! What can be said of a syntax tree before it runs: unknown names, wrong argument counts, literals that are no pattern, no
//! duration or no timestamp. There is no type checker, so an expression that passes may still fail on its values.

use crate::error::{CompileError, cut};
use crate::library;
use crate::patterns;
use crate::rewrite::qualified_name;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SourceInfo, operators};
use cel::common::types::CelString;
use cel::common::value::CowVal;
use std::collections::BTreeSet;

/// The longest name that a message repeats, in characters.
const NAME_CHARS: usize = 64;

/// What a tree consists of.
pub(crate) struct Checked {
    /// Field names and string literals.
    pub(crate) written: BTreeSet<String>,
    /// The variables that it names. One that a macro's variable hides may be among them.
    pub(crate) variables: BTreeSet<String>,
}

/// Checks `tree`, whose free variables may be `variables`.
pub(crate) fn check(tree: &IdedExpr, source: &SourceInfo, variables: &[String]) -> Result<Checked, CompileError> {
    let scope = variables.iter().map(String::as_str).collect();
    let mut check = Check {
        source,
        scope,
        written: BTreeSet::new(),
        named: BTreeSet::new(),
    };
    check.expression(tree)?;
    let named = variables.iter().filter(|name| check.named.contains(name.as_str()));
    Ok(Checked {
        variables: named.cloned().collect(),
        written: check.written,
    })
}

struct Check<'a> {
    source: &'a SourceInfo,
    /// The variables in sight, innermost last.
    scope: Vec<&'a str>,
    written: BTreeSet<String>,
    /// All names, of variables and types.
    named: BTreeSet<String>,
}

impl<'a> Check<'a> {
    fn expression(&mut self, expr: &'a IdedExpr) -> Result<(), CompileError> {
        match &expr.expr {
            Expr::Unspecified => Err(self.refuse(expr, "not an expression")),
            Expr::Literal(literal) => {
                if let LiteralValue::String(text) = literal {
                    self.written.insert(text.inner().to_owned());
                }
                Ok(())
            }
            Expr::Ident(name) => self.name(expr, name),
            Expr::Select(_) => self.selection(expr),
            Expr::List(list) => list.elements.iter().try_for_each(|element| self.expression(element)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.expression(&entry.key)?;
                    self.expression(&entry.value)
                }
                EntryExpr::StructField(_) => Err(self.refuse(expr, "not an entry of a map")),
            }),
            Expr::Struct(object) => {
                Err(self.refuse(expr, &format!("unknown type: {}", cut(&object.type_name, NAME_CHARS))))
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Call(call) => self.call(expr, call),
        }
    }

    /// A chain of fields, walked at once: it may be as long as the text.
    fn selection(&mut self, chain: &'a IdedExpr) -> Result<(), CompileError> {
        let mut root = chain;
        while let Expr::Select(select) = &root.expr {
            self.written.insert(select.field.clone());
            root = &select.operand;
        }
        match &root.expr {
            // `google.protobuf.Timestamp` is one name, unless `google` is a variable.
            Expr::Ident(name) if !self.scope.contains(&name.as_str()) => match qualified_name(chain) {
                Some(name) if is_type(&name) => Ok(()),
                _ => self.name(root, name),
            },
            _ => self.expression(root),
        }
    }

    fn name(&mut self, expr: &IdedExpr, name: &str) -> Result<(), CompileError> {
        // A leading dot means: not a variable of a macro.
        let bare = name.strip_prefix('.').unwrap_or(name);
        self.named.insert(bare.to_owned());
        if self.scope.contains(&bare) || is_type(bare) {
            return Ok(());
        }
        Err(self.refuse(expr, &format!("unknown variable: {}", cut(bare, NAME_CHARS))))
    }

    fn comprehension(&mut self, comprehension: &'a ComprehensionExpr) -> Result<(), CompileError> {
        self.expression(&comprehension.iter_range)?;
        self.expression(&comprehension.accu_init)?;
        let outside = self.scope.len();
        self.scope.push(&comprehension.accu_var);
        self.expression(&comprehension.loop_cond)?;
        self.expression(&comprehension.result)?;
        self.scope.push(&comprehension.iter_var);
        self.expression(&comprehension.loop_step)?;
        self.scope.truncate(outside);
        Ok(())
    }

    fn call(&mut self, expr: &'a IdedExpr, call: &'a CallExpr) -> Result<(), CompileError> {
        let name = call.func_name.as_str();
        let qualified = call
            .target
            .as_deref()
            .and_then(qualified_name)
            .map(|target| format!("{target}.{name}"));
        let function = qualified
            .as_deref()
            .and_then(|name| Some((name, library::function(name)?)));
        let bare = name.strip_prefix('.').unwrap_or(name);
        let (shown, known) = match (&call.target, function) {
            (Some(_), Some((qualified, counts))) => (qualified, Some(counts)),
            (Some(target), None) => {
                if let (Some(qualified), None) = (&qualified, library::method(name))
                    && !is_macro(name)
                    && self.expression(target).is_err()
                {
                    // `math.abs` misses the function and not a variable `math`.
                    return Err(self.refuse_call(
                        expr,
                        name,
                        &format!("unknown function: {}", cut(qualified, NAME_CHARS)),
                    ));
                }
                self.expression(target)?;
                (name, library::method(name))
            }
            (None, _) if is_operator(name) => (name, Some(0..=usize::MAX)),
            (None, _) => (bare, library::function(bare)),
        };
        let given = call.args.len();
        if !known.as_ref().is_some_and(|counts| counts.contains(&given)) {
            let shown = cut(shown, NAME_CHARS);
            let problem = if known.is_some() || is_macro(&shown) {
                format!("wrong number of arguments for {shown}: {given}")
            } else {
                format!("unknown function: {shown}")
            };
            return Err(self.refuse_call(expr, name, &problem));
        }
        self.literal(expr, name, &call.args)?;
        call.args.iter().try_for_each(|argument| self.expression(argument))
    }

    /// Refuses a literal that the function `name` will never take.
    fn literal(&self, expr: &IdedExpr, name: &str, args: &[IdedExpr]) -> Result<(), CompileError> {
        let Some(Expr::Literal(LiteralValue::String(text))) = args.last().map(|last| &last.expr) else {
            return Ok(());
        };
        let accepted = match name {
            "matches" => patterns::compiled(text.inner()).is_some(),
            "duration" | "timestamp" => {
                let argument = vec![CowVal::owned(CelString::from(text.inner()))];
                let conversion = library::env().find_overload(name, &argument);
                conversion.is_some_and(|convert| convert(argument).is_ok())
            }
            _ => true,
        };
        if accepted {
            return Ok(());
        }
        let wanted = if name == "matches" { "regular expression" } else { name };
        Err(self.refuse_call(
            expr,
            name,
            &format!("not a valid {wanted}: {}", cut(text.inner(), NAME_CHARS)),
        ))
    }

    fn refuse(&self, expr: &IdedExpr, message: &str) -> CompileError {
        self.refuse_call(expr, "", message)
    }

    /// Refuses a call, which the parser places at its parenthesis, at its `name` before it.
    fn refuse_call(&self, expr: &IdedExpr, name: &str, message: &str) -> CompileError {
        let error = CompileError::new(message);
        let Some((start, _)) = self.source.offset_for(expr.id) else {
            return error;
        };
        let text: Vec<char> = self.source.source.chars().collect();
        let start = usize::try_from(start).unwrap_or(usize::MAX).min(text.len());
        let named = start.checked_sub(name.chars().count());
        let named = named.filter(|&named| name.chars().eq(text[named..start].iter().copied()));
        error.at(place(&text[..named.unwrap_or(start)]))
    }
}

/// The line and column, from 1, after the characters `before`.
fn place(before: &[char]) -> (u32, u32) {
    before.iter().fold(
        (1, 1),
        |(line, column), &c| if c == '\n' { (line + 1, 1) } else { (line, column + 1) },
    )
}

fn is_type(name: &str) -> bool {
    library::env().types().find_type(name).is_some()
}

/// Operators have names that no text can spell; the parser makes them with the right number of operands.
fn is_operator(name: &str) -> bool {
    OPERATORS.contains(&name)
}

const OPERATORS: &[&str] = &[
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::SUBSTRACT,
    operators::ADD,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER_EQUALS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::LESS,
    operators::NEGATE,
    operators::INDEX,
    operators::OPT_INDEX,
    operators::OPT_SELECT,
    operators::NOT_STRICTLY_FALSE,
    operators::IN,
];

/// Macros that were not expanded, which happens for a wrong number of arguments.
fn is_macro(name: &str) -> bool {
    [
        operators::HAS,
        operators::ALL,
        operators::EXISTS,
        operators::EXISTS_ONE,
        "existsOne",
        operators::MAP,
        operators::FILTER,
        "sortBy",
        "optMap",
        "optFlatMap",
    ]
    .contains(&name)
}
