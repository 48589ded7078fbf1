//! `url`: absolute URLs and absolute paths, taken apart by the rules of RFC 3986 as Go's `net/url` reads a request's target. Unlike a browser's
//! parser it keeps what is written: no path is added, no port left out.

use super::{Arguments, Returned, argument, function, method, opaque, owned, text_at, type_of, units};
use crate::budget::charge;
use cel::common::types::{CelBool, CelList, CelMap, CelMapKey, CelString, STRING_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};
use std::collections::HashMap;
use std::sync::Arc;

/// The longest URL, in bytes: what servers take at most.
const URL_BYTES: usize = 8 * 1024;

/// The parts of a URL; one that is absent is empty.
#[derive(Debug, PartialEq, Eq)]
struct Parts {
    /// Lower case.
    scheme: String,
    /// Instead of host and path: what follows `mailto:`.
    opaque: String,
    user: String,
    /// With the port.
    host: String,
    escaped_path: String,
    query: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url(Arc<Parts>);

opaque!(Url, "kubernetes.URL");

impl Url {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.len() > URL_BYTES || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return None;
        }
        let (scheme, rest) = scheme_of(text)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut parts = Parts {
            scheme: scheme.to_ascii_lowercase(),
            opaque: String::new(),
            user: String::new(),
            host: String::new(),
            escaped_path: String::new(),
            query: query.to_owned(),
        };
        if text == "*" {
            parts.escaped_path = text.to_owned();
            return Some(Self(Arc::new(parts)));
        }
        if !rest.starts_with('/') {
            if scheme.is_empty() {
                return None;
            }
            parts.opaque = rest.to_owned();
            return Some(Self(Arc::new(parts)));
        }
        let path = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
            None => rest,
            Some(rest) => {
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
                parts.user = user_of(user)?;
                parts.host = host_of(host)?;
                path
            }
        };
        parts.escaped_path = escaped_path(path)?;
        Some(Self(Arc::new(parts)))
    }
}

/// The scheme, which may be absent, and what follows it.
fn scheme_of(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)));
    match end {
        Some(0) if text.starts_with(':') => None,
        Some(end) if text[end..].starts_with(':') && text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            Some((&text[..end], &text[end + 1..]))
        }
        _ => Some(("", text)),
    }
}

fn user_of(user: &str) -> Option<String> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    (user.chars().all(is_valid) && unescaped(user, false).is_some()).then(|| user.to_owned())
}

/// The host, with its port, which is a number or empty.
fn host_of(host: &str) -> Option<String> {
    let port = match host.strip_prefix('[') {
        Some(rest) => rest.rsplit_once(']')?.1,
        None => host.rfind(':').map_or("", |colon| &host[colon..]),
    };
    let digits = if port.is_empty() { "" } else { port.strip_prefix(':')? };
    let is_valid = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:[]<>\"%".contains(c);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) || !host.chars().all(is_valid) {
        return None;
    }
    // In a host only bytes of other alphabets are escaped, and the `%` before a zone.
    let escapes_too_much = host
        .match_indices('%')
        .any(|(at, _)| host.as_bytes().get(at + 1).is_none_or(|first| *first < b'8') && !host[at..].starts_with("%25"));
    (!escapes_too_much).then(|| unescaped(host, false)).flatten()
}

/// The path as it stands if it is escaped as it must be; otherwise escaped anew.
fn escaped_path(path: &str) -> Option<String> {
    let plain = unescaped_bytes(path, false)?;
    let stands = |byte: u8| is_unreserved(byte) || b"!$&'()*+,;=:@[]%/".contains(&byte);
    if path.bytes().all(stands) {
        return Some(path.to_owned());
    }
    let mut escaped = String::with_capacity(path.len());
    for byte in plain {
        if is_unreserved(byte) || b"$&+,/:;=@".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    Some(escaped)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)
}

/// Without escapes, of which none may be broken. Bytes that are no UTF-8 become U+FFFD, since a text has none.
fn unescaped(text: &str, plus_is_space: bool) -> Option<String> {
    let bytes = unescaped_bytes(text, plus_is_space)?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn unescaped_bytes(text: &str, plus_is_space: bool) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            b'+' if plus_is_space => b' ',
            byte => byte,
        });
    }
    Some(bytes)
}

pub(super) fn register(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_type(type_of::<Url>())?;
    function(env, "url", vec![STRING_TYPE], url)?;
    function(env, "isURL", vec![STRING_TYPE], is_url)?;
    let of = || (type_of::<Url>(), vec![]);
    method(env, "getScheme", of(), scheme)?;
    method(env, "getHost", of(), host)?;
    method(env, "getHostname", of(), hostname)?;
    method(env, "getPort", of(), port)?;
    method(env, "getEscapedPath", of(), path)?;
    method(env, "getQuery", of(), query)
}

fn url<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let parsed = Url::parse(text_at(&args, 0)?);
    Ok(owned(
        parsed.ok_or_else(|| ExecutionError::function_error("url", "text"))?,
    ))
}

fn is_url<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    Ok(owned(CelBool::from(Url::parse(text_at(&args, 0)?).is_some())))
}

fn parts<'a>(args: &'a [CowVal<'_, '_>]) -> Result<&'a Parts, ExecutionError> {
    let parts = argument::<Url>(args, 0).map(|url| &*url.0)?;
    charge(1 + units((parts.host.len() + parts.escaped_path.len()) / 16))?;
    Ok(parts)
}

fn text<'b, 'v>(text: &str) -> Returned<'b, 'v> {
    Ok(owned(CelString::from(text.to_owned())))
}

fn scheme<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    text(&parts(&args)?.scheme)
}

fn host<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    text(&parts(&args)?.host)
}

fn hostname<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    text(split(&parts(&args)?.host).0)
}

fn port<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    text(split(&parts(&args)?.host).1)
}

/// The host without brackets, and the port.
fn split(host: &str) -> (&str, &str) {
    if let Some((address, port)) = host.strip_prefix('[').and_then(|rest| rest.rsplit_once(']')) {
        return (address, port.trim_start_matches(':'));
    }
    host.rsplit_once(':').unwrap_or((host, ""))
}

fn path<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    text(&parts(&args)?.escaped_path)
}

/// The values of each key, in their order. What is no pair is left out.
fn query<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let query = &parts(&args)?.query;
    charge(1 + units(query.len()))?;
    let mut values: HashMap<String, Vec<Box<dyn Val + 'v>>> = HashMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let (Some(key), Some(value)) = (unescaped(key, true), unescaped(value, true)) {
            values.entry(key).or_default().push(Box::new(CelString::from(value)));
        }
    }
    let entries = values.into_iter().map(|(key, values)| {
        (
            CelMapKey::from(key),
            Box::new(CelList::from(values)) as Box<dyn Val + 'v>,
        )
    });
    Ok(CowVal::owned(CelMap::from(entries.collect::<HashMap<_, _>>())))
}
