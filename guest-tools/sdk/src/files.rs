//! Reading and listing by a caller's path, with a failure in words that fit any
//! tool: the path, and why. The kits of other languages have the same functions by
//! the same names. What takes a checked [`SkillPath`] and gives an error of its own is
//! in `folder` and `listing`.

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
    /// True for a folder, and for a symlink that leads to one.
    is_folder: bool,
    is_symlink: bool,
}

impl Folder {
    /// The bytes of a file of at most `limit` bytes.
    pub fn read_bytes(&self, path: &str, limit: u64) -> Result<Vec<u8>, Failure> {
        let bytes = self.read(&checked(path)?, limit);
        bytes
            .map(|bytes| bytes.0)
            .map_err(|error| about(path, error))
    }

    /// The text of a file of at most `limit` bytes, without a byte order mark.
    pub fn read_text(&self, path: &str, limit: u64) -> Result<String, Failure> {
        crate::text::utf8(self.read_bytes(path, limit)?)
            .map_err(|error| Failure::unreadable(format!("{path}: {error}")))
    }

    /// An answer whose text is a file of at most `limit` bytes. The host reads it:
    /// a large file costs a fraction.
    pub fn answer_file(&self, path: &str, limit: u64) -> Result<Output, Failure> {
        let answer = self.answer(&checked(path)?, limit);
        answer
            .map(|(output, _)| output)
            .map_err(|error| about(path, error))
    }

    /// The names in a folder, at most so many, sorted. That of a folder ends with a
    /// slash. The path of the skill's own folder is `.`.
    pub fn list(&self, path: &str, most: usize) -> Result<Vec<String>, Failure> {
        checked(path)?;
        let entries = self.listed(path)?.into_iter();
        let names = entries.map(|entry| match entry.is_folder {
            true => entry.name + "/",
            false => entry.name,
        });
        let mut names: Vec<String> = names.collect();
        if names.len() > most {
            return Err(Failure::unreadable(format!(
                "{path}: more than {most} names"
            )));
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The paths of the files in a folder and below it, at most so many, sorted.
    /// Symlinks to folders are not followed.
    pub fn files(&self, path: &str, most: usize) -> Result<Vec<String>, Failure> {
        let mut found = Vec::new();
        let mut folders = vec![checked(path)?.normalized()];
        while let Some(folder) = folders.pop() {
            for entry in self.listed(&folder)? {
                let inside = match &*folder {
                    "." => entry.name,
                    folder => format!("{folder}/{}", entry.name),
                };
                match entry {
                    ListedEntry {
                        is_folder: false, ..
                    } => found.push(inside),
                    ListedEntry {
                        is_symlink: false, ..
                    } => folders.push(inside),
                    _ => {}
                }
            }
            if found.len() > most {
                return Err(Failure::unreadable(format!(
                    "{path}: more than {most} files"
                )));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    fn listed(&self, path: &str) -> Result<Vec<ListedEntry>, Failure> {
        let fail = |code: ErrorCode| about(path, code.into());
        let root = self.root().map_err(|error| about(path, error))?;
        let folder = opened(root, path, OpenFlags::empty()).map_err(fail)?;
        let entries = folder.read_directory().map_err(|code| match code {
            ErrorCode::NotDirectory => Failure::unreadable(format!("{path}: is not a directory")),
            code => fail(code),
        })?;
        let mut found = Vec::new();
        while let Some(entry) = entries.read_directory_entry().map_err(fail)? {
            let is_symlink = entry.type_ == DescriptorType::SymbolicLink;
            let leads_to_folder = || {
                let inside = format!("{path}/{}", entry.name);
                opened(root, &inside, OpenFlags::DIRECTORY).is_ok()
            };
            found.push(ListedEntry {
                is_folder: entry.type_ == DescriptorType::Directory
                    || is_symlink && leads_to_folder(),
                is_symlink,
                name: entry.name,
            });
        }
        Ok(found)
    }
}

fn opened(root: &Descriptor, path: &str, flags: OpenFlags) -> Result<Descriptor, ErrorCode> {
    root.open_at(
        PathFlags::SYMLINK_FOLLOW,
        path,
        flags,
        DescriptorFlags::READ,
    )
}

fn checked(path: &str) -> Result<SkillPath<'_>, Failure> {
    SkillPath::new(path).map_err(|error| match error {
        PathError::Outside => Failure::refused(format!("{path}: {error}")),
        error => Failure::from(error),
    })
}

fn about(path: &str, error: ReadError) -> Failure {
    let why = match error {
        ReadError::Other(ErrorCode::IllegalByteSequence) => {
            "holds a name that is not UTF-8".to_owned()
        }
        ReadError::Other(_) => "cannot be read".to_owned(),
        error => format!("{error}"),
    };
    let kind: FailureKind = error.kind();
    Failure::new(kind, format!("{path}: {why}"))
}
