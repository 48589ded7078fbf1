//! What one expression's text tells: whether it compiles, which collectors it reads, and what is known to go wrong.

use stagegate_decide::staging::{Root, Variable};
use stagegate_evaluate::{Comparison, CompileError, Compiled, Member, Place, Reading, Written, compile};

use super::finding::Finding;
use super::tokens::{self, Token};
use crate::controllers::combine::evaluate;
use crate::controllers::variables;
use crate::manifests::Manifest;

/// The variables of a collector's expressions.
const COLLECTOR: &[&str] = evaluate::VARIABLES;

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

/// A StatusCollector that a condition reads.
pub struct CollectorRead {
    pub name: String,
    pub place: Place,
    /// Whether there is such a collector is asked first, so that it may be missing.
    pub is_tested: bool,
    /// It is the name that a result's is compared with.
    pub is_compared: bool,
}

/// The StatusCollectors that the expression reads: `collectors['x']`, `collectors.x`, and those that it compares a result's name with:
/// `r.name == 'x'`, `'x' == r.name`, `r.name in ['x']`, where `r` is one of `results`. Each once.
pub fn collectors_read(reading: &Reading) -> Vec<CollectorRead> {
    let of_collectors = |member: &&Member| member.of == Variable::Collectors.name() && !member.is_of_elements;
    let members = reading.members.iter().filter(of_collectors);
    let is_tested = |name: &str| members.clone().any(|member| member.is_tested && member.name == name);
    let indexed = members.clone().map(|member| (&member.name, member.place, false));
    let compared = reading
        .comparisons
        .iter()
        .filter_map(|comparison| match &comparison.with {
            Written::Text(name)
                if comparison.is_for_equality
                    && comparison.member == "name"
                    && comparison.list.as_deref() == Some("results") =>
            {
                Some((name, comparison.place, true))
            }
            _ => None,
        });
    let mut read: Vec<CollectorRead> = Vec::new();
    for (name, place, is_compared) in indexed.chain(compared) {
        if read.iter().all(|known| known.name != *name) {
            read.push(CollectorRead {
                is_tested: is_tested(name),
                name: name.clone(),
                place,
                is_compared,
            });
        }
    }
    read
}

/// Whether the expression looks at results at all.
pub fn reads_results(reading: &Reading) -> bool {
    reading.fields.contains("results") || reading.variables.contains(Variable::Collectors.name())
}

/// Where a cell's number, which travels as text in its member `float`, is compared with a number: it is never equal, and never orders.
pub fn float_compared_with_a_number(reading: &Reading) -> Option<Place> {
    // A column of a StatusCollector may be called so, too, and `collectors` has its numbers as doubles.
    let is_of_collectors = |comparison: &Comparison| comparison.root.as_deref() == Some(Variable::Collectors.name());
    let is_it = |comparison: &&Comparison| {
        comparison.member == "float" && comparison.with == Written::Number && !is_of_collectors(comparison)
    };
    reading
        .comparisons
        .iter()
        .find(is_it)
        .map(|comparison| comparison.place)
}

/// A warning about a filter or condition that gives the same result for every object, whatever the clusters report.
pub fn constant(manifest: &Manifest, pointer: &str, (root, reading): (Root, &Reading)) -> Option<Finding> {
    let names_none = reading.variables.is_empty();
    let what = match (root, reading.always) {
        (Root::Clause, Some(true)) => "is always true: it keeps every object",
        (Root::Clause, Some(false)) => "is always false: it keeps no object",
        (Root::CombinedStatus | Root::Pools, Some(true)) => "is always true: it never holds the stage",
        (Root::CombinedStatus | Root::Pools, Some(false)) => "is always false: the stage never passes",
        (_, None) if names_none => "names no variable, so it gives the same result for every object",
        (_, None) => return None,
    };
    let expression = match root {
        Root::Clause => "filter",
        Root::CombinedStatus | Root::Pools => "condition",
    };
    let variable = match root {
        Root::Clause => "object",
        Root::CombinedStatus => "clusters",
        Root::Pools => "pools",
    };
    let finding = Finding::warning(
        manifest,
        manifest.place(pointer),
        "constant",
        format!("the {expression} {what}"),
    );
    Some(finding.advise(format!("let it depend on `{variable}`, or remove it")))
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

fn is_whole_word(text: &str, at: usize, word: &str) -> bool {
    let in_word = |character: char| character.is_alphanumeric() || character == '_';
    let before = text[..at].chars().next_back().is_some_and(in_word);
    let after = text[at + word.len()..].chars().next().is_some_and(in_word);
    !before && !after
}
