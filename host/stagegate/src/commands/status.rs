//! `stagegate status`: how the rollout of one policy stands, once. Must not wait for anything but the answer of the server.

use std::io::{self, Write as _};

use jiff::Timestamp;

use super::{Outcome, Result, connection, lookup};
use crate::args::{Format, StatusArgs};
use crate::view::overview::{Overview, RolloutState};
use crate::view::screen;

/// # Errors
/// A kubeconfig that cannot be used; a cluster that does not answer, or does not know the kind; a name that no policy has.
pub async fn policy(args: &StatusArgs) -> Result {
    let cluster = connection::cluster(&args.cluster).await?;
    let policy = lookup::policy(&cluster, &args.name).await?;
    let overview = Overview::of(&policy);
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
