//! Label selectors as sets of requirements: whether one can match anything, and whether one matches all that another one does. Must not
//! know what the labels belong to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// One requirement of a selector, wherever it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

/// What all of them must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirements(Vec<Requirement>);

impl Requirements {
    /// Of a selector that can be read; an operator that there is not is left out.
    pub fn of(selector: &LabelSelector) -> Self {
        let labels = selector.match_labels.iter().flatten();
        let equal = labels.map(|(key, value)| Requirement {
            key: key.clone(),
            operator: Operator::In(vec![value.clone()]),
        });
        let expressed = selector.match_expressions.iter().flatten().filter_map(|expression| {
            let values = expression.values.clone().unwrap_or_default();
            let operator = match expression.operator.as_str() {
                "In" => Operator::In(values),
                "NotIn" => Operator::NotIn(values),
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                _ => return None,
            };
            let key = expression.key.clone();
            Some(Requirement { key, operator })
        });
        Self(equal.chain(expressed).collect())
    }

    /// Why no object can have such labels, if it cannot.
    pub fn contradiction(&self) -> Option<String> {
        self.0.iter().enumerate().find_map(|(at, one)| {
            let others = self.0[at + 1..].iter().filter(|other| other.key == one.key);
            others.into_iter().find_map(|other| one.contradicts(other))
        })
    }

    /// Whether it certainly matches whatever `narrow` matches.
    pub fn include(&self, narrow: &Self) -> bool {
        self.0
            .iter()
            .all(|wide| narrow.0.iter().any(|narrow| narrow.implies(wide)))
    }
}

impl Requirement {
    fn contradicts(&self, other: &Self) -> Option<String> {
        let key = &self.key;
        let presence = || Some(format!("it requires label {key} and excludes it"));
        match (&self.operator, &other.operator) {
            (Operator::DoesNotExist, Operator::In(_) | Operator::Exists)
            | (Operator::In(_) | Operator::Exists, Operator::DoesNotExist) => presence(),
            (Operator::In(one), Operator::In(other)) if !one.iter().any(|value| other.contains(value)) => {
                let (one, other) = (one.join(" or "), other.join(" or "));
                Some(format!("it requires {key}={one} and {key}={other}"))
            }
            (Operator::In(values), Operator::NotIn(not)) | (Operator::NotIn(not), Operator::In(values))
                if values.iter().all(|value| not.contains(value)) =>
            {
                let values = values.join(" or ");
                Some(format!("it requires {key}={values} and excludes {key}={values}"))
            }
            _ => None,
        }
    }

    fn implies(&self, wide: &Self) -> bool {
        self.key == wide.key
            && match (&self.operator, &wide.operator) {
                (Operator::In(narrow), Operator::In(wide)) | (Operator::NotIn(wide), Operator::NotIn(narrow)) => {
                    narrow.iter().all(|value| wide.contains(value))
                }
                (Operator::In(values), Operator::NotIn(not)) => !values.iter().any(|value| not.contains(value)),
                (Operator::In(_), Operator::Exists) => true,
                (Operator::DoesNotExist, Operator::NotIn(_)) => true,
                (one, other) => one == other,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn requirements(selector: Value) -> Requirements {
        Requirements::of(&serde_json::from_value(selector).unwrap())
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
    }

    #[test]
    fn a_selector_includes_what_has_more_requirements() {
        let cases = [
            (
                json!({"matchLabels": {"a": "1"}}),
                json!({"matchLabels": {"a": "1", "b": "2"}}),
                true,
            ),
            (
                json!({"matchLabels": {"a": "1", "b": "2"}}),
                json!({"matchLabels": {"a": "1"}}),
                false,
            ),
            (
                expression("a", "In", &["1", "2"]),
                json!({"matchLabels": {"a": "1"}}),
                true,
            ),
            (
                json!({"matchLabels": {"a": "1"}}),
                expression("a", "In", &["1", "2"]),
                false,
            ),
            (
                expression("a", "NotIn", &["2"]),
                json!({"matchLabels": {"a": "1"}}),
                true,
            ),
            (
                expression("a", "NotIn", &["1"]),
                json!({"matchLabels": {"a": "1"}}),
                false,
            ),
            (
                expression("a", "NotIn", &["1"]),
                expression("a", "NotIn", &["1", "2"]),
                true,
            ),
            (
                expression("a", "NotIn", &["1", "2"]),
                expression("a", "NotIn", &["1"]),
                false,
            ),
            (expression("a", "Exists", &[]), json!({"matchLabels": {"a": "1"}}), true),
            (json!({}), json!({"matchLabels": {"a": "1"}}), true),
            (
                json!({"matchLabels": {"a": "1"}}),
                json!({"matchLabels": {"b": "1"}}),
                false,
            ),
        ];
        for (wide, narrow, includes) in cases {
            let included = requirements(wide.clone()).include(&requirements(narrow.clone()));
            assert_eq!(included, includes, "{wide} {narrow}");
        }
    }

    #[test]
    fn requirements_of_one_label_can_contradict_each_other() {
        let both = |operator: &str, values: &[&str]| {
            let mut selector = expression("a", operator, values);
            selector["matchLabels"] = json!({"a": "1"});
            requirements(selector).contradiction()
        };
        assert_eq!(both("In", &["2"]).unwrap(), "it requires a=1 and a=2");
        assert_eq!(both("NotIn", &["1"]).unwrap(), "it requires a=1 and excludes a=1");
        assert_eq!(
            both("DoesNotExist", &[]).unwrap(),
            "it requires label a and excludes it"
        );
        for (operator, values) in [("In", &["1", "2"][..]), ("NotIn", &["2"]), ("Exists", &[])] {
            assert_eq!(both(operator, values), None, "{operator}");
        }
    }
}
