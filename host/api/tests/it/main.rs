//! The types against objects that KubeStellar really stored, and the definitions against what an API server demands.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod definitions;
mod durations;
mod evidence;
mod fixtures;
mod names;
mod views;

use serde::de::DeserializeOwned;

/// Text of a file under `tests/data`.
fn fixture_text(name: &str) -> String {
    let path = format!("{}/../../tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("reading {path}: {error}"))
}

/// A file under `tests/data`, decoded.
fn fixture<T: DeserializeOwned>(name: &str) -> T {
    serde_saphyr::from_str(&fixture_text(name)).unwrap_or_else(|error| panic!("decoding {name}: {error}"))
}
