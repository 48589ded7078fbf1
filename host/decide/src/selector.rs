//! Label selectors as Kubernetes reads them, with its refusals.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// A selector that was read; all requirements must hold, and none holds for everything.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, Eq, PartialEq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

/// Why a selector cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SelectorError {
    /// The key is no label key.
    #[error("label key {0:?} is not an optional DNS prefix with a slash and a name of at most 63 characters")]
    Key(String),
    /// The value is no label value.
    #[error("value {value:?} of label {key:?} is not empty or up to 63 letters, digits, '-', '_', '.'")]
    Value {
        /// Of the label.
        key: String,
        /// As the selector has it.
        value: String,
    },
    /// The operator is none that selectors have.
    #[error("operator {operator:?} of label {key:?} is not In, NotIn, Exists or DoesNotExist")]
    Operator {
        /// Of the label.
        key: String,
        /// As the selector has it.
        operator: String,
    },
    /// The operator needs values, and there are none.
    #[error("operator {operator} of label {key:?} needs values")]
    NoValues {
        /// Of the label.
        key: String,
        /// `In` or `NotIn`.
        operator: String,
    },
    /// The operator takes no values, and there are some.
    #[error("operator {operator} of label {key:?} takes no values")]
    Values {
        /// Of the label.
        key: String,
        /// `Exists` or `DoesNotExist`.
        operator: String,
    },
}

impl Selector {
    /// Whether it has no requirement, like `{}`: it matches everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all requirements hold. A label that is absent satisfies NotIn, as in Kubernetes.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            match &requirement.operator {
                Operator::In(values) => value.is_some_and(|value| values.contains(value)),
                Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
            }
        })
    }
}

impl TryFrom<&LabelSelector> for Selector {
    type Error = SelectorError;

    fn try_from(selector: &LabelSelector) -> Result<Self, SelectorError> {
        let labels = selector.match_labels.iter().flatten();
        let equal = labels.map(|(key, value)| read(key, "In", std::slice::from_ref(value)));
        let expressions = selector.match_expressions.iter().flatten();
        let expressed = expressions.map(|LabelSelectorRequirement { key, operator, values }| {
            read(key, operator, values.as_deref().unwrap_or_default())
        });
        equal.chain(expressed).collect::<Result<_, _>>().map(Self)
    }
}

fn read(key: &str, operator: &str, values: &[String]) -> Result<Requirement, SelectorError> {
    if !is_key(key) {
        return Err(SelectorError::Key(key.to_owned()));
    }
    if let Some(value) = values.iter().find(|value| !is_label_value(value)) {
        return Err(SelectorError::Value {
            key: key.to_owned(),
            value: value.clone(),
        });
    }
    let of = |operator: &str| (key.to_owned(), operator.to_owned());
    let operator = match operator {
        "In" | "NotIn" if values.is_empty() => {
            let (key, operator) = of(operator);
            return Err(SelectorError::NoValues { key, operator });
        }
        "In" => Operator::In(values.to_vec()),
        "NotIn" => Operator::NotIn(values.to_vec()),
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let (key, operator) = of(operator);
            return Err(SelectorError::Values { key, operator });
        }
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        other => {
            let (key, operator) = of(other);
            return Err(SelectorError::Operator { key, operator });
        }
    };
    Ok(Requirement {
        key: key.to_owned(),
        operator,
    })
}

fn is_key(key: &str) -> bool {
    let (prefix, name) = key
        .split_once('/')
        .map_or((None, key), |(prefix, name)| (Some(prefix), name));
    !name.is_empty() && is_label_value(name) && prefix.is_none_or(is_dns_subdomain)
}

fn is_dns_subdomain(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let label =
        |part: &str| part.starts_with(letter) && part.ends_with(letter) && part.chars().all(|c| letter(c) || c == '-');
    text.len() <= 253 && text.split('.').all(label)
}

/// Kubernetes' grammar of a label value: empty, or up to 63 characters that begin and end with a letter or digit.
pub(crate) fn is_label_value(text: &str) -> bool {
    let ends = |c: char| c.is_ascii_alphanumeric();
    let inner = |c: char| ends(c) || matches!(c, '-' | '_' | '.');
    text.is_empty() || (text.len() <= 63 && text.starts_with(ends) && text.ends_with(ends) && text.chars().all(inner))
}
