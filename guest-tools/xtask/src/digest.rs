//! SHA-256 digests, and the format of `SHA256SUMS` files, as in sha256sum(1).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

/// Digests, sorted by file name.
pub(crate) type Sums = BTreeMap<String, Digest>;

/// The SHA-256 digest of a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest([u8; 32]);

impl Digest {
    pub(crate) fn of(content: &[u8]) -> Self {
        Self(Sha256::digest(content).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Digest {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        // `from_str_radix` alone would accept a sign.
        ensure!(
            text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "`{text}` is not 64 hexadecimal digits"
        );
        let mut bytes = [0; 32];
        for (byte, start) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&text[start..start + 2], 16)?;
        }
        Ok(Self(bytes))
    }
}

/// Returns the text of a `SHA256SUMS` file.
pub(crate) fn format(sums: &Sums) -> String {
    sums.iter()
        .map(|(name, digest)| format!("{digest}  {name}\n"))
        .collect()
}

/// Parses the text of a `SHA256SUMS` file.
pub(crate) fn parse(text: &str) -> Result<Sums> {
    let mut sums = Sums::new();
    for (number, line) in text.lines().enumerate() {
        let (name, digest) = parse_line(line).with_context(|| format!("line {}", number + 1))?;
        if sums.insert(name.to_owned(), digest).is_some() {
            bail!("line {}: `{name}` is listed twice", number + 1);
        }
    }
    Ok(sums)
}

fn parse_line(line: &str) -> Result<(&str, Digest)> {
    // The second separator marks a binary file, which makes no difference on Unix.
    let (digest, name) = line
        .split_once("  ")
        .or_else(|| line.split_once(" *"))
        .with_context(|| format!("`{line}`: expected a digest, two spaces and a file name"))?;
    ensure!(!name.is_empty(), "the file name is missing");
    Ok((name, digest.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn formats_digest_like_sha256sum() {
        assert_eq!(Digest::of(b"").to_string(), EMPTY);
    }

    #[test]
    fn parses_what_it_formats() -> Result<()> {
        let sums = Sums::from([
            ("b.wasm".to_owned(), Digest::of(b"b")),
            ("a.wasm".to_owned(), Digest::of(b"")),
        ]);
        let text = format(&sums);
        assert!(text.starts_with(&format!("{EMPTY}  a.wasm\n")));
        assert_eq!(parse(&text)?, sums);
        Ok(())
    }

    #[test]
    fn accepts_binary_mark_and_capital_digits() -> Result<()> {
        let sums = parse(&format!("{} *a.wasm\n", EMPTY.to_uppercase()))?;
        assert_eq!(sums, Sums::from([("a.wasm".to_owned(), Digest::of(b""))]));
        Ok(())
    }

    #[test]
    fn parses_empty_file() -> Result<()> {
        assert!(parse("")?.is_empty());
        Ok(())
    }

    #[test]
    fn error_names_number_of_invalid_line() {
        for line in [
            "a.wasm".to_owned(),
            format!("{EMPTY}  "),
            format!("{}  a.wasm", &EMPTY[1..]),
            format!("+{}  a.wasm", &EMPTY[1..]),
            format!("{}é  a.wasm", &EMPTY[2..]),
        ] {
            let error =
                parse(&format!("{EMPTY}  first.wasm\n{line}\n")).map_err(|e| format!("{e:#}"));
            assert!(
                error.as_ref().is_err_and(|e| e.starts_with("line 2: ")),
                "{line}: {error:?}"
            );
        }
    }

    #[test]
    fn refuses_duplicate_file() {
        assert!(parse(&format!("{EMPTY}  a.wasm\n{EMPTY}  a.wasm\n")).is_err());
    }
}
