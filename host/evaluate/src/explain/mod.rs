//! Why a condition is false: the smallest sub-expressions that decided it, the elements that they looked at, and the values that they
//! read. Every sub-expression is evaluated anew, within one budget. Must not show a value that the expression itself does not read, other
//! than the `name` of an element of a variable and what the caller names as a [`Cause`].

mod kept;
mod phrase;
pub(crate) mod written;

use std::sync::Arc;

use cel::Context;
use cel::common::ast::{ComprehensionExpr, Expr, IdedExpr, LiteralValue, operators};

use self::kept::Kept;
use self::written::Written;
use crate::answer::Answer;
use crate::budget::{self, Budget};
use crate::error::cut;
use crate::library::Library;
use crate::value::Value;
use crate::{charged, rewrite, threads};

/// The most reasons that are given in full; of the others there is a count.
const REASONS: usize = 3;
/// What conditions may call.
const LIBRARY: Library = Library::Extended;
/// The longest explanation, in characters.
const CHARS: usize = 512;

/// A member that says why another one is false. The caller guarantees that its text may be shown.
#[derive(Clone, Copy, Debug)]
pub struct Cause {
    /// The variable, a list, whose elements have both members.
    pub variable: &'static str,
    /// The member that is true or false.
    pub member: &'static str,
    /// The text that says why it is false.
    pub text: &'static str,
}

/// Says why `text` is false for these variables, in at most 512 characters: ``clusters[2] (test-1): `c.available >= 2` is false, it is 0``.
/// `None` if it is not false, or if the budget does not suffice to find out. Blocks like an evaluation.
///
/// The elements of a variable that is a list are named by their member `name`. Where the condition is false because the cause's member
/// is false, the cause's text follows.
pub fn explain(text: &str, vars: &[(&str, Value)], cause: Option<Cause>, budget: Budget) -> Option<String> {
    let text = text.to_owned();
    let scope = vars.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let scope: Vec<(String, Value)> = scope.collect();
    threads::run(move || why_false(&text, (scope, cause), budget))
        .ok()
        .flatten()
}

fn why_false(text: &str, (scope, cause): (Vec<(String, Value)>, Option<Cause>), budget: Budget) -> Option<String> {
    let (tree, source) = LIBRARY.env().parser().parse_with_source_info(text).ok()?;
    // To name the elements that a size counts takes more work: where the budget does not suffice for it, the rest is said without them.
    let reasons = [true, false].into_iter().find_map(|names_counted| {
        budget::open(budget);
        let mut walk = Walk {
            written: Written::new(&source),
            roots: scope.len(),
            scope: scope.clone(),
            cause,
            names_counted,
            reasons: Vec::new(),
            more: 0,
        };
        if walk.is(&tree, false) {
            walk.why((&tree, false), "");
        }
        // An exhausted budget can look like a value: nothing that was found counts then.
        budget::settle().ok()?;
        Some(walk.told())
    })?;
    (!reasons.is_empty()).then(|| cut(&reasons.join("; "), CHARS))
}

/// Goes down from an expression whose value is known to the parts that decided it.
struct Walk<'a> {
    written: Written<'a>,
    /// The variables in sight, innermost last.
    scope: Vec<(String, Value)>,
    /// How many of them are the caller's.
    roots: usize,
    cause: Option<Cause>,
    /// Whether the elements are named that the size of a filtered list counts.
    names_counted: bool,
    reasons: Vec<String>,
    /// Reasons beyond the first few.
    more: usize,
}

impl Walk<'_> {
    /// The reasons, the last one the number of those that are left out.
    fn told(mut self) -> Vec<String> {
        if self.more > 0 {
            self.reasons.push(format!("and {} more", self.more));
        }
        self.reasons
    }

    /// Notes why `expr` has the value `is`. `at`: the elements around it.
    fn why(&mut self, (expr, is): (&IdedExpr, bool), at: &str) {
        match &expr.expr {
            Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice(), is) {
                (operators::LOGICAL_NOT, [operand], _) => self.why((operand, !is), at),
                (operators::LOGICAL_AND, operands, false) | (operators::LOGICAL_OR, operands, true) => {
                    // One is enough.
                    match operands.iter().find(|operand| self.is(operand, is)) {
                        Some(decisive) => self.why((decisive, is), at),
                        None => self.leaf((expr, is), at),
                    }
                }
                (operators::LOGICAL_AND | operators::LOGICAL_OR, operands, _) => {
                    for operand in operands {
                        self.why((operand, is), at);
                    }
                }
                (operators::CONDITIONAL, [condition, one, other], _) => {
                    let taken = if self.is(condition, true) { one } else { other };
                    self.why((taken, is), at);
                }
                _ => self.leaf((expr, is), at),
            },
            Expr::Comprehension(comprehension) => match Quantifier::of(comprehension) {
                Some(quantifier) => self.elements((expr, &quantifier, is), at),
                None => self.leaf((expr, is), at),
            },
            _ => self.leaf((expr, is), at),
        }
    }

    /// `all` that is false and `exists` that is true follow from single elements; the opposite follows from all of them.
    fn elements(&mut self, (expr, quantifier, is): (&IdedExpr, &Quantifier<'_>, bool), at: &str) {
        let Some(elements) = self.range(quantifier.range) else {
            return self.leaf((expr, is), at);
        };
        let range = self.written.of(quantifier.range);
        if elements.is_empty() {
            let range = range.unwrap_or_else(|| "what it looks through".to_owned());
            let text = self.written.quoted(expr);
            return self.note(at, format!("{text} is {is}, {range} is empty"));
        }
        if quantifier.is_for_all == is {
            // Every element is the same: the first ones stand for the others.
            self.more += elements.len().saturating_sub(REASONS);
        }
        let range = range.unwrap_or_else(|| "element".to_owned());
        let is_root = matches!(&quantifier.range.expr, Expr::Ident(_)) && self.scope.len() == self.roots;
        let outside = self.scope.len();
        let mut found = 0;
        let body = charging(quantifier.body);
        for element in elements {
            let label = element.label(&range, is_root);
            self.scope.push((quantifier.variable.to_owned(), element.bound));
            if self.gives(&body, is) {
                found += 1;
                match found <= REASONS {
                    true => self.why((quantifier.body, is), &format!("{at}{label}: ")),
                    false if quantifier.is_for_all != is => self.more += 1,
                    false => {}
                }
            }
            self.scope.truncate(outside);
            if found > REASONS && quantifier.is_for_all == is {
                break;
            }
        }
        if found == 0 {
            self.leaf((expr, is), at);
        }
    }

    fn leaf(&mut self, (expr, is): (&IdedExpr, bool), at: &str) {
        let text = self.written.quoted(expr);
        let read = self.read(expr);
        let counted = self.counted((expr, is));
        let caused = self.caused(expr).unwrap_or_default();
        self.note(at, format!("{text} is {is}{read}{counted}{caused}"));
    }

    /// Why a member is false that decided it, by itself or in a comparison: `: has 0 of 2 replicas ready`.
    fn caused(&self, expr: &IdedExpr) -> Option<String> {
        let cause = self.cause.filter(|_| self.reasons.len() < REASONS)?;
        let operands = match &expr.expr {
            Expr::Call(call) => call.args.as_slice(),
            _ => &[],
        };
        let of = [expr].into_iter().chain(operands).find_map(|part| {
            let of = member_of(part, cause.member)?;
            self.is(part, false).then_some(of)
        })?;
        let Answer::Map(row, _) = self.value(of)? else {
            return None;
        };
        let name = row.iter().find(|(key, _)| *key == Answer::String("name".to_owned()));
        let Some((_, Answer::String(name))) = name else {
            return None;
        };
        // However the expression came to it, only an element of the variable itself has the caller's text.
        let (_, variable) = self.scope[..self.roots]
            .iter()
            .find(|(known, _)| known == cause.variable)?;
        let element = variable.items()?.into_iter().find(|element| {
            element.member_text("name").as_ref() == Some(name)
                && matches!(element.answer(), Some(Answer::Map(known, _)) if known == row)
        })?;
        let text = element.member_text(cause.text).filter(|text| !text.is_empty())?;
        Some(format!(": {}", phrase::plain(&text)))
    }

    fn note(&mut self, at: &str, reason: String) {
        match self.reasons.len() < REASONS {
            true => self.reasons.push(format!("{at}{reason}")),
            false => self.more += 1,
        }
    }

    /// What a comparison, or a method that tests something, looked at: `, it is 0`.
    fn read(&self, expr: &IdedExpr) -> String {
        let call = match &expr.expr {
            // An index is a way to write a member.
            Expr::Call(call) if call.func_name != operators::INDEX => call,
            _ => return String::new(),
        };
        let operands: Vec<&IdedExpr> = call.target.as_deref().into_iter().chain(&call.args).collect();
        let read: Vec<&IdedExpr> = operands
            .iter()
            .copied()
            .filter(|operand| !is_constant(operand))
            .collect();
        let shown: Vec<(String, String)> = read
            .iter()
            .filter_map(|operand| Some((self.written.quoted(operand), phrase::of(&self.value(operand)?)?)))
            .collect();
        match shown.as_slice() {
            [] => String::new(),
            [(_, value)] if read.len() == 1 && operands.len() > 1 && call.target.is_none() => {
                format!(", it is {value}")
            }
            several => {
                let several: Vec<_> = several
                    .iter()
                    .map(|(text, value)| format!("{text} is {value}"))
                    .collect();
                format!(", {}", several.join(" and "))
            }
        }
    }

    /// Which elements a filtered list counts, or does not count, where its size is too large or too small.
    fn counted(&mut self, (expr, is): (&IdedExpr, bool)) -> String {
        let Some((kept, is_too_small)) = Kept::compared(expr, is).filter(|_| self.names_counted) else {
            return String::new();
        };
        let (Some(elements), Some(range)) = (self.range(kept.range), self.written.of(kept.range)) else {
            return String::new();
        };
        let is_root = matches!(&kept.range.expr, Expr::Ident(_)) && self.scope.len() == self.roots;
        let outside = self.scope.len();
        let body = charging(kept.body);
        let (mut labels, mut more) = (Vec::new(), 0_usize);
        for element in elements {
            let label = element.label(&range, is_root);
            self.scope.push((kept.variable.to_owned(), element.bound));
            let is_named = self.gives(&body, !is_too_small);
            self.scope.truncate(outside);
            match (is_named, labels.len() < REASONS) {
                (true, true) => labels.push(label),
                (true, false) => more += 1,
                (false, _) => {}
            }
        }
        if labels.is_empty() {
            return String::new();
        }
        let counted = if is_too_small { "not counted" } else { "counted" };
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        format!("; {counted}: {}{more}", labels.join(", "))
    }

    fn is(&self, expr: &IdedExpr, wanted: bool) -> bool {
        self.gives(&charging(expr), wanted)
    }

    fn gives(&self, charging: &IdedExpr, wanted: bool) -> bool {
        self.run(charging) == Some(Answer::Bool(wanted))
    }

    fn value(&self, expr: &IdedExpr) -> Option<Answer> {
        self.run(&charging(expr))
    }

    /// `None`: an error.
    fn run(&self, charging: &IdedExpr) -> Option<Answer> {
        let mut context = Context::with_env(Arc::clone(LIBRARY.env()));
        for (name, value) in &self.scope {
            context.add_variable_as_val(name.clone(), value.to_val());
        }
        let evaluated = cel::Value::resolve(charging, &context);
        let answer = charged::answer();
        evaluated.ok()?;
        answer?.ok()
    }

    /// What a loop over `range` goes through: the elements of a list, or the keys of a map.
    fn range(&self, range: &IdedExpr) -> Option<Vec<Element>> {
        if let Expr::Ident(name) = &range.expr
            && let Some((_, value)) = self.scope.iter().rfind(|(known, _)| known == name)
            && let Some(items) = value.items()
        {
            return Some(items.into_iter().enumerate().map(Element::numbered).collect());
        }
        match self.value(range)? {
            Answer::List(items, _) => {
                let values: Option<Vec<Value>> = items.iter().map(Value::from_answer).collect();
                Some(values?.into_iter().enumerate().map(Element::numbered).collect())
            }
            Answer::Map(entries, _) => entries.iter().map(Element::keyed).collect(),
            _ => None,
        }
    }
}

/// What `x.member` or `x["member"]` is read of.
fn member_of<'e>(expr: &'e IdedExpr, member: &str) -> Option<&'e IdedExpr> {
    match &expr.expr {
        Expr::Select(select) => (!select.test && select.field == member).then_some(&select.operand),
        Expr::Call(call) if call.func_name == operators::INDEX => match call.args.as_slice() {
            [of, key] => {
                matches!(&key.expr, Expr::Literal(LiteralValue::String(text)) if text.inner() == member).then_some(of)
            }
            _ => None,
        },
        _ => None,
    }
}

/// A copy that charges for its work.
fn charging(expr: &IdedExpr) -> IdedExpr {
    rewrite::charging(expr.clone(), LIBRARY)
}

/// Whether it names no variable, so that its text says its value.
fn is_constant(expr: &IdedExpr) -> bool {
    match &expr.expr {
        Expr::Literal(_) => true,
        Expr::List(list) => list.elements.iter().all(is_constant),
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).all(is_constant),
        _ => false,
    }
}

/// One turn of a loop.
struct Element {
    /// The index in a list, or the key of a map, as it is written between brackets.
    place: String,
    bound: Value,
}

impl Element {
    fn numbered((index, bound): (usize, Value)) -> Self {
        let place = index.to_string();
        Self { place, bound }
    }

    fn keyed((key, _): &(Answer, Answer)) -> Option<Self> {
        Some(Self {
            place: phrase::of(key)?,
            bound: Value::from_answer(key)?,
        })
    }

    fn label(&self, range: &str, is_named: bool) -> String {
        match self.bound.member_text("name").filter(|_| is_named) {
            Some(name) => format!("{range}[{}] ({})", self.place, phrase::plain(&name)),
            None => format!("{range}[{}]", self.place),
        }
    }
}

/// `all` or `exists`.
struct Quantifier<'a> {
    range: &'a IdedExpr,
    body: &'a IdedExpr,
    variable: &'a str,
    is_for_all: bool,
}

impl<'a> Quantifier<'a> {
    /// What the macros of the standard make of `range.all(variable, body)` and of `exists`.
    fn of(comprehension: &'a ComprehensionExpr) -> Option<Self> {
        let Expr::Literal(LiteralValue::Boolean(begins)) = &comprehension.accu_init.expr else {
            return None;
        };
        let is_for_all = *begins.inner();
        let Expr::Call(step) = &comprehension.loop_step.expr else {
            return None;
        };
        let joined = if is_for_all {
            operators::LOGICAL_AND
        } else {
            operators::LOGICAL_OR
        };
        let is_accumulator =
            |expr: &IdedExpr| matches!(&expr.expr, Expr::Ident(name) if *name == comprehension.accu_var);
        match step.args.as_slice() {
            [before, body]
                if step.func_name == joined && is_accumulator(before) && is_accumulator(&comprehension.result) =>
            {
                Some(Self {
                    range: &comprehension.iter_range,
                    body,
                    variable: &comprehension.iter_var,
                    is_for_all,
                })
            }
            _ => None,
        }
    }
}
