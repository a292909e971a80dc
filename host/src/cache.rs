//! Compiled components on disk, keyed by engine and content, in a folder that
//! only its owner can write. What is in it is machine code and is trusted, so
//! it is taken from nobody else: a folder or file of another owner, or one
//! that others may write, is not used.

use std::fs::{self, File, Permissions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

/// A cache folder.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    folder: PathBuf,
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
        let folder = fs::canonicalize(folder)
            .with_context(|| format!("cannot find the cache folder `{}`", folder.display()))?;
        let metadata = fs::symlink_metadata(&folder)?;
        if !metadata.is_dir() || !is_ours_alone(&metadata) {
            bail!(
                "the cache folder `{}` is not used: it must belong to the user who runs skillhost, \
                 and nobody else may write in it (mode 0700)",
                folder.display()
            );
        }
        Ok(Self { folder })
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
        let mut file = File::open(self.path(key))?;
        let metadata = file.metadata()?;
        if !metadata.is_file() || !is_ours_alone(&metadata) || metadata.len() > MAX_BYTES {
            bail!("the file is not one that this host wrote");
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len())?);
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
                self.folder.display()
            );
        }
    }

    fn write(&self, key: &Key, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(key);
        let unfinished = path.with_extension(format!("{}.part", std::process::id()));
        let mut file = File::create(&unfinished)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(bytes)?;
        file.write_all(&checksum(bytes))?;
        fs::rename(&unfinished, &path)
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{}.cwasm", key.0))
    }
}

/// What a compiled component depends on: the component's bytes, and the
/// engine's version and settings.
pub(crate) struct Key(String);

impl Key {
    pub(crate) fn new(engine: &Engine, digest: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Self(format!("{digest}-{:016x}", hasher.finish()))
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

fn is_ours_alone(metadata: &fs::Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

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
            fs::write(cache.path(&key), damaged).unwrap();
            assert!(cache.read(&key).is_err(), "{damaged:?}");
        }
    }

    #[test]
    fn what_others_may_write_is_not_used() {
        let (folder, cache) = cache();
        let key = Key("k".to_owned());
        cache.write(&key, b"machine code").unwrap();
        fs::set_permissions(cache.path(&key), Permissions::from_mode(0o666)).unwrap();
        assert!(cache.read(&key).is_err());
        fs::set_permissions(folder.path().join("cache"), Permissions::from_mode(0o777)).unwrap();
        assert!(Cache::open(&folder.path().join("cache")).is_err());
    }
}
