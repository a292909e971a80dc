//! The cache on disk: compiled components and their tools' definitions, keyed by engine and
//! content, and indexes of skills.
//!
//! The host runs the machine code in entries. So the cache uses no folder or file that
//! another user owns or can write.

use std::ffi::OsStr;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use wasmtime::component::Component;

use crate::engine::EpochEngine;
use crate::tool::limits::Limits;
use skillhost_skills::catalog::SkillsRoot;
use skillhost_skills::search::IndexStorage;
use skillhost_skills::trust::{Trust, is_ours_alone, own_folder};

/// A cache: one folder, or a folder for reading and another for new entries.
#[derive(Debug)]
pub struct ComponentCache {
    /// The folders; the first is for new entries.
    folders: Vec<CacheFolder>,
}

/// A folder of a cache.
#[derive(Debug)]
struct CacheFolder {
    /// The handle of the checked folder. Entries are only opened through it.
    handle: Dir,
    /// Its path, for the operator.
    path: PathBuf,
    /// The removal of old entries, which the first new one causes.
    removal: Once,
}

/// The maximum size of an entry with a compiled component or definitions, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// The maximum size of an index, in bytes. An index takes about as much space on disk as in memory.
const MAX_INDEX_BYTES: u64 = 128 << 20;

/// The size of each write, in bytes. Linux keeps each write in one folio of the page cache, and
/// maps a whole folio at the first access. After each call, Linux walks the mapped pages of a
/// guest's memory. 17 more pages cost a call 0.4 µs.
const PAGE: usize = 4096;

/// The age at which an unfinished entry is removed, because its process must have ended.
const UNFINISHED_AGE: Duration = Duration::from_secs(60 * 60);

/// The longest wait for another compiling process. Guards against: a stopped process.
const LOCK_TIME: Duration = Duration::from_secs(10 * 60);

/// The pause between attempts to take a lock.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The maximum number of removed lock files during a wait. Guards against: file systems that report
/// that each open file is removed.
const MAX_REMOVED: usize = 10;

/// The time after which an unread entry is removed when another is written. Guards against: a disk that fills with
/// each build of a component.
const UNUSED_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The version of the entries' format, which is part of their names.
const FORMAT: u32 = 4;

impl ComponentCache {
    /// Opens the cache in `folder`, and creates it if it is missing. The cache writes new entries
    /// to the folder `new_entries` instead, if given.
    pub fn open(folder: &Path, new_entries: Option<&Path>, trust: &Trust) -> anyhow::Result<Self> {
        let folders = new_entries.into_iter().chain([folder]);
        let folders = folders.map(|folder| CacheFolder::open(folder, trust));
        let folders = folders.collect::<Result<_, _>>()?;
        Ok(Self { folders })
    }

    /// Returns the compiled component, if the cache has it intact.
    pub(crate) fn code(&self, engine: &EpochEngine, key: &CodeKey) -> Option<Component> {
        self.find(|folder| folder.map(engine, key))
    }

    /// Returns whether the cache has the compiled component. Does not verify its checksum.
    pub(crate) fn has_code(&self, key: &CodeKey) -> bool {
        let mut folders = self.folders.iter();
        folders.any(|folder| folder.open_entry(&key.0, MAX_BYTES).is_ok())
    }

    /// Locks the compilation of a component against other processes and threads. Waits
    /// while one of them compiles it. Returns `None` if locking fails. Two processes can then
    /// compile the component at the same time.
    ///
    /// A confined process also waits for unconfined processes, because it can use their
    /// entries. An unconfined process does not wait for confined processes, because it must not
    /// use their entries.
    pub(crate) fn lock(&self, key: &CodeKey) -> Option<CompileLock<'_>> {
        let (for_new, others) = self.folders.split_first()?;
        let folder = &for_new.handle;
        let name = format!("{}.lock", key.0);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = || rustix::fs::openat(folder, &name, flags, Mode::RUSR | Mode::WUSR);
        let file = wait_for_lock(opened, FlockOperation::NonBlockingLockExclusive)
            .inspect_err(|error| tracing::debug!("cannot lock a cache entry: {error}"))
            .ok()?;
        for other in others {
            // A confined process can only read this folder. If the file is missing, nobody
            // compiles.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let opened = || rustix::fs::openat(&other.handle, &name, flags, Mode::empty());
            let _ = wait_for_lock(opened, FlockOperation::NonBlockingLockShared);
        }
        Some(CompileLock {
            folder,
            name,
            _file: file,
        })
    }

    /// Returns the definitions of a component, if the cache has them intact.
    pub(crate) fn definitions(&self, key: &DefinitionsKey) -> Option<Vec<u8>> {
        self.find(|folder| folder.read(&key.0, MAX_BYTES))
    }

    fn find<T>(&self, read: impl Fn(&CacheFolder) -> anyhow::Result<T>) -> Option<T> {
        self.folders.iter().find_map(|folder| {
            read(folder)
                .inspect_err(|error| tracing::debug!("not in the cache: {error:#}"))
                .ok()
        })
    }

    /// Writes a compiled component.
    pub(crate) fn put_code(&self, key: &CodeKey, component: &Component) {
        let bytes = component.serialize().map_err(io::Error::other);
        self.put(&key.0, bytes);
    }

    /// Writes the definitions of a component's tools.
    pub(crate) fn put_definitions(&self, key: &DefinitionsKey, definitions: Vec<u8>) {
        self.put(&key.0, Ok(definitions));
    }

    /// Writes an entry. Errors are only logged, because a failed write only costs time.
    fn put(&self, name: &str, bytes: io::Result<Vec<u8>>) {
        let Some(folder) = self.folders.first() else {
            return;
        };
        if let Err(error) = bytes.and_then(|bytes| folder.write(name, &bytes)) {
            tracing::warn!(
                "cannot write to the cache `{}`: {error}",
                folder.path.display()
            );
        }
    }
}

/// Opens and locks a file. Waits while another process has the lock, up to a limit.
fn wait_for_lock(
    open: impl Fn() -> Result<OwnedFd, Errno>,
    operation: FlockOperation,
) -> Result<OwnedFd, Errno> {
    let start = Instant::now();
    let mut removed = 0;
    loop {
        // Opens the file at each attempt, because the other process removes it at the end.
        match try_lock(&open, operation) {
            Err(Errno::STALE) => removed += 1,
            Err(Errno::WOULDBLOCK) => {}
            locked => return locked,
        }
        if start.elapsed() >= LOCK_TIME || removed == MAX_REMOVED {
            return Err(Errno::WOULDBLOCK);
        }
        std::thread::sleep(LOCK_PAUSE);
    }
}

/// Opens and locks a file without waiting. Returns `STALE` if another process has just removed the
/// file, because a third process could lock a new file with its name.
fn try_lock(
    open: impl Fn() -> Result<OwnedFd, Errno>,
    operation: FlockOperation,
) -> Result<OwnedFd, Errno> {
    let file = open()?;
    flock(&file, operation)?;
    if rustix::fs::fstat(&file)?.st_nlink == 0 {
        return Err(Errno::STALE);
    }
    Ok(file)
}

/// A lock on the compilation of one component.
pub(crate) struct CompileLock<'a> {
    folder: &'a Dir,
    name: String,
    _file: OwnedFd,
}

impl Drop for CompileLock<'_> {
    fn drop(&mut self) {
        // A waiting process opens the file at each attempt, and creates it if it is missing.
        let _ = self.folder.remove_file(&self.name);
    }
}

impl CacheFolder {
    fn open(folder: &Path, trust: &Trust) -> anyhow::Result<Self> {
        let opened = own_folder(folder, trust);
        let opened = opened
            .with_context(|| format!("the cache folder `{}` is not used", folder.display()))?;
        Ok(Self {
            handle: Dir::from_std_file(opened.into()),
            path: folder.to_owned(),
            removal: Once::new(),
        })
    }

    /// Maps a compiled component from its file, so that only executed code is read.
    fn map(&self, engine: &EpochEngine, key: &CodeKey) -> anyhow::Result<Component> {
        let (mut file, length) = self.open_entry(&key.0, MAX_BYTES)?;
        verify(&mut file, length)?;
        // Uses the checked descriptor, because the named file may have been replaced.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        #[allow(
            unsafe_code,
            reason = "the bytes were written by this host: the folder and the file are its \
                      user's alone, the checksum over them matches, and entries are replaced, \
                      never written into"
        )]
        // SAFETY: as above; wasmtime itself checks version and settings.
        let component = unsafe { Component::deserialize_file(&engine.engine, path) };
        let Err(error) = component else {
            return Ok(component?);
        };
        // On a `noexec` mount, code cannot be mapped, but its bytes can be read.
        tracing::debug!("cannot map a cache entry: {error:#}");
        file.rewind()?;
        let bytes = read_body(&mut file, length)?;
        #[allow(unsafe_code, reason = "as above")]
        // SAFETY: as above.
        let component = unsafe { Component::deserialize(&engine.engine, &bytes) };
        Ok(component?)
    }

    /// Reads an entry.
    fn read(&self, name: &str, max: u64) -> anyhow::Result<Vec<u8>> {
        let (mut file, length) = self.open_entry(name, max)?;
        verify(&mut file, length)?;
        file.rewind()?;
        read_body(&mut file, length)
    }

    /// Opens an entry with the right owner and mode, and returns its length without the
    /// checksum.
    fn open_entry(&self, name: &str, max: u64) -> anyhow::Result<(File, u64)> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.handle, name, flags, Mode::empty())?;
        let status = rustix::fs::fstat(&file)?;
        let size = u64::try_from(status.st_size)?;
        let is_regular = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
        if !is_regular || status.st_nlink != 1 || !is_ours_alone(&status) || size > max {
            bail!("the file is not an entry of this host");
        }
        let Some(length) = size.checked_sub(CHECKSUM_BYTES as u64) else {
            bail!("the file is cut short");
        };
        Ok((file.into(), length))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        // Threads of this process may write the same entry at the same time.
        static WRITTEN: AtomicU32 = AtomicU32::new(0);
        // Only here, because the start of a process should not take longer with each entry.
        self.removal.call_once(|| {
            if let Err(error) = self.remove_old() {
                tracing::debug!("cannot remove old entries of the cache: {error}");
            }
        });
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let unfinished = format!("{name}.{}.{number}.part", std::process::id());
        // A killed process with the same id may have left this file.
        let _ = self.handle.remove_file(&unfinished);
        let written = self.write_new(&unfinished, bytes);
        let written = written.and_then(|()| self.handle.rename(&unfinished, &self.handle, name));
        if written.is_err() {
            // On a full disk, the unfinished file would use up the remaining space.
            let _ = self.handle.remove_file(&unfinished);
        }
        written
    }

    fn write_new(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = self.handle.open_with(name, &options)?;
        for page in bytes.chunks(PAGE) {
            file.write_all(page)?;
        }
        file.write_all(&checksum(bytes))
    }

    /// Removes files of killed processes, and entries that were not read for a long time.
    ///
    /// The kernel updates the access time once a day. On a `noatime` mount, entries in use are
    /// removed too, and created again.
    fn remove_old(&self) -> io::Result<()> {
        for entry in self.handle.entries()? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(max_age) = name.to_str().and_then(max_age) else {
                continue;
            };
            let status = entry.metadata()?;
            let used = status.modified()?.max(status.accessed()?);
            if used.into_std().elapsed().is_ok_and(|age| age > max_age) {
                // An entry that cannot be removed does not keep the others.
                let _ = self.remove_unless_locked(&name);
            }
        }
        Ok(())
    }

    /// Removes a file, unless a process has locked it or has just removed it. The name may then
    /// belong to a new file that another process has locked.
    fn remove_unless_locked(&self, name: &OsStr) -> io::Result<()> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(&self.handle, name, flags, Mode::empty());
        match try_lock(open, FlockOperation::NonBlockingLockExclusive) {
            // Locking a file does not change its times. The lock is kept until the file is
            // removed, so that no process locks the file in between. Some file systems have no
            // locks.
            Ok(_) | Err(Errno::NOLCK | Errno::OPNOTSUPP) => self.handle.remove_file(name),
            Err(_) => Ok(()),
        }
    }
}

/// Returns the age at which the cache removes a file, or `None` if the file is not the cache's.
/// Guards against: removing other files in a folder that was named as the cache by mistake.
fn max_age(name: &str) -> Option<Duration> {
    if let Some(entry) = name.strip_suffix(".lock") {
        // A process that finishes the compilations of an ended server has a lock `successor-…`.
        let is_own = is_entry_name(entry)
            || entry
                .strip_prefix("successor-")
                .is_some_and(|rest| is_hex(rest, 16));
        return is_own.then_some(UNFINISHED_AGE);
    }
    if let Some(unfinished) = name.strip_suffix(".part") {
        let mut parts = unfinished.rsplitn(3, '.');
        let are_numbers = parts
            .by_ref()
            .take(2)
            .all(|part| part.parse::<u32>().is_ok());
        let is_own = are_numbers && parts.next().is_some_and(is_entry_name);
        return is_own.then_some(UNFINISHED_AGE);
    }
    is_entry_name(name).then_some(UNUSED_AGE)
}

/// Returns whether a name has the form of [`CodeKey`], [`DefinitionsKey`] or [`IndexEntry`].
fn is_entry_name(name: &str) -> bool {
    match name.rsplit_once('.') {
        Some((key, "cwasm" | "tools")) => key
            .split_once('-')
            .is_some_and(|(digest, settings)| is_hex(digest, 64) && is_hex(settings, 16)),
        Some((key, "index")) => is_hex(key, 16),
        _ => false,
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The entry name of a compiled component. It depends on the component's bytes, and on the
/// engine's version and settings.
#[derive(Debug)]
pub(crate) struct CodeKey(String);

impl CodeKey {
    pub(crate) fn new(engine: &EpochEngine, digest: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        FORMAT.hash(&mut hasher);
        engine
            .engine
            .precompile_compatibility_hash()
            .hash(&mut hasher);
        Self(format!("{digest}-{:016x}.cwasm", hasher.finish()))
    }
}

/// The entry name of a component's definitions. It depends on the component's bytes, the
/// versions of engine and host, and the limits under which the host asked the component.
#[derive(Debug)]
pub(crate) struct DefinitionsKey(String);

impl DefinitionsKey {
    pub(crate) fn new(engine: &EpochEngine, digest: &str, limits: &Limits) -> Self {
        let mut hasher = DefaultHasher::new();
        // A later version may check definitions differently.
        (FORMAT, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
        engine
            .engine
            .precompile_compatibility_hash()
            .hash(&mut hasher);
        engine.stack().hash(&mut hasher);
        limits.hash(&mut hasher);
        Self(format!("{digest}-{:016x}.tools", hasher.finish()))
    }
}

/// The entry of a search index for some roots. Its name depends only on their paths, because
/// the index compares each skill with the disk.
pub struct IndexEntry {
    cache: Arc<ComponentCache>,
    name: String,
}

impl IndexEntry {
    /// Creates the entry for these roots.
    pub fn new(cache: Arc<ComponentCache>, roots: &[SkillsRoot]) -> Self {
        let mut hasher = DefaultHasher::new();
        for root in roots {
            std::path::absolute(&root.path).ok().hash(&mut hasher);
        }
        let name = format!("{:016x}.index", hasher.finish());
        Self { cache, name }
    }
}

impl IndexStorage for IndexEntry {
    fn load(&self) -> Option<Vec<u8>> {
        self.cache
            .find(|folder| folder.read(&self.name, MAX_INDEX_BYTES))
    }

    fn save(&self, index: Vec<u8>) {
        self.cache.put(&self.name, Ok(index));
    }
}

/// The size of a checksum in bytes.
const CHECKSUM_BYTES: usize = 8;

/// A checksum against damage, not against attackers: only trusted users can write here. It is
/// verified at a component's first call, so it must be fast: it takes a tenth of the time of
/// SHA-256. It detects holes and every change of a single word.
struct Checksum([u64; 4]);

impl Checksum {
    /// The size of a block in bytes. Only the last block can be shorter.
    const BLOCK: usize = 32;

    fn new() -> Self {
        Self([1, 2, 3, 4])
    }

    fn update(&mut self, bytes: &[u8]) {
        let mut blocks = bytes.chunks_exact(Self::BLOCK);
        for block in &mut blocks {
            self.add_block(block);
        }
        let rest = blocks.remainder();
        if !rest.is_empty() {
            let mut block = [0; Self::BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            self.add_block(&block);
        }
    }

    fn add_block(&mut self, block: &[u8]) {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in self.0.iter_mut().zip(words) {
            // The factor is odd, so different values of a lane never collide.
            let mixed = (*lane ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            *lane = mixed.rotate_left(29);
        }
    }

    fn finish(mut self, length: u64) -> [u8; CHECKSUM_BYTES] {
        let all = self.0;
        for word in all.into_iter().chain([length]) {
            self.add_block(&word.to_le_bytes().repeat(4));
        }
        self.0.iter().fold(0, |sum, lane| sum ^ lane).to_le_bytes()
    }
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut sum = Checksum::new();
    sum.update(bytes);
    sum.finish(bytes.len() as u64)
}

/// Verifies the checksum at a file's end. After a power failure, a file of the right length
/// can have holes.
fn verify(file: &mut File, length: u64) -> anyhow::Result<()> {
    let mut sum = Checksum::new();
    // Small enough to stay in the processor's cache, and a multiple of the block's size.
    let mut buffer = [0; 32 << 10];
    let mut left = length;
    while left > 0 {
        let part = buffer.len().min(usize::try_from(left)?);
        file.read_exact(&mut buffer[..part])?;
        sum.update(&buffer[..part]);
        left -= part as u64;
    }
    let mut stored = [0; CHECKSUM_BYTES];
    file.read_exact(&mut stored)?;
    if sum.finish(length) != stored {
        bail!("the file is damaged");
    }
    Ok(())
}

fn read_body(file: &mut File, length: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(length)?);
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
