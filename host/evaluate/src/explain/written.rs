//! The part of the text that an expression was parsed from. The parser keeps one token of each expression, such as the operator or the
//! opening parenthesis; the rest is found around the tokens of all its parts.

use cel::common::ast::{EntryExpr, Expr, IdedExpr, SourceInfo};

use crate::error::cut;

/// The longest part that is repeated, in characters.
const PART_CHARS: usize = 80;
/// The longest part whose brackets are balanced, in characters.
const LOOKED_AT: usize = 1024;

/// A text and where its tokens are.
pub(crate) struct Written<'a> {
    source: &'a SourceInfo,
    text: Vec<char>,
}

impl<'a> Written<'a> {
    pub(crate) fn new(source: &'a SourceInfo) -> Self {
        let text = source.source.chars().collect();
        Self { source, text }
    }

    /// The part in backticks.
    pub(super) fn quoted(&self, expr: &IdedExpr) -> String {
        match self.of(expr) {
            Some(text) => format!("`{text}`"),
            None => "the expression".to_owned(),
        }
    }

    /// The part on one line, cut where it is long. `None` if it cannot be found.
    pub(crate) fn of(&self, expr: &IdedExpr) -> Option<String> {
        let mut span = Span::default();
        self.tokens(expr, &mut span);
        let (start, end) = self.whole(span)?;
        let words: String = self.text.get(start..end)?.iter().collect();
        let words: Vec<&str> = words.split_whitespace().collect();
        Some(cut(&words.join(" "), PART_CHARS))
    }

    /// The first and the last token of the expression and its parts.
    fn tokens(&self, expr: &IdedExpr, span: &mut Span) {
        self.token(expr.id, span);
        match &expr.expr {
            Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => {}
            Expr::Select(select) => self.tokens(&select.operand, span),
            Expr::List(list) => list.elements.iter().for_each(|element| self.tokens(element, span)),
            Expr::Map(map) => map.entries.iter().for_each(|entry| {
                self.token(entry.id, span);
                self.entry(&entry.expr, span);
            }),
            Expr::Struct(made) => made.entries.iter().for_each(|entry| self.entry(&entry.expr, span)),
            Expr::Comprehension(comprehension) => {
                for part in [
                    &comprehension.iter_range,
                    &comprehension.accu_init,
                    &comprehension.loop_cond,
                    &comprehension.loop_step,
                    &comprehension.result,
                ] {
                    self.tokens(part, span);
                }
            }
            Expr::Call(call) => {
                let parts = call.target.as_deref().into_iter().chain(&call.args);
                parts.for_each(|part| self.tokens(part, span));
            }
        }
    }

    fn entry(&self, entry: &EntryExpr, span: &mut Span) {
        match entry {
            EntryExpr::StructField(field) => self.tokens(&field.value, span),
            EntryExpr::MapEntry(entry) => {
                self.tokens(&entry.key, span);
                self.tokens(&entry.value, span);
            }
        }
    }

    fn token(&self, id: u64, span: &mut Span) {
        let Some((start, last)) = self.source.offset_for(id) else {
            return;
        };
        if let (Ok(start), Ok(last)) = (usize::try_from(start), usize::try_from(last)) {
            span.0 = Some(
                span.0
                    .map_or((start, last + 1), |(first, end)| (first.min(start), end.max(last + 1))),
            );
        }
    }

    /// From the first to the last character.
    fn whole(&self, span: Span) -> Option<(usize, usize)> {
        let (mut start, mut end) = span.0?;
        // A function's name stands before its parenthesis, and a member's name behind its dot.
        if self.text.get(start) == Some(&'(') {
            start = self.back_while(start, |character| is_of_name(character) || character == '.');
        }
        start = self.back_while(start, |character| character == '.');
        if end.checked_sub(1).and_then(|last| self.text.get(last)) == Some(&'.') {
            end = self.on_while(end, |character| character == '?' || character.is_whitespace());
            end = self.on_while(end, |character| is_of_name(character) || character == '`');
        }
        // Of a longer part the end is not shown.
        while end - start <= LOOKED_AT {
            let (unopened, unclosed) = brackets(self.text.get(start..end)?);
            if unopened > 0 {
                start = self.back_while(start, char::is_whitespace).checked_sub(1)?;
            } else if unclosed > 0 {
                end += 1;
            } else {
                return Some((start, end));
            }
            // Past the text: a bracket in a literal of a kind that is not known here.
            self.text.get(end - 1)?;
        }
        Some((start, end))
    }

    fn back_while(&self, mut start: usize, is_part: impl Fn(char) -> bool) -> usize {
        while start > 0 && self.text.get(start - 1).copied().is_some_and(&is_part) {
            start -= 1;
        }
        start
    }

    fn on_while(&self, mut end: usize, is_part: impl Fn(char) -> bool) -> usize {
        while self.text.get(end).copied().is_some_and(&is_part) {
            end += 1;
        }
        end
    }
}

/// The first character, and the one behind the last.
#[derive(Clone, Copy, Default)]
struct Span(Option<(usize, usize)>);

fn is_of_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// How many brackets are closed without being opened, and opened without being closed. Those in literals do not count.
fn brackets(text: &[char]) -> (usize, usize) {
    let (mut unopened, mut open) = (0, 0);
    let mut quote = None;
    let mut characters = text.iter();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(_), '\\') => drop(characters.next()),
            (Some(opened), closes) if opened == closes => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '(' | '[' | '{') => open += 1,
            (None, ')' | ']' | '}') if open > 0 => open -= 1,
            (None, ')' | ']' | '}') => unopened += 1,
            (None, _) => {}
        }
    }
    (unopened, open)
}
