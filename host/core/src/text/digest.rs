//! SHA-256 in hex, as `sha256sum` prints it.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// Returns the SHA-256 of bytes, in hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let mut hex = String::with_capacity(2 * digest.len());
    for byte in digest {
        // A `String` takes all.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}
