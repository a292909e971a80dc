//! Lists folders, opens their entries and identifies them. Opens an entry to find its
//! kind, as a call that reads the entry would.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use wasip2::filesystem::types::{DirectoryEntryStream, ErrorCode};

use crate::{File, Folder, ReadError, SkillPath};

/// A file or folder that can be read. Symlinks are followed.
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
    /// The number of names that are not UTF-8. No call can name them.
    pub not_utf8: u64,
}

/// The reason why a folder could not be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListError {
    /// A folder with more names than the maximum.
    TooMany,
    /// A folder that cannot be read.
    Read(ReadError),
}

/// The reason why a call cannot name an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameError {
    /// A backslash, which is a separator on other systems.
    Backslash,
    /// A control character.
    ControlCharacter,
}

/// Joins a folder's path and a name. The path of the skill's own folder is empty.
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
    /// Opens the file or folder at a path. Follows symlinks.
    pub fn entry(&self, path: &SkillPath<'_>) -> Result<Entry, ReadError> {
        let opened = self.open(path)?;
        match opened.size() {
            Ok(size) => Ok(Entry::File(opened, size)),
            Err(ReadError::IsDirectory) => Ok(Entry::Folder(opened)),
            Err(error) => Err(error),
        }
    }
}

/// An iterator over the names in a folder, unsorted. See [`File::names`].
#[derive(Debug)]
pub struct Names {
    entries: DirectoryEntryStream,
    is_at_end: bool,
}

/// The identity of a file or folder. Two paths to the same file have the same identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity(u64, u64);

impl File {
    /// Returns the names in a folder, unsorted. Yields `None` for a name that is not
    /// UTF-8. Ends after an error. Fails if this is not a folder.
    pub fn names(&self) -> Result<Names, ReadError> {
        Ok(Names {
            entries: self.descriptor.read_directory()?,
            is_at_end: false,
        })
    }

    /// Returns the names in a folder, sorted. Fails if there are more than `max`.
    pub fn sorted_names(&self, max: usize) -> Result<SortedNames, ListError> {
        let mut sorted = SortedNames::default();
        for (count, name) in self.names().map_err(ListError::Read)?.enumerate() {
            if count == max {
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

    /// Returns the identity of this file or folder.
    pub fn identity(&self) -> Result<Identity, ReadError> {
        let hash = self.descriptor.metadata_hash()?;
        Ok(Identity(hash.lower, hash.upper))
    }
}

impl Iterator for Names {
    type Item = Result<Option<String>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_at_end {
            return None;
        }
        match self.entries.read_directory_entry() {
            Ok(Some(entry)) => Some(Ok(Some(entry.name))),
            Err(ErrorCode::IllegalByteSequence) => Some(Ok(None)),
            Ok(None) => {
                self.is_at_end = true;
                None
            }
            Err(error) => {
                self.is_at_end = true;
                Some(Err(error.into()))
            }
        }
    }
}
