//! The folder that a call may read, and its files. This module calls the WASI
//! bindings directly, because a call that reads files with the standard library
//! takes twice the time.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::cell::OnceCell;
use core::fmt;

use wasip2::filesystem::preopens;
use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, ErrorCode, OpenFlags, PathFlags,
};

use crate::bindings::answer::{self, Unusable};
use crate::bindings::tools::{self, FailureKind};
use crate::text::{self, NotText};
use crate::{Failure, Output, SkillPath};

/// The one folder that a call may read, or the reason why there is none.
#[derive(Debug)]
pub enum Access {
    /// The tool's definition asks for no folder.
    None,
    /// The folder is open.
    Open(Folder),
    /// No skill has the name in the call.
    UnknownSkill,
    /// The skill exists, but the host has no right to open its folder.
    Unreadable,
    /// The call names no skill, and the host has no home folder.
    NoHome,
    /// The call names no skill, and its path is outside the folders that it may read.
    Outside,
}

impl Access {
    pub(crate) fn new(folder: tools::Folder) -> Self {
        match folder {
            tools::Folder::None => Self::None,
            tools::Folder::UnknownSkill => Self::UnknownSkill,
            tools::Folder::Unreadable => Self::Unreadable,
            tools::Folder::NoHome => Self::NoHome,
            tools::Folder::Outside => Self::Outside,
            tools::Folder::Open(open) => Self::Open(Folder {
                root: OnceCell::new(),
                mount: open.mount,
                skill: open.skill,
                path: open.path,
            }),
        }
    }

    /// Returns the folder, or a failure with a general message.
    pub fn folder(self) -> Result<Folder, Failure> {
        match self {
            Self::Open(folder) => Ok(folder),
            Self::UnknownSkill => Err(Failure::not_found(
                "There is no skill of that name. list_skills lists all skills.",
            )),
            Self::Unreadable => Err(Failure::unreadable("The skill's folder cannot be read.")),
            Self::NoHome => Err(Failure::invalid_arguments(
                "Name a skill: no home folder is configured.",
            )),
            Self::Outside => Err(Failure::refused(crate::PathError::Outside.to_string())),
            Self::None => Err(Failure::failed("This tool was not given a folder to read.")),
        }
    }
}

/// An open folder: a skill's, or the host's home folder.
#[derive(Debug)]
pub struct Folder {
    /// Requested from the host on first use.
    root: OnceCell<Descriptor>,
    mount: String,
    skill: Option<String>,
    path: Option<String>,
}

/// An open file.
#[derive(Debug)]
pub struct File {
    pub(crate) descriptor: Descriptor,
}

/// The bytes of a file.
#[derive(Debug)]
pub struct Bytes(pub Vec<u8>);

impl Folder {
    /// Returns the folder's skill, or `None` for the host's home folder.
    pub fn skill(&self) -> Option<&str> {
        self.skill.as_deref()
    }

    /// Returns the call's path relative to this folder, if the call names no skill.
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// Opens a file or folder for reading. Follows symlinks to targets in this folder.
    /// Fails with [`ReadError::Outside`] for other symlinks.
    pub fn open(&self, path: &SkillPath<'_>) -> Result<File, ReadError> {
        let descriptor = self.root()?.open_at(
            PathFlags::SYMLINK_FOLLOW,
            path.as_str(),
            OpenFlags::empty(),
            DescriptorFlags::READ,
        )?;
        Ok(File { descriptor })
    }

    /// Reads a whole file of at most `limit` bytes.
    pub fn read(&self, path: &SkillPath<'_>, limit: u64) -> Result<Bytes, ReadError> {
        self.open(path)?.read_all(limit)
    }

    /// Returns an answer with the text of a file of at most `limit` bytes, and
    /// the file's size. The host reads the file, so the text does not pass
    /// through the component. This is much faster for large files. Fails with
    /// [`ReadError::NotUtf8`] if the file is not UTF-8.
    ///
    /// Also fails with [`ReadError::TooLarge`] if the file exceeds the limit
    /// on a call's answer.
    pub fn answer(&self, path: &SkillPath<'_>, limit: u64) -> Result<(Output, u64), ReadError> {
        match answer::text_from_file(path.as_str(), limit) {
            Ok(size) => Ok((Output::text(""), size)),
            Err(Unusable::TooLarge) => Err(ReadError::TooLarge(limit)),
            Err(unusable) => Err(unusable.into()),
        }
    }

    pub(crate) fn root(&self) -> Result<&Descriptor, ReadError> {
        if self.root.get().is_none() {
            let preopens = preopens::get_directories();
            let preopen = preopens.into_iter().find(|(_, mount)| *mount == self.mount);
            let (root, _) = preopen.ok_or(ReadError::PermissionDenied)?;
            // Cannot fail: a component has one thread.
            let _ = self.root.set(root);
        }
        self.root.get().ok_or(ReadError::PermissionDenied)
    }

    /// Returns the names in this folder, unsorted. Leaves out names that are not
    /// UTF-8: no call can name them.
    pub fn names(&self) -> Result<impl Iterator<Item = String>, ReadError> {
        let entries = self.root()?.read_directory()?;
        Ok(core::iter::from_fn(move || {
            loop {
                match entries.read_directory_entry() {
                    Ok(Some(entry)) => return Some(entry.name),
                    Ok(None) => return None,
                    Err(ErrorCode::IllegalByteSequence) => {}
                    Err(_) => return None,
                }
            }
        }))
    }
}

impl File {
    /// Returns the size of a regular file in bytes. Fails for other files.
    pub fn size(&self) -> Result<u64, ReadError> {
        let DescriptorStat { type_, size, .. } = self.descriptor.stat()?;
        match type_ {
            DescriptorType::RegularFile => Ok(size),
            DescriptorType::Directory => Err(ReadError::IsDirectory),
            _ => Err(ReadError::NotRegular),
        }
    }

    /// Reads the whole file, of at most `limit` bytes. Most files take one
    /// call to the host, which makes its buffer as large as the file.
    pub fn read_all(&self, limit: u64) -> Result<Bytes, ReadError> {
        let (mut bytes, mut is_at_end) = self.read_at(0, limit.saturating_add(1))?;
        while !is_at_end && bytes.len() as u64 <= limit {
            let offset = bytes.len() as u64;
            let (chunk, is_last) = self.read_at(offset, limit + 1 - offset)?;
            bytes.extend_from_slice(&chunk);
            is_at_end = is_last;
        }
        if bytes.len() as u64 > limit {
            return Err(ReadError::TooLarge(limit));
        }
        Ok(Bytes(bytes))
    }

    /// Returns up to `length` bytes at an offset, and whether the end of the
    /// file was reached.
    pub fn read_at(&self, offset: u64, length: u64) -> Result<(Vec<u8>, bool), ReadError> {
        Ok(self.descriptor.read(length, offset)?)
    }
}

impl Bytes {
    /// Returns the bytes as UTF-8 text, without a byte order mark.
    pub fn into_text(self) -> Result<String, NotText> {
        text::utf8(self.0)
    }
}

/// The reason why something in the folder could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadError {
    /// No file or folder has this path.
    NotFound,
    /// A symlink in the path leads out of the folder.
    Outside,
    /// A folder instead of a file.
    IsDirectory,
    /// Neither a file nor a folder.
    NotRegular,
    /// A file with several hard links, of which one may be outside the folder.
    HardLinked,
    /// A file or folder on another mount.
    OtherMount,
    /// A file or folder that the host's user may not read.
    PermissionDenied,
    /// A symlink leads to itself, or through too many others.
    SymlinkLoop,
    /// A name in the path is longer than the file system allows.
    NameTooLong,
    /// The file is larger than this many bytes.
    TooLarge(u64),
    /// A file that is not UTF-8 text.
    NotUtf8,
    /// Another error, with its WASI code.
    Other(ErrorCode),
}

impl ReadError {
    /// Returns the kind of failure.
    pub fn kind(self) -> FailureKind {
        match self {
            Self::NotFound => FailureKind::NotFound,
            Self::Outside => FailureKind::Refused,
            _ => FailureKind::Unreadable,
        }
    }
}

impl From<ErrorCode> for ReadError {
    fn from(code: ErrorCode) -> Self {
        match code {
            // A path through a file (`a.txt/b`, `a.txt/`) does not exist.
            ErrorCode::NoEntry | ErrorCode::NotDirectory => Self::NotFound,
            ErrorCode::NotPermitted => Self::Outside,
            ErrorCode::IsDirectory => Self::IsDirectory,
            ErrorCode::Unsupported => Self::NotRegular,
            ErrorCode::TooManyLinks => Self::HardLinked,
            ErrorCode::CrossDevice => Self::OtherMount,
            ErrorCode::Access => Self::PermissionDenied,
            ErrorCode::Loop => Self::SymlinkLoop,
            ErrorCode::NameTooLong => Self::NameTooLong,
            code => Self::Other(code),
        }
    }
}

impl From<Unusable> for ReadError {
    fn from(unusable: Unusable) -> Self {
        match unusable {
            Unusable::NotFound => Self::NotFound,
            Unusable::Outside => Self::Outside,
            Unusable::IsDirectory => Self::IsDirectory,
            Unusable::NotRegular => Self::NotRegular,
            Unusable::HardLinked => Self::HardLinked,
            Unusable::OtherMount => Self::OtherMount,
            Unusable::PermissionDenied => Self::PermissionDenied,
            Unusable::SymlinkLoop => Self::SymlinkLoop,
            Unusable::NameTooLong => Self::NameTooLong,
            Unusable::TooLarge => Self::TooLarge(u64::MAX),
            Unusable::NotUtf8 => Self::NotUtf8,
            Unusable::Unreadable => Self::Other(ErrorCode::Io),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("not found"),
            Self::Outside => crate::PathError::Outside.fmt(f),
            Self::IsDirectory => f.write_str("is a directory"),
            Self::NotRegular => f.write_str("is not a regular file"),
            Self::HardLinked => f.write_str("has several hard links"),
            Self::OtherMount => f.write_str("lies on another mount"),
            Self::PermissionDenied => f.write_str("permission denied"),
            Self::SymlinkLoop => f.write_str("too many levels of symbolic links"),
            Self::NameTooLong => f.write_str("name too long"),
            Self::NotUtf8 => text::NotText::InvalidUtf8.fmt(f),
            Self::TooLarge(limit) => write!(f, "larger than {limit} bytes"),
            Self::Other(code) => f.write_str(code.name()),
        }
    }
}

impl core::error::Error for ReadError {}
