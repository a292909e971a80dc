//! Checks the strings of paths and skill names, without opening a folder. The sandbox
//! does not rely on these checks, and they do not rely on the sandbox.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::bindings::tools::FailureKind;

/// A checked path inside a skill's folder: not empty, without control characters, not
/// absolute, and at no step outside the folder.
///
/// [`SkillPath::new`] makes the checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillPath<'a>(&'a str);

/// The reason why a path is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// An empty path.
    Empty,
    /// A control character, such as NUL or a line feed.
    ControlCharacter,
    /// An absolute path, a path with a drive, or a path that leaves the folder at any step.
    Outside,
}

impl<'a> SkillPath<'a> {
    /// Checks a path, once with backslash as a separator and once as an ordinary
    /// character. A path that leaves the folder on any system is refused on all.
    pub fn new(path: &'a str) -> Result<Self, PathError> {
        if path.is_empty() {
            return Err(PathError::Empty);
        }
        if path.chars().any(char::is_control) {
            return Err(PathError::ControlCharacter);
        }
        if is_rooted(path) || leaves_folder(path, &['/']) || leaves_folder(path, &['/', '\\']) {
            return Err(PathError::Outside);
        }
        Ok(Self(path))
    }

    /// Wraps a plain file name without a check.
    pub(crate) fn known(name: &'a str) -> Self {
        debug_assert!(Self::new(name).is_ok());
        Self(name)
    }

    /// Returns the path unchanged.
    pub fn as_str(&self) -> &'a str {
        self.0
    }

    /// Returns the path without `.`, `..` and doubled separators. It names the same file,
    /// unless a `..` comes after a symlink.
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
fn leaves_folder(path: &str, separators: &[char]) -> bool {
    let mut depth = 0_usize;
    for part in path.split(separators) {
        match part {
            "" | "." => {}
            ".." => match depth.checked_sub(1) {
                Some(parent_depth) => depth = parent_depth,
                None => return true,
            },
            _ => depth += 1,
        }
    }
    false
}

/// Returns whether a skill can have this name: not empty, not `.`, without
/// separators, `..` or control characters.
pub fn check_skill_name(name: &str) -> bool {
    !name.is_empty()
        && name != "."
        && !name.contains("..")
        && !name.contains(|c: char| c == '/' || c == '\\' || c.is_control())
}

impl PathError {
    /// Returns the kind of failure.
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
