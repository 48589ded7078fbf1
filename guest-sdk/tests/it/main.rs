//! The SDK from a gate's point of view: what is typed, what is an error, what a verdict can be, and what the harness
//! finds.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails by the panic")]

mod columns;
mod harness;
mod interface;
mod verdicts;

use stagegate_guest::Request;
use stagegate_guest::harness::Case;

/// The request of a case that has these objects, in clusters `a` and `b`.
fn request(objects: &str) -> Request {
    let text = format!(
        "why: test\nnow: 2026-11-20T09:00:00Z\nclusters: [a, b]\nexpect: {{outcome: pass}}\nobjects:\n{objects}"
    );
    let case: Case = text.parse().unwrap();
    case.request().unwrap()
}
