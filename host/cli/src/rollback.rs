//! `skillhost rollback`: locks what a component was before its last update.

use anyhow::{Context as _, ensure};
use clap::Args;
use skillhost::Inspection;
use skillhost_packages::{LockedComponent, PackageKind, RegistrySettings, quote};
use skillhost_program::exit::Exit;
use skillhost_program::options::CommonOptions;
use skillhost_program::terminal::{self, format_line};

use crate::changes::Accepted;
use crate::packages::{self, Project};

/// Lock the version of a component before its last update, without a network
///
/// Shows what changes. The lock file keeps one earlier version.
#[derive(Args)]
pub(crate) struct RollbackCommand {
    /// Name of the component
    name: String,
    #[command(flatten)]
    accepted: Accepted,
    #[command(flatten)]
    options: CommonOptions,
}

impl RollbackCommand {
    pub(crate) async fn execute(mut self, outer: CommonOptions) -> anyhow::Result<Exit> {
        let options = outer.merge(std::mem::take(&mut self.options));
        let mut project = Project::open(&options, RegistrySettings::default())?;
        let name = &self.name;
        let (Some(old), Some(previous)) = (
            project.lock.find(name).cloned(),
            project.lock.find_previous(name),
        ) else {
            terminal::complain(format_args!(
                "`{}` has no earlier version of `{name}`; `skillhost update` keeps the one that \
                 it replaces",
                project.lock_file.display()
            ));
            return Ok(Exit::Usage);
        };
        let read = read(&project, previous).await;
        let (new, inspection) = read.with_context(|| format!("cannot roll back `{name}`"))?;
        let shown = self.accepted.show(&project, &old, &new, &inspection, true);
        if let Some(why) = shown.await? {
            terminal::complain(format_args!("`{name}` is not rolled back: {why}"));
            return Ok(Exit::Failure);
        }
        let turn = project.begin_change(PackageKind::Component, name)?;
        project.roll_back(new, &turn)?;
        terminal::print(&[format_line!(
            "rolled back; `skillhost deny {}` keeps `update` from locking what it was",
            old.manifest
        )])?;
        Ok(Exit::Ok)
    }
}

/// Checks an earlier version, and inspects it.
async fn read(
    project: &Project<'_>,
    previous: &LockedComponent,
) -> anyhow::Result<(LockedComponent, Inspection)> {
    let name = &previous.name;
    let source = project.settings.packages.sources.get(name);
    let source = source.context("the configuration does not name it")?;
    ensure!(
        previous.source == source.reference.to_string(),
        "its earlier version is from `{}`; name that as its `source`, and run the command again",
        quote(&previous.source)
    );
    packages::check_manifest(&previous.manifest, &source.reference)?;
    project.settings.packages.denied.check(previous.digests())?;
    for digest in previous.digests() {
        ensure!(
            project.store.has(digest),
            "the store does not have {digest} of its earlier version; name `{}@{}` as its \
             `source`, and run `skillhost update {name}`",
            source.reference.place(),
            previous.manifest
        );
    }
    packages::check_bytes(
        &project.settings,
        previous,
        &source.reference,
        &project.store,
        &project.trust,
    )?;
    project.describe(previous.package.clone()).await
}
