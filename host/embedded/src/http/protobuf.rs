//! The protobuf bodies that kubectl sends when it creates a ConfigMap, Secret, Namespace, ServiceAccount, Service or
//! Deployment by flags. Anything else is refused: a body that is understood in part is not understood. Field numbers are those of
//! the `generated.proto` files of `k8s.io/api/{core,apps}/v1` and `k8s.io/apimachinery/pkg/{runtime,apis/meta/v1}`.

use k8s_openapi::ByteString;
use serde_json::{Map, Value};

use crate::refusal::Refusal;

pub(super) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// What a serialised object begins with.
const MAGIC: &[u8] = b"k8s\0";

/// How the value of a field is read.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Flag,
    Number,
    Texts,
    TextMap,
    BytesMap,
    Message(&'static [Field]),
    Messages(&'static [Field]),
    NumberOrText,
}

/// Number, JSON name, shape.
type Field = (u64, &'static str, Shape);

const METADATA: &[Field] = &[
    (1, "name", Shape::Text),
    (2, "generateName", Shape::Text),
    (3, "namespace", Shape::Text),
    (11, "labels", Shape::TextMap),
    (12, "annotations", Shape::TextMap),
    (14, "finalizers", Shape::Texts),
];

const ONLY_METADATA: &[Field] = &[(1, "metadata", Shape::Message(METADATA))];

const CONFIG_MAP: &[Field] = &[
    (1, "metadata", Shape::Message(METADATA)),
    (2, "data", Shape::TextMap),
    (3, "binaryData", Shape::BytesMap),
    (4, "immutable", Shape::Flag),
];

const SECRET: &[Field] = &[
    (1, "metadata", Shape::Message(METADATA)),
    (2, "data", Shape::BytesMap),
    (3, "type", Shape::Text),
    (4, "stringData", Shape::TextMap),
    (5, "immutable", Shape::Flag),
];

const PORT: &[Field] = &[
    (1, "name", Shape::Text),
    (3, "containerPort", Shape::Number),
    (4, "protocol", Shape::Text),
];

const CONTAINER: &[Field] = &[
    (1, "name", Shape::Text),
    (2, "image", Shape::Text),
    (3, "command", Shape::Texts),
    (4, "args", Shape::Texts),
    (6, "ports", Shape::Messages(PORT)),
];

const POD_TEMPLATE: &[Field] = &[
    (1, "metadata", Shape::Message(METADATA)),
    (
        2,
        "spec",
        Shape::Message(&[(2, "containers", Shape::Messages(CONTAINER))]),
    ),
];

const DEPLOYMENT: &[Field] = &[
    (1, "metadata", Shape::Message(METADATA)),
    (
        2,
        "spec",
        Shape::Message(&[
            (1, "replicas", Shape::Number),
            (2, "selector", Shape::Message(&[(1, "matchLabels", Shape::TextMap)])),
            (3, "template", Shape::Message(POD_TEMPLATE)),
        ]),
    ),
];

const SERVICE_PORT: &[Field] = &[
    (1, "name", Shape::Text),
    (2, "protocol", Shape::Text),
    (3, "port", Shape::Number),
    (4, "targetPort", Shape::NumberOrText),
    (5, "nodePort", Shape::Number),
];

const SERVICE: &[Field] = &[
    (1, "metadata", Shape::Message(METADATA)),
    (
        2,
        "spec",
        Shape::Message(&[
            (1, "ports", Shape::Messages(SERVICE_PORT)),
            (2, "selector", Shape::TextMap),
            (3, "clusterIP", Shape::Text),
            (4, "type", Shape::Text),
            (10, "externalName", Shape::Text),
        ]),
    ),
];

/// `IntOrString`: which of the two it is, and both.
const NUMBER_OR_TEXT: &[Field] = &[
    (1, "isText", Shape::Flag),
    (2, "number", Shape::Number),
    (3, "text", Shape::Text),
];

const TYPE_META: &[Field] = &[(1, "apiVersion", Shape::Text), (2, "kind", Shape::Text)];

/// Reads an object.
pub(super) fn decode(body: &[u8]) -> Result<Value, Refusal> {
    let envelope = body
        .strip_prefix(MAGIC)
        .ok_or_else(|| broken("it does not begin with the magic number"))?;
    let (mut types, mut raw) = (Map::new(), None);
    for field in fields(envelope) {
        match field? {
            (1, Wire::Bytes(bytes)) => types = message(bytes, TYPE_META)?,
            (2, Wire::Bytes(bytes)) => raw = Some(bytes),
            (_, Wire::Bytes([])) => {}
            (number, _) => return Err(not_understood(number)),
        }
    }
    let schema = match (
        types.get("apiVersion").and_then(Value::as_str),
        types.get("kind").and_then(Value::as_str),
    ) {
        (Some("v1"), Some("ConfigMap")) => CONFIG_MAP,
        (Some("v1"), Some("Secret")) => SECRET,
        (Some("v1"), Some("Namespace" | "ServiceAccount")) => ONLY_METADATA,
        (Some("v1"), Some("Service")) => SERVICE,
        (Some("apps/v1"), Some("Deployment")) => DEPLOYMENT,
        (_, kind) => {
            let message = format!(
                "protobuf is not read for kind {:?}: send JSON",
                kind.unwrap_or_default()
            );
            return Err(Refusal::unsupported_media_type(message));
        }
    };
    let mut object = message(raw.ok_or_else(|| broken("it holds no object"))?, schema)?;
    object.extend(types);
    Ok(Value::Object(object))
}

fn broken(why: &str) -> Refusal {
    Refusal::bad_request(format!("cannot decode the protobuf body: {why}"))
}

fn not_understood(number: u64) -> Refusal {
    Refusal::unsupported_media_type(format!("protobuf field {number} is not read: send JSON"))
}

/// A field as it stands in the message.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl Wire<'_> {
    /// Zero, no bytes, or a message of such fields: strings and numbers that are not set.
    fn holds_nothing(&self) -> bool {
        match self {
            Wire::Number(number) => *number == 0,
            Wire::Bytes(bytes) => {
                fields(bytes).all(|field| matches!(field, Ok((_, Wire::Number(0) | Wire::Bytes([])))))
            }
        }
    }
}

/// The fields of a message with their numbers.
fn fields(mut rest: &[u8]) -> impl Iterator<Item = Result<(u64, Wire<'_>), Refusal>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let field = next_field(&mut rest);
        if field.is_err() {
            rest = &[];
        }
        Some(field)
    })
}

fn next_field<'a>(rest: &mut &'a [u8]) -> Result<(u64, Wire<'a>), Refusal> {
    let tag = varint(rest)?;
    let wire = match tag & 7 {
        0 => Wire::Number(varint(rest)?),
        2 => {
            let length = usize::try_from(varint(rest)?).map_err(|_| broken("a length is too large"))?;
            let (bytes, after) = rest.split_at_checked(length).ok_or_else(|| broken("it ends early"))?;
            *rest = after;
            Wire::Bytes(bytes)
        }
        _ => return Err(not_understood(tag >> 3)),
    };
    Ok((tag >> 3, wire))
}

fn varint(rest: &mut &[u8]) -> Result<u64, Refusal> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first().ok_or_else(|| broken("it ends early"))?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(broken("a number is too large"))
}

/// Reads a message. Fields that are not in the schema may only be there because Go writes what is not set.
fn message(bytes: &[u8], schema: &[Field]) -> Result<Map<String, Value>, Refusal> {
    let mut object = Map::new();
    for field in fields(bytes) {
        let (number, wire) = field?;
        let Some((_, name, shape)) = schema.iter().find(|(known, ..)| *known == number) else {
            if wire.holds_nothing() {
                continue;
            }
            return Err(not_understood(number));
        };
        match (shape, wire) {
            (Shape::Flag, Wire::Number(flag)) => set(&mut object, name, Value::from(flag != 0)),
            // Negative numbers are sent as their 64 bits.
            (Shape::Number, Wire::Number(number)) => set(&mut object, name, Value::from(number.cast_signed())),
            (Shape::Text, Wire::Bytes([])) => {}
            (Shape::Text, Wire::Bytes(bytes)) => set(&mut object, name, text(bytes)?),
            (Shape::Message(schema), Wire::Bytes(bytes)) => {
                set(&mut object, name, Value::Object(message(bytes, schema)?));
            }
            (Shape::NumberOrText, Wire::Bytes(bytes)) => {
                let mut either = message(bytes, NUMBER_OR_TEXT)?;
                let is_text = either.get("isText") == Some(&Value::Bool(true));
                let value = either.remove(if is_text { "text" } else { "number" });
                set(&mut object, name, value.unwrap_or_default());
            }
            (Shape::Texts, Wire::Bytes(bytes)) => push(&mut object, name, text(bytes)?),
            (Shape::Messages(schema), Wire::Bytes(bytes)) => {
                push(&mut object, name, Value::Object(message(bytes, schema)?));
            }
            (Shape::TextMap | Shape::BytesMap, Wire::Bytes(bytes)) => {
                let (key, value) = entry(bytes)?;
                let value = if matches!(shape, Shape::TextMap) {
                    text(value)?
                } else {
                    base64(value)
                };
                if let Value::Object(map) = object.entry(*name).or_insert_with(|| Value::Object(Map::new())) {
                    map.insert(key, value);
                }
            }
            _ => return Err(not_understood(number)),
        }
    }
    Ok(object)
}

fn set(object: &mut Map<String, Value>, name: &str, value: Value) {
    object.insert(name.to_owned(), value);
}

fn push(object: &mut Map<String, Value>, name: &str, item: Value) {
    if let Value::Array(items) = object.entry(name).or_insert_with(|| Value::Array(Vec::new())) {
        items.push(item);
    }
}

/// A map's entry: key 1, value 2.
fn entry(bytes: &[u8]) -> Result<(String, &[u8]), Refusal> {
    let (mut key, mut value) = (String::new(), &b""[..]);
    for field in fields(bytes) {
        match field? {
            (1, Wire::Bytes(bytes)) => {
                key = String::from_utf8(bytes.to_vec()).map_err(|_| broken("a key is not UTF-8"))?;
            }
            (2, Wire::Bytes(bytes)) => value = bytes,
            (number, _) => return Err(not_understood(number)),
        }
    }
    Ok((key, value))
}

fn text(bytes: &[u8]) -> Result<Value, Refusal> {
    std::str::from_utf8(bytes)
        .map(Value::from)
        .map_err(|_| broken("a text is not UTF-8"))
}

fn base64(bytes: &[u8]) -> Value {
    // A byte string always encodes to JSON text.
    serde_json::to_value(ByteString(bytes.to_vec())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::decode;

    /// Name `c` and a null time, then `data: {k: v}`.
    const CONFIG_MAP: &[u8] = b"\x0a\x05\x0a\x01c\x42\x00\x12\x06\x0a\x01k\x12\x01v";

    /// The object in its envelope, as kubectl sends it.
    fn body(config_map: &[u8]) -> Vec<u8> {
        let length = u8::try_from(config_map.len()).unwrap();
        [
            b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12",
            &[length][..],
            config_map,
            b"\x1a\x00\x22\x00",
        ]
        .concat()
    }

    #[test]
    fn a_config_map_is_read() {
        let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "v"}});
        assert_eq!(decode(&body(CONFIG_MAP)).unwrap(), wanted);
    }

    #[test]
    fn every_cut_body_is_refused_and_none_panics() {
        let body = body(CONFIG_MAP);
        for length in 0..body.len() - 4 {
            assert!(decode(&body[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn a_field_that_is_not_known_is_refused() {
        let unknown = [CONFIG_MAP, b"\x50\x01"].concat();
        assert!(decode(&body(&unknown)).unwrap_err().message.contains("field 10"));
    }
}
