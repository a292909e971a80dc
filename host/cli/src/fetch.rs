//! `skillhost fetch`: gets the locked components that are not in the store.

use clap::Args;
use skillhost_packages::verify_locked;
use skillhost_program::exit::Exit;
use skillhost_program::options::CommonOptions;
use skillhost_program::registry::RegistryArguments;
use skillhost_program::terminal::{self, format_line};

use crate::packages::{Project, check_source};

/// Get the locked components that the store does not have, by digest
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
        let mut exit = Exit::Ok;
        for (name, source) in &project.settings.packages.sources {
            let Some(locked) = project.lock.find(name) else {
                terminal::complain(format_args!(
                    "{}: the component `{name}` is not locked; `skillhost update {name}` locks it",
                    source.place
                ));
                exit = Exit::Setup;
                continue;
            };
            let fetched = || -> anyhow::Result<&str> {
                check_source(locked, &source.reference)?;
                let keys = project
                    .settings
                    .packages
                    .keys(&source.reference, &project.trust)?;
                let is_whole = project.store.read(&locked.content, locked.size);
                let is_whole = matches!(is_whole, Ok(Some(_)));
                if is_whole && verify_locked(locked, keys.as_deref(), &project.store).is_ok() {
                    return Ok("in the store");
                }
                project.fetch(locked, &source.reference)?;
                Ok("fetched")
            };
            match fetched() {
                Ok(done) => terminal::print(&[format_line!("{name}: {done}")])?,
                Err(error) => {
                    terminal::complain(format_args!("cannot fetch `{name}`: {error:#}"));
                    exit = Exit::Setup;
                }
            }
        }
        project.store.keep(&project.lock_file)?;
        Ok(exit)
    }
}
