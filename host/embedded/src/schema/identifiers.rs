//! Property names as CEL identifiers, in Kubernetes' spelling. Must not look at a schema.

use std::borrow::Cow;

/// Words that are no field names in CEL.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// Whether a property is reached from CEL under its own name.
pub(super) fn is_identifier(name: &str) -> bool {
    matches!(escaped(name), Cow::Borrowed(_))
}

/// Kubernetes' spelling of property names in rules.
pub(super) fn escaped(name: &str) -> Cow<'_, str> {
    if RESERVED.contains(&name) {
        return Cow::Owned(format!("__{name}__"));
    }
    if !name.contains(['.', '-', '/']) && !name.contains("__") {
        return Cow::Borrowed(name);
    }
    let escaped = name
        .replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__");
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn property_names_are_escaped_as_kubernetes_does() {
        for (name, wanted) in [
            ("plain", "plain"),
            ("a-b", "a__dash__b"),
            ("a.b/c", "a__dot__b__slash__c"),
            ("in", "__in__"),
            ("a__b", "a__underscores__b"),
        ] {
            assert_eq!(escaped(name), wanted);
        }
    }
}
