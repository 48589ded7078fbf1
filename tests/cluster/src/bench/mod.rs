//! What benchmarks on real servers share: the objects that stand there, a process that is measured, what was asked of the API server, and
//! how figures are printed. Must not know what a benchmark measures.

pub mod figures;
pub mod kinds;
pub mod measured;
pub mod noted;
pub mod objects;
pub mod requests;
pub mod writes;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};

/// How many policies there are, as `200,1000`.
const SIZES: &str = "STAGEGATE_POLICIES";

/// The sizes to run.
///
/// # Errors
/// What is no number, or fewer than `least`, which the benchmark needs.
pub fn sizes(default: &str, least: usize) -> anyhow::Result<Vec<usize>> {
    let sizes = std::env::var(SIZES).unwrap_or_else(|_| default.to_owned());
    let sizes = sizes.split(',').map(|size| {
        let number: usize = size
            .trim()
            .parse()
            .with_context(|| format!("{SIZES}: {size:?} is no number"))?;
        ensure!(
            number >= least,
            "{SIZES}: at least {least} are needed for what is measured"
        );
        Ok(number)
    });
    sizes.collect()
}

/// Makes a folder that no earlier run has used.
///
/// # Errors
/// A folder that cannot be made.
pub fn folder(within: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let folder = within.join(format!("{name}-{now}"));
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    Ok(folder)
}
