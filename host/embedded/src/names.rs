//! The syntax of names, label keys and label values. Sources: RFC 1123 as `metav1` restricts it.

/// What a kind's names must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// Lower case letters, digits, `-` and `.`, at most 253.
    Subdomain,
    /// The same without dots, at most 63.
    Label,
    /// Anything that fits into a path: RBAC names.
    PathSegment,
}

impl NameRule {
    /// The rule of a resource, by its plural name and group.
    pub fn of(group: &str, plural: &str) -> NameRule {
        match (group, plural) {
            ("rbac.authorization.k8s.io", _) => NameRule::PathSegment,
            ("", "namespaces" | "services") => NameRule::Label,
            _ => NameRule::Subdomain,
        }
    }

    pub fn accepts(self, name: &str) -> bool {
        match self {
            NameRule::Subdomain => is_dns_subdomain(name),
            NameRule::Label => is_dns_label(name),
            NameRule::PathSegment => !matches!(name, "" | "." | "..") && !name.contains(['/', '%']),
        }
    }

    /// What is wrong with a name that is not accepted, one complaint each.
    pub fn complaints(self, name: &str) -> Vec<&'static str> {
        match self {
            NameRule::PathSegment => vec!["may not be '.' or '..' and may not contain '/' or '%'"],
            NameRule::Label if name.contains('.') && is_dns_subdomain(name) => vec!["must not contain dots"],
            NameRule::Label => too_long_or(name, 63, is_dns_label, LABEL),
            NameRule::Subdomain => too_long_or(name, 253, is_dns_subdomain, SUBDOMAIN),
        }
    }
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/// Kubernetes' words for a label value.
pub const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
    for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
/// Kubernetes' words for the key of a label, an annotation or a finalizer.
pub const QUALIFIED_NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and \
    end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const SEVERAL_SLASHES: &str = "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start \
    and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
/// Kubernetes' words for a key of a ConfigMap or Secret.
pub const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
    'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

fn too_long_or(name: &str, most: usize, fits: impl Fn(&str) -> bool, syntax: &'static str) -> Vec<&'static str> {
    let cut = name.get(..most).unwrap_or(name);
    let mut complaints = Vec::new();
    if !fits(cut.trim_end_matches(['-', '.'])) {
        complaints.push(syntax);
    }
    if name.len() > most {
        complaints.push(if most == 63 {
            "must be no more than 63 characters"
        } else {
            "must be no more than 253 characters"
        });
    } else if complaints.is_empty() {
        complaints.push(syntax);
    }
    complaints
}

/// What is wrong with a qualified name that is none.
pub fn qualified_name_complaint(text: &str) -> &'static str {
    if text.matches('/').count() > 1 {
        SEVERAL_SLASHES
    } else {
        QUALIFIED_NAME
    }
}

/// A key of a ConfigMap or Secret.
pub fn is_config_key(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    framed(text, 253, allowed, allowed) && !matches!(text, "." | "..") && !text.starts_with("..")
}

pub fn is_dns_label(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    framed(text, 63, plain, |byte| plain(byte) || byte == b'-')
}

pub fn is_dns_subdomain(text: &str) -> bool {
    let label = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        framed(part, 253, plain, |byte| plain(byte) || byte == b'-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// A label key, annotation key or finalizer: an optional subdomain, `/`, and a name.
pub fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_plain_name(name),
        None => is_plain_name(text),
    }
}

pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_plain_name(text)
}

fn is_plain_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric();
    framed(text, 63, plain, |byte| {
        plain(byte) || matches!(byte, b'-' | b'_' | b'.')
    })
}

/// 1 to `most` bytes, the first and last of `edge`, all of `inner`.
fn framed(text: &str, most: usize, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    bytes.len() <= most && edge(*first) && edge(*last) && bytes.iter().all(|byte| inner(*byte))
}

#[cfg(test)]
mod tests {
    use super::{is_dns_label, is_dns_subdomain, is_label_value, is_qualified_name};

    #[test]
    fn names_follow_rfc_1123() {
        assert!(
            is_dns_subdomain("a.b-c.9") && !is_dns_subdomain("a..b") && !is_dns_subdomain("A") && !is_dns_subdomain("")
        );
        assert!(is_dns_label("a-b") && !is_dns_label("a.b") && !is_dns_label("-a") && !is_dns_label(&"a".repeat(64)));
    }

    #[test]
    fn label_keys_may_have_a_prefix_and_values_may_be_empty() {
        assert!(is_qualified_name("x.y/Z_1") && !is_qualified_name("x.y/") && !is_qualified_name("a b"));
        assert!(is_label_value("") && is_label_value("v1.2") && !is_label_value("-x"));
    }
}
