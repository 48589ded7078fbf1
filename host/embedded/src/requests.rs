//! What was asked of the server, counted and, for the most recent requests, kept; and faults that make it answer
//! wrongly on purpose. Nothing here reads or changes an object.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How many requests are kept one by one.
const KEPT_REQUESTS: usize = 10_000;

/// One request as the log keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// get, list, watch, create, update, patch, apply, delete or deletecollection.
    pub verb: &'static str,
    /// `deployments.apps`, with `/status` for the subresource.
    pub resource: String,
    pub namespace: String,
    /// Empty for collections.
    pub name: String,
    pub manager: String,
    pub dry_run: bool,
}

/// Counters by (verb, resource) and the last requests, oldest first.
#[derive(Clone, Debug, Default)]
pub struct RequestLog {
    pub counts: BTreeMap<(String, String), u64>,
    pub recent: VecDeque<Request>,
}

impl RequestLog {
    pub(crate) fn record(&mut self, request: Request) {
        *self
            .counts
            .entry((request.verb.to_owned(), request.resource.clone()))
            .or_default() += 1;
        if self.recent.len() == KEPT_REQUESTS {
            self.recent.pop_front();
        }
        self.recent.push_back(request);
    }

    pub fn count(&self, verb: &str, resource: &str) -> u64 {
        self.counts
            .get(&(verb.to_owned(), resource.to_owned()))
            .copied()
            .unwrap_or_default()
    }

    /// All requests that may change something; dry runs count.
    pub fn writes(&self) -> u64 {
        self.counts
            .iter()
            .filter(|((verb, _), _)| !matches!(verb.as_str(), "get" | "list" | "watch"))
            .map(|(_, count)| count)
            .sum()
    }
}

/// What the server does instead of answering properly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultAnswer {
    /// Nothing is done; this HTTP status is the answer.
    Status(u16),
    /// Nothing is done, and the connection breaks.
    LoseRequest,
    /// It is done, and the connection breaks before the answer.
    LoseAnswer,
    /// It is done, later.
    Delay(Duration),
}

/// A fault for some of the requests to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// As in [`Request::verb`]; `*` is any.
    pub verb: String,
    /// As in [`Request::resource`]; `*` stands for any text.
    pub resource: String,
    /// `*` stands for any text.
    pub name: String,
    /// Which of the matching requests is hit first, from 1.
    pub nth: u32,
    /// How many in a row are hit from there.
    pub times: u32,
    pub answer: FaultAnswer,
}

impl Fault {
    /// Hits the first matching request only.
    pub fn new(verb: &str, resource: &str, answer: FaultAnswer) -> Fault {
        Fault {
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            name: "*".to_owned(),
            nth: 1,
            times: 1,
            answer,
        }
    }
}

/// The faults that are still to come.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<(Fault, u32)>);

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault) {
        self.0.push((fault, 0));
    }

    /// Counts the request against every fault and returns the first that hits.
    pub(crate) fn hit(&mut self, request: &Request) -> Option<FaultAnswer> {
        let mut answer = None;
        for (fault, seen) in &mut self.0 {
            let matches = matches_glob(&fault.verb, request.verb)
                && matches_glob(&fault.resource, &request.resource)
                && matches_glob(&fault.name, &request.name);
            if matches {
                *seen += 1;
                if *seen >= fault.nth && answer.is_none() {
                    answer = Some(fault.answer.clone());
                }
            }
        }
        self.0
            .retain(|(fault, seen)| *seen < fault.nth.saturating_add(fault.times).saturating_sub(1));
        answer
    }
}

fn matches_glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|tail| {
            rest.is_empty() || (0..=tail.len()).any(|at| tail.is_char_boundary(at) && matches_glob(rest, &tail[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, FaultAnswer, Faults, Request};

    fn request(resource: &str) -> Request {
        Request {
            verb: "create",
            resource: resource.to_owned(),
            namespace: String::new(),
            name: "a".to_owned(),
            manager: String::new(),
            dry_run: false,
        }
    }

    #[test]
    fn a_fault_hits_the_nth_match_and_goes() {
        let mut faults = Faults::default();
        faults.add(Fault {
            nth: 2,
            ..Fault::new("create", "*.apps", FaultAnswer::Status(409))
        });
        let hits: Vec<bool> = ["deployments.apps", "configmaps", "deployments.apps", "deployments.apps"]
            .iter()
            .map(|resource| faults.hit(&request(resource)).is_some())
            .collect();
        assert_eq!(hits, [false, false, true, false]);
    }
}
