//! One request to the API server: its deadline, and what its failure means. Must not retry anything: whoever asked
//! decides anew first.

use std::future::Future;
use std::time::Duration;

use kube::core::Status;
use thiserror::Error;

use super::write_blocked::WriteBlocked;

/// Longest wait for one answer.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// Longest part of a server's message that is passed on.
const MESSAGE_CHARS_MAX: usize = 512;

/// A request that was not answered as hoped. `what` names verb, kind and object.
#[derive(Debug, Error)]
pub enum RequestError {
    /// Nobody knows whether a write took place.
    #[error("{what}: no answer within {} s", DEADLINE.as_secs())]
    NoAnswer { what: String },
    /// The same, of a call that had less time than others.
    #[error("{what}: no answer in the time of one try")]
    NotInTime { what: String },
    /// The server's answer; a message longer than 512 characters is cut.
    #[error("{what}: {code} {reason}: {message}")]
    Refused {
        what: String,
        code: u16,
        reason: String,
        message: String,
        /// The fields that it refused, as its causes name them.
        fields: Vec<String>,
    },
    /// What is known already is newer: the server is behind, and nothing may be decided on its answer.
    #[error("{what}: the API server answered from an older state than it showed before")]
    Older { what: String },
    /// This process may not write now: another one leads, or KubeStellar does the work.
    #[error("{what}: {why}")]
    WriteBlocked { what: String, why: WriteBlocked },
    /// The connection, or an answer that was not understood.
    #[error("{what}: request failed")]
    Failed {
        what: String,
        #[source]
        cause: kube::Error,
    },
}

impl RequestError {
    /// The object is not the version (or not there as) the write was about: read again, decide again.
    pub fn is_outdated(&self) -> bool {
        matches!(self, Self::Refused { code: 409 | 404, .. })
    }

    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }

    /// By authorisation or by a missing or bad credential.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { code: 401 | 403, .. })
    }

    pub fn is_withheld(&self) -> bool {
        matches!(self, Self::WriteBlocked { .. })
    }

    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { code: 409, .. })
    }

    /// With its causes, for people; at most what a condition or an Event can hold.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        cut(&text, MESSAGE_CHARS_MAX)
    }
}

/// Waits for the answer of `call` until the deadline; `what` says it in words.
pub async fn request<T>(
    what: impl Into<String>,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, RequestError> {
    let answered = tokio::time::timeout(DEADLINE, call).await;
    super::progress::step();
    match answered {
        Err(_elapsed) => Err(RequestError::NoAnswer { what: what.into() }),
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) => Err(RequestError::Refused {
            what: what.into(),
            code: status.code,
            reason: status.reason.clone(),
            message: cut(&status.message, MESSAGE_CHARS_MAX),
            fields: fields(&status),
        }),
        Ok(Err(cause)) => Err(failure(what.into(), cause)),
    }
}

fn fields(status: &Status) -> Vec<String> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let fields = causes.map(|cause| cut(&cause.field, MESSAGE_CHARS_MAX));
    fields.filter(|field| !field.is_empty()).collect()
}

fn failure(what: String, cause: kube::Error) -> RequestError {
    let withheld = match &cause {
        kube::Error::Service(error) => error.downcast_ref::<WriteBlocked>().copied(),
        _ => None,
    };
    match withheld {
        Some(why) => RequestError::WriteBlocked { what, why },
        None => RequestError::Failed { what, cause },
    }
}

/// At most `chars` characters of `text`; a cut is shown.
pub fn cut(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(chars.saturating_sub(1)).collect();
    cut.push('…');
    cut
}
