//! Compiled components on disk, keyed by engine and content, in a folder that
//! only its owner can write. What is in it is machine code and is trusted, so
//! it is taken from nobody else: a folder or file of another owner, or one
//! that others may write, is not used.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

/// A cache folder.
#[derive(Debug)]
pub(crate) struct Cache {
    /// The folder that was looked at; entries are reached through it only.
    handle: OwnedFd,
    /// Where it is, for the operator.
    path: PathBuf,
}

/// Largest compiled component that is read back.
const MAX_BYTES: u64 = 1 << 30;

impl Cache {
    /// The cache in `folder`, which is made if it is missing.
    pub(crate) fn open(folder: &Path) -> anyhow::Result<Self> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .with_context(|| format!("cannot make the cache folder `{}`", folder.display()))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(folder, flags, Mode::empty())
            .with_context(|| format!("cannot open the cache folder `{}`", folder.display()))?;
        if !is_ours_alone(&rustix::fs::fstat(&handle)?) {
            bail!(
                "the cache folder `{}` is not used: it must belong to the user who runs skillhost, \
                 and nobody else may write in it (mode 0700)",
                folder.display()
            );
        }
        Ok(Self {
            handle,
            path: folder.to_owned(),
        })
    }

    /// The compiled component, if it is here and whole.
    pub(crate) fn get(&self, engine: &Engine, key: &Key) -> Option<Component> {
        match self.read(key) {
            Ok(bytes) => {
                #[allow(
                    unsafe_code,
                    reason = "the bytes were written by this host: the folder and the file are \
                              its user's alone, and the checksum over them matches"
                )]
                // SAFETY: as above; wasmtime itself checks version and settings.
                let component = unsafe { Component::deserialize(engine, &bytes) };
                component
                    .inspect_err(|error| tracing::debug!("stale cache entry: {error:#}"))
                    .ok()
            }
            Err(error) => {
                tracing::debug!("not in the cache: {error:#}");
                None
            }
        }
    }

    fn read(&self, key: &Key) -> anyhow::Result<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.handle, &key.0, flags, Mode::empty())?;
        let found = rustix::fs::fstat(&file)?;
        let size = u64::try_from(found.st_size)?;
        let regular = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        if !regular || found.st_nlink != 1 || !is_ours_alone(&found) || size > MAX_BYTES {
            bail!("the file is not one that this host wrote");
        }
        let mut file = File::from(file);
        let mut bytes = Vec::with_capacity(usize::try_from(size)?);
        file.read_to_end(&mut bytes)?;
        let Some(end) = bytes.len().checked_sub(CHECKSUM) else {
            bail!("the file is cut short");
        };
        // A file system that lost power can hold a file of the right length
        // with holes in it.
        if checksum(&bytes[..end]) != bytes[end..] {
            bail!("the file is damaged");
        }
        bytes.truncate(end);
        Ok(bytes)
    }

    /// Keeps a compiled component. A cache that cannot be written costs time
    /// and nothing else, so this only logs.
    pub(crate) fn put(&self, key: &Key, component: &Component) {
        let kept = component
            .serialize()
            .map_err(io::Error::other)
            .and_then(|bytes| self.write(key, &bytes));
        if let Err(error) = kept {
            tracing::warn!(
                "cannot write to the cache `{}`: {error}",
                self.path.display()
            );
        }
    }

    fn write(&self, key: &Key, bytes: &[u8]) -> io::Result<()> {
        let unfinished = format!("{}.{}.part", key.0, std::process::id());
        // One that a process of this number left when it was ended.
        let _ = rustix::fs::unlinkat(&self.handle, &unfinished, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let mut file = File::from(rustix::fs::openat(&self.handle, &unfinished, flags, mode)?);
        file.write_all(bytes)?;
        file.write_all(&checksum(bytes))?;
        Ok(rustix::fs::renameat(
            &self.handle,
            &unfinished,
            &self.handle,
            &key.0,
        )?)
    }
}

/// What a compiled component depends on: the component's bytes, and the
/// engine's version and settings.
pub(crate) struct Key(String);

impl Key {
    pub(crate) fn new(engine: &Engine, digest: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Self(format!("{digest}-{:016x}.cwasm", hasher.finish()))
    }
}

const CHECKSUM: usize = 8;

/// A checksum against damage, not against an attacker: who can write here is
/// trusted already. Speed matters, it runs over megabytes at each start.
fn checksum(bytes: &[u8]) -> [u8; CHECKSUM] {
    let digest = Sha256::digest(bytes);
    let mut short = [0; CHECKSUM];
    short.copy_from_slice(&digest[..CHECKSUM]);
    short
}

fn is_ours_alone(found: &rustix::fs::Stat) -> bool {
    found.st_uid == rustix::process::geteuid().as_raw() && found.st_mode & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn cache() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(&folder.path().join("cache")).unwrap();
        (folder, cache)
    }

    #[test]
    fn a_damaged_or_cut_file_is_not_used() {
        let (_folder, cache) = cache();
        let key = Key("k".to_owned());
        cache.write(&key, b"machine code").unwrap();
        assert_eq!(cache.read(&key).unwrap(), b"machine code");
        for damaged in [&b"machine c0de"[..], b"", b"short", &[0; 64]] {
            fs::write(cache.path.join(&key.0), damaged).unwrap();
            assert!(cache.read(&key).is_err(), "{damaged:?}");
        }
    }

    #[test]
    fn what_others_may_write_is_not_used() {
        let (folder, cache) = cache();
        let key = Key("k".to_owned());
        cache.write(&key, b"machine code").unwrap();
        fs::set_permissions(cache.path.join(&key.0), Permissions::from_mode(0o666)).unwrap();
        assert!(cache.read(&key).is_err());
        // A link to what would be right elsewhere is not followed.
        cache.write(&key, b"machine code").unwrap();
        let file = cache.path.join(&key.0);
        fs::rename(&file, folder.path().join("elsewhere")).unwrap();
        symlink(folder.path().join("elsewhere"), &file).unwrap();
        assert!(cache.read(&key).is_err());
        fs::set_permissions(folder.path().join("cache"), Permissions::from_mode(0o777)).unwrap();
        assert!(Cache::open(&folder.path().join("cache")).is_err());
    }
}
