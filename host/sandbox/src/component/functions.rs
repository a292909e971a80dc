//! A cache of compiled functions from a project's earlier builds. Most of a component in
//! Python or JavaScript is the language's runtime, which edits do not change. `cache` keeps
//! whole compiled components.
//!
//! All functions of a project are in one file, in a folder that only its user can write. Only
//! the compiler process of a build reads and writes the file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use wasmtime::CacheStore;

use skillhost_skills::named_file;

/// The first bytes of the file, with the version of its format.
const HEADER: &[u8] = b"skillhost functions 1\n";

/// The maximum size of the file, in bytes. Guards against: a component whose functions fill the
/// disk.
pub(super) const MAX_BYTES: u64 = 512 << 20;

/// The functions in the file's bytes: their ranges by key, and whether this build used each.
type FunctionIndex = HashMap<Vec<u8>, (Range<usize>, AtomicBool)>;

/// The functions of one project.
#[derive(Debug)]
pub(super) struct FunctionStore {
    file: PathBuf,
    bytes: Vec<u8>,
    /// The functions in `bytes`.
    stored: FunctionIndex,
    /// The functions that this build compiled, by key.
    new: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
}

impl FunctionStore {
    /// Reads the file. Treats a missing or damaged file as empty.
    pub(super) fn read(file: &Path) -> Self {
        let bytes = named_file::read(file, MAX_BYTES).unwrap_or_default();
        Self {
            file: file.to_owned(),
            stored: index(&bytes).unwrap_or_default(),
            bytes,
            new: Mutex::default(),
        }
    }

    /// Writes the functions that this build used or compiled, if it compiled any.
    pub(super) fn write(&self) -> io::Result<()> {
        let new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        if new.is_empty() {
            return Ok(());
        }
        let used = self.stored.iter().filter_map(|(key, (range, is_used))| {
            let is_used = is_used.load(Ordering::Relaxed);
            is_used.then(|| (key, &self.bytes[range.clone()]))
        });
        let all = used.chain(new.iter().map(|(key, value)| (key, value.as_slice())));
        // The file is replaced only when the new one is complete.
        let unfinished = self.file.with_extension("new");
        let mut writer = BufWriter::new(fs::File::create(&unfinished)?);
        writer.write_all(HEADER)?;
        let mut length = HEADER.len() as u64;
        for (key, value) in all {
            length += 8 + key.len() as u64 + value.len() as u64;
            if length > MAX_BYTES {
                break;
            }
            for part in [key.as_slice(), value] {
                let length = u32::try_from(part.len()).map_err(io::Error::other)?;
                writer.write_all(&length.to_le_bytes())?;
                writer.write_all(part)?;
            }
        }
        writer.into_inner()?.sync_all()?;
        fs::rename(unfinished, &self.file)
    }
}

/// Finds the functions in the file's bytes. Returns `None` if the file is damaged.
fn index(bytes: &[u8]) -> Option<FunctionIndex> {
    let mut at = bytes.starts_with(HEADER).then_some(HEADER.len())?;
    let mut stored = HashMap::new();
    let read_part = |at: &mut usize| -> Option<Range<usize>> {
        let length = bytes.get(*at..at.checked_add(4)?)?.try_into().ok()?;
        let start = *at + 4;
        *at = start.checked_add(u32::from_le_bytes(length) as usize)?;
        bytes.get(start..*at).map(|_| start..*at)
    };
    while at < bytes.len() {
        let key = read_part(&mut at)?;
        let value = read_part(&mut at)?;
        stored.insert(bytes[key].to_vec(), (value, AtomicBool::new(false)));
    }
    Some(stored)
}

impl CacheStore for FunctionStore {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let (range, is_used) = self.stored.get(key)?;
        is_used.store(true, Ordering::Relaxed);
        Some(Cow::Borrowed(&self.bytes[range.clone()]))
    }

    fn insert(&self, key: &[u8], value: Vec<u8>) -> bool {
        let mut new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        new.insert(key.to_vec(), value);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_functions_that_were_used() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("functions");
        let store = FunctionStore::read(&file);
        assert_eq!(store.get(b"one"), None);
        store.insert(b"one", b"1".to_vec());
        store.insert(b"two", Vec::new());
        store.write().unwrap();
        let store = FunctionStore::read(&file);
        assert_eq!(store.get(b"one").as_deref(), Some(&b"1"[..]));
        store.insert(b"three", b"3".to_vec());
        store.write().unwrap();
        let store = FunctionStore::read(&file);
        assert_eq!(store.get(b"one").as_deref(), Some(&b"1"[..]));
        assert_eq!(store.get(b"two"), None);
        assert_eq!(store.get(b"three").as_deref(), Some(&b"3"[..]));
    }

    #[test]
    fn ignores_an_incomplete_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("functions");
        let store = FunctionStore::read(&file);
        store.insert(b"one", b"1".to_vec());
        store.write().unwrap();
        let whole = fs::read(&file).unwrap();
        for length in 1..whole.len() {
            fs::write(&file, &whole[..length]).unwrap();
            assert_eq!(FunctionStore::read(&file).get(b"one"), None, "{length}");
        }
        let mut long = whole.clone();
        long[HEADER.len() + 3] = 0xff;
        fs::write(&file, &long).unwrap();
        assert_eq!(FunctionStore::read(&file).get(b"one"), None);
    }
}
