//! `skillhost bundle`: carries locked components to machines without a network, in one file.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};
use skillhost_packages::{
    BundleFile, LockFile, LockedComponent, LockedPackage, PackageKind, PublicKey, Reference,
    RegistrySettings, SigningKey, add_source, check_target, export,
};
use skillhost_program::exit::Exit;
use skillhost_program::options::CommonOptions;
use skillhost_program::terminal::{self, format_line};
use skillhost_skills::text::count::count;

use crate::add;
use crate::changes::Accepted;
use crate::packages::{self, Project};

/// Carry locked components to machines without a network, in one file
#[derive(Args)]
pub(crate) struct BundleCommand {
    #[command(subcommand)]
    verb: BundleVerb,
    #[command(flatten)]
    options: CommonOptions,
}

#[derive(Subcommand)]
enum BundleVerb {
    /// Write the locked components, their manifests, signatures and lock into
    /// a file: a tar of an OCI image layout
    Export {
        /// File to write
        file: PathBuf,
        /// Sign the file with this P-256 private key: PKCS#8 in PEM, of mode
        /// 0600
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
    /// Check a file that `export` wrote, and put its components into the store
    Import(ImportCommand),
}

#[derive(Args)]
struct ImportCommand {
    /// File to read
    file: PathBuf,
    /// Refuse the file unless this P-256 public key, in PEM, signed it
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Also add its components to the configuration, and lock them, as `add`
    /// and `update` do
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    accepted: Accepted,
    /// Accept components with a lower version, without one, or with one that
    /// cannot be compared
    #[arg(long)]
    accept_downgrade: bool,
}

impl BundleCommand {
    pub(crate) async fn execute(mut self, outer: CommonOptions) -> anyhow::Result<Exit> {
        let options = outer.merge(std::mem::take(&mut self.options));
        let trust = options.trust_settings();
        let open = || Project::open(&options, RegistrySettings::default());
        match self.verb {
            BundleVerb::Export { file, key } => {
                let key = key.map(|key| SigningKey::read(&key, &trust));
                let key = key.transpose()?;
                check_target(&file)?;
                write(&open()?, &file, key.as_ref())
            }
            BundleVerb::Import(import) => {
                let key = import.key.as_ref();
                let key = key.map(|key| PublicKey::read(key, &trust));
                let bundle = BundleFile::open(&import.file, key.transpose()?.as_ref())?;
                import.execute(open()?, &bundle).await
            }
        }
    }
}

/// Exports the components that the configuration names, checked as for a load.
fn write(project: &Project<'_>, file: &Path, key: Option<&SigningKey>) -> anyhow::Result<Exit> {
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
        exported.set(checked.with_context(|| source.place.clone())?.clone());
    }
    let number = exported.components().len();
    ensure!(
        number > 0,
        "the configuration names no component; `skillhost add REF` adds one"
    );
    let skills = settings.packages.skills.len();
    if skills > 0 {
        terminal::complain(format_args!(
            "a bundle file has components only: it leaves out {}",
            count(skills, "skill")
        ));
    }
    let bundle = export(file, &exported, store, key)?;
    let signer = match &bundle.signer {
        Some(key) => format_line!("signer: the key {key}"),
        None => format_line!("signer: unsigned (`--key FILE` signs)"),
    };
    terminal::print(&[
        format_line!(
            "exported {} to {}",
            count(number, "component"),
            file.display()
        ),
        format_line!("index: {}", bundle.index),
        signer,
    ])?;
    Ok(Exit::Ok)
}

impl ImportCommand {
    async fn execute(self, mut project: Project<'_>, bundle: &BundleFile) -> anyhow::Result<Exit> {
        // All of them before the first is written.
        let mut checked = Vec::new();
        for locked in bundle.lock().components() {
            let verified = self.verify(&project, bundle, locked);
            checked.push(verified.with_context(|| format!("cannot import `{}`", locked.name))?);
        }
        // `store clean` must keep the imported files meanwhile.
        let turn = project.store.lock()?;
        project.store.keep(&project.lock_file, &turn)?;
        drop(turn);
        for (locked, _) in &checked {
            bundle.store(locked, &project.store)?;
        }
        let mut exit = Exit::Ok;
        for (locked, source) in checked {
            let name = locked.name.clone();
            if !self.write {
                terminal::print(&[format_line!("{name}: in the store")])?;
                continue;
            }
            let written = self.write(&mut project, locked, &source).await;
            match written.with_context(|| format!("cannot import `{name}`"))? {
                None => {}
                Some(why) => {
                    terminal::complain(format_args!("`{name}` is not updated: {why}"));
                    exit = Exit::Failure;
                }
            }
        }
        Ok(exit)
    }

    /// Checks a component of the file by this configuration.
    fn verify(
        &self,
        project: &Project<'_>,
        bundle: &BundleFile,
        locked: &LockedComponent,
    ) -> anyhow::Result<(LockedPackage, Reference)> {
        let source: Reference = locked.source.parse()?;
        packages::check_source(locked, &source)?;
        packages::check_manifest(&locked.manifest, &source)?;
        let packages = &project.settings.packages;
        if let (true, Some(configured)) = (self.write, packages.sources.get(&locked.name)) {
            ensure!(
                configured.reference == source,
                "{}: there is a component of that name from `{}`, and the file has one from \
                 `{source}`",
                configured.place,
                configured.reference
            );
        }
        let signers = packages.signers(&source, &project.trust)?;
        let locked = bundle.verify(locked, signers.as_deref(), &packages.denied)?;
        Ok((locked, source))
    }

    /// Adds or updates a component of the store. Returns the reason why that needs an option that
    /// is not given.
    async fn write(
        &self,
        project: &mut Project<'_>,
        package: LockedPackage,
        source: &Reference,
    ) -> anyhow::Result<Option<String>> {
        let (locked, inspection) = project.describe(package).await?;
        let name = locked.name.clone();
        let is_named = project.settings.packages.sources.contains_key(&name);
        match project.lock.find(&name).filter(|_| is_named).cloned() {
            Some(old) if old == locked => {
                terminal::print(&[format_line!("{name} is up to date")])?;
                return Ok(None);
            }
            Some(old) => {
                let shown =
                    self.accepted
                        .show(project, &old, &locked, &inspection, self.accept_downgrade);
                if let Some(why) = shown.await? {
                    return Ok(Some(why));
                }
            }
            None => terminal::print(&add::lines(&locked, &inspection, project))?,
        }
        let turn = project.begin_change(PackageKind::Component, &name)?;
        project.lock_component(locked, &turn)?;
        if !is_named {
            add_source(&project.config_file, PackageKind::Component, &name, source)?;
        }
        Ok(None)
    }
}
