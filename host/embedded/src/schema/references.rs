//! Whether a rule names fields that its schema does not have. A real API server compiles rules against the schema's types; rules here have
//! no types, and one that can never be true would be found only by the first object. Must not refuse what it does not understand: only
//! chains of plain selections from `self` and `oldSelf` are followed.

use std::iter::Peekable;
use std::str::CharIndices;

use super::identifiers::escaped;
use super::node::Schema;

/// Fields of every resource, and what a rule may see of its metadata.
const OF_RESOURCES: &[&str] = &["apiVersion", "kind", "metadata"];
const OF_METADATA: &[&str] = &["name", "generateName"];

/// The first field that a rule at this node selects and that is not declared.
pub(super) fn undeclared(rule: &str, schema: &Schema) -> Option<String> {
    let mut rest = rule.char_indices().peekable();
    let mut selected = false;
    while let Some((at, character)) = rest.next() {
        match character {
            '"' | '\'' => skip_text(&mut rest, character),
            _ if is_word(character) => {
                let word = word_at(rule, at, &mut rest);
                if !selected
                    && matches!(word, "self" | "oldSelf")
                    && let Some(field) = follow(rule, &mut rest, schema)
                {
                    return Some(field);
                }
            }
            _ => {}
        }
        selected = character == '.' || selected && character.is_whitespace();
    }
    None
}

type Rest<'r> = Peekable<CharIndices<'r>>;

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn word_at<'r>(rule: &'r str, from: usize, rest: &mut Rest<'r>) -> &'r str {
    while rest.next_if(|(_, character)| is_word(*character)).is_some() {}
    let end = rest.peek().map_or(rule.len(), |(at, _)| *at);
    &rule[from..end]
}

fn skip_text(rest: &mut Rest<'_>, quote: char) {
    while let Some((_, character)) = rest.next() {
        match character {
            '\\' => {
                rest.next();
            }
            _ if character == quote => return,
            _ => {}
        }
    }
}

fn skip_blanks(rest: &mut Rest<'_>) {
    while rest.next_if(|(_, character)| character.is_whitespace()).is_some() {}
}

/// Follows `.a.b` from a node; whatever else comes ends it.
fn follow<'r>(rule: &'r str, rest: &mut Rest<'r>, mut schema: &Schema) -> Option<String> {
    loop {
        skip_blanks(rest);
        rest.next_if(|(_, character)| *character == '.')?;
        skip_blanks(rest);
        let (from, _) = *rest.peek().filter(|(_, character)| is_word(*character))?;
        let field = word_at(rule, from, rest);
        skip_blanks(rest);
        if rest.peek().is_some_and(|(_, character)| *character == '(') {
            return None;
        }
        if schema.resource && OF_RESOURCES.contains(&field) {
            return match field {
                "metadata" => foreign_metadata(rule, rest),
                _ => None,
            };
        }
        let declared = schema.properties.iter().find(|(name, _)| escaped(name) == field);
        schema = match (declared, &schema.additional) {
            (Some((_, child)), _) => child,
            (None, Some(values)) => values,
            (None, None) if schema.keeps_unknown() || schema.is_open() => return None,
            (None, None) => return Some(field.to_owned()),
        };
    }
}

fn foreign_metadata<'r>(rule: &'r str, rest: &mut Rest<'r>) -> Option<String> {
    rest.next_if(|(_, character)| *character == '.')?;
    let (from, _) = *rest.peek().filter(|(_, character)| is_word(*character))?;
    let field = word_at(rule, from, rest);
    (!OF_METADATA.contains(&field)).then(|| field.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::undeclared;
    use crate::schema::compile;

    #[test]
    fn only_what_is_not_declared_is_found() {
        let schema = compile(
            &json!({"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    "a-b": {"type": "string"},
                    "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {"type": "string"}}}},
                    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }},
            }}),
            "schema",
        );
        let schema = schema.unwrap_or_else(|causes| panic!("{causes:?}"));
        for (rule, wanted) in [
            ("self.nothing == 1", Some("nothing")),
            ("has(self.spec.none)", Some("none")),
            ("self.spec . a__dash__b == 'self.none'", None),
            ("self.spec.a__dash__b.size() > 1", None),
            ("self.spec.a__dash__b.size", Some("size")),
            ("self.spec.map.key.x == \"\\\"self.none\"", None),
            ("self.spec.map.key.y == ''", Some("y")),
            ("self.spec.any.thing.at.all", None),
            ("other.self.nothing && oldSelf.gone", Some("gone")),
            ("self.metadata.name == self.kind", None),
            ("self.metadata.labels.size() == 0", Some("labels")),
            ("self.spec.map.all(k, self.spec.map[k].x == k)", None),
        ] {
            assert_eq!(undeclared(rule, &schema).as_deref(), wanted, "{rule}");
        }
    }
}
