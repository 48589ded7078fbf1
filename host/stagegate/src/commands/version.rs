//! `stagegate version`.

use std::io::{self, Write as _};

use super::{Outcome, Result};

pub fn print() -> Result {
    writeln!(io::stdout(), "stagegate {}", env!("CARGO_PKG_VERSION"))?;
    Ok(Outcome::Success)
}
