//! `skillhost bundle`: carries locked components and skills to machines without a network, in one
//! file.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};
use skillhost::{Catalog, Inspection};
use skillhost_packages::{
    BundleFile, LockFile, LockedComponent, LockedPackage, LockedSkill, PackageKind, PublicKey,
    Reference, RegistrySettings, SigningKey, SkillSource, add_source, check_target, export,
    read_skill,
};
use skillhost_program::exit::Exit;
use skillhost_program::options::{CommonOptions, open_catalog};
use skillhost_program::terminal::{self, format_line};

use crate::add;
use crate::changes::Accepted;
use crate::packages::{self, Project, skills};

/// Carry locked components and skills to machines without a network, in one
/// file
#[derive(Args)]
pub(crate) struct BundleCommand {
    #[command(subcommand)]
    verb: BundleVerb,
    #[command(flatten)]
    options: CommonOptions,
}

#[derive(Subcommand)]
enum BundleVerb {
    /// Write the locked components and skills into a file, with their manifests,
    /// signatures and lock file entries: a tar of an OCI image layout
    Export {
        /// File to write
        file: PathBuf,
        /// Sign the file with this P-256 private key: PKCS#8 in PEM, of mode
        /// 0600
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
    /// Check a file that `export` wrote, and put its components and skills into
    /// the store
    Import(ImportCommand),
}

#[derive(Args)]
struct ImportCommand {
    /// File to read
    file: PathBuf,
    /// Refuse the file unless this P-256 public key, in PEM, signed it
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Also add its components and skills to the configuration, and lock them,
    /// as `add` and `update` do
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    accepted: Accepted,
    /// Accept packages with a lower version, without a version, or with one that
    /// cannot be compared
    #[arg(long)]
    accept_downgrade: bool,
}

impl BundleCommand {
    pub(crate) async fn execute(mut self, global_options: CommonOptions) -> anyhow::Result<Exit> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        let trust = options.trust_settings();
        let open_project = || Project::open(&options, RegistrySettings::default());
        match self.verb {
            BundleVerb::Export { file, key } => {
                let key = key.map(|key| SigningKey::read(&key, &trust));
                let key = key.transpose()?;
                check_target(&file)?;
                export_packages(&open_project()?, &file, key.as_ref())
            }
            BundleVerb::Import(import) => {
                let key = import.key.as_ref();
                let key = key.map(|key| PublicKey::read(key, &trust));
                let bundle = BundleFile::open(&import.file, key.transpose()?.as_ref())?;
                if import.write {
                    options.edited_config()?;
                }
                import.execute(open_project()?, &bundle).await
            }
        }
    }
}

/// Checks the configured packages as a start of the host does, and exports them.
fn export_packages(
    project: &Project<'_>,
    file: &Path,
    key: Option<&SigningKey>,
) -> anyhow::Result<Exit> {
    let Project {
        settings,
        lock,
        store,
        trust,
        ..
    } = project;
    let mut exported = LockFile::default();
    for (name, source) in &settings.packages.sources {
        let checked = packages::check(settings, name, source, lock, store, trust);
        let checked = checked.with_context(|| source.place.clone())?;
        exported.components.set(checked.clone());
    }
    for (name, source) in &settings.packages.skills {
        let checked = skills::check(settings, name, source, lock, store, trust);
        let checked = checked.with_context(|| source.place.clone())?;
        exported.skills.set(checked.clone());
    }
    ensure!(
        exported.packages().next().is_some(),
        "the configuration names no component or skill; `skillhost add REF` adds one"
    );
    let bundle = export(file, &exported, store, key)?;
    let signer = match &bundle.signer {
        Some(key) => format_line!("signer: the key {key}"),
        None => format_line!("signer: unsigned (`--key FILE` signs)"),
    };
    terminal::print(&[
        format_line!(
            "exported {} to {}",
            packages::count_packages(
                exported.components.iter().len(),
                exported.skills.iter().len()
            ),
            file.display()
        ),
        format_line!("index: {}", bundle.index),
        signer,
    ])?;
    Ok(Exit::Ok)
}

impl ImportCommand {
    async fn execute(self, mut project: Project<'_>, bundle: &BundleFile) -> anyhow::Result<Exit> {
        // Verify all packages before writing the first.
        let mut components = Vec::new();
        for locked in bundle.lock_file().components.iter() {
            let verified = self.verify(&project, bundle, locked).await;
            components.push(verified.with_context(|| cannot_import(locked))?);
        }
        for (index, (locked, ..)) in components.iter().enumerate() {
            let earlier = components[..index].iter().map(|(other, ..)| other);
            let others = earlier.chain(project.served_components().filter(|_| self.write));
            packages::check_tools(locked, others).with_context(|| cannot_import(locked))?;
        }
        let others = open_catalog(&project.settings.host)?;
        let mut skills = Vec::new();
        for locked in bundle.lock_file().skills.iter() {
            let verified = self.verify_skill(&project, bundle, &others, locked);
            skills.push(verified.with_context(|| cannot_import(locked))?);
        }
        // From now on, `store clean` keeps the imported files.
        let store_lock = project.store.lock()?;
        project.store.keep(&project.lock_file, &store_lock)?;
        drop(store_lock);
        for (locked, ..) in &components {
            bundle.store(locked, &project.store)?;
        }
        for (locked, _) in &skills {
            bundle.store_skill(locked, &project.store)?;
        }
        let mut exit = Exit::Ok;
        let mut report = |locked: &LockedPackage, refusal: anyhow::Result<Option<String>>| {
            if let Some(why) = refusal.with_context(|| cannot_import(locked))? {
                terminal::complain(format_args!("`{}` is not updated: {why}", locked.name));
                exit = Exit::Failure;
            }
            anyhow::Ok(())
        };
        for (locked, inspection, source) in &components {
            let written = self
                .write_component(&mut project, locked, inspection, source)
                .await;
            report(locked, written)?;
        }
        for (locked, source) in &skills {
            let written = self.write_skill(&mut project, locked, source);
            report(locked, written)?;
        }
        Ok(exit)
    }

    /// Checks a component of the bundle file against this configuration, and inspects it.
    async fn verify(
        &self,
        project: &Project<'_>,
        bundle: &BundleFile,
        locked: &LockedComponent,
    ) -> anyhow::Result<(LockedComponent, Inspection, Reference)> {
        let source: Reference = locked.source.parse()?;
        packages::check_source(locked, &source)?;
        packages::check_manifest(&locked.manifest, &source)?;
        self.check_configured(project, locked)?;
        let packages = &project.settings.packages;
        let signers = packages.signers(&source, &project.trust)?;
        let verified = bundle.verify(locked, signers.as_deref(), &packages.denied)?;
        // In a temporary folder: the store gets no blob before all packages are checked.
        let folder = project.store.temporary_folder()?;
        let file = folder.path().join(locked.file_name());
        bundle.write_component(&verified, &file)?;
        let version = bundle.annotated_version(&verified)?;
        let (locked, inspection) = packages::inspect(verified, &file, version).await?;
        Ok((locked, inspection, source))
    }

    /// Checks a skill of the bundle file against this configuration. `others` are the skills of the
    /// configured folders.
    fn verify_skill(
        &self,
        project: &Project<'_>,
        bundle: &BundleFile,
        others: &Catalog,
        locked: &LockedSkill,
    ) -> anyhow::Result<(LockedSkill, SkillSource)> {
        let source: SkillSource = locked.source.parse()?;
        packages::check_source(locked, &source)?;
        skills::check_fixed(locked, &source)?;
        self.check_configured(project, locked)?;
        if self.write {
            skills::refuse_conflict(others, &locked.name)?;
        }
        let packages = &project.settings.packages;
        let signers = packages.skill_signers(&source, &project.trust)?;
        let locked = bundle.verify_skill(locked, signers.as_deref(), &packages.denied)?;
        Ok((locked, source))
    }

    /// With `--write`, checks that a package has the source that the configuration names, if any.
    fn check_configured(
        &self,
        project: &Project<'_>,
        locked: &LockedPackage,
    ) -> anyhow::Result<()> {
        let (kind, source) = (locked.kind, &locked.source);
        let configured = project.settings.packages.source_of(kind, &locked.name);
        if let (true, Some((configured, place))) = (self.write, configured) {
            ensure!(
                configured == *source,
                "{place}: the {kind} is configured from `{configured}`, but the one in the bundle \
                 file is from `{source}`"
            );
        }
        Ok(())
    }

    /// With `--write`, adds or updates a component in the configuration and the lock file. Returns
    /// `Some(reason)` if that needs an option that is not given.
    async fn write_component(
        &self,
        project: &mut Project<'_>,
        locked: &LockedComponent,
        inspection: &Inspection,
        source: &Reference,
    ) -> anyhow::Result<Option<String>> {
        if !self.write {
            return print_stored(locked);
        }
        let name = locked.name.clone();
        let is_configured = project.settings.packages.sources.contains_key(&name);
        match project
            .lock
            .components
            .find(&name)
            .filter(|_| is_configured)
            .cloned()
        {
            Some(old) if old == *locked => {
                terminal::print(&[format_line!("{name} is up to date")])?;
                return Ok(None);
            }
            Some(old) => {
                let refusal =
                    self.accepted
                        .review(project, &old, locked, inspection, self.accept_downgrade);
                if let Some(why) = refusal.await? {
                    return Ok(Some(why));
                }
            }
            None => terminal::print(&add::component_summary(locked, inspection, project))?,
        }
        let store_lock = project.begin_change(PackageKind::Component, &name)?;
        project.lock_component(locked.clone(), &store_lock)?;
        if !is_configured {
            add_source(&project.config_file, PackageKind::Component, &name, source)?;
        }
        Ok(None)
    }

    /// Adds or updates a skill, like [`ImportCommand::write_component`].
    fn write_skill(
        &self,
        project: &mut Project<'_>,
        locked: &LockedSkill,
        source: &SkillSource,
    ) -> anyhow::Result<Option<String>> {
        if !self.write {
            return print_stored(locked);
        }
        let (name, store) = (&locked.name, &project.store);
        let files = read_skill(locked, store)?;
        let is_configured = project.settings.packages.skills.contains_key(name);
        match project.lock.skills.find(name).filter(|_| is_configured) {
            Some(old) if old == locked => {
                terminal::print(&[format_line!("{name} is up to date")])?;
                return Ok(None);
            }
            Some(old) => {
                let accept_downgrade = self.accept_downgrade;
                let refusal =
                    self.accepted
                        .review_skill(project, old, locked, &files, accept_downgrade);
                if let Some(why) = refusal? {
                    return Ok(Some(why));
                }
            }
            None => terminal::print(&skills::skill_summary(locked, &files, store))?,
        }
        let store_lock = project.begin_change(PackageKind::Skill, name)?;
        project.lock_skill(locked.clone(), &store_lock)?;
        if !is_configured {
            add_source(&project.config_file, PackageKind::Skill, name, source)?;
        }
        Ok(None)
    }
}

fn cannot_import(locked: &LockedPackage) -> String {
    format!("cannot import `{}`", locked.name)
}

/// Prints that a package was not added, only put into the store.
fn print_stored(locked: &LockedPackage) -> anyhow::Result<Option<String>> {
    terminal::print(&[format_line!("{}: in the store", locked.name)])?;
    Ok(None)
}
