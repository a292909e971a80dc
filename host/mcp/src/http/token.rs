//! The bearer token: what every request for tools or metrics must carry, once
//! one is set. Only its digest is kept.

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

/// Shortest and longest token, in characters. Meets: a token that can be
/// guessed, and a file that is something else.
const LENGTH: std::ops::RangeInclusive<usize> = 16..=4096;

/// A secret that peers must know.
#[derive(Clone)]
pub struct Token {
    digest: [u8; 32],
}

/// What a request showed for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// The token.
    Right,
    /// Something else.
    Wrong,
    /// Nothing.
    Nothing,
}

impl Token {
    /// A token from its text: 16 to 4096 characters that a header may carry as
    /// a bearer token (letters, digits and `-._~+/=`). White space around it is
    /// not part of it.
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

    /// A token from a file, which nobody but its owner may read or write: the
    /// user who runs this, or root.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        Self::read_checked(path)
            .with_context(|| format!("cannot use the token file `{}`", path.display()))
    }

    fn read_checked(path: &Path) -> anyhow::Result<Self> {
        // A FIFO must not make the start wait.
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
            "others than its owner may read or write it; it must have mode 0600 or less"
        );
        let mut text = String::new();
        // White space may surround it, but not without end.
        let most = *LENGTH.end() as u64 + 64;
        file.take(most).read_to_string(&mut text)?;
        Self::new(&text)
    }

    /// Looks for the token in a request's headers. How long that takes says
    /// nothing of the token: digests are compared, and in full.
    pub(super) fn shown(&self, headers: &HeaderMap) -> Shown {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let Some(value) = values.next() else {
            return Shown::Nothing;
        };
        let credentials = value.as_bytes();
        let scheme = b"bearer ";
        let is_bearer = credentials
            .get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        if values.next().is_some() || !is_bearer {
            return Shown::Wrong;
        }
        let shown = digest(credentials[scheme.len()..].trim_ascii());
        let differing = shown
            .iter()
            .zip(&self.digest)
            .fold(0, |sum, (a, b)| sum | (a ^ b));
        match std::hint::black_box(differing) {
            0 => Shown::Right,
            _ => Shown::Wrong,
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
    fn a_token_is_long_enough_and_fits_a_header() {
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
    fn only_the_token_itself_is_right() {
        let token = Token::new("0123456789abcdef").unwrap();
        let shown = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            }
            token.shown(&headers)
        };
        assert_eq!(shown(&[]), Shown::Nothing);
        for right in ["Bearer 0123456789abcdef", "bearer  0123456789abcdef"] {
            assert_eq!(shown(&[right]), Shown::Right, "{right}");
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
            assert_eq!(shown(&[wrong]), Shown::Wrong, "{wrong}");
        }
        let right = "Bearer 0123456789abcdef";
        assert_eq!(shown(&[right, right]), Shown::Wrong);
    }
}
