//! The schema of a gate's config in a file beside the gate, which [`crate::export`] takes instead of deriving it in the
//! component: a small one is less than half as large then.

use std::path::Path;

use crate::gate::derived_schema;
use crate::{Error, Gate};

/// Proves that the file is what the config's type says. Where the environment has `STAGEGATE_WRITE`, it is written
/// instead.
///
/// # Errors
/// The file is out of date, or cannot be read or written.
pub fn schema_is_fresh<G: Gate>(path: impl AsRef<Path>) -> Result<(), Error> {
    let path = path.as_ref();
    let failed = |what: &str, error: std::io::Error| Error::new(format_args!("{what} {}: {error}", path.display()));
    let derived = serde_json::to_string_pretty(&derived_schema::<G>())? + "\n";
    if std::env::var_os("STAGEGATE_WRITE").is_some() {
        return std::fs::write(path, derived).map_err(|error| failed("writing", error));
    }
    let stored = std::fs::read_to_string(path).map_err(|error| failed("reading", error))?;
    if stored == derived {
        return Ok(());
    }
    Err(Error::new(format_args!(
        "{} is out of date: run the test again with STAGEGATE_WRITE=1",
        path.display()
    )))
}
