//! What the live view shows, and when.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use stagegate_api::StagedBindingPolicy;

/// The policies by name.
pub type Policies = BTreeMap<String, StagedBindingPolicy>;

/// The time on both clocks of a view: since it began, and of the day.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub elapsed: Duration,
    pub now: Timestamp,
}
