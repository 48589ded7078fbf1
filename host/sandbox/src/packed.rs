//! Components as files and ConfigMaps hold them: plain, or packed with gzip. Must not look into a component.

use std::io::{self, Read as _, Write as _};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

/// What a gzip file begins with (RFC 1952); no WebAssembly does.
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];

/// The plain bytes. Packed ones are unpacked to at most one byte more than `bytes_max`: enough to know that it is too
/// much. Plain ones are given back as they are, however many.
///
/// # Errors
/// Bytes that begin like a gzip file and are none.
pub fn unpacked(stored: Vec<u8>, bytes_max: usize) -> io::Result<Vec<u8>> {
    if !stored.starts_with(GZIP_MAGIC) {
        return Ok(stored);
    }
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    MultiGzDecoder::new(stored.as_slice())
        .take(limit)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Packed as small as gzip can, and the same bytes every time: the header holds no name and no time.
///
/// # Errors
/// None that is known: it writes to memory.
pub fn packed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::{packed, unpacked};

    #[test]
    fn a_gzip_bomb_is_left_before_it_has_grown() {
        let bomb = packed(&vec![0; 64 << 20]).unwrap();
        assert!(bomb.len() < 100_000);
        assert_eq!(unpacked(bomb, 1_000).unwrap().len(), 1_001);
    }

    #[test]
    fn packing_and_unpacking_gives_the_same_bytes_also_at_the_bound() {
        let bytes: Vec<u8> = (0..=255).collect();
        let stored = packed(&bytes).unwrap();
        assert_eq!(unpacked(stored, bytes.len()).unwrap(), bytes);
        assert_eq!(unpacked(bytes.clone(), 1).unwrap(), bytes, "plain ones are left alone");
    }
}
