//! `stagegate revisions`: which revision each stage of one policy has, once. Must not wait for anything but the answer of the server, nor
//! judge the rollout.

use std::io::{self, Write as _};

use jiff::Timestamp;

use super::{Outcome, Result, connection, lookup};
use crate::args::{Format, RevisionsArgs};
use crate::view::revisions::Revisions;
use crate::view::screen;

/// # Errors
/// A kubeconfig that cannot be used; a cluster that does not answer, or does not know the kind; a name that no policy has.
pub async fn policy(args: &RevisionsArgs) -> Result {
    let cluster = connection::cluster(&args.cluster).await?;
    let policy = lookup::object(&cluster, &lookup::policies(&cluster), &args.name).await?;
    let revisions = Revisions::of(&policy);
    let mut out = io::stdout().lock();
    match args.output {
        Format::Json => {
            let text = serde_json::to_string(&revisions).map_err(io::Error::other)?;
            writeln!(out, "{text}")?;
        }
        Format::Text => {
            for line in screen::page(&revisions.lines(Timestamp::now())) {
                writeln!(out, "{line}")?;
            }
        }
    }
    out.flush()?;
    Ok(Outcome::Success)
}
