//! What one expression's text tells: whether it compiles, which collectors it reads, and what is known to go wrong.

use stagegate_decide::staging::{Root, Variable};
use stagegate_evaluate::{CompileError, Compiled, compile};

use super::finding::Finding;
use super::tokens::{self, Token};
use crate::controllers::variables;
use crate::manifests::Manifest;

/// The variables of a collector's expressions.
pub const COLLECTOR: &[&str] = &["inventory", "obj", "propagation", "returned"];

/// A finding at the place of the mistake if the filter or condition at the pointer does not compile.
pub fn check(manifest: &Manifest, pointer: &str, root: Root) -> Option<Finding> {
    let names: Vec<&str> = root.variables().iter().map(|variable| variable.name()).collect();
    let compiled = variables::compile(manifest.text_at(pointer), root).and_then(Compiled::of_bool);
    Some(refused(manifest, pointer, (compiled.err()?, &names)))
}

/// A finding at the place of the mistake if a collector's expression at the pointer does not compile.
pub fn of_collector(manifest: &Manifest, pointer: &str) -> Option<Finding> {
    let error = compile(manifest.text_at(pointer), COLLECTOR).err()?;
    Some(refused(manifest, pointer, (error, COLLECTOR)))
}

fn refused(manifest: &Manifest, pointer: &str, (error, variables): (CompileError, &[&str])) -> Finding {
    let place = match (error.line, error.column) {
        (Some(line), Some(column)) => manifest.place_within(pointer, line as usize, column as usize),
        _ => manifest.place(pointer),
    };
    let advice = match error.message.starts_with("unknown variable") {
        true => format!("the variables here are {}", variables.join(", ")),
        false => String::new(),
    };
    Finding::error(manifest, place, "cel", error.message).advise(advice)
}

/// Names of the StatusCollectors that the expression reads: `collectors['x']`, `collectors.x`, and those that it compares a result's
/// name with: `r.name == 'x'`, `'x' == r.name`, `r.name in ['x']`.
pub fn collectors_read(text: &str) -> Vec<String> {
    let tokens = tokens::of(text);
    let mut names: Vec<String> = (0..tokens.len())
        .filter_map(|at| indexed_collector(&tokens[at..]))
        .collect();
    for (at, token) in tokens.iter().enumerate() {
        if *token != Token::Word("name".to_owned()) || !is_member_of_a_result(&tokens, at) {
            continue;
        }
        match tokens.get(at + 1) {
            Some(Token::Sign("==")) => names.extend(text_at(&tokens, at + 2)),
            Some(Token::Word(word)) if word == "in" => {
                let list = tokens
                    .iter()
                    .skip(at + 3)
                    .take_while(|token| **token != Token::Sign("]"));
                names.extend(list.filter_map(|token| match token {
                    Token::Text(text) => Some(text.clone()),
                    _ => None,
                }));
            }
            _ => {}
        }
        // The chain before the member is `r.`: what stands before it is the other operand.
        if at >= 4 && tokens.get(at - 3) == Some(&Token::Sign("==")) {
            names.extend(text_at(&tokens, at - 4));
        }
    }
    names.dedup();
    names
}

/// The `x` of `collectors['x']` or `collectors.x`, if the tokens begin with that; `collectors.all(` names none.
fn indexed_collector(tokens: &[Token]) -> Option<String> {
    let (variable, rest) = tokens.split_first()?;
    if *variable != Token::Word(Variable::Collectors.name().to_owned()) {
        return None;
    }
    match rest {
        [Token::Sign("."), Token::Word(_), Token::Sign("("), ..] => None,
        [Token::Sign("["), Token::Text(name), ..] | [Token::Sign("."), Token::Word(name), ..] => Some(name.clone()),
        _ => None,
    }
}

/// Whether the expression looks at results at all.
pub fn reads_results(text: &str) -> bool {
    let tokens = tokens::of(text);
    ["results", Variable::Collectors.name()]
        .iter()
        .any(|word| tokens.contains(&Token::Word((*word).to_owned())))
}

/// A cell's number travels as text in its member `float`: compared with a number it is never equal, and never orders.
pub fn compares_float_with_a_number(text: &str) -> bool {
    let tokens = tokens::of(text);
    let float = |at: usize| {
        tokens.get(at) == Some(&Token::Word("float".to_owned()))
            && at.checked_sub(1).and_then(|before| tokens.get(before)) == Some(&Token::Sign("."))
    };
    let compares = |at: usize| matches!(tokens.get(at), Some(Token::Sign("==" | "!=" | "<" | ">" | "<=" | ">=")));
    (0..tokens.len()).filter(|at| float(*at)).any(|at| {
        let number_after = compares(at + 1) && matches!(tokens.get(at + 2), Some(Token::Number));
        let number_before = at >= 4 && compares(at - 3) && tokens.get(at - 4) == Some(&Token::Number);
        number_after || number_before
    })
}

/// The variable for which KubeStellar's scan of the expression never ends (measured on v0.30): it looks for variable
/// names with an index that goes wrong once a longer word containing the name has come first.
pub fn endless_in_kubestellar(text: &str) -> Option<&'static str> {
    COLLECTOR.iter().copied().find(|variable| {
        let mut places = text.match_indices(variable).map(|(at, _)| at);
        let Some(first) = places.next() else { return false };
        !is_whole_word(text, first, variable) && places.next().is_some()
    })
}

/// Functions that this project's evaluation has and KubeStellar's, plain cel-go, does not.
pub fn unknown_to_kubestellar(text: &str) -> Option<String> {
    const OTHER: [&str; 22] = [
        "charAt",
        "distinct",
        "first",
        "flatten",
        "format",
        "indexOf",
        "join",
        "last",
        "lastIndexOf",
        "lowerAscii",
        "optFlatMap",
        "optMap",
        "orValue",
        "replace",
        "reverse",
        "slice",
        "sort",
        "sortBy",
        "split",
        "substring",
        "trim",
        "upperAscii",
    ];
    let tokens = tokens::of(text);
    tokens.windows(3).find_map(|window| match window {
        [Token::Sign("."), Token::Word(word), Token::Sign("(")] if OTHER.contains(&word.as_str()) => Some(word.clone()),
        _ => None,
    })
}

/// Whether the expression is plainly a map or list: a variable, a well-known member of one, or a literal.
pub fn is_a_collection(text: &str) -> bool {
    const MEMBERS: [&str; 14] = [
        "annotations",
        "conditions",
        "containers",
        "data",
        "finalizers",
        "labels",
        "loadBalancer",
        "matchLabels",
        "metadata",
        "ownerReferences",
        "ports",
        "selector",
        "spec",
        "status",
    ];
    let tokens = tokens::of(text);
    let plain = tokens
        .iter()
        .all(|token| matches!(token, Token::Word(_) | Token::Sign(".")));
    match tokens.as_slice() {
        [Token::Sign("{" | "["), .., Token::Sign("}" | "]")] => true,
        [Token::Word(variable)] => COLLECTOR.contains(&variable.as_str()),
        [.., Token::Sign("."), Token::Word(member)] if plain => MEMBERS.contains(&member.as_str()),
        _ => false,
    }
}

fn is_member_of_a_result(tokens: &[Token], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).and_then(|at| tokens.get(at));
    before(1) == Some(&Token::Sign(".")) && before(2) != Some(&Token::Word("metadata".to_owned()))
}

fn text_at(tokens: &[Token], at: usize) -> Option<String> {
    match tokens.get(at) {
        Some(Token::Text(text)) => Some(text.clone()),
        _ => None,
    }
}

fn is_whole_word(text: &str, at: usize, word: &str) -> bool {
    let in_word = |character: char| character.is_alphanumeric() || character == '_';
    let before = text[..at].chars().next_back().is_some_and(in_word);
    let after = text[at + word.len()..].chars().next().is_some_and(in_word);
    !before && !after
}
