//! `skillhost remove`: removes a component from the configuration and the lock file.

use clap::Args;
use skillhost_packages::{RegistrySettings, remove_source};
use skillhost_program::exit::Exit;
use skillhost_program::options::CommonOptions;
use skillhost_program::terminal::{self, format_line};

use crate::packages::Project;

/// Remove a component that `add` added
#[derive(Args)]
pub(crate) struct RemoveCommand {
    /// Name of the component
    name: String,
    #[command(flatten)]
    options: CommonOptions,
}

impl RemoveCommand {
    pub(crate) fn execute(mut self, outer: CommonOptions) -> anyhow::Result<Exit> {
        let options = outer.merge(std::mem::take(&mut self.options));
        let mut project = Project::open(&options, RegistrySettings::default())?;
        let (name, packages) = (&self.name, &project.settings.packages);
        if !packages.sources.contains_key(name) {
            let names: Vec<&str> = packages.sources.keys().map(String::as_str).collect();
            terminal::complain(format_args!(
                "there is no component `{name}`; the components are {}",
                if names.is_empty() {
                    "none".to_owned()
                } else {
                    names.join(", ")
                }
            ));
            return Ok(Exit::Usage);
        }
        remove_source(&project.config_file, name)?;
        project.lock.remove(name);
        project.write_lock()?;
        terminal::print(&[format_line!(
            "removed {name}; `skillhost store clean` removes its bytes"
        )])?;
        let file = format!("{name}.wasm");
        let config = &project.settings.host;
        for (table, is_there) in [
            ("grants", config.grants.contains_key(&file)),
            ("pins", config.pins.contains_key(&file)),
        ] {
            if is_there {
                terminal::complain(format_args!(
                    "`{table}` in `{}` still names `{file}`; remove that too",
                    project.config_file.display()
                ));
            }
        }
        Ok(Exit::Ok)
    }
}
