//! What a controller asked of the API server, as counts. Must not know which controller it was.

use std::collections::BTreeMap;

use anyhow::Context as _;

use crate::audit::Answered;
use crate::control_plane::ControlPlane;

/// By verb and resource; a count may be for each of many.
pub type Counts = BTreeMap<String, f64>;

/// How long the audit log is.
///
/// # Errors
/// A log that is not there.
pub fn mark(plane: &ControlPlane) -> anyhow::Result<u64> {
    let log = plane.audit_log();
    let about = std::fs::metadata(&log).with_context(|| format!("reading {}", log.display()))?;
    Ok(about.len())
}

/// A write that was carried out, other than to Events and Leases.
pub fn is_write(answered: &Answered) -> bool {
    ["create", "update", "patch", "delete"].contains(&answered.right.verb.as_str())
        && !["events", "leases"].contains(&answered.right.resource.as_str())
        && !answered.is_dry_run
        && answered.code < 300
}

/// That something is not there, as the Binding of a closed placement here, is an answer to whoever reads it.
pub fn is_failing(answered: &Answered) -> bool {
    answered.code >= 400 && !(answered.code == 404 && answered.right.verb == "get")
}

/// All requests except watches, which serve all policies.
pub fn per(answered: &[Answered], of: usize) -> Counts {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for answered in answered.iter().filter(|answered| answered.right.verb != "watch") {
        let right = &answered.right;
        let subresource = if right.subresource.is_empty() {
            String::new()
        } else {
            format!("/{}", right.subresource)
        };
        let trial = if answered.is_dry_run { "dry run of " } else { "" };
        *counts
            .entry(format!("{trial}{} {}{subresource}", right.verb, right.resource))
            .or_default() += 1;
    }
    let of = u32::try_from(of.max(1)).unwrap_or(u32::MAX);
    counts
        .into_iter()
        .map(|(what, count)| (what, f64::from(count) / f64::from(of)))
        .collect()
}
