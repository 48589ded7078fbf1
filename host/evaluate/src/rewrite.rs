//! Rewrites a checked syntax tree so that it charges for its work while it runs.
//!
//! Nodes are wrapped in calls of the functions in [`charged`], methods whose work is out of proportion are replaced by those
//! of [`text`]. What may not happen here: copying a subtree (nested, that is exponential), wrapping inside a chain of names
//! (`a.b.c` is resolved as a whole), or wrapping the accumulator of a macro (the engine recognises `@result + [x]` and
//! appends in place; without that `map` is quadratic).

use crate::library::Library;
use crate::{charged, extended, text};
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use std::mem;

/// The variable in which the standard macros gather their result.
const ACCUMULATOR: &str = "@result";
/// The methods whose price is not that of copying their receiver: what the receiver is wrapped in, and the function that
/// takes the place of the method, if one does, with the receiver as its first argument.
const METHODS: &[(&str, &str, Option<&str>)] = &[
    ("@sortByAssociatedKeys", charged::ELEMENTS, None),
    ("distinct", charged::ELEMENTS, Some(charged::DISTINCT)),
    ("find", charged::COPY, Some(extended::FIND)),
    ("findAll", charged::COPY, Some(extended::FIND_ALL)),
    ("flatten", charged::ELEMENTS, None),
    ("indexOf", charged::COPY, Some(text::INDEX_OF)),
    ("isSorted", charged::ELEMENTS, None),
    ("join", charged::ELEMENTS, Some(text::JOIN)),
    ("lastIndexOf", charged::COPY, Some(text::LAST_INDEX_OF)),
    ("matches", charged::COPY, Some(text::MATCHES)),
    ("max", charged::ELEMENTS, None),
    ("min", charged::ELEMENTS, None),
    ("replace", charged::COPY, Some(text::REPLACE)),
    ("reverse", charged::ELEMENTS, None),
    ("slice", charged::ELEMENTS, None),
    ("sort", charged::ELEMENTS, None),
    ("split", charged::CHARACTERS, None),
    ("sum", charged::ELEMENTS, None),
];
/// Functions whose arguments are walked, not copied, and what these are wrapped in.
const FUNCTIONS: &[(&str, &str)] = &[
    ("@keys", charged::ELEMENTS),
    ("@mapOfMaps", charged::ELEMENTS),
    ("@mapOfPairs", charged::ELEMENTS),
    ("lists.range", charged::COUNT),
    ("math.@max", charged::ELEMENTS),
    ("math.@min", charged::ELEMENTS),
    ("sets.contains", charged::ELEMENTS),
    ("sets.equivalent", charged::ELEMENTS),
    ("sets.intersects", charged::ELEMENTS),
];
/// Steps of a loop's body that run in a unit of fuel.
const STEPS_PER_UNIT: usize = 8;
/// Loops around a name that are searched for it in a step.
const SCOPES_PER_STEP: usize = 2;
/// A literal of so many bytes is copied for nothing.
const FREE_BYTES: usize = 16;

/// The tree that charges, and gives its result to [`charged::answer`].
pub(crate) fn charging(mut tree: IdedExpr, library: Library) -> IdedExpr {
    Rewriter { library, depth: 0 }.expression(&mut tree);
    wrap(charged::ANSWER, &mut tree);
    tree
}

/// The text `a.b.c` that a chain of names spells, or `None` for any other expression.
pub(crate) fn qualified_name(expr: &IdedExpr) -> Option<String> {
    let mut segments = Vec::new();
    let mut next = expr;
    loop {
        match &next.expr {
            Expr::Ident(name) => {
                segments.push(name.as_str());
                segments.reverse();
                return Some(segments.join("."));
            }
            Expr::Select(select) if !select.test => {
                segments.push(&select.field);
                next = &select.operand;
            }
            _ => return None,
        }
    }
}

/// Rewrites expressions in place. Each method returns how many steps the expression takes, at most, each time it runs,
/// apart from what it charges for itself.
struct Rewriter {
    library: Library,
    /// Loops around the expression.
    depth: usize,
}

impl Rewriter {
    fn expression(&mut self, expr: &mut IdedExpr) -> usize {
        match &mut expr.expr {
            Expr::Unspecified | Expr::Literal(_) => 1,
            Expr::Ident(_) => self.search(),
            // A chain of names stays a unit: nothing is wrapped on the way down. Each prefix of it is searched for.
            Expr::Select(select) => self.search() + self.expression(&mut select.operand),
            Expr::List(list) => {
                1 + list
                    .elements
                    .iter_mut()
                    .map(|element| self.copied(element))
                    .sum::<usize>()
            }
            Expr::Map(map) => {
                1 + map
                    .entries
                    .iter_mut()
                    .map(|entry| self.entry(&mut entry.expr))
                    .sum::<usize>()
            }
            Expr::Struct(made) => {
                1 + made
                    .entries
                    .iter_mut()
                    .map(|entry| self.entry(&mut entry.expr))
                    .sum::<usize>()
            }
            Expr::Comprehension(comprehension) => 1 + self.comprehension(comprehension),
            Expr::Call(call) => {
                let copies = [operators::OPT_INDEX, operators::OPT_SELECT].contains(&call.func_name.as_str());
                let steps = 1 + self.call(call);
                if copies {
                    // The optional is a copy of what it holds.
                    wrap(charged::COPY, expr);
                }
                steps
            }
        }
    }

    fn search(&self) -> usize {
        1 + self.depth / SCOPES_PER_STEP
    }

    fn entry(&mut self, entry: &mut EntryExpr) -> usize {
        match entry {
            EntryExpr::StructField(field) => self.copied(&mut field.value),
            EntryExpr::MapEntry(entry) => self.copied(&mut entry.key) + self.copied(&mut entry.value),
        }
    }

    /// The body is paid for by the range, before the first turn: to the expression around it only the rest counts.
    fn comprehension(&mut self, comprehension: &mut ComprehensionExpr) -> usize {
        let before = self.expression(&mut comprehension.iter_range) + self.copied(&mut comprehension.accu_init);
        self.depth += 1;
        let body = self.expression(&mut comprehension.loop_cond) + self.expression(&mut comprehension.loop_step);
        let is_accumulator = matches!(&comprehension.result.expr, Expr::Ident(name) if *name == comprehension.accu_var);
        let after = if is_accumulator {
            1
        } else {
            self.copied(&mut comprehension.result)
        };
        self.depth -= 1;
        let weight = i64::try_from(1 + body / STEPS_PER_UNIT).unwrap_or(i64::MAX);
        wrap(charged::RANGE, &mut comprehension.iter_range);
        if let Expr::Call(range) = &mut comprehension.iter_range.expr {
            range.args.push(IdedExpr {
                id: 0,
                expr: Expr::Literal(LiteralValue::Int(weight.into())),
            });
        }
        before + after
    }

    fn call(&mut self, call: &mut CallExpr) -> usize {
        match call.func_name.as_str() {
            operators::CONDITIONAL
            | operators::LOGICAL_AND
            | operators::LOGICAL_OR
            | operators::LOGICAL_NOT
            | operators::NOT_STRICTLY_FALSE
            | operators::INDEX
            | operators::OPT_INDEX
            | operators::OPT_SELECT => self.arguments(call),
            // Comparing with a literal takes no longer than the literal is.
            operators::EQUALS
            | operators::NOT_EQUALS
            | operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS
                if call.args.iter().any(is_literal) =>
            {
                self.arguments(call)
            }
            operators::ADD if call.args.first().is_some_and(is_accumulator) => self.arguments(call),
            operators::ADD => {
                let wrappers = [charged::COPY, charged::ADDEND];
                let operands = call.args.iter_mut().zip(wrappers);
                operands.map(|(operand, wrapper)| self.priced(wrapper, operand)).sum()
            }
            _ if call.target.is_some() => self.method(call),
            _ => {
                let wrapper = wrapper_of(&call.func_name);
                let arguments = call.args.iter_mut();
                let steps = arguments.map(|argument| self.priced(wrapper, argument)).sum();
                if call.func_name == "matches" {
                    call.func_name = with_pattern(text::MATCHES, call.args.last()).to_owned();
                }
                steps
            }
        }
    }

    fn arguments(&mut self, call: &mut CallExpr) -> usize {
        call.args.iter_mut().map(|argument| self.expression(argument)).sum()
    }

    /// A call with a receiver, which may be of a function with a qualified name.
    fn method(&mut self, call: &mut CallExpr) -> usize {
        let Some(mut receiver) = call.target.take() else {
            return 0;
        };
        let qualified = qualified_name(&receiver).map(|name| format!("{name}.{}", call.func_name));
        if let Some(name) = qualified.filter(|name| self.library.function(name).is_some()) {
            call.target = Some(receiver);
            let wrapper = wrapper_of(&name);
            return call
                .args
                .iter_mut()
                .map(|argument| self.priced(wrapper, argument))
                .sum();
        }
        let method = METHODS.iter().find(|(method, ..)| *method == call.func_name);
        let (wrapper, instead) = method.map_or((charged::COPY, None), |(_, wrapper, instead)| (*wrapper, *instead));
        let of_argument = if call.func_name == "format" {
            charged::TEXT
        } else {
            charged::COPY
        };
        let steps = call
            .args
            .iter_mut()
            .map(|argument| self.priced(of_argument, argument))
            .sum::<usize>()
            + self.priced(wrapper, &mut receiver);
        match instead {
            Some(function) => {
                let function = with_pattern(function, call.args.first());
                call.func_name = function.to_owned();
                call.args.insert(0, *receiver);
            }
            None => call.target = Some(receiver),
        }
        steps
    }

    /// Rewrites `expr`, of which a copy is made.
    fn copied(&mut self, expr: &mut IdedExpr) -> usize {
        self.priced(charged::COPY, expr)
    }

    fn priced(&mut self, function: &str, expr: &mut IdedExpr) -> usize {
        if [charged::COPY, charged::ADDEND].contains(&function) && is_free(expr) {
            return 1;
        }
        let steps = self.expression(expr);
        wrap(function, expr);
        1 + steps
    }
}

fn wrapper_of(function: &str) -> &'static str {
    let known = FUNCTIONS.iter().find(|(known, _)| *known == function);
    known.map_or(charged::COPY, |(_, wrapper)| wrapper)
}

/// The function that takes the place of `function` where its pattern stands in the expression; any other function is what it was.
fn with_pattern(function: &'static str, pattern: Option<&IdedExpr>) -> &'static str {
    let is_written = pattern.is_some_and(|pattern| match &pattern.expr {
        Expr::Literal(_) => true,
        Expr::Call(copy) => copy.func_name == charged::COPY && copy.args.iter().all(is_literal),
        _ => false,
    });
    match function {
        text::MATCHES if is_written => text::MATCHES_LITERAL,
        extended::FIND if is_written => extended::FIND_LITERAL,
        extended::FIND_ALL if is_written => extended::FIND_ALL_LITERAL,
        other => other,
    }
}

fn wrap(function: &str, expr: &mut IdedExpr) {
    let id = expr.id;
    let inner = mem::take(expr);
    let call = CallExpr {
        func_name: function.to_owned(),
        target: None,
        args: vec![inner],
    };
    *expr = IdedExpr {
        id,
        expr: Expr::Call(call),
    };
}

fn is_literal(expr: &IdedExpr) -> bool {
    matches!(expr.expr, Expr::Literal(_))
}

fn is_free(expr: &IdedExpr) -> bool {
    match &expr.expr {
        Expr::Literal(LiteralValue::String(text)) => text.inner().len() <= FREE_BYTES,
        Expr::Literal(LiteralValue::Bytes(bytes)) => bytes.inner().len() <= FREE_BYTES,
        Expr::Literal(_) => true,
        _ => false,
    }
}

pub(crate) fn is_accumulator(expr: &IdedExpr) -> bool {
    matches!(&expr.expr, Expr::Ident(name) if name == ACCUMULATOR)
}
