//! The string checks: what a path and a skill's name may look like, decided
//! without looking at any folder. The sandbox holds without them; they hold
//! without the sandbox.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::bindings::tools::FailureKind;

/// A path inside a skill's folder, as a string that was checked: not empty, no
/// control characters, not absolute, and at no step outside the folder.
///
/// The only way to have one is [`SkillPath::new`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillPath<'a>(&'a str);

/// The reason why a path is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// It has no character.
    Empty,
    /// It holds a control character, such as NUL or a line feed.
    ControlCharacter,
    /// It is absolute, names a drive, or leaves the folder at some step.
    Outside,
}

impl<'a> SkillPath<'a> {
    /// Checks a path. It is followed twice: where backslash is a separator, and
    /// where it is an ordinary character of a file's name, as on most systems.
    /// A path that leaves the folder on any system is refused on all.
    pub fn new(path: &'a str) -> Result<Self, PathError> {
        if path.is_empty() {
            return Err(PathError::Empty);
        }
        if path.chars().any(char::is_control) {
            return Err(PathError::ControlCharacter);
        }
        if is_rooted(path) || climbs_out(path, &['/']) || climbs_out(path, &['/', '\\']) {
            return Err(PathError::Outside);
        }
        Ok(Self(path))
    }

    /// A name that this crate knows to be a plain file name.
    pub(crate) fn known(name: &'a str) -> Self {
        debug_assert!(Self::new(name).is_ok());
        Self(name)
    }

    /// The path as it was given.
    pub fn as_str(&self) -> &'a str {
        self.0
    }

    /// The path without `.`, `..` and doubled separators, for showing. It
    /// names the same file unless a folder on the way is a symlink.
    pub fn normalized(&self) -> String {
        let mut parts = Vec::new();
        for part in self.0.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop();
                }
                part => parts.push(part),
            }
        }
        if parts.is_empty() {
            ".".to_owned()
        } else {
            parts.join("/")
        }
    }
}

/// Returns whether a path starts at a root or a drive (`/x`, `\x`, `C:x`).
fn is_rooted(path: &str) -> bool {
    let bytes = path.as_bytes();
    matches!(bytes, [b'/' | b'\\', ..]) || matches!(bytes, [a, b':', ..] if a.is_ascii_alphabetic())
}

/// Returns whether a path leaves the folder at any step, on a system with these
/// separators.
fn climbs_out(path: &str, separators: &[char]) -> bool {
    let mut depth = 0_usize;
    for part in path.split(separators) {
        match part {
            "" | "." => {}
            ".." => match depth.checked_sub(1) {
                Some(up) => depth = up,
                None => return true,
            },
            _ => depth += 1,
        }
    }
    false
}

/// Returns whether a skill can have this name: not empty, not `.`, without
/// separators, `..` and control characters.
pub fn check_skill_name(name: &str) -> bool {
    !name.is_empty()
        && name != "."
        && !name.contains("..")
        && !name.contains(|c: char| c == '/' || c == '\\' || c.is_control())
}

impl PathError {
    /// The kind of failure that this is.
    pub fn kind(self) -> FailureKind {
        match self {
            Self::Empty | Self::ControlCharacter => FailureKind::InvalidArguments,
            Self::Outside => FailureKind::Refused,
        }
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "path is empty",
            Self::ControlCharacter => "path contains control characters",
            Self::Outside => "Path traversal detected: cannot access files outside skill folder",
        })
    }
}

impl core::error::Error for PathError {}
