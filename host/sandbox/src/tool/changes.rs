//! The changes of a call in its copy-on-write view: the paths that its answer can list, and
//! the totals.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::tool::limits::PATH_BYTES;

/// The changes of a call, without anything below `/tmp`.
#[derive(Debug)]
pub struct ViewChanges {
    /// The files that are new or differ from the disk, without links and empty folders. Their
    /// bytes count against the quota of calls until the last copy is dropped.
    pub(crate) files: FirstPaths<Bytes>,
    /// The total bytes of these files.
    pub(crate) bytes: u64,
    /// The files, links and folders of the disk that the call removed. The contents of removed
    /// folders are not included.
    pub(crate) removed: FirstPaths<()>,
}

/// The first paths in sorted order with their values, and the number of all paths.
///
/// Guards against: filling the host's memory with paths of 16 KB, which cost a guest a few bytes
/// each. So a path of [`PATH_BYTES`] or more, which cannot be opened, is only counted.
#[derive(Debug)]
pub(crate) struct FirstPaths<T> {
    max: usize,
    pub(crate) first: BTreeMap<String, T>,
    pub(crate) count: usize,
}

impl ViewChanges {
    /// Creates changes that list at most `max` files and `max` removed entries.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            files: FirstPaths::new(max),
            bytes: 0,
            removed: FirstPaths::new(max),
        }
    }

    /// Adds a file. Call this once per file.
    pub(crate) fn add_file(&mut self, path: &str, bytes: Bytes) {
        self.bytes += bytes.len() as u64;
        self.files.add(path, bytes);
    }
}

impl<T> FirstPaths<T> {
    fn new(max: usize) -> Self {
        Self {
            max,
            first: BTreeMap::new(),
            count: 0,
        }
    }

    /// Adds a path. Call this once per path.
    pub(crate) fn add(&mut self, path: &str, value: T) {
        self.count += 1;
        if path.len() >= PATH_BYTES {
            return;
        }
        if self.first.len() >= self.max {
            match self.first.last_entry() {
                Some(last) if path < last.key().as_str() => last.remove(),
                _ => return,
            };
        }
        self.first.insert(path.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_first_paths_and_counts_all() {
        let paths = ["m", "b/c", "z", "b", "b.c", "a"];
        for (max, expected) in [
            (0, &[][..]),
            (1, &["a"]),
            (3, &["a", "b", "b.c"]),
            (6, &["a", "b", "b.c", "b/c", "m", "z"]),
            (7, &["a", "b", "b.c", "b/c", "m", "z"]),
        ] {
            let mut changes = ViewChanges::new(max);
            for path in paths {
                changes.add_file(path, Bytes::from_static(b"12"));
                changes.removed.add(path, ());
            }
            assert!(changes.files.first.keys().eq(expected), "{max}");
            assert!(changes.removed.first.keys().eq(expected), "{max}");
            let counts = (changes.files.count, changes.bytes, changes.removed.count);
            assert_eq!(counts, (6, 12, 6), "{max}");
        }
    }

    #[test]
    fn counts_but_omits_path_over_limit() {
        let mut paths = FirstPaths::new(10);
        for bytes in [PATH_BYTES - 1, PATH_BYTES, PATH_BYTES + 1] {
            paths.add(&"x".repeat(bytes), ());
        }
        let lengths = paths.first.keys().map(String::len);
        assert_eq!(lengths.collect::<Vec<_>>(), [PATH_BYTES - 1]);
        assert_eq!(paths.count, 3);
    }
}
