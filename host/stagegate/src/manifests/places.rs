//! The places of a document's values, by JSON pointer. Must not hold the values.

use std::collections::BTreeMap;

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span};

use super::{Position, TextSpan};

/// The places of all values of one document.
#[derive(Debug)]
pub struct Places {
    root: TextSpan,
    by_pointer: BTreeMap<String, Value>,
}

#[derive(Debug)]
struct Value {
    place: TextSpan,
    /// How the text at the place corresponds to the value's.
    style: Style,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// Character by character on one line, after this many of opening quote.
    Line {
        quote: usize,
    },
    /// Line by line, the first of them here, after this many spaces.
    Block {
        first_line: usize,
        indentation: usize,
    },
    Other,
}

/// The documents of a text that are not empty.
pub(super) fn of_documents(text: &str) -> Result<Vec<Places>, (TextSpan, String)> {
    let mut documents = Vec::new();
    let mut reading = Reading {
        text,
        ..Reading::default()
    };
    for next in Parser::new_from_str(text) {
        let (event, span) = next.map_err(|error| {
            let mark = error.marker();
            (TextSpan::at(text, mark.line(), mark.col() + 1), error.info())
        })?;
        match event {
            Event::DocumentStart(..) => {
                reading = Reading {
                    text,
                    ..Reading::default()
                }
            }
            // kubectl drops such a tag and what it is the beginning of: `condition: !has(x)` would be an empty condition.
            Event::Scalar(_, _, _, Some(tag)) if !tag.is_yaml_core_schema() => {
                let place = TextSpan::at(text, span.start.line(), span.start.col() + 1);
                let message = "a value that begins with `!` is a tag in YAML: quote it, or write it below `|`";
                return Err((place, message.to_owned()));
            }
            Event::DocumentEnd => documents.extend(std::mem::take(&mut reading).finish()),
            event => reading.take(&event, &span),
        }
    }
    Ok(documents)
}

impl Places {
    pub(super) fn of(&self, pointer: &str) -> TextSpan {
        self.nearest(pointer)
            .map_or_else(|| self.root.clone(), |value| value.place.clone())
    }

    pub(super) fn within(&self, text: &str, pointer: &str, at: Position) -> TextSpan {
        let Position { line, column } = at;
        let Some(value) = self.nearest(pointer) else {
            return self.root.clone();
        };
        match value.style {
            Style::Line { quote } if line == 1 => TextSpan::at(
                text,
                value.place.line,
                value.place.column + quote + column.saturating_sub(1),
            ),
            Style::Block {
                first_line,
                indentation,
            } => TextSpan::at(text, first_line + line.saturating_sub(1), indentation + column),
            Style::Line { .. } | Style::Other => value.place.clone(),
        }
    }

    fn nearest(&self, pointer: &str) -> Option<&Value> {
        let mut pointer = pointer;
        loop {
            if let Some(value) = self.by_pointer.get(pointer) {
                return Some(value);
            }
            pointer = &pointer[..pointer.rfind('/')?];
        }
    }
}

/// The parser's span of a literal block begins at its first line with something on it.
fn block(value: &str, span: &Span) -> Style {
    let blank = value.chars().take_while(|character| *character == '\n').count();
    Style::Block {
        first_line: span.start.line().saturating_sub(blank),
        indentation: span.start.col(),
    }
}

/// A document under way: the pointers of the open collections, and what the next value in each is called.
#[derive(Default)]
struct Reading<'t> {
    text: &'t str,
    root: Option<TextSpan>,
    root_is_null: bool,
    by_pointer: BTreeMap<String, Value>,
    open: Vec<Collection>,
}

struct Collection {
    pointer: String,
    next: Next,
}

enum Next {
    Index(usize),
    Key,
    ValueOf(String),
}

impl Reading<'_> {
    fn take(&mut self, event: &Event<'_>, span: &Span) {
        match event {
            Event::Scalar(value, style, ..) => self.scalar(value, *style, span),
            Event::Alias(_) => drop(self.value(span, Style::Other)),
            Event::SequenceStart(..) => {
                let pointer = self.value(span, Style::Other);
                self.open.push(Collection {
                    pointer,
                    next: Next::Index(0),
                });
            }
            Event::MappingStart(..) => {
                let pointer = self.value(span, Style::Other);
                self.open.push(Collection {
                    pointer,
                    next: Next::Key,
                });
            }
            Event::SequenceEnd | Event::MappingEnd => drop(self.open.pop()),
            _ => {}
        }
    }

    fn scalar(&mut self, value: &str, style: ScalarStyle, span: &Span) {
        if let Some(Collection {
            next: next @ Next::Key, ..
        }) = self.open.last_mut()
        {
            *next = Next::ValueOf(value.replace('~', "~0").replace('/', "~1"));
            return;
        }
        let raw = span.slice(self.text).unwrap_or_default();
        let style = match style {
            ScalarStyle::Plain if raw == value => Style::Line { quote: 0 },
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted if raw.get(1..1 + value.len()) == Some(value) => {
                Style::Line { quote: 1 }
            }
            ScalarStyle::Literal => block(value, span),
            _ => Style::Other,
        };
        if self.open.is_empty() {
            self.root_is_null = raw.is_empty() || raw == "null" || raw == "~";
        }
        self.value(span, style);
    }

    /// Notes the place of a value and answers its pointer.
    fn value(&mut self, span: &Span, style: Style) -> String {
        let pointer = match self.open.last_mut() {
            None => String::new(),
            Some(Collection { pointer, next }) => match next {
                Next::Index(index) => {
                    *index += 1;
                    format!("{pointer}/{}", *index - 1)
                }
                Next::ValueOf(key) => {
                    let pointer = format!("{pointer}/{key}");
                    *next = Next::Key;
                    pointer
                }
                // A collection as a key: no JSON, which the reader of values refuses.
                Next::Key => format!("{pointer}/?"),
            },
        };
        let place = place_of(span, self.text);
        if self.root.is_none() {
            self.root = Some(place.clone());
        }
        self.by_pointer.insert(pointer.clone(), Value { place, style });
        pointer
    }

    fn finish(self) -> Option<Places> {
        let root = self.root.filter(|_| !self.root_is_null)?;
        Some(Places {
            root,
            by_pointer: self.by_pointer,
        })
    }
}

/// The first line of what a span covers: a caret under a whole mapping says nothing. The span of a collection in block
/// style covers nothing, so its first line is the rest of the one it begins on.
fn place_of(span: &Span, text: &str) -> TextSpan {
    let start = span.start.byte_offset().unwrap_or_default();
    let end = span.end.byte_offset().filter(|end| *end > start).unwrap_or(text.len());
    let covered = text.get(start..end).unwrap_or_default();
    let length = covered.split('\n').next().map_or(0, |line| line.trim_end().len());
    TextSpan {
        line: span.start.line(),
        column: span.start.col() + 1,
        bytes: start..start + length,
    }
}
