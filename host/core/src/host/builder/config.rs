//! Creating a builder from a configuration.

use super::HostBuilder;
use super::audit::AuditSettings;
use crate::config::Config;
use skillhost_sandbox::tool::grant::Defaults;

impl HostBuilder {
    /// Creates a builder from a configuration. Fails if a configured folder does not exist.
    ///
    /// Settings that a configuration does not have, such as [trust](HostBuilder::trust),
    /// cache and compiler, keep their defaults.
    pub fn from_config(config: &Config) -> anyhow::Result<Self> {
        // Names all fields, so that the compiler reports a forgotten one.
        let Config {
            file,
            skills: _,
            tools,
            home,
            disabled_tools,
            offer,
            wording,
            descriptions,
            help,
            hard_links,
            limits,
            audit_file,
            audit,
            audit_place,
            checkpoints,
            load,
            compile_limits,
            pins,
            require_pins,
            require_components,
            grants,
            prompt,
            search_offer,
        } = config;
        let tools = tools.iter().map(|tools| Ok(tools.folder()?.to_owned()));
        Ok(Self {
            skills: config.skills_roots()?,
            tools: tools.collect::<anyhow::Result<_>>()?,
            home: match home {
                Some(home) => Some(home.folder()?.to_owned()),
                None => None,
            },
            disabled: disabled_tools.iter().cloned().collect(),
            offer: offer.clone(),
            wording: *wording,
            descriptions: descriptions.clone(),
            without_help: *help == Some(false),
            grants: grants.clone(),
            defaults: Defaults {
                hard_links: *hard_links,
                limits: limits.clone(),
            },
            load: load.clone(),
            audit: AuditSettings {
                file: audit_file.as_ref().map(|file| (file.path.clone(), *audit)),
                place: audit_place.clone(),
                key_place: checkpoints.key_file.as_ref().map(|file| file.place.clone()),
                ..AuditSettings::default()
            },
            pins: pins.clone(),
            require_pins: *require_pins,
            require_components: require_components.unwrap_or(false),
            configuration: file.as_ref().map(|file| format!("`{file}`")),
            compile_limits: compile_limits.clone(),
            prompt_limits: prompt.clone(),
            search_offer: *search_offer,
            ..Self::default()
        })
    }
}
