//! A component from a file: plain, or packed with gzip as a ConfigMap may hold it.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use stagegate_evaluate::gate::limits::COMPONENT_BYTES_MAX;

use super::{Failure, Result};

/// What a gzip file begins with (RFC 1952); no WebAssembly does.
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
/// Most bytes of a component that are read: enough to say how much too large it is.
const READ_BYTES_MAX: u64 = 64 << 20;

/// The unpacked bytes.
///
/// # Errors
/// A file that cannot be read, that is no gzip although it begins so, or that holds more than 64 MiB.
pub fn component(path: &Path) -> Result<Vec<u8>> {
    let shown = path.display();
    let packed = File::open(path)
        .and_then(read)
        .with_context(|| format!("reading {shown}"))
        .map_err(Failure::Input)?;
    let bytes = if packed.starts_with(GZIP_MAGIC) {
        read(MultiGzDecoder::new(packed.as_slice()))
            .with_context(|| format!("unpacking {shown}"))
            .map_err(Failure::Input)?
    } else {
        packed
    };
    if bytes.len() as u64 > READ_BYTES_MAX {
        let error = anyhow!("{shown} has more than 64 MiB; a gate has at most {COMPONENT_BYTES_MAX} bytes");
        return Err(Failure::Input(error));
    }
    Ok(bytes)
}

fn read(from: impl std::io::Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(READ_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Packed as small as gzip can, and the same bytes every time: the header holds no name and no time.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    std::io::Write::write_all(&mut encoder, bytes)
        .and_then(|()| encoder.finish())
        .context("packing the component")
        .map_err(Failure::Outside)
}
