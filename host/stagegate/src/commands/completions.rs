//! `stagegate completions SHELL`: the script that a shell loads.

use std::io::{self, Write as _};

use clap::CommandFactory as _;

use super::{Outcome, Result};
use crate::args::Args;

pub fn print(shell: clap_complete::Shell) -> Result {
    // Into memory first: `generate` panics when its writer fails, as a closed pipe does.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "stagegate", &mut script);
    io::stdout().write_all(&script)?;
    Ok(Outcome::Success)
}
