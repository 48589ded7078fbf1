//! A filtered list whose size is compared. Must not evaluate anything.

use cel::common::ast::{Expr, IdedExpr, operators};

/// A filtered list whose size is asked for.
pub(super) struct Kept<'a> {
    pub(super) range: &'a IdedExpr,
    pub(super) body: &'a IdedExpr,
    pub(super) variable: &'a str,
}

impl<'a> Kept<'a> {
    /// The one list whose size is on one side of a comparison with the value `is`, and whether it is too small: else it is too large.
    pub(super) fn compared(expr: &'a IdedExpr, is: bool) -> Option<(Self, bool)> {
        let Expr::Call(call) = &expr.expr else { return None };
        let [one, other] = call.args.as_slice() else {
            return None;
        };
        let (kept, is_left) = match (Self::of(one), Self::of(other)) {
            (Some(kept), None) => (kept, true),
            (None, Some(kept)) => (kept, false),
            _ => return None,
        };
        match call.func_name.as_str() {
            operators::GREATER | operators::GREATER_EQUALS => Some((kept, is_left != is)),
            operators::LESS | operators::LESS_EQUALS => Some((kept, is_left == is)),
            _ => None,
        }
    }

    /// Of `range.filter(variable, body).size()` or `size(range.filter(variable, body))`.
    fn of(expr: &'a IdedExpr) -> Option<Self> {
        let Expr::Call(call) = &expr.expr else { return None };
        let list = match (call.func_name.as_str(), call.target.as_deref(), call.args.as_slice()) {
            ("size", Some(list), []) | ("size", None, [list]) => list,
            _ => return None,
        };
        let Expr::Comprehension(comprehension) = &list.expr else {
            return None;
        };
        let is_list = matches!(&comprehension.accu_init.expr, Expr::List(list) if list.elements.is_empty());
        let Expr::Call(step) = &comprehension.loop_step.expr else {
            return None;
        };
        let is_variable = |expr: &IdedExpr| matches!(&expr.expr, Expr::Ident(name) if *name == comprehension.iter_var);
        // `map` with a condition appends something other than the element.
        let appends_element = |appended: &IdedExpr| {
            let Expr::Call(sum) = &appended.expr else { return false };
            let [_, added] = sum.args.as_slice() else { return false };
            matches!(&added.expr, Expr::List(list) if list.elements.iter().all(is_variable))
        };
        let (operators::CONDITIONAL, [body, appended, _]) = (step.func_name.as_str(), step.args.as_slice()) else {
            return None;
        };
        (is_list && appends_element(appended)).then(|| Self {
            range: &comprehension.iter_range,
            body,
            variable: &comprehension.iter_var,
        })
    }
}
