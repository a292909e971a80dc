//! `skillhost rollback`: locks the version that a component or skill had before its last update.

use std::collections::BTreeMap;
use std::fmt::Display;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use skillhost::Inspection;
use skillhost_packages::{
    ConfiguredSource, Digest, LockedComponent, LockedPackage, LockedSkill, PackageKind,
    RegistrySettings, SkillFiles, quote,
};
use skillhost_program::exit::Exit;
use skillhost_program::options::CommonOptions;
use skillhost_program::terminal::{self, format_line};

use crate::changes::Accepted;
use crate::packages::{self, Project};

/// Lock the version that a component or skill had before its last update,
/// without a network
///
/// Shows what changes. The lock file keeps one earlier version.
#[derive(Args)]
pub(crate) struct RollbackCommand {
    /// Name of the component or skill
    name: String,
    /// Roll back a skill, also if a component has the same name
    #[arg(long)]
    skill: bool,
    #[command(flatten)]
    accepted: Accepted,
    #[command(flatten)]
    options: CommonOptions,
}

/// The manifest of the version that the rollback replaced, or the reason why an option is needed.
type RolledBack = Result<Digest, String>;

impl RollbackCommand {
    pub(crate) async fn execute(mut self, global_options: CommonOptions) -> anyhow::Result<Exit> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        let mut project = Project::open_to_change(&options, RegistrySettings::default())?;
        let name = &self.name;
        let is_component = !self.skill && project.settings.packages.sources.contains_key(name);
        let rolled_back = if is_component {
            match project.lock.components.find_with_previous(name) {
                Some(versions) => Some(self.roll_back_component(&mut project, versions).await),
                None => None,
            }
        } else {
            let versions = project.lock.skills.find_with_previous(name);
            versions.map(|versions| self.roll_back_skill(&mut project, versions))
        };
        let Some(rolled_back) = rolled_back else {
            terminal::complain(format_args!(
                "`{}` has no earlier version of `{name}`; `skillhost update` keeps the one that \
                 it replaces",
                project.lock_file.display()
            ));
            return Ok(Exit::Usage);
        };
        match rolled_back.with_context(|| format!("cannot roll back `{name}`"))? {
            Ok(manifest) => {
                terminal::print(&[format_line!(
                    "rolled back; `skillhost deny {manifest}` keeps `update` from locking the \
                     other version again"
                )])?;
                Ok(Exit::Ok)
            }
            Err(why) => {
                terminal::complain(format_args!("`{name}` is not rolled back: {why}"));
                Ok(Exit::Failure)
            }
        }
    }

    async fn roll_back_component(
        &self,
        project: &mut Project<'_>,
        (old, previous): (LockedComponent, LockedComponent),
    ) -> anyhow::Result<RolledBack> {
        let (new, inspection) = inspect_previous(project, &previous).await?;
        let refusal = self.accepted.review(project, &old, &new, &inspection, true);
        if let Some(why) = refusal.await? {
            return Ok(Err(why));
        }
        let store_lock = project.begin_change(PackageKind::Component, &self.name)?;
        project.roll_back(new, &store_lock)?;
        Ok(Ok(old.package.manifest))
    }

    fn roll_back_skill(
        &self,
        project: &mut Project<'_>,
        (old, previous): (LockedSkill, LockedSkill),
    ) -> anyhow::Result<RolledBack> {
        let files = unpack_previous(project, &previous)?;
        let accepted = &self.accepted;
        if let Some(why) = accepted.review_skill(project, &old, &previous, &files, true)? {
            return Ok(Err(why));
        }
        let store_lock = project.begin_change(PackageKind::Skill, &self.name)?;
        project.roll_back_skill(previous, &store_lock)?;
        Ok(Ok(old.package.manifest))
    }
}

/// Checks an earlier component, and inspects it.
async fn inspect_previous(
    project: &Project<'_>,
    previous: &LockedComponent,
) -> anyhow::Result<(LockedComponent, Inspection)> {
    let source = find_source(&project.settings.packages.sources, previous)?;
    packages::check_manifest(&previous.manifest, source)?;
    check_available(
        project,
        previous,
        source,
        &source.fixed(&previous.manifest)?,
    )?;
    let Project {
        settings,
        store,
        trust,
        ..
    } = project;
    packages::check_bytes(settings, previous, source, store, trust)?;
    project.inspect_servable(previous.package.clone()).await
}

/// Checks an earlier skill, unpacks it, and returns its files.
fn unpack_previous(project: &Project<'_>, previous: &LockedSkill) -> anyhow::Result<SkillFiles> {
    let source = find_source(&project.settings.packages.skills, previous)?;
    let fixed = source.fixed(&previous.manifest, previous.commit.as_deref())?;
    check_available(project, previous, source, &fixed)?;
    project.unpack_skill(previous, source)
}

/// Returns the configured source of an earlier version.
fn find_source<'s, S: Display>(
    sources: &'s BTreeMap<String, ConfiguredSource<S>>,
    previous: &LockedPackage,
) -> anyhow::Result<&'s S> {
    let source = sources.get(&previous.name);
    let source = &source
        .context("the configuration does not name it")?
        .reference;
    ensure!(
        previous.source == source.to_string(),
        "its earlier version is from `{}`; set its `source` to that, and run the command again",
        quote(&previous.source)
    );
    Ok(source)
}

/// Checks that an earlier version is not denied, and that the store has it. `fixed` is the source
/// with the digest or the commit of that version.
fn check_available<S: Display + PartialEq>(
    project: &Project<'_>,
    previous: &LockedPackage,
    source: &S,
    fixed: &S,
) -> anyhow::Result<()> {
    project.settings.packages.denied.check(previous.digests())?;
    let missing = previous.digests().find(|digest| !project.store.has(digest));
    let Some(digest) = missing else { return Ok(()) };
    let missing = format!("the store does not have {digest} of its earlier version");
    // A site offers only its current files.
    ensure!(fixed != source, missing);
    bail!(
        "{missing}; set its `source` to `{fixed}`, and run `skillhost update {}`",
        previous.name
    );
}
