//! Staged updates: which version of each object there is now, and which ones a stage's Binding may name. Must not decide when a stage
//! gets another version.
//!
//! KubeStellar's transport reads objects as they are when a Binding changes. So a stage keeps its versions as long as its Binding keeps
//! those that it names, and an admission policy refuses every change to others than those of its annotation
//! ([`stagegate_api::ADMITTED_VERSIONS`]).

pub(crate) mod enforcement;
pub(crate) mod versions;

pub(crate) use self::versions::{Unknown, Versions};

use std::sync::Arc;

use crate::staging::input::{Checked, Facts};

/// Puts the versions into the checked spec of a policy whose stages are held; or why they are not known, and then no placement is at the
/// revision.
pub(crate) fn resolve(facts: &Facts, checked: &mut Checked) -> Option<Unknown> {
    if !facts.is_staged() {
        return None;
    }
    let (Versions { revision, list }, unknown) = match versions::versions(facts) {
        Ok(versions) => (versions, None),
        Err(unknown) => (versions::none(), Some(unknown)),
    };
    checked.revision = revision;
    let list: Arc<str> = list.into();
    for stage in &mut checked.stages {
        stage.admitted = Some(list.clone());
    }
    unknown
}
