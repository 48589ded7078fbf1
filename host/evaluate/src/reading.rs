//! What an expression reads, as its syntax tree tells: which members of which variables, what it compares with what, and whether it
//! is constant. For advice only: must not refuse anything.

use crate::compile::SOURCE_BYTES;
use crate::explain::written::Written as Text;
use crate::library::Library;
use crate::threads;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SourceInfo, operators};
use std::collections::{BTreeMap, BTreeSet};

/// The longest operand that is repeated, in characters: advice has room for it.
const OPERAND_CHARS: usize = 40;

/// What an expression reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Its free variables.
    pub variables: BTreeSet<String>,
    /// All member names, of whatever value.
    pub fields: BTreeSet<String>,
    /// Members of free variables, and of their elements.
    pub members: Vec<Member>,
    /// By the name of a member that is read, not tested, what it is read of, as it is written: `c` for `c.available`. `None` stands for
    /// what is no chain of names and indexes, or is long.
    pub operands: BTreeMap<String, BTreeSet<Option<String>>>,
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
    /// `r.name == "a"` in `x.results.all(r, …)`, and for `x.results[0].name == "a"`.
    pub list: Option<String>,
    /// The free variable that the member's value comes from: `x` in both examples.
    pub root: Option<String>,
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

/// What `text` reads; `None` if it does not parse or is longer than what is compiled, as the stack that a tree takes grows with it.
pub fn reading(text: &str) -> Option<Reading> {
    if text.len() > SOURCE_BYTES {
        return None;
    }
    let text = text.to_owned();
    threads::run(move || {
        let (tree, source) = Library::Extended.env().parser().parse_with_source_info(&text).ok()?;
        let mut reader = Reader {
            characters: source.source.chars().collect(),
            source: &source,
            text: Text::new(&source),
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
    text: Text<'a>,
    /// The variables of macros, innermost last.
    scope: Vec<(&'a str, Bound<'a>)>,
    reading: Reading,
}

/// What a variable of a macro stands for.
#[derive(Clone, Copy)]
enum Bound<'a> {
    /// A value that has another name, too, or a name of its own.
    Same(Range<'a>),
    /// Each of the elements of a value.
    Element(Range<'a>),
}

/// A value that a loop can go over.
#[derive(Clone, Copy, Default)]
struct Range<'a> {
    /// A free variable itself.
    variable: Option<&'a str>,
    /// The last name of a chain.
    last: Option<&'a str>,
    /// The free variable that a chain begins with.
    root: Option<&'a str>,
}

impl<'a> Reader<'a> {
    fn expression(&mut self, expr: &'a IdedExpr) {
        match &expr.expr {
            Expr::Ident(name) => {
                let free = self.free(name).map(str::to_owned);
                self.reading.variables.extend(free);
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
        let range = self.value(&comprehension.iter_range);
        let accumulator = self.bound_to(&comprehension.accu_init);
        let outside = self.scope.len();
        self.scope.push((&comprehension.accu_var, accumulator));
        self.expression(&comprehension.loop_cond);
        self.expression(&comprehension.result);
        self.scope.push((&comprehension.iter_var, Bound::Element(range)));
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
        if !is_tested {
            let text = Some(of).filter(|of| is_chain(of)).and_then(|of| self.text.of(of));
            let text = text.filter(|text| text.chars().count() <= OPERAND_CHARS);
            self.reading.operands.entry(name.to_owned()).or_default().insert(text);
        }
        let (of, is_of_elements) = match self.bound_to(of) {
            Bound::Same(range) => (range.variable, false),
            Bound::Element(range) => (range.variable, true),
        };
        let Some(of) = of else { return };
        self.reading.members.push(Member {
            of: of.to_owned(),
            is_of_elements,
            name: name.to_owned(),
            is_tested,
            place,
        });
    }

    fn comparison(&mut self, (member, literal): (&'a IdedExpr, &'a IdedExpr), is_for_equality: bool) {
        let Some(with) = written(literal) else { return };
        let (of, name, place) = match (&member.expr, indexed(member)) {
            (Expr::Select(select), _) => (&*select.operand, select.field.clone(), self.place(member, 1)),
            (_, Some((of, key))) => match written(key) {
                Some(Written::Text(name)) => (of, name, self.place(key, 0)),
                _ => return,
            },
            _ => return,
        };
        let (list, root) = match self.bound_to(of) {
            Bound::Same(range) => (None, range.root),
            Bound::Element(range) => (range.last, range.root),
        };
        let place = match with {
            Written::Text(_) => self.place(literal, 0),
            Written::Number => place,
        };
        self.reading.comparisons.push(Comparison {
            member: name,
            list: list.map(str::to_owned),
            root: root.map(str::to_owned),
            with,
            is_for_equality,
            place,
        });
    }

    /// What a variable would stand for that has this value.
    fn bound_to(&self, expr: &'a IdedExpr) -> Bound<'a> {
        match (&expr.expr, indexed(expr)) {
            (Expr::Ident(name), _) => match self.bound(name) {
                Some(bound) => bound,
                None => Bound::Same(self.value(expr)),
            },
            (_, Some((of, key))) if !matches!(written(key), Some(Written::Text(_))) => Bound::Element(self.value(of)),
            _ => Bound::Same(self.value(expr)),
        }
    }

    fn value(&self, expr: &'a IdedExpr) -> Range<'a> {
        let root = self.root(expr);
        match &expr.expr {
            Expr::Ident(name) => match self.bound(name) {
                Some(Bound::Same(range)) => range,
                Some(Bound::Element(_)) => Range {
                    root,
                    ..Range::default()
                },
                None => Range {
                    variable: root,
                    last: root,
                    root,
                },
            },
            Expr::Select(select) => Range {
                variable: None,
                last: Some(&select.field),
                root,
            },
            _ => Range {
                root,
                ..Range::default()
            },
        }
    }

    /// The free variable that a chain of members, indexes, methods and loops begins with.
    fn root(&self, expr: &'a IdedExpr) -> Option<&'a str> {
        let mut expr = expr;
        loop {
            expr = match &expr.expr {
                Expr::Ident(name) => {
                    return match self.bound(name) {
                        Some(Bound::Same(range) | Bound::Element(range)) => range.root,
                        None => self.free(name),
                    };
                }
                Expr::Select(select) => &select.operand,
                Expr::Comprehension(comprehension) => &comprehension.iter_range,
                Expr::Call(call) => match (&call.target, indexed(expr)) {
                    (Some(target), _) => target,
                    (None, Some((of, _))) => of,
                    (None, None) => return None,
                },
                _ => return None,
            };
        }
    }

    /// What the variable of a macro stands for; `None` for a free one.
    fn bound(&self, name: &str) -> Option<Bound<'a>> {
        let found = self.scope.iter().rfind(|(known, _)| *known == name);
        found.map(|(_, bound)| *bound)
    }

    /// The name of a free variable. With a dot before it, no macro binds it.
    fn free<'n>(&self, name: &'n str) -> Option<&'n str> {
        let is_free = |name: &&str| self.bound(name).is_none();
        name.strip_prefix('.').or_else(|| Some(name).filter(is_free))
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

/// Whether it is a name, followed by nothing but members and indexes that are names or literals.
fn is_chain(expr: &IdedExpr) -> bool {
    let mut expr = expr;
    loop {
        expr = match (&expr.expr, indexed(expr)) {
            (Expr::Ident(_), _) => return true,
            (Expr::Select(select), _) if !select.test => &select.operand,
            (_, Some((of, key))) if matches!(&key.expr, Expr::Literal(_) | Expr::Ident(_)) => of,
            _ => return false,
        };
    }
}

/// The operands of `x[y]`.
fn indexed(expr: &IdedExpr) -> Option<(&IdedExpr, &IdedExpr)> {
    match &expr.expr {
        Expr::Call(call) if call.func_name == operators::INDEX => match call.args.as_slice() {
            [of, key] => Some((of, key)),
            _ => None,
        },
        _ => None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_to_compile_is_not_read() {
        let (deep, wide) = (format!("obj{}", ".a".repeat(200_000)), "obj.a, ".repeat(80_000));
        assert_eq!(reading(&deep), None);
        assert_eq!(reading(&format!("obj == [{wide}]")), None);
        let most = format!("obj{}", ".a".repeat((SOURCE_BYTES - 3) / 2));
        assert!(reading(&most).is_some_and(|reading| reading.variables.contains("obj")));
    }

    #[test]
    fn members_are_those_of_variables_and_of_their_elements() {
        let cases = [
            ("clusters.size", ("clusters", false, "size")),
            ("clusters.all(c, c.available > 0)", ("clusters", true, "available")),
            ("clusters.all(i, c, c.available > 0)", ("clusters", true, "available")),
            (
                "clusters.transformList(i, c, i > 0, c.available)",
                ("clusters", true, "available"),
            ),
            ("clusters[0].available", ("clusters", true, "available")),
            (
                "cel.bind(all, clusters, all.all(c, c.available > 0))",
                ("clusters", true, "available"),
            ),
            (
                "cel.bind(c, clusters[0], c.available > 0)",
                ("clusters", true, "available"),
            ),
            ("[1].all(clusters, .clusters.size > 0)", ("clusters", false, "size")),
        ];
        for (text, wanted) in cases {
            let reading = reading(text).expect(text);
            let found = reading.members.iter();
            let found: Vec<_> = found
                .map(|member| (member.of.as_str(), member.is_of_elements, member.name.as_str()))
                .collect();
            assert_eq!(found, [wanted], "{text}");
            assert_eq!(reading.variables.iter().collect::<Vec<_>>(), ["clusters"], "{text}");
        }
        for text in [
            "clusters.all(i, c, i.available > 0)",
            "[1].all(clusters, clusters.size > 0)",
        ] {
            assert_eq!(reading(text).expect(text).members, [], "{text}");
        }
    }

    #[test]
    fn what_a_member_is_read_of_is_known_as_it_is_written() {
        let cases = [
            ("clusters.all(c, c.n > 0)", vec![Some("c")]),
            ("clusters.all(i, c, c.n > 0)", vec![Some("c")]),
            ("obj.a['b'][0] . n > 0", vec![Some("obj.a['b'][0]")]),
            ("obj[ 'n' ] == 1 || obj.n > 2", vec![Some("obj")]),
            ("obj.n == 1 || clusters.all(c, c.n > 0)", vec![Some("c"), Some("obj")]),
            ("(obj.a == 1 ? obj.b : obj.c).n", vec![None]),
            ("clusters.filter(c, true)[0].n", vec![None]),
            ("obj.a_name_that_is_so_long_that_there_is_no_room_for_it.n", vec![None]),
            (
                "has(obj.n) || 'n' in obj || obj.?n.hasValue() || obj[?'n'].hasValue()",
                vec![],
            ),
        ];
        for (text, wanted) in cases {
            let reading = reading(text).expect(text);
            let found = reading.operands.get("n").into_iter().flatten();
            assert_eq!(found.map(Option::as_deref).collect::<Vec<_>>(), wanted, "{text}");
        }
    }

    #[test]
    fn a_comparison_names_the_list_and_the_variable_that_its_member_comes_from() {
        let cases = [
            (
                "obj.results.all(r, r.name == 'a')",
                ("name", Some("results"), Some("obj")),
            ),
            (
                "obj.results.all(i, r, r.name == 'a')",
                ("name", Some("results"), Some("obj")),
            ),
            ("obj.results[0].name == 'a'", ("name", Some("results"), Some("obj"))),
            (
                "collectors['cpu'].all(r, r.float <= 3.0)",
                ("float", None, Some("collectors")),
            ),
            (
                "collectors['cpu'].filter(r, true)[0].float <= 3.0",
                ("float", None, Some("collectors")),
            ),
            (
                "obj.rows[0].columns[1]['float'] == 3",
                ("float", Some("columns"), Some("obj")),
            ),
        ];
        for (text, wanted) in cases {
            let reading = reading(text).expect(text);
            let found = reading.comparisons.iter();
            let found: Vec<_> = found
                .map(|one| (one.member.as_str(), one.list.as_deref(), one.root.as_deref()))
                .collect();
            assert_eq!(found, [wanted], "{text}");
        }
    }
}
