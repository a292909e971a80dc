//! `skillhost.lock`: the bytes of each package that `skillhost.toml` names, to commit beside it.

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use skillhost_skills::named_file;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, value};

use crate::atomic;
use crate::digest::Digest;
use crate::settings::check_name;
use crate::signature::Signer;

/// The name of a lock file, which is beside `skillhost.toml`.
pub const LOCK_FILE: &str = "skillhost.lock";

/// The maximum bytes of a lock file.
const MAX_BYTES: u64 = 4 << 20;

/// The first lines of a lock file.
const HEAD: &str = "# Written by `skillhost add`, `update` and `remove`. Commit it.\n";

/// The content of a lock file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockFile {
    components: Vec<LockedComponent>,
}

/// A component with fixed bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockedComponent {
    /// The name in `skillhost.toml`.
    pub name: String,
    /// The reference that was resolved.
    pub source: String,
    /// The digest of the manifest.
    pub manifest: Digest,
    /// The digest of the component.
    pub content: Digest,
    /// The bytes of the component.
    pub size: u64,
    /// The signer, whom a rule of `[trust]` names.
    pub signer: Signer,
    /// The digest of the bundle with the signature.
    pub bundle: Option<Digest>,
    /// The names of its tools.
    pub tools: Vec<String>,
    /// Its imports.
    pub imports: Vec<String>,
    /// The requests and secrets that it asks for.
    pub powers: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLock {
    #[serde(default)]
    component: Vec<RawComponent>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawComponent {
    name: String,
    source: String,
    manifest: Digest,
    content: Digest,
    size: u64,
    signer: Option<String>,
    unsigned: Option<bool>,
    bundle: Option<Digest>,
    tools: Vec<String>,
    imports: Vec<String>,
    powers: Vec<String>,
}

impl LockFile {
    /// Reads a lock file. Returns `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or a key is missing, unknown or invalid.
    pub fn read(path: &Path) -> anyhow::Result<Option<Self>> {
        if !path.exists() {
            return Ok(None);
        }
        let read = || Self::parse(&named_file::read_text(path, MAX_BYTES)?);
        let lock = read().with_context(|| format!("cannot use `{}`", path.display()))?;
        Ok(Some(lock))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let raw: RawLock = toml::from_str(text)?;
        let mut lock = Self::default();
        for raw in raw.component {
            check_name(&raw.name)?;
            ensure!(
                lock.find(&raw.name).is_none(),
                "it has the component `{}` twice",
                raw.name
            );
            lock.components.push(raw.component()?);
        }
        Ok(lock)
    }

    /// Writes the lock file.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut tables = ArrayOfTables::new();
        for component in &self.components {
            tables.push(component.table());
        }
        let mut document = DocumentMut::new();
        document.insert("component", Item::ArrayOfTables(tables));
        let text = format!("{HEAD}{document}");
        atomic::replace(path, text.as_bytes(), 0o644)
            .with_context(|| format!("cannot write `{}`", path.display()))
    }

    /// Returns the components in the order of their names.
    pub fn components(&self) -> &[LockedComponent] {
        &self.components
    }

    /// Returns the component of a name.
    pub fn find(&self, name: &str) -> Option<&LockedComponent> {
        self.components.iter().find(|locked| locked.name == name)
    }

    /// Adds a component, or replaces the one of its name.
    pub fn set(&mut self, component: LockedComponent) {
        self.remove(&component.name);
        self.components.push(component);
        self.components.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// Removes the component of a name.
    pub fn remove(&mut self, name: &str) {
        self.components.retain(|locked| locked.name != name);
    }

    /// Returns the digests of all blobs that the file names.
    pub fn digests(&self) -> impl Iterator<Item = &Digest> {
        self.components.iter().flat_map(|locked| {
            [&locked.manifest, &locked.content]
                .into_iter()
                .chain(&locked.bundle)
        })
    }
}

impl RawComponent {
    fn component(self) -> anyhow::Result<LockedComponent> {
        let signer = match (self.signer, self.unsigned) {
            (None, Some(true)) => Signer::Unsigned,
            (Some(signer), None) => match signer.strip_prefix("key:") {
                Some(id) => Signer::Key(id.to_owned()),
                None => bail!("the signer of `{}` is not `key:…`", self.name),
            },
            _ => bail!("`{}` needs either `signer` or `unsigned = true`", self.name),
        };
        ensure!(
            (signer == Signer::Unsigned) == self.bundle.is_none(),
            "`{}` needs a `bundle` exactly if it has a `signer`",
            self.name
        );
        Ok(LockedComponent {
            name: self.name,
            source: self.source,
            manifest: self.manifest,
            content: self.content,
            size: self.size,
            signer,
            bundle: self.bundle,
            tools: self.tools,
            imports: self.imports,
            powers: self.powers,
        })
    }
}

impl LockedComponent {
    /// Returns the name of the file that grants and pins have for the component.
    pub fn file_name(&self) -> String {
        format!("{}.wasm", self.name)
    }

    fn table(&self) -> Table {
        let list = |items: &[String]| value(Array::from_iter(items));
        let mut table = Table::new();
        table.insert("name", value(&self.name));
        table.insert("source", value(&self.source));
        table.insert("manifest", value(self.manifest.to_string()));
        table.insert("content", value(self.content.to_string()));
        table.insert("size", value(i64::try_from(self.size).unwrap_or(i64::MAX)));
        match &self.signer {
            Signer::Unsigned => table.insert("unsigned", value(true)),
            signer => table.insert("signer", value(signer.to_string())),
        };
        if let Some(bundle) = &self.bundle {
            table.insert("bundle", value(bundle.to_string()));
        }
        table.insert("tools", list(&self.tools));
        table.insert("imports", list(&self.imports));
        table.insert("powers", list(&self.powers));
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::locked;

    #[test]
    fn reads_what_it_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK_FILE);
        assert_eq!(LockFile::read(&path).unwrap(), None);
        let mut lock = LockFile::default();
        let mut signed = locked("b", &Digest::of(b"b"));
        signed.signer = Signer::Key("ab".to_owned());
        signed.bundle = Some(Digest::of(b"bundle"));
        signed.tools = vec!["one".to_owned(), "two \"x\"".to_owned()];
        lock.set(signed);
        lock.set(locked("a", &Digest::of(b"a")));
        lock.write(&path).unwrap();
        assert_eq!(LockFile::read(&path).unwrap(), Some(lock.clone()));
        let names: Vec<_> = lock.components().iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(lock.digests().count(), 5);
    }

    #[test]
    fn refuses_wrong_lock_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK_FILE);
        let mut lock = LockFile::default();
        lock.set(locked("csv", &Digest::of(b"a")));
        lock.write(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        for (from, to, why) in [
            ("csv", "../csv", "name"),
            ("sha256:", "sha512:", "digest"),
            ("unsigned = true", "", "either `signer` or `unsigned"),
            ("unsigned = true", "signer = \"acme\"", "not `key:"),
            ("unsigned = true", "signer = \"key:ab\"", "needs a `bundle`"),
            ("powers = []", "powers = []\nextra = 1", "unknown field"),
        ] {
            let error = LockFile::parse(&text.replace(from, to)).unwrap_err();
            assert!(format!("{error:#}").contains(why), "{to}: {error:#}");
        }
        let twice = format!("{text}{text}");
        assert!(
            LockFile::parse(&twice)
                .unwrap_err()
                .to_string()
                .contains("twice")
        );
    }
}
