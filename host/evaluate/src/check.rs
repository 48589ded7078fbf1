//! What can be said of a syntax tree before it runs: unknown names and members, wrong argument counts, comparisons that are never
//! true, literals that are no pattern, no duration or no timestamp. An expression that passes may still fail on its values: most of
//! them have no shape that is known.

use crate::error::{CompileError, cut};
use crate::library;
use crate::patterns;
use crate::rewrite::qualified_name;
use crate::shape::{Shape, meant};
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
    /// Of the result.
    pub(crate) shape: Shape,
}

/// Checks `tree`, whose free variables may be `variables`.
pub(crate) fn check(
    tree: &IdedExpr,
    source: &SourceInfo,
    variables: &[(String, Shape)],
) -> Result<Checked, CompileError> {
    let scope = variables
        .iter()
        .map(|(name, shape)| (name.as_str(), shape.clone()))
        .collect();
    let mut check = Check {
        source,
        is_shaped: variables.iter().any(|(_, shape)| *shape != Shape::Any),
        scope,
        written: BTreeSet::new(),
        named: BTreeSet::new(),
    };
    let shape = check.expression(tree)?;
    let names = variables.iter().map(|(name, _)| name);
    Ok(Checked {
        variables: names.filter(|name| check.named.contains(*name)).cloned().collect(),
        shape,
        written: check.written,
    })
}

struct Check<'a> {
    source: &'a SourceInfo,
    /// Of some variable the shape is known. Otherwise an expression means what the standard says of one that nobody has checked,
    /// where `1 == 'a'` is false.
    is_shaped: bool,
    /// The variables in sight, innermost last.
    scope: Vec<(&'a str, Shape)>,
    written: BTreeSet<String>,
    /// All names, of variables and types.
    named: BTreeSet<String>,
}

impl<'a> Check<'a> {
    fn expression(&mut self, expr: &'a IdedExpr) -> Result<Shape, CompileError> {
        match &expr.expr {
            Expr::Unspecified => Err(self.refuse(expr, "not an expression")),
            Expr::Literal(literal) => Ok(self.constant(literal)),
            Expr::Ident(name) => self.name(expr, name),
            Expr::Select(_) => self.selection(expr),
            Expr::List(list) => {
                for element in &list.elements {
                    self.expression(element)?;
                }
                Ok(self.known(Shape::list(Shape::Any)))
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return Err(self.refuse(expr, "not an entry of a map"));
                    };
                    self.expression(&entry.key)?;
                    self.expression(&entry.value)?;
                }
                Ok(self.known(Shape::map(Shape::Any)))
            }
            Expr::Struct(object) => {
                Err(self.refuse(expr, &format!("unknown type: {}", cut(&object.type_name, NAME_CHARS))))
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Call(call) => self.call(expr, call),
        }
    }

    fn constant(&mut self, literal: &LiteralValue) -> Shape {
        if let LiteralValue::String(text) = literal {
            self.written.insert(text.inner().to_owned());
        }
        match literal {
            _ if !self.is_shaped => Shape::Any,
            LiteralValue::String(_) => Shape::String,
            LiteralValue::Boolean(_) => Shape::Bool,
            LiteralValue::Int(_) => Shape::Int,
            LiteralValue::Double(_) => Shape::Double,
            LiteralValue::Bytes(_) | LiteralValue::Null | LiteralValue::UInt(_) => Shape::Any,
        }
    }

    fn known(&self, shape: Shape) -> Shape {
        if self.is_shaped { shape } else { Shape::Any }
    }

    /// A chain of fields, walked at once: it may be as long as the text.
    fn selection(&mut self, chain: &'a IdedExpr) -> Result<Shape, CompileError> {
        let mut root = chain;
        let mut selects = Vec::new();
        while let Expr::Select(select) = &root.expr {
            self.written.insert(select.field.clone());
            selects.push((root, select));
            root = &select.operand;
        }
        let mut shape = match &root.expr {
            // `google.protobuf.Timestamp` is one name, unless `google` is a variable.
            Expr::Ident(name) if self.shape_of(name).is_none() => match qualified_name(chain) {
                Some(name) if is_type(&name) => return Ok(Shape::Any),
                _ => self.name(root, name)?,
            },
            _ => self.expression(root)?,
        };
        for (expr, select) in selects.into_iter().rev() {
            let member = self.member(expr, &shape, &select.field)?;
            shape = if select.test { self.known(Shape::Bool) } else { member };
        }
        Ok(shape)
    }

    fn member(&self, expr: &IdedExpr, of: &Shape, field: &str) -> Result<Shape, CompileError> {
        let members = match of {
            Shape::Any => return Ok(Shape::Any),
            Shape::Map(value) => return Ok((**value).clone()),
            Shape::Record(members) => members,
            Shape::Bool | Shape::Int | Shape::Double | Shape::String | Shape::Timestamp | Shape::List(_) => {
                let text = format!("{of} has no member {}", cut(field, NAME_CHARS));
                return Err(self.refuse(expr, &text));
            }
        };
        members.get(field).cloned().ok_or_else(|| {
            let text = format!("unknown member: {}", cut(field, NAME_CHARS));
            self.refuse(expr, &or_meant(text, field, members.keys().map(String::as_str)))
        })
    }

    fn name(&mut self, expr: &IdedExpr, name: &str) -> Result<Shape, CompileError> {
        // A leading dot means: not a variable of a macro.
        let bare = name.strip_prefix('.').unwrap_or(name);
        self.named.insert(bare.to_owned());
        let shape = self.shape_of(bare).or_else(|| is_type(bare).then_some(Shape::Any));
        shape.ok_or_else(|| {
            let text = format!("unknown variable: {}", cut(bare, NAME_CHARS));
            self.refuse(expr, &or_meant(text, bare, self.scope.iter().map(|(name, _)| *name)))
        })
    }

    /// Of the innermost variable of that name.
    fn shape_of(&self, name: &str) -> Option<Shape> {
        let found = self.scope.iter().rfind(|(known, _)| *known == name);
        found.map(|(_, shape)| shape.clone())
    }

    fn comprehension(&mut self, comprehension: &'a ComprehensionExpr) -> Result<Shape, CompileError> {
        let range = self.expression(&comprehension.iter_range)?;
        if matches!(
            range,
            Shape::Bool | Shape::Int | Shape::Double | Shape::String | Shape::Timestamp
        ) {
            return Err(self.refuse(
                &comprehension.iter_range,
                &format!("{range} is neither a list nor a map"),
            ));
        }
        let accumulator = self.expression(&comprehension.accu_init)?;
        let outside = self.scope.len();
        self.scope.push((&comprehension.accu_var, accumulator));
        self.expression(&comprehension.loop_cond)?;
        let result = self.expression(&comprehension.result)?;
        self.scope.push((&comprehension.iter_var, range.element()));
        self.expression(&comprehension.loop_step)?;
        self.scope.truncate(outside);
        Ok(result)
    }

    fn call(&mut self, expr: &'a IdedExpr, call: &'a CallExpr) -> Result<Shape, CompileError> {
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
                let known = library::names().chain(MACROS.iter().copied());
                or_meant(format!("unknown function: {shown}"), &shown, known)
            };
            return Err(self.refuse_call(expr, name, &problem));
        }
        self.literal(expr, name, &call.args)?;
        let mut shapes = Vec::with_capacity(given);
        for argument in &call.args {
            shapes.push(self.expression(argument)?);
        }
        self.returned((expr, call), &shapes)
    }

    /// What a call returns, if it can return anything for arguments of these shapes.
    fn returned(&self, (expr, call): (&IdedExpr, &CallExpr), shapes: &[Shape]) -> Result<Shape, CompileError> {
        let refuse = |text: &str| Err(self.refuse(expr, text));
        let name = call.func_name.as_str();
        match (name, shapes) {
            (operators::EQUALS | operators::NOT_EQUALS | operators::LESS | operators::LESS_EQUALS, [one, other])
            | (operators::GREATER | operators::GREATER_EQUALS, [one, other]) => {
                if one.is_comparable_with(other) {
                    Ok(self.known(Shape::Bool))
                } else {
                    refuse(&format!("{one} is compared with {other}, which it never equals"))
                }
            }
            (operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT, operands) => {
                let other = operands.iter().find(|shape| !matches!(shape, Shape::Bool | Shape::Any));
                other.map_or(Ok(self.known(Shape::Bool)), |other| {
                    refuse(&format!("true or false is needed, and this is {other}"))
                })
            }
            (operators::CONDITIONAL, [condition, one, other]) => match condition {
                Shape::Bool | Shape::Any if one == other => Ok(one.clone()),
                Shape::Bool | Shape::Any => Ok(Shape::Any),
                condition => refuse(&format!("true or false is needed before `?`, and this is {condition}")),
            },
            (operators::INDEX, [container, index]) => match (container, call.args.get(1).map(|index| &index.expr)) {
                (Shape::Record(_), Some(Expr::Literal(LiteralValue::String(field)))) => {
                    self.member(expr, container, field.inner())
                }
                (Shape::List(_), _) if *index == Shape::String => refuse("a list has no keys, only numbers from 0"),
                _ => Ok(container.indexed()),
            },
            (operators::ADD | operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE, [one, other]) => {
                match (one, other) {
                    (Shape::Int, Shape::Double) | (Shape::Double, Shape::Int) => {
                        refuse("an int and a double do not mix: write double(…), or 1.0 for 1")
                    }
                    _ if one == other && matches!(one, Shape::Int | Shape::Double | Shape::String) => Ok(one.clone()),
                    _ => Ok(Shape::Any),
                }
            }
            (operators::IN | operators::OPT_INDEX | operators::OPT_SELECT, [one, other]) => {
                // `name in record`, `record[?name]`, `record.?name`.
                let (record, name) = if name == operators::IN { (other, 0) } else { (one, 1) };
                if let (Shape::Record(_), Some(Expr::Literal(LiteralValue::String(field)))) =
                    (record, call.args.get(name).map(|name| &name.expr))
                {
                    self.member(expr, record, field.inner())?;
                }
                let is_in = call.func_name == operators::IN;
                Ok(if is_in { self.known(Shape::Bool) } else { Shape::Any })
            }
            _ if self.is_shaped => Ok(returned_by(name)),
            _ => Ok(Shape::Any),
        }
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

/// What functions and methods return whatever they are given.
fn returned_by(name: &str) -> Shape {
    match name {
        "size" | "int" => Shape::Int,
        "double" => Shape::Double,
        "string" => Shape::String,
        "timestamp" => Shape::Timestamp,
        "bool" | "startsWith" | "endsWith" | "contains" | "matches" => Shape::Bool,
        _ => Shape::Any,
    }
}

/// The message, with the name that was probably meant.
fn or_meant<'k>(message: String, name: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    let known = known.into_iter().filter(|known| !known.starts_with('@'));
    match meant(name, known) {
        Some(meant) => format!("{message}; did you mean {meant}?"),
        None => message,
    }
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
    MACROS.contains(&name)
}

const MACROS: &[&str] = &[
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
];
