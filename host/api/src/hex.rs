//! Hashes as text. Must not hash anything.

/// Two lower-case digits for each byte, without a string for each.
pub fn text(bytes: impl IntoIterator<Item = u8>) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or_default();
    let bytes = bytes.into_iter();
    bytes.flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_byte_is_two_digits() {
        assert_eq!(super::text([0, 9, 16, 0xab, 255]), "000910abff");
    }
}
