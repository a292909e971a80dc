//! Bundle files: locked components and skills with their manifests, signatures and lock file, in
//! one file for machines without a network.
//!
//! The file is a tar of an OCI image layout. Its `index.json` lists the manifests, the sigstore
//! bundles of their signatures, and a lock file with the media type [`LOCK`]. Another sigstore bundle
//! has a signature of the index's digest, and so of the whole file. Configs of manifests are left
//! out, because no host reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read as _, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use skillhost_skills::{atomic_file, named_file};
use tar::{Archive, Builder, EntryType, Header};

use crate::denied::DenyList;
use crate::digest::Digest;
use crate::lock::{LockFile, LockedPackage, LockedSkill};
use crate::manifest::{Descriptor, MAX_COMPONENT, MAX_MANIFEST, Manifest, OCI_INDEX, OCI_MANIFEST};
use crate::package::{unpack_skill, verify};
use crate::quote::quote;
use crate::signature::{BUNDLE, MAX_BUNDLE, PublicKey, Signer, SigningKey, TrustedSigner};
use crate::skill_files::SkillFiles;
use crate::store::Store;

/// The media type of a lock file.
const LOCK: &str = "application/vnd.skillhost.lock.v1+toml";

/// The file that marks an OCI image layout.
const LAYOUT: &str = "oci-layout";

/// The index of a layout.
const INDEX: &str = "index.json";

/// The sigstore bundle with the signature of the index.
const SIGNATURE: &str = "index.json.sigstore.json";

/// The folder of the blobs.
const BLOBS: &str = "blobs/sha256/";

/// The annotation with the name of a package.
const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// The maximum number of files in a bundle file. Guards against: an endless list.
const MAX_FILES: usize = 8 << 10;

/// The maximum size of the index, and of a lock file in a bundle file, in bytes.
const MAX_LIST: u64 = 4 << 20;

/// The size of a block of a tar, in bytes. Two empty blocks end the tar.
const BLOCK: u64 = 512;

/// A written bundle file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExportedBundle {
    /// The digest of the index.
    pub index: Digest,
    /// The id of the key that signed it.
    pub signer: Option<String>,
}

/// Writes a bundle file with all packages of a lock file, from the store.
///
/// Except for the signature, its bytes depend only on the packages and the lock file.
///
/// # Errors
///
/// If a blob is missing or damaged, or the file cannot be written.
pub fn export(
    path: &Path,
    lock: &LockFile,
    store: &Store,
    key: Option<&SigningKey>,
) -> anyhow::Result<ExportedBundle> {
    let read = |digest: &Digest| {
        let bytes = store.read(digest, MAX_COMPONENT)?;
        bytes.with_context(|| format!("{digest} is not in the store; `skillhost fetch` gets it"))
    };
    let text = lock.text();
    let mut manifests = vec![Descriptor::of(LOCK, text.as_bytes())];
    // The same skill can have two names.
    let mut listed = BTreeSet::new();
    for locked in lock.packages() {
        if listed.insert(&locked.manifest) {
            let mut manifest = Descriptor::of(OCI_MANIFEST, &read(&locked.manifest)?);
            let name = (REF_NAME.to_owned(), locked.name.clone());
            manifest.annotations.extend([name]);
            manifests.push(manifest);
        }
        if let Some(bundle) = &locked.bundle
            && listed.insert(bundle)
        {
            manifests.push(Descriptor::of(BUNDLE, &read(bundle)?));
        }
    }
    let index = Manifest {
        schema_version: 2,
        media_type: Some(OCI_INDEX.to_owned()),
        manifests: Some(manifests),
        ..Manifest::default()
    };
    let index = serde_json::to_vec(&index)?;
    let digest = Digest::of(&index);
    let layout = json!({"imageLayoutVersion": "1.0.0"}).to_string();
    let mut blobs: BTreeSet<&Digest> = lock.digests().collect();
    let lock_digest = Digest::of(text.as_bytes());
    blobs.insert(&lock_digest);
    check_target(path)?;
    let written = atomic_file::replace_with(path, 0o644, |file| -> anyhow::Result<()> {
        let mut tar = Builder::new(file);
        append(&mut tar, LAYOUT, layout.as_bytes())?;
        append(&mut tar, INDEX, &index)?;
        if let Some(key) = key {
            append(&mut tar, SIGNATURE, &key.sign(&digest)?)?;
        }
        for blob in &blobs {
            let name = format!("{BLOBS}{}", blob.hex());
            if **blob == lock_digest {
                append(&mut tar, &name, text.as_bytes())?;
            } else {
                append(&mut tar, &name, &read(blob)?)?;
            }
        }
        tar.finish()?;
        Ok(())
    });
    written.with_context(|| format!("cannot write `{}`", path.display()))?;
    Ok(ExportedBundle {
        index: digest,
        signer: key.map(|key| key.public().id()),
    })
}

/// Checks that a new bundle file would replace only an old one or an empty file.
///
/// Guards against: a wrong file name, such as that of the key, which would be lost.
pub fn check_target(path: &Path) -> anyhow::Result<()> {
    let cannot = || format!("cannot write `{}`", path.display());
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    ensure!(found.is_file(), "{}: it is not a regular file", cannot());
    // A bundle file starts with the name of the first file in the tar, and a zero byte.
    let mut start = [1; LAYOUT.len() + 1];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    let is_bundle = read.is_ok() && start.strip_prefix(LAYOUT.as_bytes()) == Some(b"\0");
    ensure!(
        is_bundle || found.len() == 0,
        "{}: it is not a bundle file; remove it, or give another name",
        cannot()
    );
    Ok(())
}

/// Appends a file without an owner or a time.
fn append<W: Write>(tar: &mut Builder<W>, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let mut header = Header::new_ustar();
    header.set_path(name)?;
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    header.set_entry_type(EntryType::Regular);
    header.set_cksum();
    Ok(tar.append(&header, bytes)?)
}

/// A bundle file with a checked index, signature and lock file.
///
/// It has exactly the blobs that the lock file names. Their bytes are checked when they are read.
#[derive(Debug)]
pub struct BundleFile {
    files: Files,
    lock: LockFile,
}

/// The files of a tar.
#[derive(Debug)]
struct Files {
    file: File,
    /// The position of each file's first byte, and its size, by name.
    places: BTreeMap<String, (u64, u64)>,
}

impl BundleFile {
    /// Opens a bundle file. With `key`, that key must have signed it.
    ///
    /// # Errors
    ///
    /// If the file is not a bundle file, is truncated, has links, has missing or extra files, or is
    /// not signed by the key.
    pub fn open(path: &Path, key: Option<&PublicKey>) -> anyhow::Result<Self> {
        let open = || Self::read_from(named_file::open(path)?, key);
        open().with_context(|| format!("cannot use the bundle file `{}`", path.display()))
    }

    fn read_from(file: File, key: Option<&PublicKey>) -> anyhow::Result<Self> {
        let files = Files::list(file)?;
        let layout: Value = serde_json::from_slice(&files.read(LAYOUT, BLOCK)?)
            .context("`oci-layout` is invalid JSON")?;
        ensure!(
            layout["imageLayoutVersion"] == "1.0.0",
            "it is not an OCI image layout of version 1.0.0"
        );
        let index = files.read(INDEX, MAX_LIST)?;
        if let Some(key) = key {
            ensure!(
                files.places.contains_key(SIGNATURE),
                "it has no signature of its index, but `--key` asks for one"
            );
            key.verify(&files.read(SIGNATURE, MAX_BUNDLE)?, &Digest::of(&index))
                .context("its signature is not valid")?;
        }
        let index = Manifest::parse(&index, Some(OCI_INDEX)).context("its index is invalid")?;
        let listed = index.manifests.unwrap_or_default();
        let mut locks = listed.iter().filter(|it| it.media_type == LOCK);
        let (Some(lock), None) = (locks.next(), locks.next()) else {
            bail!("its index must list one lock file");
        };
        let lock_digest = lock.digest.clone();
        let text = String::from_utf8(files.read_blob(&lock_digest, MAX_LIST)?)
            .context("its lock file is not UTF-8")?;
        let lock = LockFile::parse(&text).context("cannot use its lock file")?;
        files.check_blobs(&lock, &lock_digest, &listed)?;
        Ok(Self { files, lock })
    }

    /// Returns the lock file in the bundle file.
    pub fn lock_file(&self) -> &LockFile {
        &self.lock
    }

    /// Checks a locked package as a host does before it loads one, and also checks the content.
    ///
    /// Returns the package with the verified signer.
    ///
    /// # Errors
    ///
    /// If the package is denied or not signed by one of `signers`, or differs from the lock file.
    pub fn verify(
        &self,
        locked: &LockedPackage,
        signers: Option<&[TrustedSigner]>,
        denied: &DenyList,
    ) -> anyhow::Result<LockedPackage> {
        denied.check(locked.digests())?;
        verify(locked, signers, &|digest, max| {
            self.files.read_blob(digest, max)
        })?;
        self.files.read_blob(&locked.content, locked.size)?;
        let mut locked = locked.clone();
        if signers.is_none() {
            // The signature was not checked.
            (locked.signer, locked.bundle) = (Signer::Unsigned, None);
        }
        Ok(locked)
    }

    /// Checks a skill like [`BundleFile::verify`], and that its layer has the files of the lock file.
    ///
    /// # Errors
    ///
    /// As for [`BundleFile::verify`], and if the layer has other files than the lock file.
    pub fn verify_skill(
        &self,
        locked: &LockedSkill,
        signers: Option<&[TrustedSigner]>,
        denied: &DenyList,
    ) -> anyhow::Result<LockedSkill> {
        let package = self.verify(locked, signers, denied)?;
        self.read_skill(locked)?;
        Ok(LockedSkill {
            package,
            ..locked.clone()
        })
    }

    fn read_skill(&self, locked: &LockedSkill) -> anyhow::Result<SkillFiles> {
        unpack_skill(locked, &|digest, max| self.files.read_blob(digest, max))
    }

    /// Writes the blobs of a skill into a store, and unpacks its files there. Returns the files.
    pub fn store_skill(&self, locked: &LockedSkill, store: &Store) -> anyhow::Result<SkillFiles> {
        self.store(locked, store)?;
        let files = self.read_skill(locked)?;
        store.unpack(locked, &files)?;
        Ok(files)
    }

    /// Writes a component into a new file.
    pub fn write_component(&self, locked: &LockedPackage, file: &Path) -> anyhow::Result<()> {
        let bytes = self.files.read_blob(&locked.content, locked.size)?;
        let written = File::create_new(file).and_then(|mut file| file.write_all(&bytes));
        written.with_context(|| format!("cannot write `{}`", file.display()))
    }

    /// Returns the version that the manifest of a package names.
    pub fn annotated_version(&self, locked: &LockedPackage) -> anyhow::Result<Option<String>> {
        let bytes = self.files.read_blob(&locked.manifest, MAX_MANIFEST)?;
        let manifest = Manifest::parse(&bytes, None)?;
        Ok(manifest.version()?.map(str::to_owned))
    }

    /// Writes the blobs of a package into a store.
    pub fn store(&self, locked: &LockedPackage, store: &Store) -> anyhow::Result<()> {
        for digest in locked.digests() {
            store.write(&self.files.read_blob(digest, MAX_COMPONENT)?)?;
        }
        Ok(())
    }
}

impl Files {
    /// Finds the files of a tar. Reads only their headers.
    fn list(mut file: File) -> anyhow::Result<Self> {
        let length = file.metadata()?.len();
        let mut places = BTreeMap::new();
        let mut end = 0;
        let mut archive = Archive::new(&mut file);
        // No extension may give a file another name or size than its header.
        for entry in archive.entries_with_seek()?.raw(true) {
            let entry = entry.context("it is not a tar, or is damaged")?;
            let header = entry.header();
            let name = String::from_utf8_lossy(&header.path_bytes()).into_owned();
            let shown = quote(&name);
            ensure!(
                header.entry_type() == EntryType::Regular && header.link_name_bytes().is_none(),
                "`{shown}` in it is not a plain file"
            );
            let blob = name.strip_prefix(BLOBS).map(|hex| format!("sha256:{hex}"));
            let is_blob = blob.is_some_and(|it| it.parse::<Digest>().is_ok());
            ensure!(
                is_blob || [LAYOUT, INDEX, SIGNATURE].contains(&&*name),
                "`{shown}` in it has no place in a bundle file"
            );
            let (start, size) = (entry.raw_file_position(), header.entry_size()?);
            ensure!(
                size <= MAX_COMPONENT,
                "`{shown}` in it has {size} bytes, more than {MAX_COMPONENT}"
            );
            end = start + size.next_multiple_of(BLOCK);
            ensure!(end <= length, "it is truncated within `{shown}`");
            let is_new = places.insert(name.clone(), (start, size)).is_none();
            ensure!(is_new, "it has `{shown}` twice");
            ensure!(
                places.len() <= MAX_FILES,
                "it has more than {MAX_FILES} files"
            );
        }
        ensure!(
            length == end + 2 * BLOCK,
            "it is truncated, or has bytes after its end"
        );
        Ok(Self { file, places })
    }

    /// Reads a file. Fails if it has more than `max` bytes.
    fn read(&self, name: &str, max: u64) -> anyhow::Result<Vec<u8>> {
        let place = self.places.get(name);
        let (start, size) = *place.with_context(|| format!("it has no `{name}`"))?;
        ensure!(
            size <= max,
            "`{name}` in it has {size} bytes, more than {max}"
        );
        let mut bytes = vec![0; usize::try_from(size)?];
        self.file
            .read_exact_at(&mut bytes, start)
            .with_context(|| format!("cannot read `{name}` in it"))?;
        Ok(bytes)
    }

    /// Reads a blob. Fails if it has more than `max` bytes.
    fn read_blob(&self, digest: &Digest, max: u64) -> anyhow::Result<Vec<u8>> {
        let bytes = self.read(&format!("{BLOBS}{}", digest.hex()), max)?;
        let found = Digest::of(&bytes);
        ensure!(
            found == *digest,
            "the bytes of {digest} in it have the digest {found}"
        );
        Ok(bytes)
    }

    /// Checks that the file has exactly the blobs of the lock file, and that the index lists exactly
    /// its manifests and bundles.
    fn check_blobs(
        &self,
        lock: &LockFile,
        lock_digest: &Digest,
        listed: &[Descriptor],
    ) -> anyhow::Result<()> {
        let mut expected: BTreeSet<&Digest> = lock.digests().collect();
        expected.insert(lock_digest);
        let mut in_index: BTreeSet<&Digest> = lock
            .packages()
            .flat_map(|locked| [&locked.manifest].into_iter().chain(&locked.bundle))
            .collect();
        in_index.insert(lock_digest);
        for entry in listed {
            ensure!(
                in_index.remove(&entry.digest),
                "its index lists {} twice, or its lock file does not name this digest",
                entry.digest
            );
            let found = self.places.get(&format!("{BLOBS}{}", entry.digest.hex()));
            let size = found.map(|(_, size)| *size);
            ensure!(
                size.is_none_or(|size| size == entry.size),
                "its index has a wrong size for {}",
                entry.digest
            );
        }
        if let Some(digest) = in_index.first() {
            bail!("its index does not list {digest} of its lock file");
        }
        for digest in &expected {
            ensure!(
                self.places
                    .contains_key(&format!("{BLOBS}{}", digest.hex())),
                "it has no blob {digest}, which its lock file names"
            );
        }
        for name in self.places.keys() {
            if let Some(hex) = name.strip_prefix(BLOBS) {
                ensure!(
                    expected.contains(&Digest::from_hex(hex.to_owned())),
                    "it has the blob sha256:{hex}, which its lock file does not name"
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use skillhost_skills::trust::Trust;
    use tempfile::TempDir;

    use super::*;
    use crate::layer;
    use crate::manifest::PLAIN_SKILL_LAYER;
    use crate::skill_files::tests::skill_files;
    use crate::tests::{locked, locked_skill, signing_key};
    use crate::verify_locked;

    const CONTENT: &[u8] = b"the bytes of a component";

    /// A store with a signed component, and a bundle file of it.
    struct Setup {
        folder: TempDir,
        store: Store,
        lock: LockFile,
        key: SigningKey,
    }

    /// A file of a tar: its name, its type, the target of a link, a wrong size to claim, and its
    /// bytes.
    #[derive(Clone)]
    struct TarFile(String, EntryType, &'static str, Option<u64>, Vec<u8>);

    impl Setup {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::open(&folder.path().join("store"), &Trust::new()).unwrap();
            let key = signing_key();
            let mut setup = Self {
                folder,
                store,
                lock: LockFile::default(),
                key,
            };
            let mut entry = locked("csv", &Digest::of(CONTENT));
            setup.write_package(&mut entry.package, "application/wasm", CONTENT);
            setup.lock.components.set(entry);
            setup.export();
            setup
        }

        /// Returns a setup that also has a skill with two names.
        fn with_skill() -> Self {
            let mut setup = Self::new();
            let files = skill_files(&[("SKILL.md", "# Report"), ("a.md", "a")]).unwrap();
            let archive = layer::pack(&files).unwrap();
            for name in ["report", "same"] {
                let mut entry = locked_skill(name, &[]);
                entry.files = files.digests();
                setup.write_package(&mut entry.package, PLAIN_SKILL_LAYER, &archive);
                setup.lock.skills.set(entry);
            }
            setup.export();
            setup
        }

        /// Writes the blobs of a package into the store, and its digests into the entry.
        fn write_package(&self, entry: &mut LockedPackage, media_type: &str, content: &[u8]) {
            let layer = Descriptor::of(media_type, content);
            let manifest = json!({"schemaVersion": 2, "layers": [layer]}).to_string();
            entry.content = self.store.write(content).unwrap();
            entry.size = content.len() as u64;
            entry.manifest = self.store.write(manifest.as_bytes()).unwrap();
            // The bytes of a signature differ each time.
            let known = self
                .lock
                .packages()
                .find(|it| it.manifest == entry.manifest);
            entry.bundle = known.and_then(|it| it.bundle.clone()).or_else(|| {
                let bundle = self.key.sign(&entry.manifest).unwrap();
                Some(self.store.write(&bundle).unwrap())
            });
            entry.signer = Signer::Key(self.key.public().id());
        }

        fn export(&self) {
            export(&self.path(), &self.lock, &self.store, Some(&self.key)).unwrap();
        }

        fn path(&self) -> std::path::PathBuf {
            self.folder.path().join("air.tar")
        }

        fn files(&self) -> Vec<TarFile> {
            let bytes = fs::read(self.path()).unwrap();
            let mut archive = Archive::new(&*bytes);
            let files = archive.entries().unwrap().map(|entry| {
                let mut entry = entry.unwrap();
                let name = String::from_utf8(entry.path_bytes().to_vec()).unwrap();
                let mut bytes = Vec::new();
                std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
                TarFile(name, EntryType::Regular, "", None, bytes)
            });
            files.collect()
        }

        fn write(&self, files: &[TarFile]) {
            let mut tar = Builder::new(File::create(self.path()).unwrap());
            for TarFile(name, kind, link, size, bytes) in files {
                let mut header = Header::new_ustar();
                // `set_path` refuses odd names.
                header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
                header.set_entry_type(*kind);
                header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
                header.set_size(size.unwrap_or(bytes.len() as u64));
                header.set_cksum();
                tar.append(&header, &**bytes).unwrap();
            }
            tar.finish().unwrap();
        }

        /// Opens the bundle file, and checks its component.
        fn open(&self, key: Option<&PublicKey>) -> anyhow::Result<(BundleFile, LockedPackage)> {
            let file = BundleFile::open(&self.path(), key)?;
            let signers = [self.key.public().into()];
            let entry = file.lock_file().components.find("csv").unwrap().clone();
            let entry = file.verify(&entry, Some(&signers), &DenyList::default())?;
            Ok((file, entry))
        }
    }

    impl Setup {
        /// Opens the bundle file, and checks one of its skills.
        fn open_skill(&self, name: &str) -> anyhow::Result<(BundleFile, LockedSkill)> {
            let file = BundleFile::open(&self.path(), None)?;
            let signers = [self.key.public().into()];
            let entry = file.lock_file().skills.find(name).unwrap().clone();
            let entry = file.verify_skill(&entry, Some(&signers), &DenyList::default())?;
            Ok((file, entry))
        }
    }

    /// A change to the files of a bundle file.
    type Change<'c> = Box<dyn Fn(&mut Vec<TarFile>) + 'c>;

    fn edit<'c>(change: impl Fn(&mut Vec<TarFile>) + 'c) -> Change<'c> {
        Box::new(change)
    }

    /// Changes the list in the index: the lock file, the manifest and its signature.
    fn edit_index(change: impl Fn(&mut Vec<Value>) + 'static) -> Change<'static> {
        edit(move |files| {
            let mut index: Value = serde_json::from_slice(&files[1].4).unwrap();
            change(index["manifests"].as_array_mut().unwrap());
            files[1].4 = index.to_string().into_bytes();
        })
    }

    /// Replaces the lock file, and its entry in the index.
    fn replace_lock(text: String) -> Change<'static> {
        edit(move |files| {
            let lock = Descriptor::of(LOCK, text.as_bytes());
            let name = format!("{BLOBS}{}", lock.digest.hex());
            let old = files.iter().position(|it| it.4.starts_with(b"# Written"));
            files[old.unwrap()] = TarFile(name, EntryType::Regular, "", None, text.clone().into());
            edit_index(move |listed| listed[0] = serde_json::to_value(&lock).unwrap())(files);
        })
    }

    /// Adds a file.
    fn add_file(name: &str, kind: EntryType, link: &'static str, bytes: &[u8]) -> Change<'static> {
        let file = TarFile(name.to_owned(), kind, link, None, bytes.to_vec());
        edit(move |files| files.push(file.clone()))
    }

    #[test]
    fn carries_components_to_another_store() {
        let setup = Setup::new();
        let (file, entry) = setup.open(Some(&setup.key.public())).unwrap();
        assert_eq!(*file.lock_file(), setup.lock);
        let other = Store::open(&setup.folder.path().join("other"), &Trust::new()).unwrap();
        file.store(&entry, &other).unwrap();
        assert_eq!(other.list().unwrap(), setup.store.list().unwrap());
        let signers = [setup.key.public().into()];
        verify_locked(&entry, Some(&signers), &other).unwrap();
        // A signer that was not verified is not returned.
        let entry = file.lock_file().components.find("csv").unwrap();
        let unchecked = file.verify(entry, None, &DenyList::default()).unwrap();
        assert_eq!(
            (unchecked.signer, unchecked.bundle),
            (Signer::Unsigned, None)
        );
        let mut denied = DenyList::default();
        denied
            .insert(entry.content.clone(), "it leaks".to_owned())
            .unwrap();
        let error = file.verify(entry, None, &denied).unwrap_err().to_string();
        assert!(error.ends_with(": it leaks"), "{error}");
        let error = setup.open(Some(&signing_key().public())).unwrap_err();
        assert!(format!("{error:#}").contains("its signature is not valid"));
        // Only bundle files and empty files are replaced.
        for (text, is_replaced) in [("", true), ("oci-layout", false), ("a key", false)] {
            let other = setup.folder.path().join("other.pem");
            fs::write(&other, text).unwrap();
            let exported = export(&other, &setup.lock, &setup.store, None);
            assert_eq!(exported.is_ok(), is_replaced, "{text}");
            assert_eq!(fs::read(&other).unwrap() == text.as_bytes(), !is_replaced);
        }
        setup.export();
        let link = setup.folder.path().join("link");
        std::os::unix::fs::symlink(setup.path(), &link).unwrap();
        assert!(export(&link, &setup.lock, &setup.store, None).is_err());
        assert!(link.is_symlink());
    }

    #[test]
    fn carries_skills_to_another_store() {
        let setup = Setup::with_skill();
        let other = Store::open(&setup.folder.path().join("other"), &Trust::new()).unwrap();
        for name in ["report", "same"] {
            let (file, entry) = setup.open_skill(name).unwrap();
            assert_eq!(Some(&entry), setup.lock.skills.find(name));
            let files = file.store_skill(&entry, &other).unwrap();
            assert_eq!(files.skill_md().1, b"# Report");
            other.check_unpacked(&entry).unwrap();
        }
        assert_eq!(other.list().unwrap().len(), 3);
    }

    #[test]
    fn tampered_skills_are_refused() {
        let setup = Setup::with_skill();
        let good = setup.files();
        let text = setup.lock.text();
        let (first, second) = (Digest::of(b"# Report"), Digest::of(b"a"));
        let content = &setup.lock.skills.find("report").unwrap().content;
        let name = format!("{BLOBS}{}", content.hex());
        let at = good.iter().position(|it| it.0 == name).unwrap();
        let replaced = |from: &str, to: &str| replace_lock(text.replace(from, to));
        let cases: Vec<(Change<'_>, &str)> = vec![
            (
                replaced(&second.to_string(), &first.to_string()),
                "the layer of the skill `report` has other files than the lock file",
            ),
            (replaced("\"a.md\"", "\"../a.md\""), "`../a.md`"),
            (
                replaced("key:", "key:0"),
                "names another signer of the skill",
            ),
            (edit(|it| it[at].4[600] ^= 1), "in it have the digest"),
            (edit(|it| drop(it.remove(at))), "it has no blob"),
        ];
        for (change, why) in cases {
            let mut files = good.clone();
            change(&mut files);
            setup.write(&files);
            let error = format!("{:#}", setup.open_skill("report").unwrap_err());
            assert!(error.contains(why), "expected `{why}`: {error}");
        }
    }

    #[test]
    fn hostile_files_are_refused() {
        let setup = Setup::new();
        let good = setup.files();
        let text = setup.lock.text();
        let entry = setup.lock.components.find("csv").unwrap();
        let blob = |digest: &Digest| format!("{BLOBS}{}", digest.hex());
        let (content, other) = (blob(&entry.content), blob(&Digest::of(b"other")));
        let at = good.iter().position(|it| it.0 == content).unwrap();
        let big = Some(MAX_COMPONENT + 1);
        let cases: Vec<(Change<'_>, bool, &str)> = vec![
            (
                add_file("../x", EntryType::Regular, "", b""),
                true,
                "`../x` in it has no place",
            ),
            (
                add_file("/x", EntryType::Regular, "", b""),
                true,
                "`/x` in it has no place",
            ),
            (
                add_file("\u{1b}[2J", EntryType::Regular, "", b""),
                true,
                "`\\u{1b}[2J` in it",
            ),
            (
                add_file(&other, EntryType::Regular, "", b"other"),
                true,
                "does not name",
            ),
            (
                add_file(&content, EntryType::Regular, "", CONTENT),
                true,
                "twice",
            ),
            (
                add_file(&other, EntryType::Symlink, "/x", b""),
                true,
                "is not a plain file",
            ),
            (
                add_file(&other, EntryType::Link, "/x", b""),
                true,
                "is not a plain file",
            ),
            (
                add_file(&other, EntryType::Char, "", b""),
                true,
                "is not a plain file",
            ),
            (
                add_file("blobs/", EntryType::Directory, "", b""),
                true,
                "is not a plain file",
            ),
            (
                add_file("x", EntryType::GNULongName, "", b"x"),
                true,
                "is not a plain file",
            ),
            (
                add_file("x", EntryType::XHeader, "", b"1 x"),
                true,
                "is not a plain file",
            ),
            (
                add_file(&other, EntryType::Regular, "/x", b""),
                true,
                "is not a plain file",
            ),
            (edit(|it| it[at].4[0] ^= 1), true, "in it have the digest"),
            (edit(|it| it[at].3 = big), true, "more than 67108864"),
            (
                edit(|it| it[at].3 = Some(1 << 20)),
                true,
                "truncated within",
            ),
            (edit(|it| drop(it.remove(at))), true, "it has no blob"),
            (
                edit(|it| drop(it.remove(0))),
                true,
                "it has no `oci-layout`",
            ),
            (
                edit(|it| drop(it.remove(1))),
                true,
                "it has no `index.json`",
            ),
            (
                edit(|it| drop(it.remove(2))),
                true,
                "it has no signature of its index",
            ),
            (
                edit(|it| it[2].4 = b"{".to_vec()),
                true,
                "the bundle is invalid",
            ),
            (
                edit(|it| it[2].4 = vec![b' '; 300 << 10]),
                true,
                "more than 262144",
            ),
            (
                edit(|it| it[0].4 = b"{}".to_vec()),
                true,
                "not an OCI image layout",
            ),
            (
                edit(|it| it[1].4.push(b' ')),
                true,
                "a signature of another artifact",
            ),
            (
                edit(|it| it[1].4 = b"{".to_vec()),
                false,
                "its index is invalid",
            ),
            (
                edit(|it| it[1].4 = vec![b' '; 5 << 20]),
                false,
                "more than 4194304",
            ),
            (edit_index(Vec::clear), false, "must list one lock file"),
            (
                edit_index(|it| it.push(it[0].clone())),
                false,
                "must list one lock file",
            ),
            (
                edit_index(|it| it.push(it[1].clone())),
                false,
                "twice, or its lock file",
            ),
            (
                edit_index(|it| drop(it.pop())),
                false,
                "its index does not list",
            ),
            (
                edit_index(|it| it[1]["size"] = 1.into()),
                false,
                "its index has a wrong size",
            ),
            (
                replace_lock(String::new()),
                false,
                "its lock file does not name this",
            ),
            (
                replace_lock(text.replace("csv\"", "../csv\"")),
                false,
                "the name `../csv`",
            ),
            (
                replace_lock(text.replace("size = 24", "size = 25")),
                false,
                "but the lock file says 25",
            ),
            (
                replace_lock(text.replace("key:", "key:0")),
                false,
                "names another signer",
            ),
        ];
        for (change, with_key, why) in cases {
            let mut files = good.clone();
            change(&mut files);
            setup.write(&files);
            let key = with_key.then(|| setup.key.public());
            let error = format!("{:#}", setup.open(key.as_ref()).unwrap_err());
            assert!(error.contains(why), "expected `{why}`: {error}");
            assert!(!error.contains('\u{1b}'), "{error:?}");
        }
        setup.write(&good);
        setup.open(Some(&setup.key.public())).unwrap();
        // Bytes that are not a tar, or only a part of one.
        let whole = fs::read(setup.path()).unwrap();
        let changed = |at: usize| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            bytes
        };
        for (bytes, why) in [
            (
                whole[..whole.len() - 512].to_vec(),
                "it is truncated, or has",
            ),
            (
                whole[..whole.len() - 1024].to_vec(),
                "it is truncated, or has",
            ),
            (whole[..700].to_vec(), "it is truncated within `oci-layout`"),
            ([&whole[..], &[0; 512]].concat(), "has bytes after its end"),
            (changed(1), "it is not a tar, or is damaged"),
            (b"PK".repeat(400), "it is not a tar, or is damaged"),
            (Vec::new(), "truncated"),
            (vec![0; 1024], "it has no `oci-layout`"),
        ] {
            fs::write(setup.path(), bytes).unwrap();
            let error = format!("{:#}", setup.open(None).unwrap_err());
            assert!(error.contains(why), "expected `{why}`: {error}");
        }
    }
}
