//! Bearer tokens. Only their digests stay in memory.

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, ensure};
use sha2::{Digest as _, Sha256};
use skillhost::Trust;
use skillhost_skills::broker::Opener;
use skillhost_skills::named_file;

/// The allowed number of characters of a token. Guards against: a token that can be guessed, and
/// a file that is not a token file.
const LENGTH: std::ops::RangeInclusive<usize> = 16..=4096;

/// The maximum size of the white space around a token in its file, in bytes.
const MAX_WHITE_SPACE: u64 = 64;

/// A secret that identifies a client.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    digest: [u8; 32],
}

impl Token {
    /// Returns the token with this text: 16 to 4096 letters, digits and `-._~+/=`.
    ///
    /// White space around it is ignored.
    ///
    /// # Errors
    ///
    /// If the text has another length or other characters.
    pub fn new(text: &str) -> anyhow::Result<Self> {
        let text = text.trim();
        ensure!(
            LENGTH.contains(&text.len()),
            "a token has between {} and {} characters",
            LENGTH.start(),
            LENGTH.end()
        );
        ensure!(
            text.bytes().all(is_token_byte),
            "a token consists of letters, digits and `-._~+/=`"
        );
        Ok(Self {
            digest: digest(text.as_bytes()),
        })
    }

    /// Reads a token from a file.
    ///
    /// The file must belong to the user of this process or to root, nobody else may read or write
    /// it, and only users in `trust` may change its path.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, others have access to it or to its path, or its text is not
    /// a token.
    pub fn read(path: &Path, trust: &Trust) -> anyhow::Result<Self> {
        Self::read_checked(path, trust)
            .with_context(|| format!("cannot use the token file `{}`", path.display()))
    }

    fn read_checked(path: &Path, trust: &Trust) -> anyhow::Result<Self> {
        let file = named_file::open_private(path, trust, &Opener::DIRECT)?;
        let max_bytes = *LENGTH.end() as u64 + MAX_WHITE_SPACE;
        Self::new(&named_file::read_all_text(file, max_bytes)?)
    }

    /// Returns the token with this SHA-256 digest.
    pub fn from_digest(digest: [u8; 32]) -> Self {
        Self { digest }
    }

    /// Returns whether this is the token's digest, in constant time.
    pub(crate) fn has_digest(&self, digest: &[u8; 32]) -> bool {
        let differing_bits = digest
            .iter()
            .zip(&self.digest)
            .fold(0, |bits, (a, b)| bits | (a ^ b));
        std::hint::black_box(differing_bits) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Returns the digest of a token's text.
pub(crate) fn digest(text: &[u8]) -> [u8; 32] {
    Sha256::digest(text).into()
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_wrong_length_and_characters() {
        assert!(Token::new("0123456789abcdef\n").is_ok());
        for text in ["", "short", "0123456789 abcdef", "0123456789äbcdef"] {
            assert!(Token::new(text).is_err(), "{text}");
        }
        assert!(Token::new(&"x".repeat(4096)).is_ok());
        assert!(Token::new(&"x".repeat(4097)).is_err());
        let token = Token::new("0123456789abcdef").unwrap();
        assert!(!format!("{token:?}").contains("0123"));
    }

    #[test]
    fn matches_only_its_own_digest() {
        let token = Token::new("0123456789abcdef").unwrap();
        assert!(token.has_digest(&digest(b"0123456789abcdef")));
        assert_eq!(token, Token::from_digest(digest(b"0123456789abcdef")));
        // If differences between bytes cancelled out, some of so many digests would match.
        for number in 0..5_000 {
            let wrong = format!("0123456789{number:06}");
            assert!(!token.has_digest(&digest(wrong.as_bytes())), "{wrong}");
        }
    }
}
