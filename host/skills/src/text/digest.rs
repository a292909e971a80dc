//! SHA-256 in hex, as `sha256sum` prints it.

use std::io;

use sha2::digest::Update;
use sha2::{Digest as _, Sha256};

/// A writer that updates a digest.
pub struct DigestWriter<D>(pub D);

impl<D: Update> io::Write for DigestWriter<D> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the SHA-256 of bytes, in hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns bytes in hex, in lower case.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_digests_as_sha256sum_does() {
        assert_eq!(hex(&[0, 0x0f, 0xa9, 0xff]), "000fa9ff");
        assert!(sha256_hex(b"").starts_with("e3b0c44298fc1c149afbf4c8996fb924"));
    }
}
