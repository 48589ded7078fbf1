//! Reading one object or a list, in pages and at the revision that was asked for.

use std::ops::Bound;
use std::sync::Arc;

use axum::response::Response;
use serde_json::{Value, json};

use super::answers::json_response;
use super::call::Call;
use super::request::Request;
use super::view::View;
use crate::refusal::Refusal;
use crate::selector::Selector;
use crate::store::{Collection, Key, ObjectPlace, Revision};

pub(super) fn get(request: &Request<'_>) -> Result<Response, Refusal> {
    let Request {
        server,
        kind,
        resource,
        call,
    } = *request;
    let key = Key {
        namespace: resource.namespace.clone(),
        name: resource.name.clone(),
    };
    let place = ObjectPlace {
        resource: kind.stored_as.clone(),
        key,
    };
    let view = View::of(kind, call, server.now())?;
    let state = server.state();
    asked_version(call, state.version())?;
    let revision = state.get(&place).cloned();
    drop(state);
    let revision = revision.ok_or_else(|| Refusal::not_found(kind, &resource.name))?;
    let mut body = Vec::new();
    view.write_object(&revision, &mut body);
    Ok(json_response(200, body))
}

/// Where the next page starts.
struct Token {
    version: u64,
    after: Key,
}

impl Token {
    fn encode(&self) -> String {
        let json = json!([self.version, self.after.namespace, self.after.name]).to_string();
        json.bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    fn decode(text: &str) -> Option<Token> {
        let digits = text
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        let (version, namespace, name): (u64, String, String) =
            serde_json::from_slice(&digits.collect::<Option<Vec<u8>>>()?).ok()?;
        Some(Token {
            version,
            after: Key { namespace, name },
        })
    }
}

/// A page of a list.
struct Page {
    revisions: Vec<Arc<Revision>>,
    /// How many more there are.
    remaining: usize,
}

pub(super) fn list(request: &Request<'_>) -> Result<Response, Refusal> {
    let Request {
        server,
        kind,
        resource,
        call,
    } = *request;
    let selector = Selector::parse(kind, call.query("labelSelector"), call.query("fieldSelector"))?;
    let limit = call
        .query("limit")
        .parse::<usize>()
        .ok()
        .filter(|limit| *limit > 0)
        .unwrap_or(usize::MAX);
    let token = match call.query("continue") {
        "" => None,
        text => Some(
            Token::decode(text)
                .ok_or_else(|| Refusal::bad_request("invalid continue token: continue key is not valid"))?,
        ),
    };
    if token.is_some() && !matches!(call.query("resourceVersion"), "" | "0") {
        let message = "specifying resource version is not allowed when using continue";
        return Err(Refusal::bad_request(message));
    }
    let view = View::of(kind, call, server.now())?;
    let state = server.state();
    let collection = state.collection(kind).ok_or_else(Refusal::no_such_path)?;
    let exact = asked_version(call, state.version())?;
    let version = token
        .as_ref()
        .map(|token| token.version)
        .or(exact)
        .unwrap_or_else(|| state.version());
    let wanted = Wanted {
        namespace: Some(resource.namespace.as_str()).filter(|namespace| !namespace.is_empty()),
        after: token.as_ref().map(|token| &token.after),
        selector: &selector,
        limit,
    };
    let page = wanted.page(collection, version)?;
    drop(state);

    let mut metadata = json!({"resourceVersion": version.to_string()});
    if page.remaining > 0
        && let Some(last) = page.revisions.last()
    {
        metadata["continue"] = Value::from(
            Token {
                version,
                after: last.key.clone(),
            }
            .encode(),
        );
        // Of what a selector leaves out a real server does not know how much there is.
        if !selector.selects() {
            metadata["remainingItemCount"] = Value::from(page.remaining);
        }
    } else if kind.is_custom() {
        metadata["continue"] = Value::from("");
    }
    let mut body = Vec::new();
    view.write_list(&page.revisions, &metadata, &mut body);
    Ok(json_response(200, body))
}

/// The revision a list must be at exactly; `None` for the current one.
fn asked_version(call: &Call, current: u64) -> Result<Option<u64>, Refusal> {
    let asked = match call.query("resourceVersion") {
        "" | "0" => return Ok(None),
        text => text
            .parse::<u64>()
            .map_err(|_| Refusal::bad_request(format!("invalid resource version: {}", no_version(text))))?,
    };
    if asked > current {
        return Err(Refusal::version_too_large(asked, current));
    }
    Ok((call.query("resourceVersionMatch") == "Exact").then_some(asked))
}

/// Kubernetes' words for a version that is no number.
pub(super) fn no_version(text: &str) -> String {
    format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax")
}

struct Wanted<'a> {
    namespace: Option<&'a str>,
    after: Option<&'a Key>,
    selector: &'a Selector,
    limit: usize,
}

impl Wanted<'_> {
    fn page(&self, collection: &Collection, version: u64) -> Result<Page, Refusal> {
        let unchanged = collection
            .history
            .since(version, 1)
            .is_some_and(|changes| changes.is_empty());
        if unchanged {
            let from = self.after.map_or(Bound::Unbounded, Bound::Excluded);
            return Ok(self.cut(collection.iter(self.namespace, from)));
        }
        let snapshot = collection
            .at(version)
            .ok_or_else(|| Refusal::expired(version, collection.history.forgotten()))?;
        let inside = |revision: &&Arc<Revision>| {
            self.namespace
                .is_none_or(|namespace| revision.key.namespace == namespace)
                && self.after.is_none_or(|after| revision.key > *after)
        };
        Ok(self.cut(snapshot.iter().filter(inside)))
    }

    fn cut<'r>(&self, revisions: impl Iterator<Item = &'r Arc<Revision>>) -> Page {
        let mut selected = revisions.filter(|revision| self.selector.matches(revision));
        let page: Vec<Arc<Revision>> = selected.by_ref().take(self.limit).cloned().collect();
        // Without a limit nothing is left to count.
        let remaining = if self.limit == usize::MAX { 0 } else { selected.count() };
        Page {
            revisions: page,
            remaining,
        }
    }
}
