//! The packages of a running server: reads the settings again when the configuration, the lock file
//! or a key changes.

use std::fmt::Display;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use skillhost::config::Config;
use skillhost::{Host, HostBuilder, Line};
use skillhost_mcp::{DeniedPackages, ReadSettings};
use skillhost_packages::{LockedPackage, Store, read_valid_denials};
use skillhost_program::options::CommonOptions;

use super::{add_locked, lock_file, read_lock, required_store_folder, skills, skills_folder};
use crate::settings::{LoadedPackage, Settings};

/// The packages of a running server.
pub(crate) struct LivePackages {
    options: CommonOptions,
    /// The configuration that the server was started with.
    initial_config: Config,
    /// The packages that the server has loaded so far, at most one of each path.
    loaded: Mutex<Vec<LoadedPackage>>,
}

impl LivePackages {
    pub(crate) fn new(options: CommonOptions, settings: &Settings) -> Self {
        Self {
            options,
            initial_config: settings.host.clone(),
            loaded: Mutex::new(settings.loaded.clone()),
        }
    }

    /// Reads the current grants, pins, locked components and locked skills, and checks them as at
    /// the start. Leaves out a skill that differs from its lock, and reports why; no other skill
    /// gets its name. Leaves out a denied component, so the server stops
    /// serving it at once.
    ///
    /// The egress process keeps its rules until the server ends, so the requests of a grant stay as
    /// they were. Only a grant that no longer allows any request takes effect.
    pub(crate) fn read(&self, builder: HostBuilder) -> anyhow::Result<ReadSettings> {
        let Self {
            options,
            initial_config,
            ..
        } = self;
        let opener = builder.opener();
        let mut settings: Settings = options.reload_for_server(opener)?.unwrap_or_default();
        let trust = options.trust_settings().with_opener(opener);
        let mut messages = Vec::new();
        // The process sandbox allows only the folders that were configured at the start.
        let folder = skills_folder();
        let is_package = |path: &Path| folder.as_ref().is_some_and(|it| path.starts_with(it));
        let initial_roots = initial_config.skills.iter();
        let initial_roots = initial_roots.filter(|it| !is_package(&it.root.path));
        settings.host.skills = initial_roots.cloned().collect();
        let packages = &mut settings.packages;
        if !packages.sources.is_empty() || !packages.skills.is_empty() {
            let store = Store::open_to_read(&required_store_folder()?, &trust)?;
            let lock = read_lock(&lock_file(options.config_file()), &trust)?;
            packages.sources.retain(|name, _| {
                let locked = lock.components.find(name);
                let checked = locked.map(|locked| packages.denied.check(locked.digests()));
                let (Some(locked), Some(Err(why))) = (locked, checked) else {
                    return true;
                };
                messages.push(no_longer_served(locked.kind, &locked.name, why));
                // The pin keeps other files of this name from getting the component's grant.
                let pin = locked.content.hex().to_owned();
                settings.host.pins.insert(locked.file_name(), pin);
                false
            });
            add_locked(&mut settings, &lock, &store, &trust)?;
            let mut log = |message| messages.push(message);
            skills::add_roots(&mut settings, &lock, &store, &trust, Some(&mut log))?;
        }
        self.add_loaded(settings.loaded);
        let mut config = settings.host;
        for (component, grant) in &mut config.grants {
            let before = initial_config.grants.get(component);
            let before = before.map(|it| (&it.network, &it.secret_files));
            let is_same = before.is_some_and(|it| it == (&grant.network, &grant.secret_files));
            if !is_same && !grant.network.is_empty() {
                let (network, files) = before
                    .map(|(network, files)| (network.clone(), files.clone()))
                    .unwrap_or_default();
                (grant.network, grant.secret_files) = (network, files);
                tracing::warn!(
                    "the requests of `{}` are granted as before; restart the server to change that",
                    Line::new(component)
                );
            }
        }
        Ok(ReadSettings {
            builder: builder.with_packages_of(config),
            messages,
        })
    }

    /// Returns the packages of a builder and the components of a host that the configuration denies
    /// now. Reads nothing else: not the rest of the configuration, the lock file or the store.
    pub(crate) fn denied(
        &self,
        builder: &HostBuilder,
        host: &Host,
    ) -> anyhow::Result<DeniedPackages> {
        let list = self
            .options
            .load_table(builder.opener(), read_valid_denials)?
            .unwrap_or_default();
        let mut denied = DeniedPackages::default();
        for LoadedPackage { package, path } in &*self.loaded() {
            let Err(why) = list.check(package.digests()) else {
                continue;
            };
            let mut components = builder.named_components().iter();
            if let Some((name, _)) = components.find(|(_, file)| *file == path) {
                denied.components.insert(name.clone());
            } else if builder.skills_roots().any(|root| root.path == *path) {
                denied.skills.insert(package.name.clone());
            } else {
                // The host uses another version of the package.
                continue;
            }
            let LockedPackage { kind, name, .. } = package;
            denied.messages.push(no_longer_served(kind, name, why));
        }
        // Components from folders of tools can be denied too.
        let refusals = list.refusals();
        for (name, digest) in host.component_digests() {
            if let Some(why) = refusals.get(digest)
                && denied.components.insert(name.to_owned())
            {
                denied
                    .messages
                    .push(no_longer_served("component", name, why));
            }
        }
        Ok(denied)
    }

    /// Adds packages that are loaded from now on.
    fn add_loaded(&self, new: Vec<LoadedPackage>) {
        let mut loaded = self.loaded();
        loaded.retain(|old| new.iter().all(|new| new.path != old.path));
        loaded.extend(new);
    }

    fn loaded(&self) -> MutexGuard<'_, Vec<LoadedPackage>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_longer_served(kind: impl Display, name: &str, why: impl Display) -> String {
    format!("stopped serving the {kind} `{name}`: {why:#}")
}
