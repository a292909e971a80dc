//! The packages of a configuration: loads locked components and skills for the verbs that run them,
//! and has the code that the verbs for packages share. `packages/skills.rs` has the part about
//! skills, and `packages/live.rs` the packages of a running server.

pub(crate) mod skills;

pub(crate) mod live;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context as _, bail, ensure};
use skillhost::{Inspection, Line, Trust};
use skillhost_mcp::WatchedFile;
use skillhost_packages::{
    ConfiguredSource, Digest, LOCK_FILE, LockFile, LockedComponent, LockedPackage, MAX_VERSION,
    PackageKind, Reference, Registry, RegistrySettings, Signer, Store, StoreLock,
    annotated_version, pull, quote, verify_locked,
};
use skillhost_program::inspect::inspector;
use skillhost_program::options::{CommonOptions, store_folder};
use skillhost_program::terminal::{self, format_line};
use skillhost_sandbox::component::embedded;
use skillhost_sandbox::engine::processors;
use skillhost_skills::text::count::count;

use crate::settings::{LoadedPackage, Settings};

/// The error if `store clean` removed a package from the store before a command locked it.
const CLEANED: &str =
    "`skillhost store clean` has removed what this command pulled; run this command again";

/// The lock file's name for the power to send requests.
const SENDS_REQUESTS: &str = "sends HTTP requests";

/// Loads the settings of a verb, with the locked components and skills. Uses no network.
///
/// # Errors
///
/// If a package is not locked, not in the store, or not signed as `[trust]` asks, or another skill
/// has the name of a locked one. The error names a command that fixes the problem.
pub(crate) fn load(options: &CommonOptions) -> anyhow::Result<Settings> {
    Ok(load_watched(options)?.0)
}

/// Loads settings like [`load`], and returns the files that a server watches: the configuration,
/// the lock file and the keys. Records the state of a file before reading it, so the server notices
/// each later change.
///
/// # Errors
///
/// As for [`load`].
pub(crate) fn load_watched(
    options: &CommonOptions,
) -> anyhow::Result<(Settings, Vec<WatchedFile>)> {
    let config = options.named_config().into_iter();
    let files = config.flat_map(|config| [config.to_owned(), lock_file(config)]);
    let mut watched: Vec<WatchedFile> = files.map(WatchedFile::new).collect();
    let mut settings: Settings = options.load()?;
    watched.extend(settings.packages.key_files().map(WatchedFile::new));
    load_packages(options, &mut settings)?;
    Ok((settings, watched))
}

/// Adds the locked components and skills to settings.
fn load_packages(options: &CommonOptions, settings: &mut Settings) -> anyhow::Result<()> {
    if settings.packages.sources.is_empty() && settings.packages.skills.is_empty() {
        return Ok(());
    }
    let trust = options.trust_settings();
    let store = open_store(&trust)?;
    let lock_file = lock_file(options.config_file());
    let lock = read_lock(&lock_file, &trust)?;
    add_locked(settings, &lock, &store, &trust)?;
    skills::add_roots(settings, &lock, &store, &trust, None)?;
    keep_read(&store, &lock_file);
    Ok(())
}

/// Makes the store keep the packages of a lock file that this command has read. Only warns if that
/// fails: the command has all that it needs.
fn keep_read(store: &Store, lock_file: &Path) {
    if let Err(error) = store.keep_read(lock_file) {
        terminal::complain(format_args!(
            "`skillhost store clean` may remove the packages of `{}`: {error:#}",
            lock_file.display()
        ));
    }
}

/// Adds the locked components of a configuration to its host.
fn add_locked(
    settings: &mut Settings,
    lock: &LockFile,
    store: &Store,
    trust: &Trust,
) -> anyhow::Result<()> {
    let checked = check_all(settings, lock, store, trust)?;
    for (locked, source) in checked.into_iter().zip(settings.packages.sources.values()) {
        let file_name = locked.file_name();
        let digest = locked.content.hex().to_owned();
        let path = store.path(&locked.content);
        let host = &mut settings.host;
        // The pin keeps a file of this name with other bytes from getting the component's grant.
        let pin = host.pins.entry(file_name.clone()).or_insert(digest.clone());
        ensure!(
            pin.eq_ignore_ascii_case(&digest),
            "{}: the pin `{file_name}` is {pin}, and the lock file has {digest}",
            source.place
        );
        host.named_components.insert(file_name, path.clone());
        let package = locked.package.clone();
        settings.loaded.push(LoadedPackage { package, path });
    }
    Ok(())
}

/// Returns the locked component of each source, in the order of the sources, checked without a
/// network. Checks them in parallel, because most of the time goes into signatures.
fn check_all<'l>(
    settings: &Settings,
    lock: &'l LockFile,
    store: &Store,
    trust: &Trust,
) -> anyhow::Result<Vec<&'l LockedComponent>> {
    let sources: Vec<_> = settings.packages.sources.iter().collect();
    let check_some = |sources: &[(&String, &ConfiguredSource)]| {
        let checked = sources.iter().map(|(name, source)| {
            let locked = check(settings, name, source, lock, store, trust);
            locked.with_context(|| source.place.clone())
        });
        checked.collect::<anyhow::Result<Vec<_>>>()
    };
    let check_some = &check_some;
    thread::scope(|scope| {
        let chunks = sources.chunks(sources.len().div_ceil(processors()).max(1));
        let threads: Vec<_> = chunks
            .map(|chunk| scope.spawn(move || check_some(chunk)))
            .collect();
        let mut checked = Vec::with_capacity(sources.len());
        for thread in threads {
            let chunk = thread.join();
            checked.extend(chunk.unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok(checked)
    })
}

/// Returns the files that a running server reads again: the configuration, the lock file and the
/// keys.
pub(crate) fn files_to_read_again(options: &CommonOptions, settings: &Settings) -> Vec<PathBuf> {
    let config = options.named_config().into_iter();
    let files = config.flat_map(|config| [config.to_owned(), lock_file(config)]);
    let keys = settings.packages.key_files().map(Path::to_owned);
    files.chain(keys).collect()
}

/// Returns the folder of the blobs that a server may need later.
pub(crate) fn blobs_folder() -> Option<PathBuf> {
    store_folder().map(|folder| Store::blobs_in(&folder))
}

/// Returns the folder of the skills that a server may need later.
pub(crate) fn skills_folder() -> Option<PathBuf> {
    store_folder().map(|folder| Store::skills_in(&folder))
}

/// Loads the settings of a verb that runs no component, with the locked skills. Uses no network.
///
/// # Errors
///
/// As for [`load`], if a skill cannot be served.
pub(crate) fn load_skills(options: &CommonOptions) -> anyhow::Result<Settings> {
    let mut settings: Settings = options.load()?;
    if settings.packages.skills.is_empty() {
        return Ok(settings);
    }
    let trust = options.trust_settings();
    let store = open_store(&trust)?;
    let lock_file = lock_file(options.config_file());
    let lock = read_lock(&lock_file, &trust)?;
    skills::add_roots(&mut settings, &lock, &store, &trust, None)?;
    keep_read(&store, &lock_file);
    Ok(settings)
}

/// Returns the locked component of a source, checked without a network.
pub(crate) fn check<'l>(
    settings: &Settings,
    name: &str,
    source: &ConfiguredSource,
    lock: &'l LockFile,
    store: &Store,
    trust: &Trust,
) -> anyhow::Result<&'l LockedComponent> {
    let locked = lock.components.find(name);
    let locked = locked.with_context(|| not_locked(PackageKind::Component, name))?;
    let source = &source.reference;
    check_source(locked, source)?;
    check_manifest(&locked.manifest, source)?;
    check_bytes(settings, locked, source, store, trust)?;
    Ok(locked)
}

/// Checks that a package is not denied, and is in the store with the manifest and the signature
/// that the configuration asks for.
pub(crate) fn check_bytes(
    settings: &Settings,
    locked: &LockedPackage,
    source: &Reference,
    store: &Store,
    trust: &Trust,
) -> anyhow::Result<()> {
    settings.packages.denied.check(locked.digests())?;
    let signers = settings.packages.signers(source, trust)?;
    verify_locked(locked, signers.as_deref(), store)
}

/// Returns the message about a package that is not in the lock file.
pub(crate) fn not_locked(kind: PackageKind, name: &str) -> String {
    format!("the {kind} `{name}` is not locked; `skillhost update {name}` locks it")
}

/// Returns the number of components, and of skills if there are any.
pub(crate) fn count_packages(components: usize, skills: usize) -> String {
    let number = count(components, "component");
    if skills == 0 {
        return number;
    }
    format!("{number} and {}", count(skills, "skill"))
}

/// Checks that a package is locked from the configured source.
pub(crate) fn check_source(locked: &LockedPackage, source: &impl Display) -> anyhow::Result<()> {
    let LockedPackage { kind, name, .. } = locked;
    ensure!(
        locked.source == source.to_string(),
        "the {kind} `{name}` is locked from `{}`; `skillhost update {name}` locks it from \
         `{source}`",
        quote(&locked.source)
    );
    Ok(())
}

/// Checks that a manifest has the digest that its source names, if the source names one.
pub(crate) fn check_manifest(manifest: &Digest, source: &Reference) -> anyhow::Result<()> {
    if let Some(digest) = source.digest() {
        ensure!(
            manifest == digest,
            "`{source}` names a manifest other than {manifest}; if it names an index, name a \
             manifest of that index"
        );
    }
    Ok(())
}

/// The configuration, lock file and store of a verb about packages.
pub(crate) struct Project<'o> {
    options: &'o CommonOptions,
    pub(crate) settings: Settings,
    pub(crate) config_file: PathBuf,
    pub(crate) lock_file: PathBuf,
    pub(crate) lock: LockFile,
    pub(crate) store: Store,
    pub(crate) trust: Trust,
    registry: RegistrySettings,
}

impl<'o> Project<'o> {
    /// Opens the files of the configuration. Other processes may change them until
    /// [`Project::begin_change`].
    pub(crate) fn open(
        options: &'o CommonOptions,
        registry: RegistrySettings,
    ) -> anyhow::Result<Self> {
        let trust = options.trust_settings();
        let store = open_store(&trust)?;
        let settings: Settings = options.load()?;
        let config_file = options.config_file().to_owned();
        let lock_file = lock_file(&config_file);
        Ok(Self {
            options,
            settings,
            lock: read_lock(&lock_file, &trust)?,
            config_file,
            lock_file,
            store,
            trust,
            registry,
        })
    }

    /// Opens the files of the configuration for a verb that changes one of them.
    ///
    /// # Errors
    ///
    /// As for [`Project::open`], and if a configuration exists that this verb does not use.
    pub(crate) fn open_to_change(
        options: &'o CommonOptions,
        registry: RegistrySettings,
    ) -> anyhow::Result<Self> {
        options.edited_config()?;
        Self::open(options, registry)
    }

    /// Reads the configuration and the lock file again, and keeps other processes from changing
    /// them or the store until the returned lock is dropped. Other processes wait meanwhile, so
    /// finish transfers before the call.
    ///
    /// # Errors
    ///
    /// If another command has changed the package's source or lock entry since this verb read them.
    pub(crate) fn begin_change(
        &mut self,
        kind: PackageKind,
        name: &str,
    ) -> anyhow::Result<StoreLock> {
        self.options.edited_config()?;
        let store_lock = self.store.lock()?;
        let settings: Settings = self.options.reload()?;
        let lock = read_lock(&self.lock_file, &self.trust)?;
        let source = |settings: &Settings| {
            let source = settings.packages.source_of(kind, name);
            source.map(|(source, _)| source)
        };
        let is_same_lock = match kind {
            PackageKind::Component => lock.components.is_same(&self.lock.components, name),
            PackageKind::Skill => lock.skills.is_same(&self.lock.skills, name),
        };
        ensure!(
            is_same_lock && source(&settings) == source(&self.settings),
            "another command has changed `{name}` meanwhile; run this one again"
        );
        (self.settings, self.lock) = (settings, lock);
        Ok(store_lock)
    }

    /// Locks a component that was pulled.
    ///
    /// # Errors
    ///
    /// If another locked component has one of the tools, or another command has removed the
    /// component's bytes from the store since the pull.
    pub(crate) fn lock_component(
        &mut self,
        locked: LockedComponent,
        store_lock: &StoreLock,
    ) -> anyhow::Result<()> {
        self.check_tools(&locked)?;
        self.check_stored(&locked)?;
        if !self.settings.packages.sources.contains_key(&locked.name) {
            // The configuration does not name the old entry, so do not keep it as the previous
            // version.
            self.lock.components.remove(&locked.name);
        }
        self.lock.components.set(locked);
        self.write_lock(store_lock)
    }

    /// Locks an earlier component again.
    ///
    /// # Errors
    ///
    /// As for [`Project::lock_component`].
    pub(crate) fn roll_back(
        &mut self,
        previous: LockedComponent,
        store_lock: &StoreLock,
    ) -> anyhow::Result<()> {
        self.check_tools(&previous)?;
        self.check_stored(&previous)?;
        self.lock.components.roll_back(previous);
        self.write_lock(store_lock)
    }

    fn check_stored(&self, locked: &LockedPackage) -> anyhow::Result<()> {
        self.settings.packages.denied.check(locked.digests())?;
        ensure!(
            locked.digests().all(|digest| self.store.has(digest)),
            CLEANED
        );
        Ok(())
    }

    /// Pulls a component, and inspects it.
    pub(crate) async fn pull(
        &self,
        name: &str,
        reference: &Reference,
    ) -> anyhow::Result<(LockedComponent, Inspection)> {
        let signers = self.settings.packages.signers(reference, &self.trust)?;
        let mut registry = Registry::new(reference, &self.registry)?;
        let denied = &self.settings.packages.denied;
        let signers = signers.as_deref();
        let pulled = pull(&mut registry, reference, signers, None, denied, &self.store)?;
        check_manifest(&pulled.manifest, reference)?;
        self.inspect_servable(pulled.into_locked(PackageKind::Component, name, reference))
            .await
    }

    /// Inspects a component of the store, and refuses it if the host or another component has one of
    /// its tools. Returns its entry of the lock file.
    pub(crate) async fn inspect_servable(
        &self,
        package: LockedPackage,
    ) -> anyhow::Result<(LockedComponent, Inspection)> {
        let (locked, inspection) = self.inspect(package).await?;
        self.check_tools(&locked)?;
        Ok((locked, inspection))
    }

    /// Inspects a component of the store. Takes its tools, imports and powers from its bytes, not
    /// from the lock file.
    pub(crate) async fn inspect(
        &self,
        package: LockedPackage,
    ) -> anyhow::Result<(LockedComponent, Inspection)> {
        let version = annotated_version(&self.store, &package.manifest)?;
        let path = self.store.path(&package.content);
        inspect(package, &path, version).await
    }

    /// Gets the blobs of a locked component from a source. Accepts no other bytes.
    pub(crate) fn fetch(&self, locked: &LockedComponent, source: &Reference) -> anyhow::Result<()> {
        let fixed = source.fixed(&locked.manifest)?;
        let signers = self.settings.packages.signers(source, &self.trust)?;
        let mut registry = Registry::new(&fixed, &self.registry)?;
        let (signers, bundle) = (signers.as_deref(), locked.bundle.as_ref());
        let denied = &self.settings.packages.denied;
        let pulled = pull(&mut registry, &fixed, signers, bundle, denied, &self.store)?;
        ensure!(
            pulled.content == locked.content,
            "the manifest of `{}` names other bytes than the lock file",
            locked.name
        );
        Ok(())
    }

    /// Warns if the configuration names no package. A verb for all packages then does nothing.
    pub(crate) fn warn_if_empty(&self) {
        let packages = &self.settings.packages;
        if packages.sources.is_empty() && packages.skills.is_empty() {
            terminal::complain(
                "the configuration names no component or skill; `skillhost add REF` adds one",
            );
        }
    }

    /// Writes the lock file, and makes the store keep the packages in it.
    pub(crate) fn write_lock(&self, store_lock: &StoreLock) -> anyhow::Result<()> {
        self.lock.write(&self.lock_file)?;
        self.store.keep(&self.lock_file, store_lock)
    }

    /// Refuses a component that would not be served, because the host itself or another served
    /// component has one of its tools.
    fn check_tools(&self, locked: &LockedComponent) -> anyhow::Result<()> {
        check_tools(locked, self.served_components())
    }

    /// Returns the locked components that the configuration names. A killed command may have left
    /// others in the lock file.
    pub(crate) fn served_components(&self) -> impl Iterator<Item = &LockedComponent> {
        let configured = &self.settings.packages.sources;
        let locked = self.lock.components.iter();
        locked.filter(|locked| configured.contains_key(&locked.name))
    }
}

/// Refuses a component if the host itself, or a component of another name, has one of its tools.
pub(crate) fn check_tools<'l>(
    locked: &LockedComponent,
    others: impl Iterator<Item = &'l LockedComponent>,
) -> anyhow::Result<()> {
    let mut owners: BTreeMap<&str, Option<&str>> = embedded::names().map(|it| (it, None)).collect();
    for other in others.filter(|other| other.name != locked.name) {
        let tools = other.tools.iter();
        owners.extend(tools.map(|tool| (tool.as_str(), Some(other.name.as_str()))));
    }
    for tool in &locked.tools {
        if let Some(owner) = owners.get(tool.as_str()) {
            let owner = owner.map_or("the host".to_owned(), |name| format!("`{name}`"));
            bail!(
                "the component of `{}` has the tool `{}`, which {owner} has too",
                locked.source,
                quote(tool)
            );
        }
    }
    Ok(())
}

/// Inspects the component file of a package, and returns its entry of the lock file. `version` is
/// the one in the manifest.
pub(crate) async fn inspect(
    mut package: LockedPackage,
    file: &Path,
    version: Option<String>,
) -> anyhow::Result<(LockedComponent, Inspection)> {
    let inspection = inspector(file).run().await?;
    ensure!(
        inspection.digest == package.content.hex(),
        "the bytes of {} have another digest",
        package.content
    );
    let tools = match &inspection.tools {
        Ok(tools) => tools.iter().map(|tool| tool.name.clone()).collect(),
        Err(why) => bail!(
            "the component of `{}` would be refused: {why}",
            package.source
        ),
    };
    let own_version = inspection.metadata.version.clone();
    package.version = version.or(own_version.filter(|version| version.len() <= MAX_VERSION));
    let imports = inspection.imports.iter();
    let locked = LockedComponent {
        package,
        tools,
        imports: imports.map(|it| it.name.clone()).collect(),
        powers: powers(&inspection),
    };
    Ok((locked, inspection))
}

/// Returns the requests and secrets that a component asks for, in the words of the lock file.
fn powers(inspection: &Inspection) -> Vec<String> {
    let mut powers = Vec::new();
    if inspection.needs.sends_requests {
        powers.push(SENDS_REQUESTS.to_owned());
    }
    if let Ok(needs) = &inspection.needs.needs {
        powers.extend(
            needs
                .network
                .iter()
                .map(|need| format!("requests {}", need.rule)),
        );
        let secrets = needs.secrets.iter();
        powers.extend(secrets.map(|need| {
            let hosts: Vec<String> = need.secret.hosts().collect();
            let (name, header) = (need.secret.name(), need.secret.header());
            format!(
                "secret {name} in the header {header} to {}",
                hosts.join(", ")
            )
        }));
    }
    powers
}

/// Returns a line about the signer.
pub(crate) fn signer_line(signer: &Signer) -> Line {
    match signer {
        Signer::Unsigned => format_line!("signer: unsigned (no rule in `[trust]` asks for one)"),
        Signer::Key(id) => format_line!("signer: the key {id}"),
        Signer::Identity(identity) => format_line!("signer: {identity}"),
    }
}

/// Returns a line about the version, if there is one.
pub(crate) fn version_line(locked: &LockedPackage) -> Option<Line> {
    let version = locked.version.as_ref()?;
    Some(format_line!("version: {version}"))
}

/// Flags that say which values of a locked version are known.
#[derive(Clone, Copy)]
pub(crate) struct KnownValues {
    /// True if a stored signature proves the signer, or no rule asks for a signature.
    pub(crate) signer: bool,
    /// True if the store has the files that name the version, or the source has no versions.
    pub(crate) version: bool,
}

/// Returns the differences between two packages, except those of their contents.
pub(crate) fn package_changes(
    old: &LockedPackage,
    known: KnownValues,
    new: &LockedPackage,
) -> Vec<Line> {
    let mut lines = Vec::new();
    if old.source != new.source {
        lines.push(format_line!("  source: was {}", quote(&old.source)));
    }
    let tag: Option<Reference> = new.source.parse().ok();
    if let Some(tag) = tag.as_ref().and_then(Reference::tag)
        && old.source == new.source
        && old.manifest != new.manifest
    {
        lines.push(format_line!("  tag: `{tag}` has moved"));
    }
    let version = |it: &LockedPackage| quote(it.version.as_deref().unwrap_or("none")).to_string();
    let (was, is) = (version(old), version(new));
    if was != is {
        lines.push(format_line!("  version: {was} -> {is}"));
    } else if new.version.is_some() && old.content != new.content {
        lines.push(format_line!("  version: {is}, with other bytes"));
    }
    if !known.signer {
        lines.push(format_line!("  signer: was {}, not verified", old.signer));
        lines.push(format_line!("  {}", signer_line(&new.signer)));
    } else if old.signer != new.signer {
        lines.push(format_line!("  signer: was {}", old.signer));
        lines.push(format_line!("  {}", signer_line(&new.signer)));
    }
    lines
}

/// Returns the path of the lock file beside a configuration.
fn lock_file(config: &Path) -> PathBuf {
    config.with_file_name(LOCK_FILE)
}

/// Reads a lock file. Refuses a file that others can write, and a symlink: with a symlink, the
/// author of the folder would choose the file that is written.
fn read_lock(file: &Path, trust: &Trust) -> anyhow::Result<LockFile> {
    ensure!(
        !file.is_symlink(),
        "cannot use the lock file `{}`: it is a symlink; put a file in its place",
        file.display()
    );
    if !file.try_exists()? {
        return Ok(LockFile::default());
    }
    let checked = trust.check(file);
    checked.with_context(|| format!("cannot use the lock file `{}`", file.display()))?;
    Ok(LockFile::read_with(file, trust.opener())?.unwrap_or_default())
}

/// Opens the user's store.
pub(crate) fn open_store(trust: &Trust) -> anyhow::Result<Store> {
    Store::open(&required_store_folder()?, trust)
}

fn required_store_folder() -> anyhow::Result<PathBuf> {
    let folder = store_folder();
    folder.context("there is no folder for the store: set `XDG_DATA_HOME` to one")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use skillhost_packages::LockedSkill;

    use super::*;

    #[test]
    fn locks_only_what_is_in_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store"), &Trust::new()).unwrap();
        let lock_file = folder.path().join(LOCK_FILE);
        let blobs = ["manifest", "content"].map(|blob| store.write(blob.as_bytes()).unwrap());
        let [manifest, content] = blobs;
        let mut project = Project {
            options: &CommonOptions::default(),
            settings: Settings::default(),
            config_file: folder.path().join("skillhost.toml"),
            lock_file: lock_file.clone(),
            lock: LockFile::default(),
            store,
            trust: Trust::new(),
            registry: RegistrySettings::default(),
        };
        let locked = LockedComponent {
            package: LockedPackage {
                kind: PackageKind::Component,
                name: "csv".to_owned(),
                source: "oci://registry.example/acme/csv:1".to_owned(),
                manifest,
                content,
                size: 7,
                version: None,
                signer: Signer::Unsigned,
                bundle: None,
            },
            tools: Vec::new(),
            imports: Vec::new(),
            powers: Vec::new(),
        };
        let store_lock = project.store.lock().unwrap();
        project.lock_component(locked.clone(), &store_lock).unwrap();
        assert!(lock_file.exists());
        // The blobs are there, but not the unpacked files.
        let mut package = locked.package.clone();
        package.kind = PackageKind::Skill;
        let skill = LockedSkill {
            package,
            commit: None,
            files: BTreeMap::new(),
        };
        let error = project.lock_skill(skill.clone(), &store_lock).unwrap_err();
        assert_eq!(format!("{error:#}"), CLEANED);
        // The unpacked files differ.
        let root = project.store.skill_root(&skill);
        fs::create_dir(&root).unwrap();
        fs::write(root.join("new"), "").unwrap();
        let error = project.lock_skill(skill, &store_lock).unwrap_err();
        assert!(error.to_string().contains("are not those"), "{error:#}");
        fs::remove_file(&lock_file).unwrap();
        project.store.clean(&store_lock).unwrap();
        let error = project.lock_component(locked, &store_lock).unwrap_err();
        assert!(error.to_string().contains("store clean"), "{error:#}");
        assert!(!lock_file.exists());
    }

    #[test]
    fn package_changes_quote_only_start_of_long_text() {
        let entry = |text: &str| LockedPackage {
            kind: PackageKind::Component,
            name: "csv".to_owned(),
            source: text.to_owned(),
            manifest: Digest::of(b"x"),
            content: Digest::of(b"x"),
            size: 1,
            version: Some(text.to_owned()),
            signer: Signer::Key(text.to_owned()),
            bundle: None,
        };
        let known = KnownValues {
            signer: true,
            version: true,
        };
        let lines = package_changes(&entry(&"x".repeat(100_000)), known, &entry("y"));
        assert_eq!(lines.len(), 4);
        assert!(lines.iter().all(|line| line.as_str().len() < 600));
    }
}
