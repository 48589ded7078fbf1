//! Watches: a cursor into a resource's history, rendered as lines until the client goes, the time is up, or the history
//! it needs is forgotten.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::answers::json_response;
use super::read::no_version;
use super::request::Request;
use super::view::View;
use crate::refusal::Refusal;
use crate::selector::Selector;
use crate::server::Server;
use crate::store::{Change, Revision};

/// How long a watch lasts that names no timeout. Kubernetes takes 30 to 60 minutes.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(45 * 60);

/// How often an idle watch that asked for bookmarks gets one.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// Events rendered under one lock and sent as one chunk.
const BATCH: usize = 256;

pub(super) fn watch(request: &Request<'_>) -> Result<Response, Refusal> {
    let Request {
        server,
        kind,
        resource,
        call,
    } = *request;
    let selector = Selector::parse(kind, call.query("labelSelector"), call.query("fieldSelector"))?;
    let streaming_list = call.flag("sendInitialEvents");
    let bookmarks = call.flag("allowWatchBookmarks");
    let view = View::of(kind, call, server.now())?;
    let timeout = call.query("timeoutSeconds").parse().ok().filter(|seconds| *seconds > 0);
    let state = server.state();
    let collection = state.collection(kind).ok_or_else(Refusal::no_such_path)?;
    let asked = match call.query("resourceVersion") {
        "" | "0" => None,
        text => {
            // One from the future is waited for.
            let version = text
                .parse::<u64>()
                .map_err(|_| Refusal::unexplained(no_version(text)))?;
            Some(version)
        }
    };
    let namespace = Some(resource.namespace.clone()).filter(|namespace| !namespace.is_empty());
    let from_start = streaming_list || asked.is_none() && call.query("sendInitialEvents") != "false";
    let initial: VecDeque<Arc<Revision>> = if from_start {
        let present = collection.iter(namespace.as_deref(), Bound::Unbounded);
        present.filter(|revision| selector.matches(revision)).cloned().collect()
    } else {
        VecDeque::new()
    };
    let now = Instant::now();
    let feed = Feed {
        server: server.clone(),
        view,
        selector,
        namespace,
        cursor: if from_start {
            state.version()
        } else {
            asked.unwrap_or_else(|| state.version())
        },
        tip: collection.tip(),
        initial,
        owes_end_bookmark: streaming_list && bookmarks,
        bookmarks,
        deadline: now + timeout.map_or(DEFAULT_TIMEOUT, Duration::from_secs),
        next_bookmark: now + BOOKMARK_INTERVAL,
        done: false,
    };
    drop(state);
    let stream = futures::stream::unfold(feed, |mut feed| async move {
        let chunk = feed.next().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), feed))
    });
    Ok(json_response(200, Body::from_stream(stream)))
}

/// One running watch.
struct Feed {
    server: Server,
    view: View,
    selector: Selector,
    namespace: Option<String>,
    /// Everything up to this version has been sent.
    cursor: u64,
    tip: tokio::sync::watch::Receiver<u64>,
    /// Objects that were there at the start and are still to be sent.
    initial: VecDeque<Arc<Revision>>,
    owes_end_bookmark: bool,
    bookmarks: bool,
    deadline: Instant,
    next_bookmark: Instant,
    done: bool,
}

impl Feed {
    /// The next lines; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        if !self.initial.is_empty() {
            let mut out = Vec::new();
            for revision in self.initial.drain(..BATCH.min(self.initial.len())) {
                write_event(&self.view, "ADDED", &revision, &mut out);
            }
            return Some(out.into());
        }
        if std::mem::take(&mut self.owes_end_bookmark) {
            return Some(self.bookmark(true));
        }
        loop {
            self.tip.borrow_and_update();
            // Ages in tables are those at the time of the event.
            self.view.now = self.server.now();
            let lines = self.changes()?;
            if !lines.is_empty() {
                return Some(lines.into());
            }
            tokio::select! {
                changed = self.tip.changed() => changed.ok()?,
                () = tokio::time::sleep_until(self.deadline) => {
                    self.done = true;
                    return self.bookmarks.then(|| self.bookmark(false));
                }
                () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                    self.next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
                    return Some(self.bookmark(false));
                }
            }
        }
    }

    /// Lines for what changed since the cursor, which advances; `None` when the resource is no longer served.
    fn changes(&mut self) -> Option<Vec<u8>> {
        let (changes, current) = {
            let state = self.server.state();
            let collection = state.collection(&self.view.kind)?;
            match collection.history.since(self.cursor, BATCH) {
                Some(changes) => (changes, state.version()),
                None => {
                    self.done = true;
                    let refusal = Refusal::expired(self.cursor, collection.history.forgotten());
                    return Some(line(&json!({"type": "ERROR", "object": refusal.to_json()})));
                }
            }
        };
        let mut out = Vec::new();
        self.cursor = if changes.len() < BATCH {
            current.max(self.cursor)
        } else {
            changes.last().map_or(current, |last| last.version)
        };
        for change in &changes {
            self.write_change(change, &mut out);
        }
        Some(out)
    }

    /// An object that begins or ceases to match is added or deleted for this watcher.
    fn write_change(&self, change: &Change, out: &mut Vec<u8>) {
        let seen = |revision: &Revision| {
            self.namespace
                .as_ref()
                .is_none_or(|namespace| revision.key.namespace == *namespace)
                && self.selector.matches(revision)
        };
        let before = change.before.as_deref().is_some_and(seen);
        let after = !change.removed && seen(&change.after);
        match (before, after) {
            (false, true) => write_event(&self.view, "ADDED", &change.after, out),
            (true, true) => write_event(&self.view, "MODIFIED", &change.after, out),
            (true, false) if change.removed => write_event(&self.view, "DELETED", &change.after, out),
            // It is there, and none of this watcher's any more: it sees what it knew, at the version of the change.
            (true, false) => {
                let known = change.before.as_ref().unwrap_or(&change.after);
                let known = Arc::new(known.at(&self.view.kind, change.version));
                write_event(&self.view, "DELETED", &known, out);
            }
            (false, false) => {}
        }
    }

    fn bookmark(&self, ends_initial_events: bool) -> Bytes {
        let object = self.view.bookmark(self.cursor, ends_initial_events);
        line(&json!({"type": "BOOKMARK", "object": object})).into()
    }
}

fn write_event(view: &View, type_: &str, revision: &Arc<Revision>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(type_.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    view.write_object(revision, out);
    out.extend_from_slice(b"}\n");
}

fn line(event: &Value) -> Vec<u8> {
    let mut line = event.to_string().into_bytes();
    line.push(b'\n');
    line
}
