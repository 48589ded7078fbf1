//! Paths and queries. A path says which resource, namespace, object and subresource is meant; whether they exist is
//! somebody else's question.

use std::collections::HashMap;

/// What a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Health,
    Version,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/<group>`
    Group(String),
    /// `/api/v1` or `/apis/<group>/<version>`
    GroupVersion(String, String),
    /// `/openapi/v2`
    OldOpenApi,
    /// `/openapi/v3`
    OpenApiIndex,
    /// `/openapi/v3/…`
    OpenApi(String, String),
    Resource(Resource),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resource {
    pub group: String,
    pub version: String,
    pub plural: String,
    /// Empty for cluster-scoped resources and for all namespaces.
    pub namespace: String,
    /// Empty for the collection.
    pub name: String,
    pub subresource: Option<String>,
    /// The old `/watch/` spelling.
    pub watch_prefix: bool,
}

impl Target {
    pub fn parse(path: &str) -> Option<Target> {
        let steps: Vec<String> = path.split('/').filter(|step| !step.is_empty()).map(unescape).collect();
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        match steps.as_slice() {
            ["healthz" | "readyz" | "livez", ..] => Some(Target::Health),
            ["version"] => Some(Target::Version),
            ["api"] => Some(Target::CoreVersions),
            ["apis"] => Some(Target::Groups),
            ["apis", group] => Some(Target::Group((*group).to_owned())),
            ["api", version] => Some(Target::GroupVersion(String::new(), (*version).to_owned())),
            ["apis", group, version] => Some(Target::GroupVersion((*group).to_owned(), (*version).to_owned())),
            ["openapi", "v2"] => Some(Target::OldOpenApi),
            ["openapi", "v3"] => Some(Target::OpenApiIndex),
            ["openapi", "v3", "api", version] => Some(Target::OpenApi(String::new(), (*version).to_owned())),
            ["openapi", "v3", "apis", group, version] => {
                Some(Target::OpenApi((*group).to_owned(), (*version).to_owned()))
            }
            ["api", version, rest @ ..] => resource("", version, rest),
            ["apis", group, version, rest @ ..] => resource(group, version, rest),
            _ => None,
        }
    }
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Option<Target> {
    let (watch_prefix, rest) = match rest {
        ["watch", rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut found = Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        watch_prefix,
        ..Resource::default()
    };
    let own = |text: &str| text.to_owned();
    let steps: &[&str] = match rest {
        // A namespace and its subresource, or a resource inside it.
        ["namespaces", _, "status" | "finalize"] => rest,
        ["namespaces", namespace, inside @ ..] if !inside.is_empty() => {
            found.namespace = own(namespace);
            inside
        }
        rest => rest,
    };
    match steps {
        [plural] => found.plural = own(plural),
        [plural, name] => (found.plural, found.name) = (own(plural), own(name)),
        [plural, name, subresource] => {
            (found.plural, found.name) = (own(plural), own(name));
            found.subresource = Some(own(subresource));
        }
        _ => return None,
    }
    Some(Target::Resource(found))
}

/// Reads a query string; of a repeated name the first value counts.
pub(crate) fn parse_query(query: &str) -> HashMap<String, String> {
    let mut values = HashMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        values
            .entry(unescape(&name.replace('+', " ")))
            .or_insert_with(|| unescape(&value.replace('+', " ")));
    }
    values
}

/// Undoes percent encoding; what is no encoding stays as it is.
fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes
            .get(at + 1..at + 3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if bytes[at] == b'%' => {
                out.push(byte);
                at += 3;
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Resource, Target, parse_query};

    #[test]
    fn paths_name_resources() {
        let parse = |path| match Target::parse(path) {
            Some(Target::Resource(Resource {
                plural,
                namespace,
                name,
                subresource,
                ..
            })) => (plural, namespace, name, subresource.unwrap_or_default()),
            other => panic!("{path}: {other:?}"),
        };
        let wanted = |plural: &str, namespace: &str, name: &str, sub: &str| {
            (plural.to_owned(), namespace.to_owned(), name.to_owned(), sub.to_owned())
        };
        assert_eq!(parse("/api/v1/namespaces"), wanted("namespaces", "", "", ""));
        assert_eq!(parse("/api/v1/namespaces/a"), wanted("namespaces", "", "a", ""));
        assert_eq!(
            parse("/api/v1/namespaces/a/status"),
            wanted("namespaces", "", "a", "status")
        );
        assert_eq!(
            parse("/api/v1/namespaces/a/pods/b/status"),
            wanted("pods", "a", "b", "status")
        );
        assert_eq!(parse("/apis/x.y/v1/things/n"), wanted("things", "", "n", ""));
        assert_eq!(parse("/apis/x.y/v1/things/a%3Ab"), wanted("things", "", "a:b", ""));
    }

    #[test]
    fn queries_are_unescaped() {
        let query = parse_query("labelSelector=a%3Db%2Cc&watch=true&x=1+2");
        assert_eq!(query["labelSelector"], "a=b,c");
        assert_eq!(query["x"], "1 2");
    }
}
