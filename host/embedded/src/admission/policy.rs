//! One ValidatingAdmissionPolicy: from the stored object to what can be asked about a write. Must not look at bindings.

use serde_json::Value;
use stagegate_evaluate::Answer;

use super::complaints::{self, VARIABLES_MAX};
use super::expressions::{Evaluation, Expression, Variable, Wanted};
use super::matching::Matching;
use super::review::{Form, Review};
use crate::cause::Cause;

/// A policy, compiled.
pub struct Policy {
    pub(super) name: String,
    pub(super) matching: Matching,
    /// `failurePolicy: Fail`: what cannot be evaluated denies.
    fails: bool,
    conditions: Vec<Expression>,
    variables: Vec<Variable>,
    validations: Vec<Validation>,
}

struct Validation {
    expression: Expression,
    message: Option<String>,
    message_expression: Option<Expression>,
    reason: Reason,
}

/// What a refused request is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Forbidden,
    Invalid,
    RequestEntityTooLarge,
}

/// One validation that does not hold.
#[derive(Clone, Debug)]
pub(super) struct Complaint {
    pub text: String,
    pub reason: Reason,
}

impl Policy {
    /// Reads a policy that was completed with defaults; says everything that is wrong with it otherwise.
    pub fn compile(object: &Value) -> Result<Policy, Vec<Cause>> {
        let spec = &object["spec"];
        let mut causes = complaints::of_policy(spec);
        let mut compile = |text: &str, (path, variables): (&str, &[Variable]), wanted: Wanted| {
            let compiled = Expression::compile(text, variables, wanted);
            let report = |why: String| causes.push(Cause::invalid(path, &Value::from(text), why));
            compiled.map_err(report).ok()
        };
        let mut conditions = Vec::new();
        for (index, condition) in items(spec, "matchConditions").iter().enumerate() {
            let path = format!("spec.matchConditions[{index}].expression");
            if let Some(text) = text(condition, "expression") {
                conditions.extend(compile(text, (&path, &[]), Wanted::Bool));
            }
        }
        let mut variables = Vec::new();
        for (index, variable) in items(spec, "variables").iter().take(VARIABLES_MAX).enumerate() {
            let path = format!("spec.variables[{index}].expression");
            if let (Some(name), Some(text)) = (text(variable, "name"), text(variable, "expression"))
                && let Some(expression) = compile(text, (&path, &variables), Wanted::Anything)
            {
                variables.push(Variable {
                    name: name.to_owned(),
                    expression,
                });
            }
        }
        let mut validations = Vec::new();
        for (index, validation) in items(spec, "validations").iter().enumerate() {
            let path = format!("spec.validations[{index}]");
            let of = |member: &str| format!("{path}.{member}");
            let expressed = text(validation, "messageExpression")
                .and_then(|text| compile(text, (&of("messageExpression"), &variables), Wanted::Text));
            let Some(expression) = text(validation, "expression")
                .and_then(|text| compile(text, (&of("expression"), &variables), Wanted::Bool))
            else {
                continue;
            };
            validations.push(Validation {
                expression,
                message: text(validation, "message").map(str::to_owned),
                message_expression: expressed,
                reason: match validation["reason"].as_str() {
                    Some("Forbidden") => Reason::Forbidden,
                    Some("RequestEntityTooLarge") => Reason::RequestEntityTooLarge,
                    _ => Reason::Invalid,
                },
            });
        }
        if !causes.is_empty() {
            return Err(causes);
        }
        Ok(Policy {
            name: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            matching: Matching::read(&spec["matchConstraints"]),
            fails: spec["failurePolicy"] != "Ignore",
            conditions,
            variables,
            validations,
        })
    }

    /// Everything that does not hold, the policy's first complaint first.
    pub(super) fn complaints(&self, review: &Review<'_>, form: &Form) -> Vec<Complaint> {
        let mut evaluation = Evaluation::new(&self.variables, review.known(form));
        let mut errors = Vec::new();
        for condition in &self.conditions {
            match holds(&mut evaluation, condition) {
                Ok(true) => {}
                Ok(false) => return Vec::new(),
                Err(why) => errors.push(why),
            }
        }
        if !errors.is_empty() {
            let text = match errors.as_slice() {
                [one] => one.clone(),
                several => format!("[{}]", several.join(", ")),
            };
            return self.failed(text).into_iter().collect();
        }
        let complaints =
            self.validations
                .iter()
                .filter_map(|validation| match holds(&mut evaluation, &validation.expression) {
                    Ok(true) => None,
                    Ok(false) => Some(Complaint {
                        text: validation.message(&mut evaluation),
                        reason: validation.reason,
                    }),
                    Err(why) => self.failed(why),
                });
        complaints.collect()
    }

    fn failed(&self, text: String) -> Option<Complaint> {
        let reason = Reason::Invalid;
        self.fails.then_some(Complaint { text, reason })
    }
}

/// Whether an expression is true; otherwise why nobody knows.
fn holds(evaluation: &mut Evaluation<'_>, expression: &Expression) -> Result<bool, String> {
    let failed = |why: &str| format!("expression '{}' resulted in error: {why}", expression.text);
    match evaluation.answer(expression) {
        Ok(Answer::Bool(holds)) => Ok(holds),
        Ok(other) => Err(failed(&format!(
            "the result is of type {} and not a bool",
            other.kind()
        ))),
        Err(why) => Err(failed(&why)),
    }
}

impl Validation {
    /// What its author says of a write that it refuses. A message that cannot be made is none.
    fn message(&self, evaluation: &mut Evaluation<'_>) -> String {
        let expressed = self
            .message_expression
            .as_ref()
            .and_then(|expression| match evaluation.answer(expression) {
                Ok(Answer::String(text)) => Some(text.trim().to_owned()),
                _ => None,
            });
        let usable = |text: &String| !text.is_empty() && !text.contains('\n') && text.len() <= MESSAGE_BYTES_MAX;
        expressed
            .filter(usable)
            .or_else(|| self.message.clone())
            .unwrap_or_else(|| format!("failed expression: {}", self.expression.text))
    }
}

/// The longest message that an expression may make, as Kubernetes has it: 5 KiB.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

pub(super) fn items<'a>(parent: &'a Value, list: &str) -> &'a [Value] {
    parent[list].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A text without the space around it, if there is any left.
pub(super) fn text<'a>(parent: &'a Value, name: &str) -> Option<&'a str> {
    parent[name].as_str().map(str::trim).filter(|text| !text.is_empty())
}
