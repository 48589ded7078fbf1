//! The embedded API server as its clients see it: kube in process, kube-runtime on top, kubectl over a socket.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
mod apply;
mod carriers;
mod clusters;
mod collection;
mod crd_rules;
mod faults;
mod fixture;
mod kubectl;
mod manifest_works;
mod nodes;
mod objects;
mod refusals;
mod schema;
mod watches;
