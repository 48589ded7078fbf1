//! Errors of API requests that callers treat as success.

/// What was to be deleted, or to get a status, may be gone.
pub(crate) fn gone_is_fine(result: kube::Result<()>) -> kube::Result<()> {
    match result {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other,
    }
}
