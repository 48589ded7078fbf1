//! A component from a file: plain, or packed with gzip as a ConfigMap may hold it.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use stagegate_evaluate::gate::limits::COMPONENT_BYTES_MAX;
use stagegate_sandbox::{packed, unpacked};

use super::{Failure, Result};

/// Most bytes of a component that are read: enough to say how much too large it is.
const READ_BYTES_MAX: usize = 64 << 20;

/// The unpacked bytes.
///
/// # Errors
/// A file that cannot be read, that is no gzip although it begins so, or that holds more than 64 MiB.
pub fn component(path: &Path) -> Result<Vec<u8>> {
    let shown = path.display();
    let stored = File::open(path)
        .and_then(read)
        .with_context(|| format!("reading {shown}"))
        .map_err(Failure::Input)?;
    let bytes = unpacked(stored, READ_BYTES_MAX)
        .with_context(|| format!("unpacking {shown}"))
        .map_err(Failure::Input)?;
    if bytes.len() > READ_BYTES_MAX {
        let error = anyhow!("{shown} has more than 64 MiB; a gate has at most {COMPONENT_BYTES_MAX} bytes");
        return Err(Failure::Input(error));
    }
    Ok(bytes)
}

fn read(file: File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(READ_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// As [`packed`].
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    packed(bytes)
        .context("packing the component")
        .map_err(Failure::Environment)
}
