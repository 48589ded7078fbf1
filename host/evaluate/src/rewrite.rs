//! Rewrites a checked syntax tree so that it charges for its work while it runs.
//!
//! Nodes are wrapped in calls of the functions in [`charged`], methods whose work is out of proportion are replaced by those
//! of [`text`]. What may not happen here: copying a subtree (nested, that is exponential), wrapping inside a chain of names
//! (`a.b.c` is resolved as a whole), or wrapping the accumulator of a macro (the engine recognises `@result + [x]` and
//! appends in place; without that `map` is quadratic).

use crate::{charged, library, text};
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use std::mem;

/// The variable in which the standard macros gather their result.
const ACCUMULATOR: &str = "@result";
/// Methods that copy each element of their receiver.
const COPIES_ELEMENTS: &[&str] = &["@sortByAssociatedKeys", "flatten", "reverse", "slice", "sort"];
/// Nodes of a loop's body that run in a unit of fuel.
const NODES_PER_UNIT: usize = 8;

/// The tree that charges, and gives its result to [`charged::answer`].
pub(crate) fn charging(mut tree: IdedExpr) -> IdedExpr {
    expression(&mut tree);
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

/// Rewrites `expr` in place and says how many nodes of it run, at most, each time it runs.
fn expression(expr: &mut IdedExpr) -> usize {
    match &mut expr.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => 1,
        // A chain of names stays a unit: nothing is wrapped on the way down.
        Expr::Select(select) => 1 + expression(&mut select.operand),
        Expr::List(list) => 1 + list.elements.iter_mut().map(copied).sum::<usize>(),
        Expr::Map(map) => {
            1 + map
                .entries
                .iter_mut()
                .map(|entry| entry_of(&mut entry.expr))
                .sum::<usize>()
        }
        Expr::Struct(object) => {
            1 + object
                .entries
                .iter_mut()
                .map(|entry| entry_of(&mut entry.expr))
                .sum::<usize>()
        }
        Expr::Comprehension(comprehension) => 1 + loop_over(comprehension),
        Expr::Call(call) => {
            let (nodes, copies) = call_of(call);
            if copies {
                wrap(charged::COPY, expr);
            }
            1 + nodes
        }
    }
}

fn entry_of(entry: &mut EntryExpr) -> usize {
    match entry {
        EntryExpr::StructField(field) => copied(&mut field.value),
        EntryExpr::MapEntry(entry) => copied(&mut entry.key) + copied(&mut entry.value),
    }
}

/// Rewrites a comprehension. Its body is paid for by its range, before the first turn, so to the expression around it only
/// the parts outside of the loop count.
fn loop_over(comprehension: &mut ComprehensionExpr) -> usize {
    let mut outside = expression(&mut comprehension.iter_range) + copied(&mut comprehension.accu_init);
    let body = expression(&mut comprehension.loop_cond) + expression(&mut comprehension.loop_step);
    let weight = i64::try_from(1 + body / NODES_PER_UNIT).unwrap_or(i64::MAX);
    wrap(charged::RANGE, &mut comprehension.iter_range);
    if let Expr::Call(range) = &mut comprehension.iter_range.expr {
        range.args.push(IdedExpr {
            id: 0,
            expr: Expr::Literal(LiteralValue::Int(weight.into())),
        });
    }
    let result_is_accumulator =
        matches!(&comprehension.result.expr, Expr::Ident(name) if *name == comprehension.accu_var);
    outside += if result_is_accumulator {
        1
    } else {
        copied(&mut comprehension.result)
    };
    outside
}

/// Rewrites the parts of a call. The flag says that its result is a copy that nothing has paid for.
fn call_of(call: &mut CallExpr) -> (usize, bool) {
    match call.func_name.as_str() {
        operators::CONDITIONAL
        | operators::LOGICAL_AND
        | operators::LOGICAL_OR
        | operators::LOGICAL_NOT
        | operators::NOT_STRICTLY_FALSE
        | operators::INDEX => (call.args.iter_mut().map(expression).sum(), false),
        operators::OPT_INDEX | operators::OPT_SELECT => (call.args.iter_mut().map(expression).sum(), true),
        operators::EQUALS
        | operators::NOT_EQUALS
        | operators::LESS
        | operators::LESS_EQUALS
        | operators::GREATER
        | operators::GREATER_EQUALS
            if call.args.iter().any(is_literal) =>
        {
            // Comparing with a literal takes no longer than the literal is.
            (call.args.iter_mut().map(expression).sum(), false)
        }
        operators::ADD if call.args.first().is_some_and(is_accumulator) => {
            (call.args.iter_mut().map(expression).sum(), false)
        }
        _ if call.target.is_some() => (method_of(call), false),
        _ => (function_of(call), false),
    }
}

fn function_of(call: &mut CallExpr) -> usize {
    let nodes = call.args.iter_mut().map(copied).sum();
    if call.func_name == "matches" {
        call.func_name = matches_of(&call.args).to_owned();
    }
    nodes
}

/// Rewrites a call with a receiver, or of a function with a qualified name.
fn method_of(call: &mut CallExpr) -> usize {
    let Some(receiver) = call.target.as_mut() else { return 0 };
    if let Some(name) = qualified_name(receiver).map(|name| format!("{name}.{}", call.func_name))
        && library::function(&name).is_some()
    {
        return match name.as_str() {
            "lists.range" => call.args.iter_mut().map(|count| wrapped(charged::COUNT, count)).sum(),
            _ => call.args.iter_mut().map(copied).sum(),
        };
    }
    let arguments = match call.func_name.as_str() {
        "format" => call
            .args
            .iter_mut()
            .map(|list| wrapped(charged::TEXT, list))
            .sum::<usize>(),
        _ => call.args.iter_mut().map(copied).sum::<usize>(),
    };
    let replaced = text::REPLACED
        .iter()
        .find(|(method, _)| *method == call.func_name)
        .map(|(_, function)| *function);
    let receiver_nodes = match call.func_name.as_str() {
        "split" => wrapped(charged::CHARACTERS, receiver),
        "distinct" => wrapped(charged::ELEMENTS, receiver),
        name if COPIES_ELEMENTS.contains(&name) => wrapped(charged::ELEMENTS, receiver),
        _ => copied(receiver),
    };
    let replaced = if call.func_name == "distinct" {
        Some(charged::DISTINCT)
    } else {
        replaced
    };
    if let (Some(function), Some(receiver)) = (replaced, call.target.take_if(|_| replaced.is_some())) {
        let function = if function == text::MATCHES {
            matches_of(&call.args)
        } else {
            function
        };
        call.func_name = function.to_owned();
        call.args.insert(0, *receiver);
    }
    arguments + receiver_nodes
}

/// The pattern is the last argument, whichever way `matches` is called.
fn matches_of(args: &[IdedExpr]) -> &'static str {
    if args.last().is_some_and(is_literal) {
        text::MATCHES_LITERAL
    } else {
        text::MATCHES
    }
}

/// Rewrites `expr`, of which a copy is made.
fn copied(expr: &mut IdedExpr) -> usize {
    if is_literal(expr) {
        return 1;
    }
    wrapped(charged::COPY, expr)
}

fn wrapped(function: &str, expr: &mut IdedExpr) -> usize {
    let nodes = expression(expr);
    wrap(function, expr);
    1 + nodes
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

fn is_accumulator(expr: &IdedExpr) -> bool {
    matches!(&expr.expr, Expr::Ident(name) if name == ACCUMULATOR)
}
