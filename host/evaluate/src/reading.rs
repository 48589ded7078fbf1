//! What an expression reads, as its syntax tree tells: which members of which variables, what it compares with what, and whether it
//! is constant. For advice only: must not refuse anything.

use crate::library::Library;
use crate::threads;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SourceInfo, operators};
use std::collections::BTreeSet;

/// What an expression reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Its free variables.
    pub variables: BTreeSet<String>,
    /// All member names, of whatever value.
    pub fields: BTreeSet<String>,
    /// Members of free variables, and of their elements.
    pub members: Vec<Member>,
    /// Comparisons of a member with a literal.
    pub comparisons: Vec<Comparison>,
    /// What it gives whatever its variables are, where literals alone decide that, as in `true || x`.
    pub always: Option<bool>,
}

/// `variable.name` or `variable["name"]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The variable.
    pub of: String,
    /// It is a member of the variable's elements: `x.name` in `variable.all(x, …)`.
    pub is_of_elements: bool,
    pub name: String,
    /// Whether it is there is all that is asked, or it may be absent: `has(variable.name)`, `variable.?name`.
    pub is_tested: bool,
    pub place: Place,
}

/// A comparison of a member with a literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The member's name.
    pub member: String,
    /// Where the member is one of a loop's variable, the last name of what the loop goes over: `results` for
    /// `r.name == "a"` in `x.results.all(r, …)`.
    pub list: Option<String>,
    pub with: Written,
    /// By `==` or `in`.
    pub is_for_equality: bool,
    /// Of a text, the literal; otherwise the member's name.
    pub place: Place,
}

/// A literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    Text(String),
    Number,
}

/// Both counted from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub line: u32,
    pub column: u32,
}

/// What `text` reads; `None` if it does not parse.
pub fn reading(text: &str) -> Option<Reading> {
    let text = text.to_owned();
    threads::run(move || {
        let (tree, source) = Library::Extended.env().parser().parse_with_source_info(&text).ok()?;
        let mut reader = Reader {
            characters: source.source.chars().collect(),
            source: &source,
            scope: Vec::new(),
            reading: Reading::default(),
        };
        reader.expression(&tree);
        let always = constant(&tree);
        Some(Reading {
            always,
            ..reader.reading
        })
    })
    .ok()
    .flatten()
}

struct Reader<'a> {
    source: &'a SourceInfo,
    characters: Vec<char>,
    /// The variables of macros, innermost last.
    scope: Vec<(&'a str, Range<'a>)>,
    reading: Reading,
}

/// What a loop goes over.
#[derive(Clone, Copy, Default)]
struct Range<'a> {
    /// A free variable itself.
    variable: Option<&'a str>,
    /// The last name of a chain.
    last: Option<&'a str>,
}

impl<'a> Reader<'a> {
    fn expression(&mut self, expr: &'a IdedExpr) {
        match &expr.expr {
            Expr::Ident(name) => {
                if !self.is_bound(name) {
                    self.reading.variables.insert(name.clone());
                }
            }
            Expr::Select(select) => {
                self.reading.fields.insert(select.field.clone());
                let place = self.place(expr, 1);
                self.member(&select.operand, &select.field, (select.test, place));
                self.expression(&select.operand);
            }
            Expr::List(list) => list.elements.iter().for_each(|element| self.expression(element)),
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.expression(&entry.key);
                        self.expression(&entry.value);
                    }
                }
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Call(call) => self.call(call),
            Expr::Unspecified | Expr::Literal(_) | Expr::Struct(_) => {}
        }
    }

    fn comprehension(&mut self, comprehension: &'a ComprehensionExpr) {
        self.expression(&comprehension.iter_range);
        self.expression(&comprehension.accu_init);
        let range = match &comprehension.iter_range.expr {
            Expr::Ident(name) if !self.is_bound(name) => Range {
                variable: Some(name),
                last: Some(name),
            },
            Expr::Select(select) => Range {
                variable: None,
                last: Some(&select.field),
            },
            _ => Range::default(),
        };
        let outside = self.scope.len();
        self.scope.push((&comprehension.accu_var, Range::default()));
        self.expression(&comprehension.loop_cond);
        self.expression(&comprehension.result);
        self.scope.push((&comprehension.iter_var, range));
        self.expression(&comprehension.loop_step);
        self.scope.truncate(outside);
    }

    fn call(&mut self, call: &'a CallExpr) {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (name @ (operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT), [of, key]) => {
                if let Some(Written::Text(field)) = written(key) {
                    self.reading.fields.insert(field.clone());
                    let place = self.place(key, 0);
                    self.member(of, &field, (name != operators::INDEX, place));
                }
            }
            (operators::IN, [key, list]) => match (&list.expr, written(key)) {
                (_, Some(Written::Text(field))) => {
                    let place = self.place(key, 0);
                    self.member(list, &field, (true, place));
                }
                (Expr::List(list), _) => {
                    for element in &list.elements {
                        self.comparison((key, element), true);
                    }
                }
                _ => {}
            },
            (
                name @ (operators::EQUALS
                | operators::NOT_EQUALS
                | operators::LESS
                | operators::LESS_EQUALS
                | operators::GREATER
                | operators::GREATER_EQUALS),
                [one, other],
            ) => {
                self.comparison((one, other), name == operators::EQUALS);
                self.comparison((other, one), name == operators::EQUALS);
            }
            _ => {}
        }
        call.target.iter().for_each(|target| self.expression(target));
        call.args.iter().for_each(|argument| self.expression(argument));
    }

    fn member(&mut self, of: &'a IdedExpr, name: &str, (is_tested, place): (bool, Place)) {
        let Expr::Ident(variable) = &of.expr else { return };
        let (of, is_of_elements) = match self.range(variable) {
            None => (variable.as_str(), false),
            Some(Range {
                variable: Some(variable),
                ..
            }) => (variable, true),
            Some(_) => return,
        };
        self.reading.members.push(Member {
            of: of.to_owned(),
            is_of_elements,
            name: name.to_owned(),
            is_tested,
            place,
        });
    }

    fn comparison(&mut self, (member, literal): (&'a IdedExpr, &'a IdedExpr), is_for_equality: bool) {
        let (Expr::Select(select), Some(with)) = (&member.expr, written(literal)) else {
            return;
        };
        let list = match &select.operand.expr {
            Expr::Ident(name) => self.range(name).and_then(|range| range.last),
            _ => None,
        };
        let place = match with {
            Written::Text(_) => self.place(literal, 0),
            Written::Number => self.place(member, 1),
        };
        self.reading.comparisons.push(Comparison {
            member: select.field.clone(),
            list: list.map(str::to_owned),
            with,
            is_for_equality,
            place,
        });
    }

    /// What the variable of a macro goes over; `None` for a free one.
    fn range(&self, name: &str) -> Option<Range<'a>> {
        let found = self.scope.iter().rfind(|(known, _)| *known == name);
        found.map(|(_, range)| *range)
    }

    fn is_bound(&self, name: &str) -> bool {
        self.range(name).is_some()
    }

    /// Where the expression stands, and so many characters on, as far as these are not names: the parser places a member at its dot.
    fn place(&self, expr: &IdedExpr, further: usize) -> Place {
        let start = self.source.offset_for(expr.id).map_or(0, |(start, _)| start);
        let start = usize::try_from(start).unwrap_or(usize::MAX).min(self.characters.len());
        let is_dot = self.characters.get(start) == Some(&'.');
        let end = if is_dot { start + further } else { start };
        let (mut line, mut column) = (1, 1);
        for c in self.characters.iter().take(end) {
            (line, column) = if *c == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        Place { line, column }
    }
}

fn written(expr: &IdedExpr) -> Option<Written> {
    match &expr.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(Written::Text(text.inner().to_owned())),
        Expr::Literal(LiteralValue::Int(_) | LiteralValue::UInt(_) | LiteralValue::Double(_)) => Some(Written::Number),
        Expr::Call(call) if call.func_name == operators::NEGATE => written(call.args.first()?),
        _ => None,
    }
}

fn constant(expr: &IdedExpr) -> Option<bool> {
    let call = match &expr.expr {
        Expr::Literal(LiteralValue::Boolean(value)) => return Some(*value.inner()),
        Expr::Call(call) => call,
        _ => return None,
    };
    match (call.func_name.as_str(), call.args.as_slice()) {
        (operators::LOGICAL_NOT, [one]) => constant(one).map(|value| !value),
        (operators::LOGICAL_OR, [one, other]) => joined((constant(one), constant(other)), true),
        (operators::LOGICAL_AND, [one, other]) => joined((constant(one), constant(other)), false),
        (operators::CONDITIONAL, [condition, one, other]) => match constant(condition) {
            Some(true) => constant(one),
            Some(false) => constant(other),
            None => constant(one).filter(|one| constant(other) == Some(*one)),
        },
        _ => None,
    }
}

/// `||` if `deciding` is true, else `&&`.
fn joined((one, other): (Option<bool>, Option<bool>), deciding: bool) -> Option<bool> {
    if one == Some(deciding) || other == Some(deciding) {
        return Some(deciding);
    }
    one.and(other)
}
