//! The bearer token that every request for tools or metrics must show, if one is
//! set. Only its digest is kept.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

/// The length of a token in characters. Guards against: a token that can be
/// guessed, and a file that is something else.
const LENGTH: std::ops::RangeInclusive<usize> = 16..=4096;

/// A secret that peers must know.
#[derive(Clone)]
pub struct Token {
    digest: [u8; 32],
}

/// The result of checking a request for the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenCheck {
    /// It shows the token.
    Right,
    /// It shows something else.
    Wrong,
    /// It shows nothing.
    Missing,
}

impl Token {
    /// Returns a token from its text: 16 to 4096 letters, digits and `-._~+/=`.
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
            "a token is made of letters, digits and `-._~+/=`"
        );
        Ok(Self {
            digest: digest(text.as_bytes()),
        })
    }

    /// Reads a token from a file. The file must belong to the user of this
    /// process or to root, and nobody else may read or write it.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, others have access to it, or its text is not a
    /// token.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        Self::read_checked(path)
            .with_context(|| format!("cannot use the token file `{}`", path.display()))
    }

    fn read_checked(path: &Path) -> anyhow::Result<Self> {
        // Opening a FIFO must not wait.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(path)?;
        let metadata = file.metadata()?;
        ensure!(metadata.is_file(), "it is not a regular file");
        let owner = metadata.uid();
        if owner != rustix::process::geteuid().as_raw() && owner != 0 {
            bail!("it belongs to another user");
        }
        ensure!(
            metadata.mode() & 0o077 == 0,
            "users other than its owner may read or write it; set its mode to 0600"
        );
        let mut text = String::new();
        // Some white space may surround it.
        let most = *LENGTH.end() as u64 + 64;
        file.take(most).read_to_string(&mut text)?;
        Self::new(&text)
    }

    /// Checks a request's headers for the token, in constant time: whole digests
    /// are compared.
    pub(super) fn check(&self, headers: &HeaderMap) -> TokenCheck {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let Some(value) = values.next() else {
            return TokenCheck::Missing;
        };
        let credentials = value.as_bytes();
        let scheme = b"bearer ";
        let is_bearer = credentials
            .get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        if values.next().is_some() || !is_bearer {
            return TokenCheck::Wrong;
        }
        let shown = digest(credentials[scheme.len()..].trim_ascii());
        let differing = shown
            .iter()
            .zip(&self.digest)
            .fold(0, |sum, (a, b)| sum | (a ^ b));
        match std::hint::black_box(differing) {
            0 => TokenCheck::Right,
            _ => TokenCheck::Wrong,
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

fn digest(text: &[u8]) -> [u8; 32] {
    Sha256::digest(text).into()
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn checks_length_and_characters_of_a_token() {
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
    fn accepts_only_the_token_itself() {
        let token = Token::new("0123456789abcdef").unwrap();
        let shown = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            }
            token.check(&headers)
        };
        assert_eq!(shown(&[]), TokenCheck::Missing);
        for right in ["Bearer 0123456789abcdef", "bearer  0123456789abcdef"] {
            assert_eq!(shown(&[right]), TokenCheck::Right, "{right}");
        }
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer 0123456789abcdeF",
            "Bearer 0123456789abcdef0",
            "Bearer 0123456789abcde",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
        ] {
            assert_eq!(shown(&[wrong]), TokenCheck::Wrong, "{wrong}");
        }
        let right = "Bearer 0123456789abcdef";
        assert_eq!(shown(&[right, right]), TokenCheck::Wrong);
        // Digests that differ in a few bits are none the better.
        for number in 0..5_000 {
            let wrong = format!("Bearer 0123456789{number:06}");
            assert_eq!(shown(&[&wrong]), TokenCheck::Wrong, "{wrong}");
        }
    }
}
