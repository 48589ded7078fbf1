//! The JSON twin of the interface: the same request, verdict and description as texts. Shapes are those of [`super::wire`].

use super::failure::{Failure, FailureKind};
use super::wire::{Description, Request, Verdict};

pub(super) fn request(request: &Request) -> Result<String, Failure> {
    // Nothing in a request can fail to be written; if something ever does, the gate must not be asked with less.
    serde_json::to_string(request).map_err(|error| {
        Failure::new(
            FailureKind::SandboxBroken,
            format_args!("writing the request failed: {error}"),
        )
    })
}

pub(super) fn verdict(text: &str) -> Result<Verdict, Failure> {
    serde_json::from_str(text).map_err(|error| {
        Failure::new(
            FailureKind::AnswerInvalid,
            format_args!("the answer is not a verdict: {error}"),
        )
    })
}

pub(super) fn description(text: &str) -> Result<Description, Failure> {
    serde_json::from_str(text).map_err(|error| {
        Failure::new(
            FailureKind::AnswerInvalid,
            format_args!("the answer is not a description: {error}"),
        )
    })
}
