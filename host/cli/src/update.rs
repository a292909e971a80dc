//! `skillhost update`: locks what the sources of packages have now, and shows what changes.

use clap::Args;
use skillhost_packages::{PackageKind, SkillSource};
use skillhost_program::exit::Exit;
use skillhost_program::options::CommonOptions;
use skillhost_program::registry::RegistryArguments;
use skillhost_program::terminal::{self, format_line};

use crate::add;
use crate::changes::Accepted;
use crate::packages::{Project, skills};

/// Lock what the source of each package has now, and show what changes
///
/// Leaves a package as it is if the new one asks for a new request or secret, or
/// has another signer or a lower version, unless the option for that is given.
#[derive(Args)]
pub(crate) struct UpdateCommand {
    /// Name of the component or skill [default: all]
    name: Option<String>,
    #[command(flatten)]
    accepted: Accepted,
    /// Accept packages with a lower version, without a version, or with one that
    /// cannot be compared
    #[arg(long)]
    accept_downgrade: bool,
    #[command(flatten)]
    registry: RegistryArguments,
    #[command(flatten)]
    options: CommonOptions,
}

impl UpdateCommand {
    pub(crate) async fn execute(mut self, global_options: CommonOptions) -> anyhow::Result<Exit> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        let mut project =
            Project::open_to_change(&options, self.registry.settings(&options.trust_settings())?)?;
        let packages = project.settings.packages.clone();
        let is_known = |name: &String| {
            packages.sources.contains_key(name) || packages.skills.contains_key(name)
        };
        if let Some(name) = self.name.as_ref().filter(|name| !is_known(name)) {
            terminal::complain(format_args!(
                "the configuration names no component or skill `{name}`; `skillhost add REF` adds \
                 one"
            ));
            return Ok(Exit::Usage);
        }
        project.warn_if_empty();
        let mut exit = Exit::Ok;
        for (name, source) in &packages.sources {
            if self.name.as_ref().is_some_and(|only| only != name) {
                continue;
            }
            let (new, inspection) = match project.pull(name, &source.reference).await {
                Ok(pulled) => pulled,
                Err(error) => {
                    terminal::complain(format_args!("cannot update `{name}`: {error:#}"));
                    exit = Exit::Setup;
                    continue;
                }
            };
            let Some(old) = project.lock.components.find(name).cloned() else {
                terminal::print(&add::component_summary(&new, &inspection, &project))?;
                let store_lock = project.begin_change(PackageKind::Component, name)?;
                project.lock_component(new, &store_lock)?;
                continue;
            };
            if old == new {
                terminal::print(&[format_line!("{name} is up to date")])?;
                continue;
            }
            let refusal = self
                .accepted
                .review(&project, &old, &new, &inspection, self.accept_downgrade)
                .await?;
            if let Some(why) = refusal {
                terminal::complain(format_args!("`{name}` is not updated: {why}"));
                exit = Exit::Failure;
                continue;
            }
            let store_lock = project.begin_change(PackageKind::Component, name)?;
            project.lock_component(new, &store_lock)?;
        }
        for (name, source) in &packages.skills {
            if self.name.as_ref().is_some_and(|only| only != name) {
                continue;
            }
            match self.update_skill(&mut project, name, &source.reference)? {
                Exit::Ok => {}
                failed => exit = failed,
            }
        }
        Ok(exit)
    }

    /// Locks the files that a skill's source has now, and shows what changes.
    fn update_skill(
        &self,
        project: &mut Project<'_>,
        name: &str,
        source: &SkillSource,
    ) -> anyhow::Result<Exit> {
        let (new, files) = match project.pull_skill(name, source) {
            Ok(pulled) => pulled,
            Err(error) => {
                terminal::complain(format_args!("cannot update `{name}`: {error:#}"));
                return Ok(Exit::Setup);
            }
        };
        let refusal = match project.lock.skills.find(name) {
            None => {
                terminal::print(&skills::skill_summary(&new, &files, &project.store))?;
                None
            }
            Some(old) if *old == new => {
                terminal::print(&[format_line!("{name} is up to date")])?;
                return Ok(Exit::Ok);
            }
            Some(old) => {
                self.accepted
                    .review_skill(project, old, &new, &files, self.accept_downgrade)?
            }
        };
        if let Some(why) = refusal {
            terminal::complain(format_args!("`{name}` is not updated: {why}"));
            return Ok(Exit::Failure);
        }
        let store_lock = project.begin_change(PackageKind::Skill, name)?;
        project.lock_skill(new, &store_lock)?;
        Ok(Exit::Ok)
    }
}
