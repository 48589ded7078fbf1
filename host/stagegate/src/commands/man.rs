//! `stagegate man DIRECTORY`: a page for each command that people may use, from the texts of its help.

use std::path::Path;

use anyhow::Context as _;
use clap::CommandFactory as _;

use super::{Failure, Outcome, Result};
use crate::args::Args;

pub fn write(directory: &Path) -> Result {
    let written =
        std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(Args::command(), directory));
    written
        .with_context(|| format!("writing man pages into {}", directory.display()))
        .map_err(Failure::Environment)?;
    Ok(Outcome::Success)
}
