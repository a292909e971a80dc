//! The store: blobs by digest, in a folder that only its user can write.
//!
//! `sha256/` has a file for each blob: components, layers of skills, manifests and bundles. `skills/`
//! has the unpacked files of skills. `locks/` has a file for each lock file whose blobs are kept. Its
//! content is the path of the lock file, and its name is the digest of that path.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::fs::{Access, FlockOperation, access, flock};
use skillhost_skills::broker::Opener;
use skillhost_skills::trust::{Trust, own_folder};
use skillhost_skills::{atomic_file, named_file};

use crate::digest::Digest;
use crate::lock::LockFile;

/// The folder of the blobs.
const BLOBS: &str = "sha256";

/// The folder of the paths of lock files.
const LOCKS: &str = "locks";

/// The folder of unpacked skills.
const SKILLS: &str = "skills";

/// The maximum length of the path of a lock file, in bytes.
const MAX_PATH: u64 = 4096;

/// The age at which an unfinished file counts as abandoned: no process still writes it.
pub(crate) const UNFINISHED_TIME: Duration = Duration::from_secs(60 * 60);

/// A store of packages.
#[derive(Debug, Clone)]
pub struct Store {
    blobs: PathBuf,
    locks: PathBuf,
    pub(crate) skills: PathBuf,
    pub(crate) opener: Opener,
}

/// A lock on the store, for removing blobs and for changing the files that name them.
///
/// Other processes wait for it. Reading and adding blobs need no lock.
pub struct StoreLock(#[expect(dead_code, reason = "it unlocks when it is dropped")] OwnedFd);

/// The digest of a blob, and its size in bytes.
pub type BlobSize = (Digest, u64);

impl Store {
    /// Opens the store in a folder, and creates it if it is missing.
    ///
    /// # Errors
    ///
    /// If other users can write in the folder.
    pub fn open(folder: &Path, trust: &Trust) -> anyhow::Result<Self> {
        let open = |name: &str| -> anyhow::Result<PathBuf> {
            let path = folder.join(name);
            own_folder(&path, trust)
                .with_context(|| format!("cannot use the store `{}`", path.display()))?;
            Ok(path)
        };
        Ok(Self {
            blobs: open(BLOBS)?,
            locks: open(LOCKS)?,
            skills: open(SKILLS)?,
            opener: Opener::DIRECT,
        })
    }

    /// Opens a store for reading, with the opener of `trust`. Creates nothing.
    ///
    /// # Errors
    ///
    /// If other users can change the store.
    pub fn open_to_read(folder: &Path, trust: &Trust) -> anyhow::Result<Self> {
        let open = |name: &str| -> anyhow::Result<PathBuf> {
            let path = folder.join(name);
            if path.exists() {
                let checked = trust.check(&path);
                checked.with_context(|| format!("cannot use the store `{}`", path.display()))?;
            }
            Ok(path)
        };
        Ok(Self {
            blobs: open(BLOBS)?,
            locks: folder.join(LOCKS),
            skills: open(SKILLS)?,
            opener: trust.opener().clone(),
        })
    }

    /// Returns the folder of the blobs of a store.
    pub fn blobs_in(folder: &Path) -> PathBuf {
        folder.join(BLOBS)
    }

    /// Returns the folder of the unpacked skills of a store.
    pub fn skills_in(folder: &Path) -> PathBuf {
        folder.join(SKILLS)
    }

    /// Returns the folder of the blobs.
    pub fn blobs_folder(&self) -> &Path {
        &self.blobs
    }

    /// Locks the store. Waits until no other process has it locked.
    pub fn lock(&self) -> anyhow::Result<StoreLock> {
        self.lock_with(FlockOperation::LockExclusive)
    }

    fn lock_with(&self, operation: FlockOperation) -> anyhow::Result<StoreLock> {
        let lock = || -> io::Result<OwnedFd> {
            let folder = OwnedFd::from(File::open(&self.blobs)?);
            flock(&folder, operation)?;
            Ok(folder)
        };
        let locked = lock();
        let cannot = || format!("cannot lock the store `{}`", self.blobs.display());
        Ok(StoreLock(locked.with_context(cannot)?))
    }

    /// Returns the path of a blob, which may be missing.
    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.blobs.join(digest.hex())
    }

    /// Returns whether a blob is in the store. Its bytes are checked when they are read.
    pub fn has(&self, digest: &Digest) -> bool {
        fs::symlink_metadata(self.path(digest)).is_ok_and(|found| found.is_file())
    }

    /// Reads a blob. Returns `None` if the store does not have it.
    ///
    /// # Errors
    ///
    /// If it has more than `max` bytes, is not a regular file, or has bytes with another digest.
    pub fn read(&self, digest: &Digest, max: u64) -> anyhow::Result<Option<Vec<u8>>> {
        let path = self.path(digest);
        let Ok(found) = fs::symlink_metadata(&path) else {
            return Ok(None);
        };
        let cannot = || format!("cannot use `{}` of the store", path.display());
        ensure!(!found.is_symlink(), "{}: it is a symlink", cannot());
        let file = named_file::open_with(&path, &self.opener);
        let bytes = file.and_then(|file| named_file::read_all(file, max));
        let bytes = bytes.with_context(cannot)?;
        let found = Digest::of(&bytes);
        ensure!(
            found == *digest,
            "{}: its bytes have the digest {found}; remove it, and run `skillhost fetch`",
            cannot()
        );
        Ok(Some(bytes))
    }

    /// Writes a blob. Replaces one whose bytes are damaged.
    pub fn write(&self, bytes: &[u8]) -> anyhow::Result<Digest> {
        let digest = Digest::of(bytes);
        let existing = self.read(&digest, bytes.len() as u64);
        if !matches!(existing, Ok(Some(_))) {
            let path = self.path(&digest);
            let written = atomic_file::replace(&path, bytes, 0o600);
            written.with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        Ok(digest)
    }

    /// Returns the blobs in the order of their digests.
    pub fn list(&self) -> anyhow::Result<Vec<BlobSize>> {
        let cannot = || format!("cannot read the store `{}`", self.blobs.display());
        let mut blobs = Vec::new();
        for entry in fs::read_dir(&self.blobs).with_context(cannot)? {
            let entry = entry.with_context(cannot)?;
            let name = format!("sha256:{}", entry.file_name().to_string_lossy());
            let Ok(digest) = name.parse() else { continue };
            match entry.metadata() {
                Ok(metadata) => blobs.push((digest, metadata.len())),
                // Another process is cleaning the store.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).with_context(cannot),
            }
        }
        blobs.sort();
        Ok(blobs)
    }

    /// Makes a lock file known, so that [`Store::clean`] keeps its blobs.
    pub fn keep(&self, lock_file: &Path, _lock: &StoreLock) -> anyhow::Result<()> {
        let path = std::path::absolute(lock_file)?;
        let entry = self.lock_entry(&path);
        atomic_file::replace(&entry, path.as_os_str().as_bytes(), 0o600)
            .with_context(|| format!("cannot write `{}`", entry.display()))
    }

    /// Makes a lock file known that a command only reads. It may be a copy of another lock file.
    /// Does nothing if this user cannot write the store, and so cannot clean it.
    pub fn keep_read(&self, lock_file: &Path) -> anyhow::Result<()> {
        let path = std::path::absolute(lock_file)?;
        let is_read_only = || access(&self.locks, Access::WRITE_OK).is_err();
        if self.lock_entry(&path).exists() || is_read_only() {
            return Ok(());
        }
        let lock = self.lock_with(FlockOperation::NonBlockingLockExclusive)?;
        self.keep(&path, &lock)
    }

    /// Returns the path of the entry of a lock file, which may be missing.
    fn lock_entry(&self, lock_file: &Path) -> PathBuf {
        let digest = Digest::of(lock_file.as_os_str().as_bytes());
        self.locks.join(digest.hex())
    }

    /// Returns the digests that known lock files name.
    ///
    /// # Errors
    ///
    /// If a lock file cannot be read. Without the error, `clean` would remove its blobs.
    pub fn kept(&self) -> anyhow::Result<BTreeSet<Digest>> {
        let mut kept = BTreeSet::new();
        for (_, lock) in self.lock_files()? {
            kept.extend(lock.iter().flat_map(LockFile::digests).cloned());
        }
        Ok(kept)
    }

    /// Returns the entry of each known lock file in `locks/`, and the lock file if it exists.
    fn lock_files(&self) -> anyhow::Result<Vec<(PathBuf, Option<LockFile>)>> {
        let cannot = || format!("cannot read `{}`", self.locks.display());
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.locks).with_context(cannot)? {
            let entry = entry.with_context(cannot)?;
            // Skips unfinished files of other processes.
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            let entry = entry.path();
            let path = match named_file::read(&entry, MAX_PATH) {
                // Another process is cleaning the store.
                Err(_) if !entry.exists() => continue,
                path => path.with_context(cannot)?,
            };
            let lock = LockFile::read(Path::new(OsStr::from_bytes(&path)))?;
            found.push((entry, lock));
        }
        Ok(found)
    }

    /// Removes blobs that no known lock file names, and abandoned files. Returns the removed blobs.
    ///
    /// Forgets lock files that do not exist any more.
    pub fn clean(&self, _lock: &StoreLock) -> anyhow::Result<Vec<BlobSize>> {
        let kept = self.kept()?;
        for (entry, lock) in self.lock_files()? {
            if lock.is_none() {
                fs::remove_file(&entry)
                    .with_context(|| format!("cannot remove `{}`", entry.display()))?;
            }
        }
        let mut removed = self.list()?;
        removed.retain(|(digest, _)| !kept.contains(digest));
        for (digest, _) in &removed {
            let path = self.path(digest);
            fs::remove_file(&path)
                .with_context(|| format!("cannot remove `{}`", path.display()))?;
        }
        self.clean_unpacked(&kept)?;
        for folder in [&self.blobs, &self.locks] {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                if name.to_string_lossy().starts_with(atomic_file::UNFINISHED)
                    && is_abandoned(&entry)
                {
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
        Ok(removed)
    }
}

/// Returns whether an unfinished file or folder is so old that no process still writes it.
pub(crate) fn is_abandoned(entry: &fs::DirEntry) -> bool {
    let written = entry.metadata().and_then(|it| it.modified()).ok();
    let age = written.and_then(|written| written.elapsed().ok());
    age.is_some_and(|age| age > UNFINISHED_TIME)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::SystemTime;

    use super::*;
    use crate::tests::locked;

    #[test]
    fn reads_only_bytes_of_the_digest() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("new/store"), &Trust::new()).unwrap();
        let digest = store.write(b"bytes").unwrap();
        assert_eq!(store.read(&digest, 5).unwrap().unwrap(), b"bytes");
        assert!(store.read(&digest, 4).is_err());
        assert!(store.read(&Digest::of(b"other"), 5).unwrap().is_none());
        let path = store.path(&digest);
        for (path, mode) in [(path.as_path(), 0o600), (store.blobs_folder(), 0o700)] {
            let found = fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(found & 0o777, mode, "{path:?}");
        }
        // A crash or a disk can damage a blob; the next download replaces it.
        fs::write(&path, "other").unwrap();
        let error = store.read(&digest, 5).unwrap_err().to_string();
        assert!(error.contains("skillhost fetch"), "{error}");
        store.write(b"bytes").unwrap();
        assert_eq!(store.read(&digest, 5).unwrap().unwrap(), b"bytes");
        // A symlink is replaced too, but not its target.
        let target = folder.path().join("target");
        fs::rename(&path, &target).unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(!store.has(&digest));
        let error = store.read(&digest, 5).unwrap_err().to_string();
        assert!(error.contains("it is a symlink"), "{error}");
        fs::write(&target, "other").unwrap();
        store.write(b"bytes").unwrap();
        assert!(path.is_file() && !path.is_symlink());
        assert_eq!(fs::read(target).unwrap(), b"other");
    }

    #[test]
    fn refuses_folder_that_others_can_write() {
        let folder = tempfile::tempdir().unwrap();
        let writable = folder.path().join("writable");
        fs::create_dir(&writable).unwrap();
        fs::set_permissions(&writable, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Store::open(&writable, &Trust::new()).is_err());
        assert!(fs::read_dir(&writable).unwrap().next().is_none());
    }

    #[test]
    fn cleans_only_what_no_lock_file_names() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store"), &Trust::new()).unwrap();
        let (kept, lost) = (store.write(b"kept").unwrap(), store.write(b"lost").unwrap());
        let unfinished = |name: &str| File::create(store.blobs_folder().join(name)).unwrap();
        let long_ago = SystemTime::now() - 2 * UNFINISHED_TIME;
        let abandoned = unfinished(".unfinished-1-x");
        abandoned.set_modified(long_ago).unwrap();
        // Another process still writes this one.
        unfinished(".unfinished-2-x");
        let path = folder.path().join("skillhost.lock");
        let mut lock = LockFile::default();
        lock.components.set(locked("csv", &kept));
        lock.write(&path).unwrap();
        let store_lock = store.lock().unwrap();
        store.keep(&path, &store_lock).unwrap();
        let removed = store.clean(&store_lock).unwrap();
        assert_eq!(removed, [(lost, 4)]);
        assert!(store.has(&kept));
        assert_eq!(fs::read_dir(store.blobs_folder()).unwrap().count(), 2);
        assert!(store.blobs_folder().join(".unfinished-2-x").exists());
        // Nothing is removed while a lock file cannot be read.
        fs::write(&path, "x = ").unwrap();
        assert!(store.clean(&store_lock).is_err());
        assert!(store.has(&kept));
        fs::remove_file(&path).unwrap();
        assert_eq!(store.clean(&store_lock).unwrap(), [(kept, 4)]);
        assert_eq!(fs::read_dir(&store.locks).unwrap().count(), 0);
    }
}
