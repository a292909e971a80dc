//! All files of a skill, with the limits that the skills extension sets on a
//! manifest, and three that keep a folder made for it from taking long.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use skillhost_guest::{Entry, File, Folder, Identity, ListError};

use crate::entry::{self, Word};
use crate::reason;

/// Files of a manifest, from the skills extension.
pub(crate) const MOST_FILES: usize = 512;
/// Bytes of a skill's files, from the skills extension.
pub(crate) const MOST_BYTES: u64 = 16 << 20;
/// Names that are looked at, whatever they lead to. Meets: a folder of FIFOs;
/// symlinks to folders of symlinks, of which few make many paths.
const MOST_ENTRIES: usize = 16_384;
/// Bytes of all paths. Meets: a listing that is longer than an answer may be.
const MOST_PATHS: usize = 4 << 20;
/// Folders in folders. Meets: recursion.
const MOST_DEPTH: usize = 32;
/// Things left out that are named; more are counted.
const MOST_NAMED: usize = 32;

/// A file of the skill.
pub(crate) struct Found {
    pub(crate) path: String,
    pub(crate) size: u64,
}

skillhost_guest::record! {
    /// Something that is no file of the skill, although it lies there.
    pub(crate) struct LeftOut {
        pub(crate) path: String,
        pub(crate) reason: Word,
    }
}

/// A skill, walked through.
#[derive(Default)]
pub(crate) struct Walk {
    /// The files, sorted by their paths.
    pub(crate) files: Vec<Found>,
    pub(crate) left_out: Vec<LeftOut>,
    /// The number of them, named or not.
    pub(crate) left_out_count: u64,
    /// The limit that ended the walk: what was found is not all.
    pub(crate) over: Option<Word>,
    most_files: usize,
    entries: usize,
    paths: usize,
    bytes: u64,
}

impl Walk {
    /// Walks through the skill's folder, for at most so many files.
    pub(crate) fn through(folder: &Folder, most_files: usize) -> Self {
        let mut walk = Self {
            most_files,
            ..Self::default()
        };
        match entry::open(folder, ".") {
            Ok(Entry::Folder(root)) => {
                if let Err(over) = walk.folder(folder, "", &root, &mut Vec::new()) {
                    walk.over = Some(over);
                }
            }
            Ok(Entry::File(..)) => walk.leave_out(".".to_owned(), "unreadable"),
            Err(reason) => walk.leave_out(".".to_owned(), reason),
        }
        walk.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        walk
    }

    /// Walks through one folder; `above` are the folders that it lies in. The
    /// error is a limit.
    fn folder(
        &mut self,
        root: &Folder,
        path: &str,
        opened: &File,
        above: &mut Vec<Identity>,
    ) -> Result<(), Word> {
        if above.len() == MOST_DEPTH {
            return Err("depth");
        }
        // A folder in itself has no end.
        match opened.identity() {
            Ok(identity) if above.contains(&identity) => {
                self.leave_out(path.to_owned(), "symlink-loop");
                return Ok(());
            }
            Ok(identity) => above.push(identity),
            Err(error) => {
                self.leave_out(path.to_owned(), reason::word(error));
                return Ok(());
            }
        }
        let done = self.entries(root, path, opened, above);
        above.pop();
        done
    }

    fn entries(
        &mut self,
        root: &Folder,
        path: &str,
        opened: &File,
        above: &mut Vec<Identity>,
    ) -> Result<(), Word> {
        let listed = match opened.sorted_names(MOST_ENTRIES - self.entries) {
            Ok(listed) => listed,
            Err(ListError::TooMany) => return Err("entries"),
            Err(ListError::Read(error)) => {
                self.leave_out(path.to_owned(), reason::word(error));
                return Ok(());
            }
        };
        self.entries += listed.names.len();
        for _ in 0..listed.not_utf8 {
            self.entries += 1;
            self.leave_out(path.to_owned(), "name-not-utf-8");
        }
        for name in listed.names {
            let found = entry::join(path, &name)
                .and_then(|path| entry::open(root, &path).map(|entry| (path, entry)));
            match found {
                Ok((path, Entry::File(_, size))) => self.file(path, size)?,
                Ok((path, Entry::Folder(opened))) => self.folder(root, &path, &opened, above)?,
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

    fn file(&mut self, path: String, size: u64) -> Result<(), Word> {
        if self.files.len() == self.most_files {
            return Err("files");
        }
        self.paths += path.len();
        if self.paths > MOST_PATHS {
            return Err("entries");
        }
        self.bytes = self.bytes.saturating_add(size);
        self.files.push(Found { path, size });
        Ok(())
    }

    /// Notes that something is left out.
    pub(crate) fn leave_out(&mut self, path: String, reason: Word) {
        self.left_out_count += 1;
        if self.left_out.len() < MOST_NAMED {
            self.left_out.push(LeftOut { path, reason });
        }
    }

    /// Returns whether the files exceed the size limit of a skill.
    pub(crate) fn too_large(&self) -> bool {
        self.bytes > MOST_BYTES
    }
}
