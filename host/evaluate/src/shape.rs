//! What is known of a value before anything runs: enough to refuse a member that is not there, a comparison that is never true, and a
//! result that is no boolean. Whatever is not known is [`Shape::Any`], of which nothing is refused.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The type of a value, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Anything.
    Any,
    Bool,
    Int,
    Double,
    String,
    Timestamp,
    /// A value that only functions know what to do with: what a reader calls it, with its article.
    Opaque(&'static str),
    /// Elements of one shape.
    List(Arc<Shape>),
    /// Whatever keys, with values of one shape.
    Map(Arc<Shape>),
    /// A map that has no other keys than these; one of them may be absent.
    Record(Arc<BTreeMap<String, Shape>>),
}

impl Shape {
    /// A list of such elements.
    pub fn list(element: Shape) -> Self {
        Self::List(Arc::new(element))
    }

    /// A map to such values.
    pub fn map(value: Shape) -> Self {
        Self::Map(Arc::new(value))
    }

    /// A map of these members.
    pub fn record(members: impl IntoIterator<Item = (&'static str, Shape)>) -> Self {
        let members = members.into_iter().map(|(name, shape)| (name.to_owned(), shape));
        Self::Record(Arc::new(members.collect()))
    }

    /// What a loop over such a value binds to its variable.
    pub(crate) fn element(&self) -> Self {
        match self {
            Self::List(element) => (**element).clone(),
            // A loop over a map is one over its keys.
            Self::Map(_) | Self::Record(_) => Self::String,
            _ => Self::Any,
        }
    }

    /// The value at an index or key.
    pub(crate) fn indexed(&self) -> Self {
        match self {
            Self::List(element) => (**element).clone(),
            Self::Map(value) => (**value).clone(),
            _ => Self::Any,
        }
    }

    /// Whether values of the two can be equal, and have an order if they are of one type.
    pub(crate) fn is_comparable_with(&self, other: &Self) -> bool {
        match (self.family(), other.family()) {
            (None, _) | (_, None) => true,
            (one, other) => one == other,
        }
    }

    /// `None`: not known.
    fn family(&self) -> Option<Family> {
        Some(Family::Builtin(match self {
            Self::Any => return None,
            Self::Bool => 0,
            Self::Int | Self::Double => 1,
            Self::String => 2,
            Self::Timestamp => 3,
            Self::List(_) => 4,
            Self::Map(_) | Self::Record(_) => 5,
            Self::Opaque(name) => return Some(Family::Opaque(name)),
        }))
    }
}

impl fmt::Display for Shape {
    /// The name of the type in CEL, with its article.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any value",
            Self::Bool => "a bool",
            Self::Int => "an int",
            Self::Double => "a double",
            Self::String => "a string",
            Self::Timestamp => "a timestamp",
            Self::Opaque(name) => name,
            Self::List(_) => "a list",
            Self::Map(_) | Self::Record(_) => "a map",
        })
    }
}

#[derive(PartialEq, Eq)]
enum Family {
    Builtin(u8),
    Opaque(&'static str),
}

const QUANTITY: Shape = Shape::Opaque("a quantity");
const IP: Shape = Shape::Opaque("an IP address");
const CIDR: Shape = Shape::Opaque("a CIDR");
const SEMVER: Shape = Shape::Opaque("a semantic version");
const URL: Shape = Shape::Opaque("a URL");

/// What the function or method `name` returns, whatever its arguments are.
pub(crate) fn returned_by(name: &str, receiver: Option<&Shape>) -> Shape {
    match (name, receiver) {
        ("ip", _) => IP,
        ("sum" | "min" | "max", Some(list)) => list.indexed(),
        ("add" | "sub", Some(_)) => QUANTITY,
        ("masked", Some(_)) => CIDR,
        ("find", Some(_)) => Shape::String,
        ("findAll", Some(_)) => Shape::list(Shape::String),
        ("getQuery", Some(_)) => Shape::map(Shape::list(Shape::String)),
        ("getScheme" | "getHost" | "getHostname" | "getPort" | "getEscapedPath", Some(_)) => Shape::String,
        ("asInteger" | "sign" | "compareTo" | "family" | "prefixLength", Some(_)) => Shape::Int,
        ("major" | "minor" | "patch" | "indexOf" | "lastIndexOf", Some(_)) => Shape::Int,
        ("asApproximateFloat", Some(_)) => Shape::Double,
        ("isInteger" | "isLessThan" | "isGreaterThan" | "isSorted", Some(_)) => Shape::Bool,
        ("isUnspecified" | "isLoopback" | "isLinkLocalMulticast" | "isLinkLocalUnicast", Some(_)) => Shape::Bool,
        ("isGlobalUnicast" | "containsIP" | "containsCIDR", Some(_)) => Shape::Bool,
        ("quantity", None) => QUANTITY,
        ("cidr", None) => CIDR,
        ("semver", None) => SEMVER,
        ("url", None) => URL,
        ("isQuantity" | "isIP" | "isCIDR" | "isSemver" | "isURL", None) => Shape::Bool,
        ("size" | "int", _) => Shape::Int,
        ("double", _) => Shape::Double,
        ("string", _) => Shape::String,
        ("timestamp", _) => Shape::Timestamp,
        ("bool" | "startsWith" | "endsWith" | "contains" | "matches", _) => Shape::Bool,
        _ => Shape::Any,
    }
}

/// Longer names are compared with none: that takes the product of the two lengths.
const NAME_CHARS: usize = 253;

/// The name among `known` that was probably meant, if there is one: at most a third of it differs.
pub fn meant<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    nearest(name, known).map(|(_, known)| known)
}

/// [`meant`], if no more than two characters differ, so that it is hardly another name on purpose.
pub fn mistyped<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let (distance, known) = nearest(name, known)?;
    (distance <= 2).then_some(known)
}

fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<(usize, &'k str)> {
    let length = name.chars().count();
    if length > NAME_CHARS {
        return None;
    }
    let lower = name.to_lowercase();
    let near = known.into_iter().filter_map(|known| {
        let of_known = known.chars().count();
        let most = (of_known / 3).max(1);
        if of_known > NAME_CHARS || of_known.abs_diff(length) > most {
            return None;
        }
        let distance = strsim::damerau_levenshtein(&known.to_lowercase(), &lower);
        (distance <= most).then_some((distance, known))
    });
    near.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_meant_if_a_third_of_it_differs_and_mistyped_if_two_characters_do() {
        let cases = [
            ("avaliable", "available", Some("available"), Some("available")),
            ("Clusters", "clusters", Some("clusters"), Some("clusters")),
            ("cpuu", "cpu", Some("cpu"), Some("cpu")),
            ("cpu", "mem", None, None),
            ("latency-p90-web", "latency-p99-api", Some("latency-p99-api"), None),
            ("a", "available", None, None),
        ];
        for (name, known, wanted, mistyped_for) in cases {
            assert_eq!(meant(name, [known]), wanted, "{name}");
            assert_eq!(mistyped(name, [known]), mistyped_for, "{name}");
        }
    }

    #[test]
    fn names_that_no_object_can_have_are_not_compared() {
        let (long, other) = ("a".repeat(1_000_000), "b".repeat(900_000));
        assert_eq!(meant(&long, [other.as_str()]), None);
        assert_eq!(meant("a", [other.as_str()]), None);
        let (kept, near) = ("a".repeat(253), format!("{}b", "a".repeat(252)));
        assert_eq!(meant(&kept, [near.as_str()]), Some(near.as_str()));
    }
}
