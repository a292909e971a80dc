//! `skillhost lock`: checks the lock file against the configuration and the store.

use clap::Args;
use skillhost_packages::{PackageKind, RegistrySettings, read_skill};
use skillhost_program::exit::Exit;
use skillhost_program::options::CommonOptions;
use skillhost_program::terminal::{self, format_line};

use crate::packages::{self, Project, skills};

/// Check the lock file, without a network
#[derive(Args)]
pub(crate) struct LockCommand {
    /// Check that the lock file and the configuration name the same components
    /// and skills, and that the store has their bytes and signatures
    #[arg(long = "check", required = true)]
    _check: bool,
    #[command(flatten)]
    options: CommonOptions,
}

impl LockCommand {
    pub(crate) fn execute(mut self, global_options: CommonOptions) -> anyhow::Result<Exit> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        let project = Project::open(&options, RegistrySettings::default())?;
        let Project {
            settings,
            lock,
            store,
            trust,
            ..
        } = &project;
        let sources = &settings.packages.sources;
        let mut problems = Vec::new();
        for (name, source) in sources {
            let checked = packages::check(settings, name, source, lock, store, trust);
            let checked = checked.and_then(|locked| store.read(&locked.content, locked.size));
            if let Err(error) = checked {
                problems.push(format!("{}: {error:#}", source.place));
            }
        }
        let skill_sources = &settings.packages.skills;
        for (name, source) in skill_sources {
            let checked = skills::check(settings, name, source, lock, store, trust);
            let checked = checked.and_then(|locked| read_skill(locked, store));
            if let Err(error) = checked {
                problems.push(format!("{}: {error:#}", source.place));
            }
        }
        for locked in lock.packages() {
            let is_named = match locked.kind {
                PackageKind::Component => sources.contains_key(&locked.name),
                PackageKind::Skill => skill_sources.contains_key(&locked.name),
            };
            if !is_named {
                let (kind, name) = (locked.kind, &locked.name);
                let option = match kind {
                    PackageKind::Component => "",
                    PackageKind::Skill => "--skill ",
                };
                problems.push(format!(
                    "`{}` has the {kind} `{name}`, which the configuration does not name; \
                     `skillhost remove {option}{name}` removes it",
                    project.lock_file.display(),
                ));
            }
        }
        problems.iter().for_each(terminal::complain);
        if !problems.is_empty() {
            return Ok(Exit::Failure);
        }
        let number = packages::count_packages(sources.len(), skill_sources.len());
        terminal::print(&[format_line!(
            "{number} locked, in the store and as `[trust]` asks"
        )])?;
        Ok(Exit::Ok)
    }
}
