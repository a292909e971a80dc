//! What a name in a folder leads to. It is found out by opening it, as a call
//! that reads it would: a symlink is judged by where it leads, and what the
//! host's guard refuses is no entry.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use skillhost_guest::{File, Folder, Names, PathError, ReadError, SkillPath};

use crate::reason;

/// Something that can be read.
pub(crate) enum Entry {
    /// A regular file of so many bytes.
    File(u64),
    Folder(File),
}

/// Why a name is left out, in a word for the host.
pub(crate) type Word = &'static str;

/// Opens what a path leads to.
pub(crate) fn open(folder: &Folder, path: &str) -> Result<Entry, Word> {
    let path = SkillPath::new(path).map_err(|error| match error {
        PathError::Empty | PathError::ControlCharacter => "name-control",
        PathError::Outside => "name-outside",
    })?;
    let opened = folder.open(&path).map_err(reason::word)?;
    match opened.size() {
        Ok(size) => Ok(Entry::File(size)),
        Err(ReadError::IsDirectory) => Ok(Entry::Folder(opened)),
        Err(error) => Err(reason::word(error)),
    }
}

/// The names of a folder, sorted, and how many are not UTF-8.
pub(crate) struct Listed {
    pub(crate) names: Vec<String>,
    pub(crate) not_utf8: u64,
}

/// What a listing ends in that is not read to its end.
pub(crate) enum Unlisted {
    TooMany,
    Error(ReadError),
}

/// Lists a folder of at most `most` names.
pub(crate) fn list(opened: &File, most: usize) -> Result<Listed, Unlisted> {
    let mut listed = Listed {
        names: Vec::new(),
        not_utf8: 0,
    };
    let names: Names = opened.names().map_err(Unlisted::Error)?;
    for (seen, name) in names.enumerate() {
        if seen == most {
            return Err(Unlisted::TooMany);
        }
        match name.map_err(Unlisted::Error)? {
            Some(name) => listed.names.push(name),
            None => listed.not_utf8 += 1,
        }
    }
    listed.names.sort_unstable();
    Ok(listed)
}

/// The path of a name in the folder of this path, if others can name it. A
/// backslash is a separator elsewhere: a path with one is two paths.
pub(crate) fn join(folder: &str, name: &str) -> Result<String, Word> {
    if name.contains('\\') {
        Err("name-backslash")
    } else if name.chars().any(char::is_control) {
        Err("name-control")
    } else if folder.is_empty() {
        Ok(name.to_owned())
    } else {
        Ok(format!("{folder}/{name}"))
    }
}
