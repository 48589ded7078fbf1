//! Whether what clusters reported is complete, belongs to the placement, and is about the current version.

pub(crate) mod acknowledgements;
pub(crate) mod binding;
pub(crate) mod clusters;
pub(crate) mod collector;
pub(crate) mod combined_status;
pub(crate) mod compact;
pub(crate) mod delivery;
pub(crate) mod doubt;
pub(crate) mod kinds;
pub(crate) mod last_reports;
pub(crate) mod objects;
pub(crate) mod old_reports;
pub(crate) mod pending;
pub(crate) mod ready_clusters;
pub(crate) mod reports;
pub(crate) mod unacknowledged;

pub(crate) use self::acknowledgements::UpdateTracker;
pub(crate) use self::binding::{Bound, Placed};
pub(crate) use self::clusters::Clusters;
pub(crate) use self::combined_status::Subject;
pub(crate) use self::objects::ObjectTracker;
