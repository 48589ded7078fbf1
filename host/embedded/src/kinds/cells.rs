//! The cells of built-in kinds that are more than the value at a path, worked out as Kubernetes' own printers do it
//! (kubernetes/pkg/printers/internalversion). Must not know which kind shows what.

use jiff::Timestamp;
use serde_json::Value;

use super::age::since;
use super::json_path::{find, text};

/// How a cell is worked out.
#[derive(Clone, Copy, Debug)]
pub enum Shown {
    /// A text; empty where there is none.
    Text(&'static str),
    /// The same, `<none>` where there is none; several are joined.
    OrNone(&'static str),
    /// A text, `<unset>` where there is none.
    OrUnset(&'static str),
    /// A number; 0 where there is none.
    Number(&'static str),
    /// How many entries there are, in all of the places.
    Entries(&'static [&'static str]),
    /// `1/2`.
    Ratio(&'static str, &'static str),
    /// Since the first of these times that is there.
    Since(&'static [&'static str]),
    /// `matchLabels`, or the labels themselves.
    Selector(&'static str),
    /// `80/TCP,443:30443/TCP`.
    Ports,
    /// Containers' restarts.
    Restarts,
    /// `deployment/nginx`.
    Regarding,
}

impl Shown {
    pub fn cell(self, object: &Value, now: Timestamp) -> Value {
        let at = |path: &str| find(object, path);
        let joined = |path: &str| at(path).into_iter().map(text).collect::<Vec<_>>().join(",");
        match self {
            Self::Text(path) => Value::from(joined(path)),
            Self::OrNone(path) => Value::from(or_none(joined(path))),
            Self::OrUnset(path) => match joined(path) {
                absent if absent.is_empty() => Value::from("<unset>"),
                found => Value::from(found),
            },
            Self::Number(path) => Value::from(number(&at(path))),
            Self::Entries(paths) => Value::from(paths.iter().map(|path| entries(&at(path))).sum::<usize>()),
            Self::Ratio(present, wanted) => Value::from(format!("{}/{}", number(&at(present)), number(&at(wanted)))),
            Self::Since(paths) => {
                let first = paths.iter().flat_map(|path| at(path)).find(|time| time.is_string());
                Value::from(first.map_or_else(|| "<unknown>".to_owned(), |time| since(time, now)))
            }
            Self::Selector(path) => {
                Value::from(or_none(at(path).first().map(|found| labels(found)).unwrap_or_default()))
            }
            Self::Ports => Value::from(or_none(
                at(".spec.ports[*]").into_iter().map(port).collect::<Vec<_>>().join(","),
            )),
            Self::Restarts => {
                let counts = at(".status.containerStatuses[*].restartCount");
                Value::from(
                    counts
                        .iter()
                        .filter_map(|count| count.as_u64())
                        .sum::<u64>()
                        .to_string(),
                )
            }
            Self::Regarding => {
                let kind = joined(".involvedObject.kind").to_lowercase();
                Value::from(format!("{kind}/{}", joined(".involvedObject.name")))
            }
        }
    }
}

/// A number that stands there; of other things, how many there are.
fn number(found: &[&Value]) -> u64 {
    match found {
        [single] if single.is_number() => single.as_u64().unwrap_or_default(),
        others => others.iter().filter(|value| !value.is_null()).count() as u64,
    }
}

fn entries(found: &[&Value]) -> usize {
    let sizes = found.iter().map(|value| match value {
        Value::Object(map) => map.len(),
        Value::Array(items) => items.len(),
        _ => 0,
    });
    sizes.sum()
}

fn labels(selector: &Value) -> String {
    let labels = selector.get("matchLabels").unwrap_or(selector);
    let pairs = labels.as_object().into_iter().flatten();
    pairs
        .map(|(name, value)| format!("{name}={}", text(value)))
        .collect::<Vec<_>>()
        .join(",")
}

fn port(port: &Value) -> String {
    let protocol = port["protocol"].as_str().unwrap_or("TCP");
    match port["nodePort"].as_u64() {
        Some(node) if node > 0 => format!("{}:{node}/{protocol}", port["port"]),
        _ => format!("{}/{protocol}", port["port"]),
    }
}

fn or_none(text: String) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text }
}
