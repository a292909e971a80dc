//! SHA-256 digests, as registries write them.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, ensure};
use skillhost_skills::text::digest::sha256_hex;

/// The name of the only algorithm.
const ALGORITHM: &str = "sha256:";

/// The SHA-256 of bytes: `sha256:` and 64 lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

impl Digest {
    /// Returns the digest of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_hex(sha256_hex(bytes))
    }

    /// Creates a digest from checked hex digits.
    pub(crate) fn from_hex(hex: String) -> Self {
        Self(hex)
    }

    /// Returns the hex digits.
    pub fn hex(&self) -> &str {
        &self.0
    }
}

impl FromStr for Digest {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let is_digit = |c: u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
        let wrong = "expected a digest: `sha256:` and 64 hex digits in lower case";
        let hex = text.strip_prefix(ALGORITHM).context(wrong)?;
        ensure!(hex.len() == 64 && hex.bytes().all(is_digit), wrong);
        Ok(Self(hex.to_owned()))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ALGORITHM}{}", self.0)
    }
}

impl serde::Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
