//! Lists a folder level by level: as many levels as fit into one answer. A folder whose first
//! level does not fit is listed in parts. Opens each entry to find its kind, as a call that
//! reads it would.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use skillhost_guest::{Entry, File, Folder, Identity, ListError, ReadError, SkillPath, child_path};

use crate::{WHOLE_SKILL, description};

/// The maximum number of entries in an answer. Guards against: an answer that fills a model's
/// context, and the time to open more files.
const MAX_LISTED: usize = 100;
/// The maximum number of bytes in the paths of an answer. Guards against: folders and files
/// with names of 255 bytes.
const MAX_PATH_BYTES: usize = 8 << 10;
/// The maximum number of names to read, in all folders together. Guards against: a folder
/// that takes seconds to list.
const MAX_NAMES: usize = 10_000;
/// The maximum depth of folders. Guards against: a chain of folders with short names.
const MAX_DEPTH: usize = 32;

/// The folder to list, and the limits of the listing.
pub(crate) struct Request<'a> {
    /// The folder's checked and normalized path.
    pub(crate) path: &'a str,
    pub(crate) depth: usize,
    /// The path after which to continue.
    pub(crate) after: Option<&'a str>,
}

/// The listing of a folder, or a part of it.
#[derive(Default)]
pub(crate) struct Listing {
    /// The entries, sorted by path, folder by folder.
    pub(crate) entries: Vec<ListedEntry>,
    /// The path after which the next part starts.
    pub(crate) after: Option<String>,
    /// The number of entries after this part.
    pub(crate) more: usize,
    /// The number of entries left out because no call can name them.
    pub(crate) left_out: u64,
}

/// An entry of a listing.
pub(crate) struct ListedEntry {
    pub(crate) path: String,
    pub(crate) kind: EntryKind,
}

/// The kind of an entry. Symlinks are followed.
pub(crate) enum EntryKind {
    File {
        size: u64,
        description: Option<String>,
    },
    Folder {
        /// The number of names in it, if they were counted.
        entries: Option<u64>,
        /// True if its entries are listed, too.
        is_opened: bool,
    },
    Unreadable(ReadError),
}

/// The reason why a listing failed.
pub(crate) enum Error {
    /// The folder has more names than this limit.
    TooMany(usize),
    Read(ReadError),
}

/// Lists a folder. The listing of a file is the file itself.
pub(crate) fn list(folder: &Folder, request: &Request<'_>) -> Result<Listing, Error> {
    let path = SkillPath::new(request.path).map_err(|_| Error::Read(ReadError::Outside))?;
    let opened = match folder.entry(&path).map_err(Error::Read)? {
        Entry::Folder(opened) => opened,
        Entry::File(file, size) => {
            return Ok(Listing {
                entries: vec![ListedEntry::file(request.path.into(), &file, size)],
                ..Listing::default()
            });
        }
    };
    let listed = opened
        .sorted_names(MAX_NAMES)
        .map_err(|error| match error {
            ListError::TooMany => Error::TooMany(MAX_NAMES),
            ListError::Read(error) => Error::Read(error),
        })?;
    let mut walk = Walk {
        folder,
        names_left: MAX_NAMES - listed.names.len(),
        visited: opened.identity().into_iter().collect(),
        path_bytes: 0,
        listing: Listing {
            left_out: listed.not_utf8,
            ..Listing::default()
        },
    };
    drop(opened);
    let parent = match request.path {
        WHOLE_SKILL => "",
        path => path,
    };
    let is_part = walk.list_first_level(parent, listed.names, request.after);
    walk.list_deeper_levels(if is_part {
        1
    } else {
        request.depth.min(MAX_DEPTH)
    });
    let mut listing = walk.listing;
    listing
        .entries
        .sort_by(|one, other| one.path.split('/').cmp(other.path.split('/')));
    Ok(listing)
}

struct Walk<'a> {
    folder: &'a Folder,
    /// The number of names that may still be read.
    names_left: usize,
    /// The opened folders. A symlink to one is not opened again.
    visited: Vec<Identity>,
    path_bytes: usize,
    listing: Listing,
}

impl Walk<'_> {
    /// Lists the first level, or a part of it. Returns `true` for a part.
    fn list_first_level(&mut self, parent: &str, names: Vec<String>, after: Option<&str>) -> bool {
        let mut paths = self.child_paths(parent, names);
        if let Some(after) = after {
            // `after` is the last path of the previous part, or only its name.
            let is_whole_path = parent.is_empty()
                || after
                    .strip_prefix(parent)
                    .is_some_and(|name| name.starts_with('/'));
            let after = if is_whole_path {
                after.into()
            } else {
                child_path(parent, after).unwrap_or_default()
            };
            paths.retain(|path| *path > after);
        }
        let mut count = 0;
        for path in &paths {
            let bytes = self.path_bytes + path.len();
            if count == MAX_LISTED || (count > 0 && bytes > MAX_PATH_BYTES) {
                break;
            }
            self.path_bytes = bytes;
            count += 1;
        }
        self.listing.more = paths.len() - count;
        paths.truncate(count);
        if self.listing.more > 0 {
            self.listing.after = paths.last().cloned();
        }
        paths.into_iter().for_each(|path| self.add_entry(path));
        after.is_some() || self.listing.more > 0
    }

    /// Opens the next levels, each one completely, as long as they fit into the answer. Counts
    /// the names in folders that stay closed.
    fn list_deeper_levels(&mut self, max_depth: usize) {
        let mut level = 0..self.listing.entries.len();
        for depth in 1.. {
            let mut opened: Vec<(usize, Vec<String>)> = Vec::new();
            let (mut count, mut bytes) = (self.listing.entries.len(), self.path_bytes);
            for index in level {
                if let Some(names) = self.names_in(index) {
                    let folder = self.listing.entries[index].path.clone();
                    let paths = self.child_paths(&folder, names);
                    count += paths.len();
                    bytes += paths.iter().map(String::len).sum::<usize>();
                    opened.push((index, paths));
                }
            }
            let is_too_large = count > MAX_LISTED || bytes > MAX_PATH_BYTES;
            if depth >= max_depth || opened.is_empty() || is_too_large {
                return;
            }
            self.path_bytes = bytes;
            level = self.listing.entries.len()..count;
            for (index, paths) in opened {
                if let EntryKind::Folder { is_opened, .. } = &mut self.listing.entries[index].kind {
                    *is_opened = true;
                }
                paths.into_iter().for_each(|path| self.add_entry(path));
            }
        }
    }

    /// Counts the names in the folder at an index of the listing. Returns the names if the folder
    /// may be opened: it is not hidden and not already opened.
    fn names_in(&mut self, index: usize) -> Option<Vec<String>> {
        let entry = &mut self.listing.entries[index];
        let EntryKind::Folder { entries, .. } = &mut entry.kind else {
            return None;
        };
        if self.names_left == 0 {
            return None;
        }
        let opened = match self.folder.entry(&SkillPath::new(&entry.path).ok()?) {
            Ok(Entry::Folder(opened)) => opened,
            // The entry has changed since it was listed.
            _ => return None,
        };
        let listed = match opened.sorted_names(self.names_left) {
            Ok(listed) => listed,
            Err(ListError::TooMany) => {
                self.names_left = 0;
                return None;
            }
            Err(ListError::Read(error)) => {
                entry.kind = EntryKind::Unreadable(error);
                return None;
            }
        };
        self.names_left -= listed.names.len();
        *entries = Some(listed.names.len() as u64 + listed.not_utf8);
        let identity = opened.identity().ok()?;
        if is_hidden(&entry.path) || self.visited.contains(&identity) {
            return None;
        }
        self.visited.push(identity);
        self.listing.left_out += listed.not_utf8;
        Some(listed.names)
    }

    /// Returns the paths of the names in a folder. Counts the names that no call can use.
    fn child_paths(&mut self, folder: &str, names: Vec<String>) -> Vec<String> {
        let name_count = names.len();
        let paths: Vec<String> = names
            .into_iter()
            .filter_map(|name| child_path(folder, &name).ok())
            .collect();
        self.listing.left_out += (name_count - paths.len()) as u64;
        paths
    }

    /// Opens the entry at a path and adds it to the listing.
    fn add_entry(&mut self, path: String) {
        let opened = SkillPath::new(&path)
            .map_err(|_| ReadError::Outside)
            .and_then(|path| self.folder.entry(&path));
        self.listing.entries.push(match opened {
            Ok(Entry::File(file, size)) => ListedEntry::file(path, &file, size),
            Ok(Entry::Folder(_)) => ListedEntry {
                path,
                kind: EntryKind::Folder {
                    entries: None,
                    is_opened: false,
                },
            },
            Err(error) => ListedEntry {
                path,
                kind: EntryKind::Unreadable(error),
            },
        });
    }
}

impl ListedEntry {
    fn file(path: String, file: &File, size: u64) -> Self {
        let description = description::of(&path, file);
        Self {
            path,
            kind: EntryKind::File { size, description },
        }
    }
}

/// Returns whether the last name of a path starts with a dot. Such a folder, for example
/// `.git`, is opened only if a call names it.
pub(crate) fn is_hidden(path: &str) -> bool {
    path.rsplit('/')
        .next()
        .is_some_and(|name| name.starts_with('.'))
}
