//! What can be said of a syntax tree before it runs: unknown names and members, wrong argument counts, comparisons that are never
//! true, literals that are no pattern, no duration or no timestamp. An expression that passes may still fail on its values: most of
//! them have no shape that is known.

use crate::elsewhere;
use crate::error::{CompileError, cut};
use crate::extended;
use crate::library::Library;
use crate::patterns;
use crate::rewrite::{is_accumulator, qualified_name};
use crate::shape::{self, Shape, meant};
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
    library: Library,
) -> Result<Checked, CompileError> {
    let scope = variables
        .iter()
        .map(|(name, shape)| (name.as_str(), shape.clone()))
        .collect();
    let mut check = Check {
        source,
        library,
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
    library: Library,
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
                let shapes: Result<Vec<_>, _> = list.elements.iter().map(|element| self.expression(element)).collect();
                let shared = match shapes?.as_slice() {
                    [first, rest @ ..] if rest.iter().all(|other| other == first) => first.clone(),
                    _ => Shape::Any,
                };
                let element = if list.optional_indices.is_empty() {
                    shared
                } else {
                    Shape::Any
                };
                Ok(self.known(Shape::list(element)))
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
                Some(name) if is_type(&name, self.library) => return Ok(Shape::Any),
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
            Shape::Bool
            | Shape::Int
            | Shape::Double
            | Shape::String
            | Shape::Timestamp
            | Shape::Opaque(_)
            | Shape::List(_) => {
                let text = format!("{of} has no member {}", cut(field, NAME_CHARS));
                let has_size = matches!(of, Shape::List(_) | Shape::String);
                let is_size = has_size && elsewhere::is_length(field);
                let hint = if is_size { ": write .size()" } else { "" };
                return Err(self.refuse(expr, &format!("{text}{hint}")));
            }
        };
        members.get(field).cloned().ok_or_else(|| {
            let text = format!("unknown member: {}", cut(field, NAME_CHARS));
            let names = || members.keys().map(String::as_str);
            let list = || {
                format!(
                    "{text}; the members here are {}",
                    names().collect::<Vec<_>>().join(", ")
                )
            };
            let text = meant(field, names()).map_or_else(list, |meant| format!("{text}; did you mean {meant}?"));
            self.refuse(expr, &text)
        })
    }

    fn name(&mut self, expr: &IdedExpr, name: &str) -> Result<Shape, CompileError> {
        // A leading dot means: not a variable of a macro.
        let bare = name.strip_prefix('.').unwrap_or(name);
        self.named.insert(bare.to_owned());
        let shape = self
            .shape_of(bare)
            .or_else(|| is_type(bare, self.library).then_some(Shape::Any));
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
        if Self::not_iterable(&range) {
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
        let step = self.expression(&comprehension.loop_step)?;
        self.scope.truncate(outside);
        // What a macro appends in each turn is what its list consists of.
        let gathers = matches!(&comprehension.accu_init.expr, Expr::List(list) if list.elements.is_empty());
        let is_gathered = gathers && is_accumulator(&comprehension.result) && matches!(step, Shape::List(_));
        Ok(if is_gathered { step } else { result })
    }

    fn not_iterable(range: &Shape) -> bool {
        !matches!(range, Shape::Any | Shape::List(_) | Shape::Map(_) | Shape::Record(_))
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
            .and_then(|name| Some((name, self.library.function(name)?)));
        let bare = name.strip_prefix('.').unwrap_or(name);
        let qualified_macro = qualified.as_deref().filter(|name| self.library.is_macro(name));
        let mut receiver = None;
        let (shown, known) = match (&call.target, function) {
            (Some(_), Some((qualified, counts))) => (qualified, Some(counts)),
            (Some(target), None) if qualified_macro.is_none() => {
                if let (Some(qualified), None) = (&qualified, self.library.method(name))
                    && !self.library.is_macro(name)
                    && self.expression(target).is_err()
                {
                    // `math.abs` misses the function and not a variable `math`.
                    return Err(self.refuse_call(
                        expr,
                        name,
                        &format!("unknown function: {}", cut(qualified, NAME_CHARS)),
                    ));
                }
                receiver = Some(self.expression(target)?);
                (name, self.library.method(name))
            }
            (Some(_), None) => (qualified_macro.unwrap_or(name), None),
            (None, _) if is_operator(name) => (name, Some(0..=usize::MAX)),
            (None, _) => (bare, self.library.function(bare)),
        };
        let given = call.args.len();
        if !known.as_ref().is_some_and(|counts| counts.contains(&given)) {
            let problem = self.no_such_call(call, shown, known.is_some());
            return Err(self.refuse_call(expr, name, &problem));
        }
        self.literal(expr, name, &call.args)?;
        let mut shapes = Vec::with_capacity(given);
        for argument in &call.args {
            shapes.push(self.expression(argument)?);
        }
        self.returned((expr, call), (receiver, &shapes))
    }

    /// What is wrong with a call: there is no function, macro or method of that name, or it takes another number of arguments.
    fn no_such_call(&self, call: &CallExpr, shown: &str, is_known: bool) -> String {
        let shown = cut(shown, NAME_CHARS);
        if call.target.is_none() && elsewhere::is_loop(&shown) {
            return format!("{shown} is called on a list or a map: write x.{shown}(e, …)");
        }
        if is_known || self.library.is_macro(&shown) {
            return format!("wrong number of arguments for {shown}: {}", call.args.len());
        }
        if shown == "not" {
            // `not(x)` parses, as a call.
            return "`not` is not an operator: write `!`".to_owned();
        }
        if call.target.is_none() && self.library.method(&shown).is_some() {
            return format!("{shown} is a method: write x.{shown}(…)");
        }
        let problem = format!("unknown function: {shown}");
        match elsewhere::call(&shown, call.args.len()) {
            Some(hint) => format!("{problem}; {hint}"),
            None => or_meant(problem, &shown, self.library.names()),
        }
    }

    /// What a call returns, if it can return anything for arguments of these shapes.
    fn returned(
        &self,
        (expr, call): (&IdedExpr, &CallExpr),
        (receiver, shapes): (Option<Shape>, &[Shape]),
    ) -> Result<Shape, CompileError> {
        let refuse = |text: &str| Err(self.refuse(expr, text));
        let name = call.func_name.as_str();
        match (name, shapes) {
            (
                operators::ADD
                | operators::SUBSTRACT
                | operators::LESS
                | operators::LESS_EQUALS
                | operators::GREATER
                | operators::GREATER_EQUALS,
                [Shape::Opaque(name), _] | [_, Shape::Opaque(name)],
            ) => refuse(&format!(
                "{name} has no operators but == and !=, only methods such as isLessThan or compareTo"
            )),
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
                Shape::Bool | Shape::Any if call.args.last().is_some_and(is_accumulator) => Ok(one.clone()),
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
                    (_, Shape::List(_)) if call.args.first().is_some_and(is_accumulator) => Ok(other.clone()),
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
            (extended::KEYS, [range]) => match Self::not_iterable(range) {
                true => refuse(&format!("{range} is neither a list nor a map")),
                false => Ok(match range {
                    Shape::List(_) => self.known(Shape::list(Shape::Int)),
                    Shape::Map(_) | Shape::Record(_) => self.known(Shape::list(Shape::String)),
                    _ => Shape::Any,
                }),
            },
            _ if self.is_shaped => Ok(shape::returned_by(name, receiver.as_ref())),
            _ => Ok(Shape::Any),
        }
    }

    /// Refuses a literal that the function `name` will never take.
    fn literal(&self, expr: &IdedExpr, name: &str, args: &[IdedExpr]) -> Result<(), CompileError> {
        // The pattern of `matches` comes last, whichever way it is called.
        let position = if name == "matches" {
            args.len().saturating_sub(1)
        } else {
            0
        };
        let Some(Expr::Literal(LiteralValue::String(text))) = args.get(position).map(|argument| &argument.expr) else {
            return Ok(());
        };
        let text = text.inner();
        let (accepted, wanted) = match name {
            "matches" | "find" | "findAll" => (patterns::compiled(text).is_some(), "regular expression"),
            "duration" | "timestamp" => {
                let argument = vec![CowVal::owned(CelString::from(text))];
                let conversion = self.library.env().find_overload(name, &argument);
                (conversion.is_some_and(|convert| convert(argument).is_ok()), name)
            }
            _ => {
                // What a second argument is may be known only later: then the text is given the benefit.
                let normalizes = match args.get(1).map(|flag| &flag.expr) {
                    None => false,
                    Some(Expr::Literal(LiteralValue::Boolean(flag))) => *flag.inner(),
                    Some(_) => true,
                };
                extended::accepts(name, text, normalizes).unwrap_or((true, name))
            }
        };
        if accepted {
            return Ok(());
        }
        let problem = format!("not a valid {wanted}: {}", cut(text, NAME_CHARS));
        Err(self.refuse_call(expr, name, &problem))
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

/// The message, with the name that was probably meant.
fn or_meant<'k>(message: String, name: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    let known = known.into_iter().filter(|known| !known.starts_with('@'));
    match meant(name, known) {
        Some(meant) => format!("{message}; did you mean {meant}?"),
        None => message,
    }
}

fn is_type(name: &str, library: Library) -> bool {
    library.env().types().find_type(name).is_some()
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
