//! `skillhost.lock`: fixes the bytes of each package that `skillhost.toml` names. Operators commit
//! both files.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::slice;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use skillhost_skills::broker::Opener;
use skillhost_skills::{atomic_file, named_file};
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, value};

use crate::digest::Digest;
use crate::git::is_commit;
use crate::identity::SignerIdentity;
use crate::manifest::PackageKind;
use crate::quote::quote_toml_error;
use crate::settings::check_name;
use crate::signature::Signer;
use crate::skill_files::SkillPaths;

/// The name of a lock file. It is beside `skillhost.toml`.
pub const LOCK_FILE: &str = "skillhost.lock";

/// The maximum size of a lock file, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// The first line of a lock file.
const HEAD: &str = "# Written by `skillhost add`, `update`, `rollback` and `remove`. Commit it.\n";

/// The content of a lock file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockFile {
    /// The locked components.
    pub components: Entries<LockedComponent>,
    /// The locked skills.
    pub skills: Entries<LockedSkill>,
}

/// The entries of a kind, in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries<P> {
    current: Vec<P>,
    /// The entries before the last update, at most one for each name. They are in the lock file and
    /// not in the store, so that one write replaces `current` and `previous`, other machines can
    /// roll back, and `store clean` keeps the blobs that they name.
    previous: Vec<P>,
}

/// The fixed bytes of a component or a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockedPackage {
    /// The kind of the package.
    pub kind: PackageKind,
    /// The name in `skillhost.toml`.
    pub name: String,
    /// The source that was resolved, such as a reference or a git repository.
    pub source: String,
    /// The digest of the manifest.
    pub manifest: Digest,
    /// The digest of the component, or of the layer with the skill's files.
    pub content: Digest,
    /// The size of the component or the layer, in bytes.
    pub size: u64,
    /// The version in the manifest, or else in the component's metadata.
    pub version: Option<String>,
    /// The signer that a rule of `[trust]` names.
    pub signer: Signer,
    /// The digest of the bundle with the signature.
    pub bundle: Option<Digest>,
}

/// A component with fixed bytes. Dereferences to its package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockedComponent {
    /// The package of the component.
    pub package: LockedPackage,
    /// The names of its tools.
    pub tools: Vec<String>,
    /// Its imports.
    pub imports: Vec<String>,
    /// The requests and secrets that it asks for.
    pub powers: Vec<String>,
}

/// A skill with fixed files. Dereferences to its package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockedSkill {
    /// The package of the skill.
    pub package: LockedPackage,
    /// The commit, if the skill comes from a git repository.
    pub commit: Option<String>,
    /// The digest of each file, by its path.
    pub files: BTreeMap<String, Digest>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLock {
    #[serde(default)]
    component: Vec<RawPackage>,
    #[serde(default)]
    skill: Vec<RawPackage>,
    #[serde(default)]
    previous: Vec<RawPackage>,
}

/// An entry of any kind. Some fields belong to one kind only.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPackage {
    name: String,
    source: String,
    manifest: Digest,
    content: Digest,
    size: u64,
    version: Option<String>,
    signer: Option<String>,
    identity: Option<String>,
    issuer: Option<String>,
    repository: Option<String>,
    r#ref: Option<String>,
    unsigned: Option<bool>,
    bundle: Option<Digest>,
    tools: Option<Vec<String>>,
    imports: Option<Vec<String>>,
    powers: Option<Vec<String>>,
    commit: Option<String>,
    files: Option<BTreeMap<String, Digest>>,
}

impl LockFile {
    /// Reads a lock file. Returns `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or a key is missing, unknown or invalid.
    pub fn read(path: &Path) -> anyhow::Result<Option<Self>> {
        Self::read_with(path, &Opener::DIRECT)
    }

    /// Reads a lock file like [`LockFile::read`], with an opener.
    pub fn read_with(path: &Path, opener: &Opener) -> anyhow::Result<Option<Self>> {
        if !path.try_exists()? {
            return Ok(None);
        }
        let read = || {
            let file = named_file::open_with(path, opener)?;
            Self::parse(&named_file::read_all_text(file, MAX_BYTES)?)
        };
        let lock = read().with_context(|| format!("cannot use `{}`", path.display()))?;
        Ok(Some(lock))
    }

    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let raw: RawLock = toml::from_str(text).map_err(|it| quote_toml_error(text, &it))?;
        let mut lock = Self::default();
        for raw in raw.component {
            lock.components.add(raw.component()?)?;
        }
        for raw in raw.skill {
            lock.skills.add(raw.skill()?)?;
        }
        for raw in raw.previous {
            if raw.files.is_some() {
                lock.skills.add_previous(raw.skill()?)?;
            } else {
                lock.components.add_previous(raw.component()?)?;
            }
        }
        Ok(lock)
    }

    /// Writes the lock file.
    ///
    /// # Errors
    ///
    /// If it would be too large to read again, or cannot be written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = self.text();
        let write = || -> anyhow::Result<()> {
            ensure!(
                text.len() as u64 <= MAX_BYTES,
                "it would have {} bytes, more than {MAX_BYTES}",
                text.len()
            );
            Ok(atomic_file::replace(path, text.as_bytes(), 0o644)?)
        };
        write().with_context(|| format!("cannot write `{}`", path.display()))
    }

    /// Returns the text of the file.
    pub(crate) fn text(&self) -> String {
        let components = |entries: &[LockedComponent]| -> Vec<Table> {
            entries.iter().map(LockedComponent::table).collect()
        };
        let skills = |entries: &[LockedSkill]| -> Vec<Table> {
            entries.iter().map(LockedSkill::table).collect()
        };
        let mut previous = components(&self.components.previous);
        previous.extend(skills(&self.skills.previous));
        let mut document = DocumentMut::new();
        for (key, tables) in [
            ("component", components(&self.components.current)),
            ("skill", skills(&self.skills.current)),
            ("previous", previous),
        ] {
            let tables = ArrayOfTables::from_iter(tables);
            document.insert(key, Item::ArrayOfTables(tables));
        }
        format!("{HEAD}{document}")
    }

    /// Returns the locked components and skills.
    pub fn packages(&self) -> impl Iterator<Item = &LockedPackage> {
        let components = self.components.iter().map(|it| &it.package);
        components.chain(self.skills.iter().map(|it| &it.package))
    }

    /// Returns the versions of components and skills before their last update.
    pub fn previous(&self) -> impl Iterator<Item = &LockedPackage> {
        let components = self.components.previous.iter().map(|it| &it.package);
        components.chain(self.skills.previous.iter().map(|it| &it.package))
    }

    /// Returns the digests of all blobs that the file names.
    pub fn digests(&self) -> impl Iterator<Item = &Digest> {
        let all = self.packages().chain(self.previous());
        all.flat_map(LockedPackage::digests)
    }
}

impl<P> Default for Entries<P> {
    fn default() -> Self {
        Self {
            current: Vec::new(),
            previous: Vec::new(),
        }
    }
}

impl<P: Deref<Target = LockedPackage> + Clone> Entries<P> {
    /// Returns the entries.
    pub fn iter(&self) -> slice::Iter<'_, P> {
        self.current.iter()
    }

    /// Returns the entry of a name.
    pub fn find(&self, name: &str) -> Option<&P> {
        self.current.iter().find(|locked| locked.name == name)
    }

    /// Returns the version of the named package before its last update.
    pub fn find_previous(&self, name: &str) -> Option<&P> {
        self.previous.iter().find(|locked| locked.name == name)
    }

    /// Returns the entry of a name and the version before its last update, if both exist.
    pub fn find_with_previous(&self, name: &str) -> Option<(P, P)> {
        let both = self.find(name).zip(self.find_previous(name))?;
        Some((both.0.clone(), both.1.clone()))
    }

    /// Returns whether `other` has the same current and previous entry for a name.
    pub fn is_same(&self, other: &Self, name: &str) -> bool
    where
        P: PartialEq,
    {
        self.find(name) == other.find(name) && self.find_previous(name) == other.find_previous(name)
    }

    /// Adds an entry, or replaces the one with its name. The replaced entry becomes the previous one
    /// if its manifest differs.
    pub fn set(&mut self, entry: P) {
        let is_other = |old: &P| old.manifest != entry.manifest;
        match self.find(&entry.name).cloned() {
            Some(old) if is_other(&old) => insert_sorted(&mut self.previous, old),
            _ => {}
        }
        insert_sorted(&mut self.current, entry);
    }

    /// Locks a previous version again, and forgets the newer one.
    pub fn roll_back(&mut self, previous: P) {
        self.remove(&previous.name);
        insert_sorted(&mut self.current, previous);
    }

    /// Removes the entry of a name, and the previous one.
    pub fn remove(&mut self, name: &str) {
        self.current.retain(|locked| locked.name != name);
        self.previous.retain(|locked| locked.name != name);
    }

    /// Adds an entry that was read from a lock file.
    fn add(&mut self, entry: P) -> anyhow::Result<()> {
        let LockedPackage { kind, name, .. } = &*entry;
        ensure!(
            self.find(name).is_none(),
            "it has the {kind} `{name}` twice"
        );
        insert_sorted(&mut self.current, entry);
        Ok(())
    }

    /// Adds a previous entry that was read from a lock file.
    fn add_previous(&mut self, entry: P) -> anyhow::Result<()> {
        let LockedPackage { kind, name, .. } = &*entry;
        ensure!(
            self.find(name).is_some() && self.find_previous(name).is_none(),
            "it has `[[previous]]` of `{name}` twice, or does not lock the {kind} itself"
        );
        insert_sorted(&mut self.previous, entry);
        Ok(())
    }
}

/// Inserts an entry into a list sorted by name. Replaces an entry with the same name.
fn insert_sorted<P: Deref<Target = LockedPackage>>(entries: &mut Vec<P>, entry: P) {
    entries.retain(|other| other.name != entry.name);
    let at = entries.partition_point(|other| other.name < entry.name);
    entries.insert(at, entry);
}

impl RawPackage {
    fn component(mut self) -> anyhow::Result<LockedComponent> {
        check_name(&self.name)?;
        let lists = (self.tools.take(), self.imports.take(), self.powers.take());
        let (Some(tools), Some(imports), Some(powers), None, None) =
            (lists.0, lists.1, lists.2, &self.files, &self.commit)
        else {
            bail!(
                "the component `{}` needs `tools`, `imports` and `powers`, but no `files` or `commit`",
                self.name
            );
        };
        Ok(LockedComponent {
            package: self.package(PackageKind::Component)?,
            tools,
            imports,
            powers,
        })
    }

    fn skill(mut self) -> anyhow::Result<LockedSkill> {
        check_name(&self.name)?;
        let files = self.files.take();
        let (Some(files), None, None, None) = (files, &self.tools, &self.imports, &self.powers)
        else {
            bail!(
                "the skill `{}` needs `files`, but no `tools`, `imports` or `powers`",
                self.name
            );
        };
        let commit = self.commit.take();
        ensure!(
            commit.as_deref().is_none_or(is_commit),
            "the commit of the skill `{}` is not a full commit id",
            self.name
        );
        let mut paths = SkillPaths::default();
        files
            .keys()
            .try_for_each(|path| paths.add(path.as_bytes()).map(drop))
            .with_context(|| {
                format!(
                    "delete the entry of the skill `{}`, and add the skill again",
                    self.name
                )
            })?;
        Ok(LockedSkill {
            package: self.package(PackageKind::Skill)?,
            commit,
            files,
        })
    }

    fn package(self, kind: PackageKind) -> anyhow::Result<LockedPackage> {
        ensure!(
            self.identity.is_some() || (self.repository.is_none() && self.r#ref.is_none()),
            "`{}` has a `repository` or `ref` without an `identity`",
            self.name
        );
        let signer = match (self.signer, self.identity, self.issuer, self.unsigned) {
            (None, None, None, Some(true)) => Signer::Unsigned,
            (Some(signer), None, None, None) => match signer.strip_prefix("key:") {
                Some(id) => Signer::Key(id.to_owned()),
                None => bail!("the signer of `{}` is not `key:…`", self.name),
            },
            (None, Some(identity), Some(issuer), None) => Signer::Identity(SignerIdentity {
                identity,
                issuer,
                repository: self.repository,
                git_ref: self.r#ref,
            }),
            _ => bail!(
                "`{}` needs either `signer`, or `identity` and `issuer`, or `unsigned = true`",
                self.name
            ),
        };
        ensure!(
            (signer == Signer::Unsigned) == self.bundle.is_none(),
            "`{}` needs a `bundle` if it is signed, and must have none otherwise",
            self.name
        );
        Ok(LockedPackage {
            kind,
            name: self.name,
            source: self.source,
            manifest: self.manifest,
            content: self.content,
            size: self.size,
            version: self.version,
            signer,
            bundle: self.bundle,
        })
    }
}

impl Deref for LockedComponent {
    type Target = LockedPackage;

    fn deref(&self) -> &LockedPackage {
        &self.package
    }
}

impl Deref for LockedSkill {
    type Target = LockedPackage;

    fn deref(&self) -> &LockedPackage {
        &self.package
    }
}

impl DerefMut for LockedComponent {
    fn deref_mut(&mut self) -> &mut LockedPackage {
        &mut self.package
    }
}

impl LockedComponent {
    /// Returns the file name that grants and pins use for the component.
    pub fn file_name(&self) -> String {
        format!("{}.wasm", self.name)
    }

    fn table(&self) -> Table {
        let list = |items: &[String]| value(Array::from_iter(items));
        let mut table = self.package.table();
        table.insert("tools", list(&self.tools));
        table.insert("imports", list(&self.imports));
        table.insert("powers", list(&self.powers));
        table
    }
}

impl LockedSkill {
    fn table(&self) -> Table {
        let mut table = self.package.table();
        let files = self.files.iter();
        let files = files.map(|(path, digest)| (path, value(digest.to_string())));
        if let Some(commit) = &self.commit {
            table.insert("commit", value(commit));
        }
        table.insert("files", Item::Table(files.collect()));
        table
    }
}

impl LockedPackage {
    /// Returns the digests of the package's blobs.
    pub fn digests(&self) -> impl Iterator<Item = &Digest> {
        [&self.manifest, &self.content]
            .into_iter()
            .chain(&self.bundle)
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.insert("name", value(&self.name));
        table.insert("source", value(&self.source));
        table.insert("manifest", value(self.manifest.to_string()));
        table.insert("content", value(self.content.to_string()));
        table.insert("size", value(i64::try_from(self.size).unwrap_or(i64::MAX)));
        if let Some(version) = &self.version {
            table.insert("version", value(version));
        }
        match &self.signer {
            Signer::Unsigned => drop(table.insert("unsigned", value(true))),
            Signer::Key(_) => drop(table.insert("signer", value(self.signer.to_string()))),
            Signer::Identity(signer) => {
                for (key, text) in [
                    ("identity", Some(&signer.identity)),
                    ("issuer", Some(&signer.issuer)),
                    ("repository", signer.repository.as_ref()),
                    ("ref", signer.git_ref.as_ref()),
                ] {
                    if let Some(text) = text {
                        table.insert(key, value(text));
                    }
                }
            }
        }
        if let Some(bundle) = &self.bundle {
            table.insert("bundle", value(bundle.to_string()));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{locked, locked_skill};

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
        lock.components.set(signed);
        lock.components.set(locked("a", &Digest::of(b"a")));
        let mut keyless = locked("c", &Digest::of(b"c"));
        keyless.bundle = Some(Digest::of(b"bundle"));
        keyless.signer = Signer::Identity(SignerIdentity {
            identity: "acme@registry.example".to_owned(),
            issuer: "https://login.example".to_owned(),
            repository: None,
            git_ref: Some("refs/tags/v1".to_owned()),
        });
        lock.components.set(keyless);
        lock.skills
            .set(locked_skill("b", &["scripts/a b.py", "SKILL.md", "x.y"]));
        lock.skills.set(locked_skill("a", &["SKILL.md"]));
        lock.write(&path).unwrap();
        assert_eq!(LockFile::read(&path).unwrap(), Some(lock.clone()));
        let names: Vec<_> = lock.components.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let names: Vec<_> = lock.skills.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(lock.digests().count(), 12);
        assert!(!lock.text().contains("previous"));
        lock.skills.remove("a");
        assert!(lock.components.find("a").is_some() && lock.skills.find("a").is_none());
        lock.skills.set(locked_skill("b", &["SKILL.md"]));
        assert_eq!(lock.skills.find("b").unwrap().files.len(), 1);
        // A lock file that is too large to read again is not written.
        let before = std::fs::read_to_string(&path).unwrap();
        let many: Vec<String> = (0..100_000).map(|at| format!("{at}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        lock.skills.set(locked_skill("c", &many));
        let error = lock.write(&path).unwrap_err();
        assert!(format!("{error:#}").contains("more than"), "{error:#}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
    }

    #[test]
    fn keeps_one_previous_component() {
        let entry = |name: &str, version: &str| {
            let mut entry = locked(name, &Digest::of(version.as_bytes()));
            entry.manifest = entry.content.clone();
            entry.version = Some(version.to_owned());
            entry
        };
        let version = |entry: Option<&LockedComponent>| entry.and_then(|it| it.version.clone());
        let mut lock = LockFile::default();
        lock.components.set(entry("csv", "1"));
        assert_eq!(lock.components.find_previous("csv"), None);
        lock.components.set(entry("csv", "2"));
        lock.components.set(entry("csv", "3"));
        lock.components.set(entry("csv", "3"));
        lock.components.set(entry("a", "1"));
        lock.components.set(entry("a", "2"));
        assert_eq!(version(lock.components.find("csv")).unwrap(), "3");
        assert_eq!(version(lock.components.find_previous("csv")).unwrap(), "2");
        assert_eq!(LockFile::parse(&lock.text()).unwrap(), lock);
        assert_eq!(lock.digests().count(), 8);
        lock.components
            .roll_back(lock.components.find_previous("csv").unwrap().clone());
        assert_eq!(version(lock.components.find("csv")).unwrap(), "2");
        assert_eq!(lock.components.find_previous("csv"), None);
        lock.components.remove("a");
        assert_eq!(lock.components.find_previous("a"), None);
        let twice = lock.text().replace("[[component]]", "[[previous]]");
        let twice = format!("{}{twice}{twice}", lock.text());
        for text in [
            &lock.text().replace("[[component]]", "[[previous]]"),
            &twice,
        ] {
            let error = LockFile::parse(text).unwrap_err().to_string();
            assert!(error.contains("twice, or does not lock"), "{error}");
        }
    }

    #[test]
    fn keeps_one_previous_skill() {
        let entry = |name: &str, version: &str| {
            let mut entry = locked_skill(name, &["SKILL.md"]);
            entry.package.manifest = Digest::of(version.as_bytes());
            entry.package.version = Some(version.to_owned());
            entry
        };
        let mut lock = LockFile::default();
        // A component has its own previous version.
        lock.components.set(locked("report", &Digest::of(b"x")));
        for version in ["1", "2", "3", "3"] {
            lock.skills.set(entry("report", version));
        }
        let previous = lock.skills.find_previous("report").unwrap().clone();
        assert_eq!(previous, entry("report", "2"));
        assert_eq!(lock.components.find_previous("report"), None);
        let text = lock.text();
        assert_eq!(LockFile::parse(&text).unwrap(), lock);
        assert_eq!(lock.digests().count(), 6);
        let without_current = text.replace("[skill", "[previous");
        let error = LockFile::parse(&without_current).unwrap_err().to_string();
        assert!(
            error.ends_with("twice, or does not lock the skill itself"),
            "{error}"
        );
        lock.skills.roll_back(previous);
        assert_eq!(lock.skills.find("report"), Some(&entry("report", "2")));
        assert_eq!(lock.previous().count(), 0);
        assert!(lock.components.find("report").is_some());
    }

    #[test]
    fn refuses_wrong_lock_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK_FILE);
        let mut lock = LockFile::default();
        lock.components.set(locked("csv", &Digest::of(b"a")));
        lock.write(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        for (from, to, why) in [
            ("csv", "../csv", "name"),
            ("sha256:", "sha512:", "digest"),
            ("unsigned = true", "", "needs either `signer`"),
            (
                "unsigned = true",
                "identity = \"x\"",
                "needs either `signer`",
            ),
            (
                "unsigned = true",
                "unsigned = true\nissuer = \"x\"",
                "needs either `signer`",
            ),
            (
                "unsigned = true",
                "identity = \"x\"\nissuer = \"x\"",
                "needs a `bundle`",
            ),
            ("unsigned = true", "signer = \"acme\"", "not `key:"),
            (
                "unsigned = true",
                "unsigned = true\nref = \"x\"",
                "without an `identity`",
            ),
            ("unsigned = true", "signer = \"key:ab\"", "needs a `bundle`"),
            ("powers = []", "powers = []\nextra = 1", "unknown field"),
            ("powers = []", "", "needs `tools`, `imports` and `powers`"),
            (
                "powers = []",
                "powers = []\nfiles = {}",
                "and `powers`, but no `files`",
            ),
            (
                "[[component]]",
                "[[skill]]",
                "needs `files`, but no `tools`",
            ),
        ] {
            let error = LockFile::parse(&text.replace(from, to)).unwrap_err();
            assert!(format!("{error:#}").contains(why), "{to}: {error:#}");
        }
        let mut lock = LockFile::default();
        lock.skills.set(locked_skill("csv", &["SKILL.md"]));
        lock.write(&path).unwrap();
        let skill = std::fs::read_to_string(&path).unwrap();
        let twice = format!("\"SKILL.MD\" = \"{}\"\n\"SKILL.md\"", Digest::of(b""));
        for (from, to, why) in [
            ("\"SKILL.md\"", "\"../SKILL.md\"", "`..`"),
            ("\"SKILL.md\"", &twice, "differ only by case"),
            (
                "unsigned",
                "tools = []\nunsigned",
                "needs `files`, but no `tools`",
            ),
        ] {
            let error = LockFile::parse(&skill.replace(from, to)).unwrap_err();
            assert!(format!("{error:#}").contains(why), "{to}: {error:#}");
        }
        LockFile::parse(&format!("{text}{skill}")).unwrap();
        let error = LockFile::parse(&format!("{skill}{skill}")).unwrap_err();
        assert!(error.to_string().contains("twice"), "{error:#}");
        let twice = format!("{text}{text}");
        assert!(
            LockFile::parse(&twice)
                .unwrap_err()
                .to_string()
                .contains("twice")
        );
    }
}
