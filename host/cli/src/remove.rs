//! `skillhost remove`: removes a component or a skill from the configuration and the lock file.

use clap::Args;
use skillhost_packages::{LockedPackage, PackageKind, RegistrySettings, remove_source};
use skillhost_program::exit::Exit;
use skillhost_program::options::CommonOptions;
use skillhost_program::terminal::{self, format_line};

use crate::packages::Project;

/// Remove a component or a skill that `add` added
#[derive(Args)]
pub(crate) struct RemoveCommand {
    /// Name of the component or skill
    name: String,
    /// Remove a skill, not a component
    #[arg(long)]
    skill: bool,
    #[command(flatten)]
    options: CommonOptions,
}

impl RemoveCommand {
    pub(crate) fn execute(mut self, global_options: CommonOptions) -> anyhow::Result<Exit> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        let mut project = Project::open_to_change(&options, RegistrySettings::default())?;
        let name = &self.name;
        let kind = if self.skill {
            PackageKind::Skill
        } else {
            PackageKind::Component
        };
        let store_lock = project.begin_change(kind, name)?;
        let names = project.settings.packages.names_of(kind);
        let is_configured = names.contains(&name.as_str());
        // A killed command may have left an entry only in the lock file.
        let is_named = |locked: &LockedPackage| locked.kind == kind && locked.name == *name;
        let is_locked = project.lock.packages().any(is_named);
        if !is_configured && !is_locked {
            terminal::complain(format_args!(
                "there is no {kind} `{name}`; {}",
                if names.is_empty() {
                    format!("no {kind} is configured")
                } else {
                    format!("the {kind}s are {}", names.join(", "))
                }
            ));
            return Ok(Exit::Usage);
        }
        // Change the configuration first: the host does not start if a source is not locked.
        if is_configured {
            remove_source(&project.config_file, kind, name)?;
        }
        if self.skill {
            project.lock.skills.remove(name);
        } else {
            project.lock.components.remove(name);
        }
        project.write_lock(&store_lock)?;
        terminal::print(&[format_line!(
            "removed {name}; `skillhost store clean` removes its bytes"
        )])?;
        if self.skill {
            return Ok(Exit::Ok);
        }
        let file = format!("{name}.wasm");
        let config = &project.settings.host;
        for (table, has_entry) in [
            ("grants", config.grants.contains_key(&file)),
            ("pins", config.pins.contains_key(&file)),
        ] {
            if has_entry {
                terminal::complain(format_args!(
                    "`{table}` in `{}` still names `{file}`; remove that too",
                    project.config_file.display()
                ));
            }
        }
        Ok(Exit::Ok)
    }
}
