//! `stagegate status`: how one rollout stands, once. Must not wait for anything but the answer of the server.

use std::io::{self, Write as _};

use jiff::Timestamp;

use super::{Outcome, Result, connection, lookup};
use crate::args::{Format, StatusArgs};
use crate::target::{Kind, Target};
use crate::view::overview::{Overview, RolloutState};
use crate::view::{Rolled as _, screen};

/// # Errors
/// A kubeconfig that cannot be used; a cluster that does not answer, or does not know the kind; a name that no object has.
pub async fn rollout(args: &StatusArgs) -> Result {
    let Target { kind, name } = &args.target;
    let cluster = connection::cluster(&args.cluster).await?.asked_for(*kind);
    let rollout = match kind {
        Kind::StagedBindingPolicy => {
            let policies = lookup::policies(&cluster);
            lookup::object(&cluster, &policies, name).await?.rollout()
        }
        Kind::YurtAppDaemon => {
            let daemons = lookup::daemons(&cluster, args.namespace.as_deref());
            lookup::object(&cluster, &daemons, name).await?.rollout()
        }
    };
    let overview = Overview::of(&rollout);
    let mut out = io::stdout().lock();
    match args.output {
        Format::Json => {
            let text = serde_json::to_string(&overview).map_err(io::Error::other)?;
            writeln!(out, "{text}")?;
        }
        Format::Text => {
            for line in screen::page(&overview.lines(Timestamp::now())) {
                writeln!(out, "{line}")?;
            }
        }
    }
    out.flush()?;
    Ok(match overview.state() {
        RolloutState::Completed => Outcome::Success,
        RolloutState::Held => Outcome::Negative,
        RolloutState::Undecided => Outcome::Undecided,
    })
}
