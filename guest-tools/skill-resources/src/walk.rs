//! Finds all files of a skill, within the limits of the skills extension for a manifest, and
//! within limits that guard against malicious folders.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use skillhost_guest::{Entry, File, Folder, Identity, ListError};

use crate::entry::{self, ReasonCode};
use crate::reason;

/// The maximum number of files in a manifest, from the skills extension.
pub(crate) const MAX_FILES: usize = 512;
/// The maximum size of a skill's files in bytes, from the skills extension.
pub(crate) const MAX_SKILL_BYTES: u64 = 16 << 20;
/// The maximum number of entries to open. Guards against: a folder of FIFOs; nested symlinks
/// to folders, of which a few make many paths.
const MAX_ENTRIES: usize = 16_384;
/// The maximum number of bytes in all paths. Guards against: a listing that exceeds the
/// limit on answers.
const MAX_PATH_BYTES: usize = 4 << 20;
/// The maximum depth of folders. Guards against: a stack overflow.
const MAX_DEPTH: usize = 32;
/// The maximum number of left out entries to list. More are only counted.
const MAX_LEFT_OUT: usize = 32;

/// A file of the skill.
pub(crate) struct FoundFile {
    pub(crate) path: String,
    pub(crate) size: u64,
}

skillhost_guest::record! {
    /// An entry of the skill's folder that cannot be listed, and the reason.
    pub(crate) struct LeftOut {
        pub(crate) path: String,
        pub(crate) reason: ReasonCode,
    }
}

/// The result of walking through a skill's folder.
#[derive(Default)]
pub(crate) struct Walk {
    /// The files, sorted by their paths.
    pub(crate) files: Vec<FoundFile>,
    pub(crate) left_out: Vec<LeftOut>,
    /// The number of left out entries, listed or not.
    pub(crate) left_out_count: u64,
    /// The limit that ended the walk, if `files` is incomplete.
    pub(crate) exceeded: Option<ReasonCode>,
    max_files: usize,
    entry_count: usize,
    path_bytes: usize,
    file_bytes: u64,
}

impl Walk {
    /// Walks through the skill's folder. Ends after `max_files` files.
    pub(crate) fn through(folder: &Folder, max_files: usize) -> Self {
        let mut walk = Self {
            max_files,
            ..Self::default()
        };
        match entry::open(folder, ".") {
            Ok(Entry::Folder(root)) => {
                if let Err(limit) = walk.visit_folder(folder, "", &root, &mut Vec::new()) {
                    walk.exceeded = Some(limit);
                }
            }
            Ok(Entry::File(..)) => walk.leave_out(".".to_owned(), "unreadable"),
            Err(reason) => walk.leave_out(".".to_owned(), reason),
        }
        walk.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        walk
    }

    /// Walks through one folder. `parents` are the folders that contain it. The error is the
    /// limit that ended the walk.
    fn visit_folder(
        &mut self,
        root: &Folder,
        path: &str,
        opened: &File,
        parents: &mut Vec<Identity>,
    ) -> Result<(), ReasonCode> {
        if parents.len() == MAX_DEPTH {
            return Err("depth");
        }
        // A symlink can make a folder contain itself.
        match opened.identity() {
            Ok(identity) if parents.contains(&identity) => {
                self.leave_out(path.to_owned(), "symlink-loop");
                return Ok(());
            }
            Ok(identity) => parents.push(identity),
            Err(error) => {
                self.leave_out(path.to_owned(), reason::code(error));
                return Ok(());
            }
        }
        let result = self.visit_entries(root, path, opened, parents);
        parents.pop();
        result
    }

    fn visit_entries(
        &mut self,
        root: &Folder,
        path: &str,
        opened: &File,
        parents: &mut Vec<Identity>,
    ) -> Result<(), ReasonCode> {
        let listed = match opened.sorted_names(MAX_ENTRIES - self.entry_count) {
            Ok(listed) => listed,
            Err(ListError::TooMany) => return Err("entries"),
            Err(ListError::Read(error)) => {
                self.leave_out(path.to_owned(), reason::code(error));
                return Ok(());
            }
        };
        self.entry_count += listed.names.len();
        for _ in 0..listed.not_utf8 {
            self.entry_count += 1;
            self.leave_out(path.to_owned(), "name-not-utf-8");
        }
        for name in listed.names {
            let entry = entry::join(path, &name)
                .and_then(|path| entry::open(root, &path).map(|entry| (path, entry)));
            match entry {
                Ok((path, Entry::File(_, size))) => self.add_file(path, size)?,
                Ok((path, Entry::Folder(opened))) => {
                    self.visit_folder(root, &path, &opened, parents)?;
                }
                Err(reason) => self.leave_out(
                    match path {
                        "" => name,
                        path => format!("{path}/{name}"),
                    },
                    reason,
                ),
            }
        }
        Ok(())
    }

    fn add_file(&mut self, path: String, size: u64) -> Result<(), ReasonCode> {
        if self.files.len() == self.max_files {
            return Err("files");
        }
        self.path_bytes += path.len();
        if self.path_bytes > MAX_PATH_BYTES {
            return Err("entries");
        }
        self.file_bytes = self.file_bytes.saturating_add(size);
        self.files.push(FoundFile { path, size });
        Ok(())
    }

    /// Records that an entry is left out.
    pub(crate) fn leave_out(&mut self, path: String, reason: ReasonCode) {
        self.left_out_count += 1;
        if self.left_out.len() < MAX_LEFT_OUT {
            self.left_out.push(LeftOut { path, reason });
        }
    }

    /// Returns whether the files exceed the size limit of a skill.
    pub(crate) fn is_too_large(&self) -> bool {
        self.file_bytes > MAX_SKILL_BYTES
    }
}
