//! The URI of a skill's file or folder: `skill://<skill>/<path>`.
//!
//! A path has exactly one spelling as a URI, the one that this module writes. No other spelling is
//! accepted: a client that remembers approvals by URI must not get the same path in another
//! spelling. No name in a path is `..`. Names are checked after they are decoded. The
//! skill's name is looked up, and never joined to a path.

use std::fmt;

use skillhost::Skill;
use skillhost::limits;

/// The URI of a skill, or of a file or folder in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SkillUri {
    /// The skill's name.
    pub(crate) skill: String,
    /// The path in the skill's folder. `None` for the skill's folder itself.
    pub(crate) path: Option<String>,
}

/// The reason why text is not the URI of a skill's file or folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UriError {
    #[error("the URI does not start with `skill://` in lower case")]
    Scheme,
    #[error("the URI is too long")]
    TooLong,
    #[error("the URI has no valid skill name")]
    Skill,
    #[error(
        "a name in the URI's path is empty, `.` or `..`, or has a character that is not allowed"
    )]
    Path,
    #[error(
        "a percent sign is not followed by two hexadecimal digits, or the decoded bytes are not \
         UTF-8"
    )]
    Encoding,
    #[error("the only accepted spelling is `{0}`")]
    Spelling(String),
}

const SCHEME: &str = "skill://";

/// The maximum number of bytes of a URI. Escaping can turn each byte of its path into three. Guards
/// against: text that is costly to refuse.
const MAX_BYTES: usize = 4 * limits::PATH_BYTES;

/// The characters besides letters and digits that are not escaped in a skill's name, which
/// is in the position of a URI's host.
const PLAIN_IN_NAME: &[u8] = b"-._~!$&'()*+,;=";

/// The characters besides letters and digits that are not escaped in a path: `pchar` of
/// RFC 3986.
const PLAIN_IN_PATH: &[u8] = b"-._~!$&'()*+,;=:@";

impl SkillUri {
    /// Returns the URI of a skill's file.
    pub(crate) fn file(skill: &str, path: &str) -> Self {
        Self {
            skill: skill.to_owned(),
            path: Some(path.to_owned()),
        }
    }

    /// Returns the URI of a skill's folder.
    pub(crate) fn folder(skill: &str) -> Self {
        Self {
            skill: skill.to_owned(),
            path: None,
        }
    }

    /// Parses a URI.
    pub(crate) fn parse(text: &str) -> Result<Self, UriError> {
        if text.len() > MAX_BYTES {
            return Err(UriError::TooLong);
        }
        let rest = text.strip_prefix(SCHEME).ok_or(UriError::Scheme)?;
        let (skill, path) = match rest.split_once('/') {
            Some((skill, path)) => (skill, Some(path)),
            None => (rest, None),
        };
        let skill = decode(skill)?;
        if !Skill::is_name(&skill) {
            return Err(UriError::Skill);
        }
        let path = path.map(|path| {
            let names = path.split('/').map(decode);
            let names = names.collect::<Result<Vec<_>, _>>()?;
            names
                .iter()
                .all(|name| is_path_name(name))
                .then(|| names.join("/"))
                .ok_or(UriError::Path)
        });
        let uri = Self {
            skill,
            path: path.transpose()?,
        };
        // Accepts only the spelling that this module writes.
        let written = uri.to_string();
        if written != text {
            return Err(UriError::Spelling(written));
        }
        Ok(uri)
    }

    /// Returns the URI of an entry of this folder.
    pub(crate) fn child(&self, name: &str) -> Self {
        let path = match &self.path {
            Some(path) => format!("{path}/{name}"),
            None => name.to_owned(),
        };
        Self::file(&self.skill, &path)
    }
}

impl fmt::Display for SkillUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        encode(f, &self.skill, PLAIN_IN_NAME)?;
        self.path
            .as_deref()
            .map_or(Ok(()), |path| write_path(f, path))
    }
}

/// Writes the path of a URI, each name after a `/`.
pub(crate) fn write_path(f: &mut fmt::Formatter<'_>, path: &str) -> fmt::Result {
    for name in path.split('/') {
        f.write_str("/")?;
        encode(f, name, PLAIN_IN_PATH)?;
    }
    Ok(())
}

/// Returns whether text is one name of a path on every operating system.
fn is_path_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..")
        && !name.contains(|c: char| c == '/' || c == '\\' || c.is_control())
}

fn encode(f: &mut fmt::Formatter<'_>, name: &str, plain: &[u8]) -> fmt::Result {
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            write!(f, "{}", char::from(byte))?;
        } else {
            write!(f, "%{byte:02X}")?;
        }
    }
    Ok(())
}

/// Decodes percent escapes once. Escapes in the result stay.
fn decode(text: &str) -> Result<String, UriError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = rest.next().map(char::from).and_then(|c| c.to_digit(16));
            digit.and_then(|digit| u8::try_from(digit).ok())
        };
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(UriError::Encoding);
        };
        bytes.push(high << 4 | low);
    }
    String::from_utf8(bytes).map_err(|_| UriError::Encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_each_uri_that_it_writes() {
        for (skill, path, written) in [
            ("a", None, "skill://a"),
            (
                "calculator",
                Some("SKILL.md"),
                "skill://calculator/SKILL.md",
            ),
            ("a", Some("docs/deep/x.md"), "skill://a/docs/deep/x.md"),
            (
                "data_analysis",
                Some(".hidden"),
                "skill://data_analysis/.hidden",
            ),
            ("A", Some("..."), "skill://A/..."),
            (
                "ä b",
                Some("städte.md"),
                "skill://%C3%A4%20b/st%C3%A4dte.md",
            ),
            ("a:b@c", Some("d:e@f"), "skill://a%3Ab%40c/d:e@f"),
            ("a", Some("100%25?#[x]"), "skill://a/100%2525%3F%23%5Bx%5D"),
            ("a+b", Some("(x)'!$&*,;=~"), "skill://a+b/(x)'!$&*,;=~"),
            ("a", Some("\u{202e}x"), "skill://a/%E2%80%AEx"),
        ] {
            let uri = SkillUri {
                skill: skill.to_owned(),
                path: path.map(str::to_owned),
            };
            assert_eq!(uri.to_string(), written);
            assert_eq!(SkillUri::parse(written), Ok(uri), "{written}");
        }
    }

    #[test]
    fn refuses_other_text() {
        let other = |written: &str| UriError::Spelling(written.to_owned());
        for (text, error) in [
            // No scheme, other schemes, and other spellings of this one.
            ("", UriError::Scheme),
            ("a/SKILL.md", UriError::Scheme),
            ("/etc/passwd", UriError::Scheme),
            ("file:///etc/passwd", UriError::Scheme),
            ("http://a/SKILL.md", UriError::Scheme),
            ("SKILL://a/SKILL.md", UriError::Scheme),
            ("Skill://a/SKILL.md", UriError::Scheme),
            ("skill:/a/SKILL.md", UriError::Scheme),
            ("skill:a/SKILL.md", UriError::Scheme),
            ("skill:\\\\a\\SKILL.md", UriError::Scheme),
            (" skill://a/SKILL.md", UriError::Scheme),
            ("skill%3A//a/SKILL.md", UriError::Scheme),
            ("skills://a/SKILL.md", UriError::Scheme),
            // No skill.
            ("skill://", UriError::Skill),
            ("skill:///SKILL.md", UriError::Skill),
            ("skill:////a/SKILL.md", UriError::Skill),
            ("skill://./SKILL.md", UriError::Skill),
            ("skill://../SKILL.md", UriError::Skill),
            ("skill://%2e%2e/SKILL.md", UriError::Skill),
            ("skill://.hidden/SKILL.md", UriError::Skill),
            ("skill://a..b/SKILL.md", UriError::Skill),
            ("skill://a%2Fb/SKILL.md", UriError::Skill),
            ("skill://a%2F../SKILL.md", UriError::Skill),
            ("skill://a\\b/SKILL.md", UriError::Skill),
            ("skill://a%5Cb/SKILL.md", UriError::Skill),
            ("skill://a%00/SKILL.md", UriError::Skill),
            ("skill://a\0/SKILL.md", UriError::Skill),
            ("skill://a%0A/SKILL.md", UriError::Skill),
            // A user, port, query or fragment: these characters are part of a name.
            (
                "skill://user@a/SKILL.md",
                other("skill://user%40a/SKILL.md"),
            ),
            (
                "skill://user:x@a/SKILL.md",
                other("skill://user%3Ax%40a/SKILL.md"),
            ),
            ("skill://a:80/SKILL.md", other("skill://a%3A80/SKILL.md")),
            ("skill://a:/SKILL.md", other("skill://a%3A/SKILL.md")),
            (
                "skill://[::1]/SKILL.md",
                other("skill://%5B%3A%3A1%5D/SKILL.md"),
            ),
            ("skill://a?x=/SKILL.md", other("skill://a%3Fx=/SKILL.md")),
            ("skill://a#/SKILL.md", other("skill://a%23/SKILL.md")),
            ("skill://a/SKILL.md?", other("skill://a/SKILL.md%3F")),
            (
                "skill://a/SKILL.md?raw=1",
                other("skill://a/SKILL.md%3Fraw=1"),
            ),
            ("skill://a/SKILL.md#top", other("skill://a/SKILL.md%23top")),
            ("skill://a/SKILL.md#", other("skill://a/SKILL.md%23")),
            // Paths that lead up or out, empty names, and disguised separators.
            ("skill://a/", UriError::Path),
            ("skill://a//SKILL.md", UriError::Path),
            ("skill://a/docs/", UriError::Path),
            ("skill://a/docs//x", UriError::Path),
            ("skill://a/.", UriError::Path),
            ("skill://a/./SKILL.md", UriError::Path),
            ("skill://a/..", UriError::Path),
            ("skill://a/../b/SKILL.md", UriError::Path),
            ("skill://a/docs/../SKILL.md", UriError::Path),
            ("skill://a/%2e%2e/b/SKILL.md", UriError::Path),
            ("skill://a/%2E./b/SKILL.md", UriError::Path),
            ("skill://a/.%2e/b/SKILL.md", UriError::Path),
            ("skill://a/%2e", UriError::Path),
            ("skill://a/..%2Fb%2FSKILL.md", UriError::Path),
            ("skill://a/docs%2Fx.md", UriError::Path),
            ("skill://a/%2Fetc%2Fpasswd", UriError::Path),
            ("skill://a/..\\b\\SKILL.md", UriError::Path),
            ("skill://a/..%5Cb", UriError::Path),
            ("skill://a/docs%5C..%5C..%5Cb", UriError::Path),
            ("skill://a/SKILL.md%00", UriError::Path),
            ("skill://a/SKILL.md\0.txt", UriError::Path),
            ("skill://a/x%0D%0Ay", UriError::Path),
            ("skill://a/\u{1b}[2J", UriError::Path),
            ("skill://a/%C2%85", UriError::Path),
            // Invalid percent escapes, overlong encodings, and surrogates.
            ("skill://a/%", UriError::Encoding),
            ("skill://a/%2", UriError::Encoding),
            ("skill://a/%zz", UriError::Encoding),
            ("skill://a/%+2e", UriError::Encoding),
            ("skill://a/%u002e", UriError::Encoding),
            ("skill://a/%C0%AE%C0%AE", UriError::Encoding),
            ("skill://a/%E0%80%AF", UriError::Encoding),
            ("skill://a/%FF", UriError::Encoding),
            ("skill://a/%ED%A0%80", UriError::Encoding),
            ("skill://%/SKILL.md", UriError::Encoding),
            // Valid URIs in another spelling.
            ("skill://%61/SKILL.md", other("skill://a/SKILL.md")),
            ("skill://a/%53KILL.md", other("skill://a/SKILL.md")),
            (
                "skill://a/st%c3%a4dte.md",
                other("skill://a/st%C3%A4dte.md"),
            ),
            ("skill://a/städte.md", other("skill://a/st%C3%A4dte.md")),
            ("skill://a/a b", other("skill://a/a%20b")),
            ("skill://a/x%2By", other("skill://a/x+y")),
            ("skill://a/x%3Ay", other("skill://a/x:y")),
        ] {
            assert_eq!(SkillUri::parse(text), Err(error), "{text:?}");
        }
        let long = format!("skill://a/{}", "x/".repeat(MAX_BYTES));
        assert_eq!(SkillUri::parse(&long), Err(UriError::TooLong));
    }

    #[test]
    fn decodes_once() {
        let uri = SkillUri::parse("skill://a/%252e%252e/%252Fx").unwrap();
        assert_eq!(uri.path.as_deref(), Some("%2e%2e/%2Fx"));
    }
}
