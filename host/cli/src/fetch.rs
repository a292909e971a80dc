//! `skillhost fetch`: gets the locked components and skills that are not in the store.

use anyhow::Context as _;
use clap::Args;
use skillhost_packages::{ConfiguredSource, PackageKind};
use skillhost_program::exit::Exit;
use skillhost_program::options::CommonOptions;
use skillhost_program::registry::RegistryArguments;
use skillhost_program::terminal::{self, format_line};

use crate::packages::{Project, check, check_manifest, check_source, not_locked};

/// Get the locked components and skills that the store does not have, by digest
#[derive(Args)]
pub(crate) struct FetchCommand {
    #[command(flatten)]
    registry: RegistryArguments,
    #[command(flatten)]
    options: CommonOptions,
}

impl FetchCommand {
    pub(crate) fn execute(mut self, outer: CommonOptions) -> anyhow::Result<Exit> {
        let options = outer.merge(std::mem::take(&mut self.options));
        let project = Project::open(&options, self.registry.settings()?)?;
        project.warn_if_empty();
        // First: what is fetched must not be cleaned away meanwhile.
        let turn = project.store.lock()?;
        project.store.keep(&project.lock_file, &turn)?;
        drop(turn);
        let mut exit = Exit::Ok;
        let packages = &project.settings.packages;
        let components = packages.sources.iter();
        let components =
            components.map(|(name, it)| (name, &it.place, fetch_component(&project, name, it)));
        let skills = packages.skills.iter();
        let skills = skills.map(|(name, it)| (name, &it.place, project.fetch_skill(name, it)));
        for (name, place, fetched) in components.chain(skills) {
            match fetched {
                Ok(done) => terminal::print(&[format_line!("{name}: {done}")])?,
                Err(error) => {
                    terminal::complain(format_args!("{place}: cannot fetch `{name}`: {error:#}"));
                    exit = Exit::Setup;
                }
            }
        }
        Ok(exit)
    }
}

/// Gets the blobs of a locked component if they are missing. Returns what was done.
fn fetch_component(
    project: &Project<'_>,
    name: &str,
    source: &ConfiguredSource,
) -> anyhow::Result<&'static str> {
    let locked = project.lock.components.find(name);
    let locked = locked.with_context(|| not_locked(PackageKind::Component, name))?;
    check_source(locked, &source.reference)?;
    check_manifest(&locked.manifest, &source.reference)?;
    let as_load = || {
        let (lock, store) = (&project.lock, &project.store);
        check(&project.settings, name, source, lock, store, &project.trust)
    };
    let is_whole = project.store.read(&locked.content, locked.size);
    if matches!(is_whole, Ok(Some(_))) && as_load().is_ok() {
        return Ok("in the store");
    }
    project.fetch(locked, &source.reference)?;
    as_load()?;
    Ok("fetched")
}
