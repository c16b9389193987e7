//! Base64 encoding, for pictures in SVG files and terminal protocols.

use clk_base::{alloc, stop};

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes bytes as Base64, with padding and without line breaks.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = alloc::vec(bytes.len().div_ceil(3) * 4);
    for group in stop::polled(bytes.chunks(3)) {
        let at = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            match digit <= group.len() {
                true => text.push(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]),
                false => text.push(b'='),
            }
        }
    }
    // Base64 digits are ASCII, so this cannot fail.
    String::from_utf8(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::encode;

    #[test]
    fn rfc_4648_test_vectors() {
        let cases =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")];
        for (bytes, text) in cases {
            assert_eq!(encode(bytes.as_bytes()), text);
        }
    }
}
