//! `skillhost fetch`: gets the locked components and skills that are not in the store.

use anyhow::Context as _;
use clap::Args;
use skillhost_packages::{ConfiguredSource, PackageKind};
use skillhost_program::exit::Exit;
use skillhost_program::options::CommonOptions;
use skillhost_program::registry::RegistryArguments;
use skillhost_program::terminal::{self, format_line};

use crate::packages::{Project, check, check_manifest, check_source, not_locked};

/// Get locked components and skills by their digests, unless the store has them
#[derive(Args)]
pub(crate) struct FetchCommand {
    #[command(flatten)]
    registry: RegistryArguments,
    #[command(flatten)]
    options: CommonOptions,
}

impl FetchCommand {
    pub(crate) async fn execute(mut self, global_options: CommonOptions) -> anyhow::Result<Exit> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        let mut project =
            Project::open(&options, self.registry.settings(&options.trust_settings())?)?;
        project.warn_if_empty();
        // From now on, `store clean` keeps what is fetched.
        let store_lock = project.store.lock()?;
        project.store.keep(&project.lock_file, &store_lock)?;
        drop(store_lock);
        let mut exit = Exit::Ok;
        let mut report = |name: &str, place: &str, fetched: anyhow::Result<&str>| {
            match fetched {
                Ok(done) => terminal::print(&[format_line!("{name}: {done}")])?,
                Err(error) => {
                    terminal::complain(format_args!("{place}: cannot fetch `{name}`: {error:#}"));
                    exit = Exit::Setup;
                }
            }
            anyhow::Ok(())
        };
        let packages = project.settings.packages.clone();
        for (name, source) in &packages.sources {
            let fetched = fetch_component(&mut project, name, source).await;
            report(name, &source.place, fetched)?;
        }
        for (name, source) in &packages.skills {
            report(name, &source.place, project.fetch_skill(name, source))?;
        }
        Ok(exit)
    }
}

/// Gets the blobs of a locked component if they are missing, and inspects it. Returns the result in
/// words.
async fn fetch_component(
    project: &mut Project<'_>,
    name: &str,
    source: &ConfiguredSource,
) -> anyhow::Result<&'static str> {
    let locked = project.lock.components.find(name);
    let locked = locked.with_context(|| not_locked(PackageKind::Component, name))?;
    check_source(locked, &source.reference)?;
    check_manifest(&locked.manifest, &source.reference)?;
    let check_loadable = || {
        let (lock, store) = (&project.lock, &project.store);
        check(&project.settings, name, source, lock, store, &project.trust)
    };
    let stored = project.store.read(&locked.content, locked.size);
    let done = if matches!(stored, Ok(Some(_))) && check_loadable().is_ok() {
        "in the store"
    } else {
        project.fetch(locked, &source.reference)?;
        check_loadable()?;
        "fetched"
    };
    let (inspected, _) = project.inspect_servable(locked.package.clone()).await?;
    // Later components are compared with the tools that were found here, not with those in the
    // lock file.
    project.lock.components.set(inspected);
    Ok(done)
}
