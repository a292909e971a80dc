//! Checks for settings that can only be mistakes: unknown names, and limits that contradict each
//! other.

use std::cell::LazyCell;
use std::path::PathBuf;

use anyhow::bail;

use super::HostBuilder;
use crate::host::components::{LoadedComponent, tools_of};
use skillhost_sandbox::component::embedded::SKILL_RESOURCES;
use skillhost_sandbox::tool::grant::{Grant, Skills};
use skillhost_sandbox::tool::limits::Limits;
use skillhost_sandbox::tool::offer::{ToolSet, check_description};
use skillhost_skills::catalog::Catalog;
use skillhost_skills::text::suggest;
use skillhost_skills::text::toml::toml_key;

impl HostBuilder {
    /// Refuses a memory limit of a call above the limit of all calls together.
    pub(super) fn check_memory(&self, all: usize) -> anyhow::Result<()> {
        let grants = self.config.grants.iter().filter_map(|(component, grant)| {
            let limits = grant.limits.as_ref()?;
            Some((
                format!("grants.{}.limits.memory", toml_key(component)),
                limits.memory,
            ))
        });
        let default = ("limits.memory".to_owned(), self.config.limits.memory);
        for (key, limit) in std::iter::once(default).chain(grants) {
            // On a small machine, the default for one call may exceed the default for all calls
            // together.
            let both_are_defaults =
                limit == Limits::default().memory && self.config.load.calls_memory.is_none();
            if limit > all && !both_are_defaults {
                let origin = match self.config.load.calls_memory {
                    Some(_) => "",
                    None => ", a quarter of the memory that this process may use",
                };
                bail!(
                    "`{key}` is {limit} bytes, more than `calls_memory`, the limit of all calls \
                     together, which is {all} bytes{origin}: lower `{key}` or raise `calls_memory`"
                );
            }
        }
        Ok(())
    }

    /// Refuses settings for an unknown tool: the tool that the operator meant would stay enabled or
    /// keep its description.
    pub(super) fn check_tools(&self, components: &[LoadedComponent]) -> anyhow::Result<()> {
        let tools = || tools_of(components).map(|tool| tool.definition.name.as_str());
        // Agents do not see the built-in tool that reads resources.
        let has_built_in = components.iter().any(LoadedComponent::is_built_in);
        let visible = || tools().filter(move |tool| !(has_built_in && *tool == SKILL_RESOURCES));
        let check = |verb: &str, named: &str, known: Vec<&str>| {
            if known.contains(&named) {
                return Ok(());
            }
            bail!(
                "{} {verb} the tool `{}`, which does not exist{}",
                self.configuration_name(),
                named.escape_debug(),
                hint(named, known.into_iter())
            )
        };
        for disabled in &self.config.disabled_tools {
            check("disables", disabled, tools().collect())?;
        }
        if let ToolSet::Named(offered) = &self.config.offer {
            for offered in offered {
                check("offers", offered, visible().collect())?;
            }
        }
        for (described, text) in &self.config.descriptions {
            check("describes", described, visible().collect())?;
            if let Err(why) = check_description(text) {
                bail!(
                    "{} describes the tool `{described}`: {why}",
                    self.configuration_name()
                );
            }
        }
        Ok(())
    }

    /// Refuses a grant or a pin for a file that does not exist: any later file of that name
    /// would get the grant, and the pin would protect nothing.
    pub(super) fn check_files(
        &self,
        components: &[LoadedComponent],
        files: &[PathBuf],
    ) -> anyhow::Result<()> {
        let built_in = components
            .iter()
            .filter(|component| component.is_built_in())
            .map(|built_in| built_in.component.grant_name());
        let files = files.iter().filter_map(|file| file.file_name()?.to_str());
        let files: Vec<&str> = files.collect();
        for pinned in self.config.pins.keys() {
            if !files.contains(&pinned.as_str()) {
                bail!(
                    "{} pins `{}`, and there is no component file of that name{}",
                    self.configuration_name(),
                    pinned.escape_debug(),
                    hint(pinned, files.iter().copied())
                );
            }
        }
        let grantable: Vec<&str> = built_in.chain(files).collect();
        for (granted, grant) in &self.config.grants {
            if grantable.contains(&granted.as_str()) {
                continue;
            }
            let mut tools = tools_of(components);
            let defined = tools.find(|tool| tool.definition.name == *granted);
            let hint = match defined {
                Some(tool) => format!(
                    "; `{}` defines the tool of that name: name that file in the grant",
                    tool.component.grant_name()
                ),
                // Suggest tools for the name of a tool, and files for the name of a file.
                None => {
                    let is_file = granted.ends_with(".wasm");
                    let alike = grantable
                        .iter()
                        .filter(|name| name.ends_with(".wasm") == is_file);
                    hint(granted, alike.copied())
                }
            };
            let hint = if granted.ends_with(".wasm") && hint.is_empty() {
                "; `skillhost build` builds one from a tool project".to_owned()
            } else {
                hint
            };
            bail!(
                "{} grants something to `{}`, and there is no component file and no built-in tool \
                 of that name{hint}",
                self.source_of(grant),
                granted.escape_debug()
            );
        }
        Ok(())
    }

    /// Returns the problems of grants for skills that do not exist.
    pub(super) fn missing_skills(&self, catalog: &Catalog) -> Vec<String> {
        let mut missing = Vec::new();
        // List the skills only if a name is missing, and only once.
        let existing = LazyCell::new(|| catalog.names());
        for (component, grant) in &self.config.grants {
            let names = grant.skills.iter().flat_map(Skills::names);
            missing.extend(names.filter(|name| !catalog.has(name)).map(|name| {
                let nearest = suggest::nearest(name, existing.iter().map(String::as_str));
                format!(
                    "{} grants `{}` the skill `{}`, which does not exist{}",
                    self.source_of(grant),
                    component.escape_debug(),
                    name.escape_debug(),
                    hint(name, nearest.iter().map(String::as_str))
                )
            }));
        }
        missing
    }

    fn source_of(&self, grant: &Grant) -> &str {
        grant.source.unwrap_or_else(|| self.configuration_name())
    }

    fn configuration_name(&self) -> &str {
        self.configuration.as_deref().unwrap_or("the configuration")
    }
}

/// Returns a hint with the most similar name.
fn hint<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> String {
    let nearest = suggest::nearest(name, names);
    suggest::did_you_mean(nearest.first().map(|name| name.escape_debug()), '`')
}
