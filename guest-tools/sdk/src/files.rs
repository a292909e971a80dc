//! Reads files and lists folders by a caller's path. A failure names the path and the
//! cause, so a tool can return it as it is. The kits of the other languages have the
//! same functions with the same names.
//!
//! The functions that take a [`SkillPath`] and return errors of their own types are in
//! `folder` and `listing`.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorType, ErrorCode, OpenFlags, PathFlags,
};

use crate::bindings::tools::FailureKind;
use crate::{Failure, Folder, Output, PathError, ReadError, SkillPath};

/// An entry of a folder.
struct ListedEntry {
    name: String,
    /// True for a folder, and for a symlink to a folder.
    is_folder: bool,
    is_symlink: bool,
}

impl Folder {
    /// Returns the bytes of a file of at most `limit` bytes.
    pub fn read_bytes(&self, path: &str, limit: u64) -> Result<Vec<u8>, Failure> {
        let bytes = self.read(&parse_path(path)?, limit);
        bytes
            .map(|bytes| bytes.0)
            .map_err(|error| failure_at(path, error))
    }

    /// Returns the text of a file of at most `limit` bytes, without a byte order mark.
    pub fn read_text(&self, path: &str, limit: u64) -> Result<String, Failure> {
        crate::text::utf8(self.read_bytes(path, limit)?)
            .map_err(|error| Failure::unreadable(format!("{path}: {error}")))
    }

    /// Returns an answer whose text is a file of at most `limit` bytes. The host reads
    /// the file, which is much faster for large files.
    pub fn answer_file(&self, path: &str, limit: u64) -> Result<Output, Failure> {
        let answer = self.answer(&parse_path(path)?, limit);
        answer
            .map(|(output, _)| output)
            .map_err(|error| failure_at(path, error))
    }

    /// Returns the names in a folder, sorted. The names of folders end with a slash. Fails
    /// if there are more than `max`. The path of the skill's own folder is `.`.
    pub fn list(&self, path: &str, max: usize) -> Result<Vec<String>, Failure> {
        parse_path(path)?;
        let entries = self.entries(path)?.into_iter();
        let names = entries.map(|entry| {
            if entry.is_folder {
                entry.name + "/"
            } else {
                entry.name
            }
        });
        let mut names: Vec<String> = names.collect();
        if names.len() > max {
            return Err(Failure::unreadable(format!(
                "{path}: more than {max} names"
            )));
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the paths of the files in a folder and in its subfolders, sorted. Fails if
    /// there are more than `max`. Does not follow symlinks to folders.
    pub fn files(&self, path: &str, max: usize) -> Result<Vec<String>, Failure> {
        let mut files = Vec::new();
        let mut folders = vec![parse_path(path)?.normalized()];
        while let Some(folder) = folders.pop() {
            for entry in self.entries(&folder)? {
                let entry_path = match &*folder {
                    "." => entry.name,
                    folder => format!("{folder}/{}", entry.name),
                };
                match entry {
                    ListedEntry {
                        is_folder: false, ..
                    } => files.push(entry_path),
                    ListedEntry {
                        is_symlink: false, ..
                    } => folders.push(entry_path),
                    _ => {}
                }
            }
            if files.len() > max {
                return Err(Failure::unreadable(format!(
                    "{path}: more than {max} files"
                )));
            }
        }
        files.sort_unstable();
        Ok(files)
    }

    fn entries(&self, path: &str) -> Result<Vec<ListedEntry>, Failure> {
        let fail = |code: ErrorCode| failure_at(path, code.into());
        let root = self.root().map_err(|error| failure_at(path, error))?;
        let folder = open(root, path, OpenFlags::empty()).map_err(fail)?;
        let stream = folder.read_directory().map_err(|code| match code {
            ErrorCode::NotDirectory => Failure::unreadable(format!("{path}: is not a directory")),
            code => fail(code),
        })?;
        let mut entries = Vec::new();
        while let Some(entry) = stream.read_directory_entry().map_err(fail)? {
            let is_symlink = entry.type_ == DescriptorType::SymbolicLink;
            let leads_to_folder = || {
                let entry_path = format!("{path}/{}", entry.name);
                open(root, &entry_path, OpenFlags::DIRECTORY).is_ok()
            };
            entries.push(ListedEntry {
                is_folder: entry.type_ == DescriptorType::Directory
                    || is_symlink && leads_to_folder(),
                is_symlink,
                name: entry.name,
            });
        }
        Ok(entries)
    }
}

fn open(root: &Descriptor, path: &str, flags: OpenFlags) -> Result<Descriptor, ErrorCode> {
    root.open_at(
        PathFlags::SYMLINK_FOLLOW,
        path,
        flags,
        DescriptorFlags::READ,
    )
}

fn parse_path(path: &str) -> Result<SkillPath<'_>, Failure> {
    SkillPath::new(path).map_err(|error| match error {
        PathError::Outside => Failure::refused(format!("{path}: {error}")),
        error => Failure::from(error),
    })
}

/// Returns a failure whose message begins with the path.
fn failure_at(path: &str, error: ReadError) -> Failure {
    let cause = match error {
        ReadError::Other(ErrorCode::IllegalByteSequence) => {
            "holds a name that is not UTF-8".to_owned()
        }
        ReadError::Other(_) => "cannot be read".to_owned(),
        error => format!("{error}"),
    };
    let kind: FailureKind = error.kind();
    Failure::new(kind, format!("{path}: {cause}"))
}
