//! What lies in a folder, level by level: as many levels as fit into one answer.
//! A folder that alone has more than that is listed in parts. What a name leads
//! to is found out by opening it, as a call that reads it would.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use skillhost_guest::{Entry, File, Folder, Identity, ListError, ReadError, SkillPath, child_path};

use crate::{WHOLE_SKILL, description};

/// Entries of an answer. Guards against: an answer that fills a model's memory,
/// and the time to open as many files.
const MOST_SHOWN: usize = 100;
/// Bytes of the paths in an answer. Guards against: names of 255 bytes in folders
/// of such names.
const MOST_PATH_BYTES: usize = 8 << 10;
/// Names that are looked through, of all folders together. Guards against: a
/// folder whose every listing takes seconds.
const MOST_NAMES: usize = 10_000;
/// Levels of folders. Guards against: a chain of folders with short names.
const MOST_DEPTH: usize = 32;

/// Where a listing starts and how far it may go.
pub(crate) struct Start<'a> {
    /// A path that was checked, normalized.
    pub(crate) path: &'a str,
    pub(crate) depth: usize,
    /// The path after which it goes on.
    pub(crate) after: Option<&'a str>,
}

/// A part of a folder, or all of it.
#[derive(Default)]
pub(crate) struct Listing {
    /// Sorted by path, folder by folder.
    pub(crate) found: Vec<Found>,
    /// The path after which the next part starts.
    pub(crate) after: Option<String>,
    /// How many entries come after it.
    pub(crate) more: usize,
    /// Names that nobody can ask for.
    pub(crate) left_out: u64,
}

/// Something in the folder.
pub(crate) struct Found {
    pub(crate) path: String,
    pub(crate) kind: Kind,
}

/// What it leads to.
pub(crate) enum Kind {
    File {
        size: u64,
        description: Option<String>,
    },
    Folder {
        /// The names in it, if they were counted.
        entries: Option<u64>,
        /// Whether what is in it is listed as well.
        opened: bool,
    },
    Unreadable(ReadError),
}

/// Why there is no listing.
pub(crate) enum Unlisted {
    TooMany(usize),
    Error(ReadError),
}

/// Lists the folder where this starts. A file is listed by itself.
pub(crate) fn of(folder: &Folder, start: &Start<'_>) -> Result<Listing, Unlisted> {
    let path = SkillPath::new(start.path).map_err(|_| Unlisted::Error(ReadError::Outside))?;
    let opened = match folder.entry(&path).map_err(Unlisted::Error)? {
        Entry::Folder(opened) => opened,
        Entry::File(file, size) => {
            return Ok(Listing {
                found: vec![Found::file(start.path.into(), &file, size)],
                ..Listing::default()
            });
        }
    };
    let listed = opened
        .sorted_names(MOST_NAMES)
        .map_err(|error| match error {
            ListError::TooMany => Unlisted::TooMany(MOST_NAMES),
            ListError::Read(error) => Unlisted::Error(error),
        })?;
    let mut walk = Walk {
        folder,
        names_left: MOST_NAMES - listed.names.len(),
        visited: opened.identity().into_iter().collect(),
        path_bytes: 0,
        listing: Listing {
            left_out: listed.not_utf8,
            ..Listing::default()
        },
    };
    drop(opened);
    let above = match start.path {
        WHOLE_SKILL => "",
        path => path,
    };
    let is_part = walk.first_level(above, listed.names, start.after);
    walk.deeper_levels(if is_part {
        1
    } else {
        start.depth.min(MOST_DEPTH)
    });
    let mut listing = walk.listing;
    listing
        .found
        .sort_by(|one, other| one.path.split('/').cmp(other.path.split('/')));
    Ok(listing)
}

struct Walk<'a> {
    folder: &'a Folder,
    names_left: usize,
    /// Folders that are listed: a link to one is not followed again.
    visited: Vec<Identity>,
    path_bytes: usize,
    listing: Listing,
}

impl Walk<'_> {
    /// Lists the first level, or a part of it. Says whether it is a part.
    fn first_level(&mut self, above: &str, names: Vec<String>, after: Option<&str>) -> bool {
        let mut paths = self.paths(above, names);
        // The last path of the part before, or its name alone.
        let full = |after: &str| match above {
            "" => false,
            above => after
                .strip_prefix(above)
                .is_some_and(|name| name.starts_with('/')),
        };
        if let Some(after) = after {
            let after = match full(after) || above.is_empty() {
                true => after.into(),
                false => child_path(above, after).unwrap_or_default(),
            };
            paths.retain(|path| *path > after);
        }
        let mut shown = 0;
        for path in &paths {
            let bytes = self.path_bytes + path.len();
            if shown == MOST_SHOWN || (shown > 0 && bytes > MOST_PATH_BYTES) {
                break;
            }
            self.path_bytes = bytes;
            shown += 1;
        }
        self.listing.more = paths.len() - shown;
        paths.truncate(shown);
        if self.listing.more > 0 {
            self.listing.after = paths.last().cloned();
        }
        paths.into_iter().for_each(|path| self.look(path));
        after.is_some() || self.listing.more > 0
    }

    /// Opens one level after the other, each as a whole, while the answer has
    /// room for it. Folders that stay closed are counted.
    fn deeper_levels(&mut self, depth: usize) {
        let mut level = 0..self.listing.found.len();
        for below in 1.. {
            let mut inner: Vec<(usize, Vec<String>)> = Vec::new();
            let (mut shown, mut bytes) = (self.listing.found.len(), self.path_bytes);
            for at in level {
                if let Some(names) = self.names_in(at) {
                    let paths = self.paths(&self.listing.found[at].path.clone(), names);
                    shown += paths.len();
                    bytes += paths.iter().map(String::len).sum::<usize>();
                    inner.push((at, paths));
                }
            }
            if below >= depth || inner.is_empty() || shown > MOST_SHOWN || bytes > MOST_PATH_BYTES {
                return;
            }
            self.path_bytes = bytes;
            level = self.listing.found.len()..shown;
            for (at, paths) in inner {
                if let Kind::Folder { opened, .. } = &mut self.listing.found[at].kind {
                    *opened = true;
                }
                paths.into_iter().for_each(|path| self.look(path));
            }
        }
    }

    /// Counts the names in a folder, and gives them if it may be opened: not if
    /// it is hidden, or listed already.
    fn names_in(&mut self, at: usize) -> Option<Vec<String>> {
        let found = &mut self.listing.found[at];
        let Kind::Folder { entries, .. } = &mut found.kind else {
            return None;
        };
        if self.names_left == 0 {
            return None;
        }
        let opened = match self.folder.entry(&SkillPath::new(&found.path).ok()?) {
            Ok(Entry::Folder(opened)) => opened,
            // It has changed since.
            _ => return None,
        };
        let listed = match opened.sorted_names(self.names_left) {
            Ok(listed) => listed,
            Err(ListError::TooMany) => {
                self.names_left = 0;
                return None;
            }
            Err(ListError::Read(error)) => {
                found.kind = Kind::Unreadable(error);
                return None;
            }
        };
        self.names_left -= listed.names.len();
        *entries = Some(listed.names.len() as u64 + listed.not_utf8);
        let identity = opened.identity().ok()?;
        if is_hidden(&found.path) || self.visited.contains(&identity) {
            return None;
        }
        self.visited.push(identity);
        self.listing.left_out += listed.not_utf8;
        Some(listed.names)
    }

    /// The paths of names in a folder. Counts the names that have none.
    fn paths(&mut self, above: &str, names: Vec<String>) -> Vec<String> {
        let all = names.len();
        let paths: Vec<String> = names
            .into_iter()
            .filter_map(|name| child_path(above, &name).ok())
            .collect();
        self.listing.left_out += (all - paths.len()) as u64;
        paths
    }

    fn look(&mut self, path: String) {
        let opened = SkillPath::new(&path)
            .map_err(|_| ReadError::Outside)
            .and_then(|path| self.folder.entry(&path));
        self.listing.found.push(match opened {
            Ok(Entry::File(file, size)) => Found::file(path, &file, size),
            Ok(Entry::Folder(_)) => Found {
                path,
                kind: Kind::Folder {
                    entries: None,
                    opened: false,
                },
            },
            Err(error) => Found {
                path,
                kind: Kind::Unreadable(error),
            },
        });
    }
}

impl Found {
    fn file(path: String, file: &File, size: u64) -> Self {
        let description = description::of(&path, file);
        Self {
            path,
            kind: Kind::File { size, description },
        }
    }
}

/// Whether the last name of a path starts with a dot: a folder of a version
/// control system is shown, and opened when somebody asks for it.
pub(crate) fn is_hidden(path: &str) -> bool {
    path.rsplit('/')
        .next()
        .is_some_and(|name| name.starts_with('.'))
}
