//! The expressions of a spec, each with its field: which are still to be compiled, and which are wrong. Must not compile one.

use std::collections::BTreeSet;

use super::answers::{Answers, Compilation};
use super::question::Question;
use super::spec::Expression;
use super::variables::Root;

/// Which expressions nobody has tried to compile yet.
pub fn compile_questions<'s>(
    answers: Answers<'_>,
    expressions: impl Iterator<Item = (String, &'s Expression)>,
) -> Vec<Question> {
    let mut asked = BTreeSet::new();
    expressions
        .filter(|(_, expression)| !answers.compiled.contains_key(&expression.digest))
        .filter(|(_, expression)| asked.insert(expression.digest.clone()))
        .map(|(_, expression)| Question::Compile {
            digest: expression.digest.clone(),
            text: expression.text.clone(),
            root: expression.root,
        })
        .collect()
}

/// The expressions that do not compile, each as a sentence.
pub fn refused_expressions<'s>(
    answers: Answers<'_>,
    expressions: impl Iterator<Item = (String, &'s Expression)>,
) -> Vec<String> {
    expressions
        .filter_map(|(field, expression)| match answers.compiled.get(&expression.digest) {
            Some(Compilation::Refused(message)) => {
                let variables = variables(expression.root);
                Some(format!("{field} does not compile: {message}; {variables}"))
            }
            _ => None,
        })
        .collect()
}

/// The field of the first expression that names no variable, so that no report changes what it says.
pub fn constant<'s>(
    answers: Answers<'_>,
    mut expressions: impl Iterator<Item = (String, &'s Expression)>,
) -> Option<String> {
    expressions.find_map(|(field, expression)| match answers.compiled.get(&expression.digest) {
        Some(Compilation::Compiles(named)) if named.is_empty() => Some(field),
        _ => None,
    })
}

/// What is wrong with an expression that is there and empty. In YAML `condition: !has(x)` is a tag and an empty text, so a check that its
/// author has written would be none.
pub fn empty_expression(field: &str, text: Option<&str>) -> Option<String> {
    let name = field.rsplit('.').next().unwrap_or(field);
    text.is_some_and(str::is_empty).then(|| {
        format!(
            "{field} is empty: remove it, or write an expression; put one that begins with `!` below `{name}: |`, because YAML \
            reads `!` as a tag"
        )
    })
}

fn variables(root: Root) -> String {
    let names: Vec<&str> = root.variables().iter().map(|variable| variable.name()).collect();
    let expression = match root {
        Root::Clause => "a filter",
        Root::CombinedStatus | Root::Pools => "a condition",
    };
    format!("{expression} may use the variables {}", names.join(", "))
}
