//! What lies in a folder: names, what they lead to, and telling folders apart.
//! What a name leads to is found out by opening it, which is also how a reader
//! would find out.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use wasip2::filesystem::types::{DirectoryEntryStream, ErrorCode};

use crate::{File, Folder, ReadError, SkillPath};

/// Something that can be read. A symlink counts as what it leads to.
#[derive(Debug)]
pub enum Entry {
    /// A regular file, and its size in bytes.
    File(File, u64),
    /// A folder.
    Folder(File),
}

/// The names of a folder, sorted. See [`File::sorted_names`].
#[derive(Debug, Default)]
pub struct SortedNames {
    /// The names that are UTF-8.
    pub names: Vec<String>,
    /// How many are not: nobody can ask for them.
    pub not_utf8: u64,
}

/// Why a folder is not listed to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListError {
    /// It has more names than were asked for.
    TooMany,
    /// It cannot be read.
    Read(ReadError),
}

/// Why nobody can ask for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameError {
    /// It holds a backslash, which is a separator elsewhere.
    Backslash,
    /// It holds a control character.
    ControlCharacter,
}

/// The path of a name in the folder of this path, which is empty for the
/// skill's own.
pub fn child_path(folder: &str, name: &str) -> Result<String, NameError> {
    if name.contains('\\') {
        Err(NameError::Backslash)
    } else if name.chars().any(char::is_control) {
        Err(NameError::ControlCharacter)
    } else if folder.is_empty() {
        Ok(name.to_owned())
    } else {
        Ok(format!("{folder}/{name}"))
    }
}

impl Folder {
    /// Opens whatever a path leads to, as a call that reads it would.
    pub fn entry(&self, path: &SkillPath<'_>) -> Result<Entry, ReadError> {
        let opened = self.open(path)?;
        match opened.size() {
            Ok(size) => Ok(Entry::File(opened, size)),
            Err(ReadError::IsDirectory) => Ok(Entry::Folder(opened)),
            Err(error) => Err(error),
        }
    }
}

/// The names in a folder, in no order. See [`File::names`].
#[derive(Debug)]
pub struct Names {
    entries: DirectoryEntryStream,
    ended: bool,
}

/// Which folder or file it is: equal for two ways to the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity(u64, u64);

impl File {
    /// The names in a folder, in no order; an error if it is none. A name that
    /// is not UTF-8 cannot be asked for: in its place is `None`. After an error
    /// there is nothing more.
    pub fn names(&self) -> Result<Names, ReadError> {
        Ok(Names {
            entries: self.descriptor.read_directory()?,
            ended: false,
        })
    }

    /// The names in a folder of at most so many, sorted.
    pub fn sorted_names(&self, most: usize) -> Result<SortedNames, ListError> {
        let mut sorted = SortedNames::default();
        for (seen, name) in self.names().map_err(ListError::Read)?.enumerate() {
            if seen == most {
                return Err(ListError::TooMany);
            }
            match name.map_err(ListError::Read)? {
                Some(name) => sorted.names.push(name),
                None => sorted.not_utf8 += 1,
            }
        }
        sorted.names.sort_unstable();
        Ok(sorted)
    }

    /// Which folder or file this is.
    pub fn identity(&self) -> Result<Identity, ReadError> {
        let hash = self.descriptor.metadata_hash()?;
        Ok(Identity(hash.lower, hash.upper))
    }
}

impl Iterator for Names {
    type Item = Result<Option<String>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        match self.entries.read_directory_entry() {
            Ok(Some(entry)) => Some(Ok(Some(entry.name))),
            Err(ErrorCode::IllegalByteSequence) => Some(Ok(None)),
            Ok(None) => {
                self.ended = true;
                None
            }
            Err(error) => {
                self.ended = true;
                Some(Err(error.into()))
            }
        }
    }
}
