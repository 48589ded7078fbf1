//! Which expressions a StatusCollector has, and when it counts as absent.

use stagegate_api::{StatusCollector, StatusCollectorSpec, StatusCollectorStatus};

use super::Write;
use crate::precondition::Precondition;

/// One expression of a collector.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Expression<'a> {
    /// What it is for.
    pub place: ExpressionPlace<'a>,
    /// In CEL.
    pub text: &'a str,
}

/// Where an expression stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ExpressionPlace<'a> {
    /// Decides which clusters have a row.
    Filter,
    /// The column of this name: selected, grouped by or combined.
    Column(&'a str),
}

/// An expression that does not parse or check.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CompileProblem<'a> {
    /// Which expression.
    pub place: ExpressionPlace<'a>,
    /// The compiler's text.
    pub message: String,
}

/// All expressions: the filter, then the columns in the order of their values.
pub fn expressions(spec: &StatusCollectorSpec) -> impl Iterator<Item = Expression<'_>> {
    let filter = spec.filter.iter().map(|text| Expression {
        place: ExpressionPlace::Filter,
        text,
    });
    filter.chain(column_expressions(spec).map(|(name, text)| Expression {
        place: ExpressionPlace::Column(name),
        text,
    }))
}

/// Names and expressions of selected columns, or of groups and then combined fields; COUNT has no expression.
pub(super) fn column_expressions(spec: &StatusCollectorSpec) -> impl Iterator<Item = (&str, &str)> + Clone {
    let named = spec
        .select
        .iter()
        .chain(&spec.group_by)
        .map(|column| (column.name.as_str(), column.def.as_str()));
    let combined = spec.combined_fields.iter();
    named.chain(combined.filter_map(|field| Some((field.name.as_str(), field.subject.as_deref()?))))
}

/// Why a collector counts as absent; none when it is valid. A type that no aggregation has is not refused: its column
/// is null and carries an error.
pub fn collector_errors(spec: &StatusCollectorSpec, problems: &[CompileProblem]) -> Vec<String> {
    let mut errors = Vec::new();
    let combines = !spec.group_by.is_empty() || !spec.combined_fields.is_empty();
    if combines && !spec.select.is_empty() {
        errors.push("select goes neither with groupBy nor with combinedFields".to_owned());
    }
    if !spec.group_by.is_empty() && spec.combined_fields.is_empty() {
        errors.push("groupBy needs combinedFields".to_owned());
    }
    for field in &spec.combined_fields {
        match (field.aggregation == "COUNT", &field.subject) {
            (true, Some(_)) => errors.push(format!("combined field {:?}: COUNT takes no subject", field.name)),
            (false, None) => {
                errors.push(format!(
                    "combined field {:?}: {} needs a subject",
                    field.name, field.aggregation
                ));
            }
            _ => {}
        }
    }
    errors.extend(problems.iter().map(|problem| match problem.place {
        ExpressionPlace::Filter => format!("filter: {}", problem.message),
        ExpressionPlace::Column(name) => format!("column {name:?}: {}", problem.message),
    }));
    errors
}

/// The write that puts a collector's errors into its status, if they are not there.
pub fn collector_status(collector: &StatusCollector, errors: Vec<String>) -> Option<Write> {
    let observed_generation = collector.metadata.generation.unwrap_or_default();
    let status = StatusCollectorStatus {
        observed_generation,
        errors,
    };
    if collector.status.as_ref() == Some(&status) {
        return None;
    }
    let name = collector.metadata.name.clone()?;
    Some(Write::CollectorStatus {
        name,
        precondition: Precondition::of(&collector.metadata)?,
        status,
    })
}
