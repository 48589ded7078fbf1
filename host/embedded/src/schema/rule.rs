//! One rule of `x-kubernetes-validations`, compiled. One that cannot be evaluated refuses the write, exactly as one that says no.

use serde_json::Value;
use stagegate_evaluate::{Answer, Budget, Compiled, compile};

use crate::cause::Cause;

/// What one rule may cost. The time is generous, because a busy machine must not turn a valid object into a refused
/// one.
const BUDGET: Budget = Budget {
    fuel: 1_000_000,
    deadline_ms: 10_000,
};

/// One compiled rule.
pub(super) struct Rule {
    text: String,
    condition: Condition,
    message: Option<String>,
    message_expression: Option<Compiled>,
    reason: &'static str,
    /// `fieldPath` of the rule: where its complaint belongs, below the node.
    field_path: String,
}

/// When a rule applies and what it is given.
enum Condition {
    /// Looks at the value alone.
    State(Compiled),
    /// Names `oldSelf`: only where there is an old value.
    Transition(Compiled),
    /// `optionalOldSelf`: one program for each case.
    Optional { with_old: Compiled, without_old: Compiled },
}

impl Rule {
    pub(super) fn compile(json: &Value, path: &str) -> Result<Rule, Cause> {
        let text = |name: &str| {
            json.get(name)
                .and_then(Value::as_str)
                .map(str::trim)
                .filter(|text| !text.is_empty())
        };
        let rule = text("rule").ok_or_else(|| Cause::required(format!("{path}.rule"), "must specify a rule"))?;
        let program = |source: &str, variables: &[&str], field: &str| {
            compile(source, variables).map_err(|error| {
                Cause::invalid(
                    format!("{path}.{field}"),
                    &Value::from(rule),
                    format!("compilation failed: {error}"),
                )
            })
        };
        let optional = json.get("optionalOldSelf").and_then(Value::as_bool).unwrap_or(false);
        let condition = match (names_old_self(rule), optional) {
            (true, true) => Condition::Optional {
                with_old: program(
                    &format!("[optional.of(old)].all(oldSelf, (\n{rule}\n))"),
                    &["self", "old"],
                    "rule",
                )?,
                without_old: program(
                    &format!("[optional.none()].all(oldSelf, (\n{rule}\n))"),
                    &["self"],
                    "rule",
                )?,
            },
            (true, false) => Condition::Transition(program(rule, &["self", "oldSelf"], "rule")?),
            (false, _) => Condition::State(program(rule, &["self"], "rule")?),
        };
        let message_expression = text("messageExpression")
            .map(|source| program(source, &["self", "oldSelf"], "messageExpression"))
            .transpose()?;
        Ok(Rule {
            text: rule.to_owned(),
            condition,
            message: text("message").map(str::to_owned),
            message_expression,
            reason: match text("reason") {
                Some("FieldValueForbidden") => "FieldValueForbidden",
                Some("FieldValueRequired") => "FieldValueRequired",
                Some("FieldValueDuplicate") => "FieldValueDuplicate",
                _ => "FieldValueInvalid",
            },
            field_path: text("fieldPath").unwrap_or_default().to_owned(),
        })
    }

    pub(super) fn check(&self, (new, type_): (&Value, &str), old: Option<&Value>, path: &str) -> Option<Cause> {
        let self_value = stagegate_evaluate::Value::from(new);
        let old_value = old.map(stagegate_evaluate::Value::from);
        let answer = match (&self.condition, &old_value) {
            (Condition::Transition(_), None) => return None,
            (Condition::State(rule), _) => rule.eval(&[("self", self_value.clone())], BUDGET),
            (Condition::Transition(rule), Some(old)) => {
                rule.eval(&[("self", self_value.clone()), ("oldSelf", old.clone())], BUDGET)
            }
            (Condition::Optional { with_old, .. }, Some(old)) => {
                with_old.eval(&[("self", self_value.clone()), ("old", old.clone())], BUDGET)
            }
            (Condition::Optional { without_old, .. }, None) => {
                without_old.eval(&[("self", self_value.clone())], BUDGET)
            }
        };
        let why = match answer {
            Ok(Answer::Bool(true)) => return None,
            Ok(Answer::Bool(false)) => self.complaint(self_value, old_value),
            Ok(_) => format!("rule does not evaluate to a boolean: {}", self.text),
            Err(error) => {
                let rule = self.message.clone().unwrap_or_else(|| format!("rule: {}", self.text));
                format!("{error} evaluating rule: {rule}")
            }
        };
        let field = if self.field_path.is_empty() {
            path.to_owned()
        } else {
            format!("{path}{}", self.field_path)
        };
        let message = match self.reason {
            "FieldValueForbidden" => format!("Forbidden: {why}"),
            "FieldValueRequired" => format!("Required value: {why}"),
            "FieldValueDuplicate" => format!("Duplicate value: {type_:?}"),
            // Not the value, but what it is: it may be large.
            _ => format!("Invalid value: {type_:?}: {why}"),
        };
        Some(Cause {
            reason: self.reason,
            field,
            message,
        })
    }

    fn complaint(&self, new: stagegate_evaluate::Value, old: Option<stagegate_evaluate::Value>) -> String {
        let mut variables = vec![("self", new)];
        variables.extend(old.map(|old| ("oldSelf", old)));
        let expressed =
            self.message_expression
                .as_ref()
                .and_then(|expression| match expression.eval(&variables, BUDGET) {
                    Ok(Answer::String(text)) if !text.trim().is_empty() => Some(text),
                    _ => None,
                });
        expressed
            .or_else(|| self.message.clone())
            .unwrap_or_else(|| format!("failed rule: {}", self.text))
    }
}

fn names_old_self(rule: &str) -> bool {
    rule.match_indices("oldSelf").any(|(at, found)| {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        !rule[..at].ends_with(word) && !rule[at + found.len()..].starts_with(word)
    })
}

#[cfg(test)]
mod tests {
    use super::names_old_self;

    #[test]
    fn only_the_whole_word_is_the_old_value() {
        assert!(names_old_self("self == oldSelf"));
        assert!(!names_old_self("self.myoldSelf == self.oldSelfish"));
    }
}
