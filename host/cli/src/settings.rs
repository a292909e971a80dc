//! The settings of all layers of the program, read from one configuration.

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use serde::Deserialize;
use skillhost::Config;
use skillhost::config::{FileSettings, Keys, Tables};
use skillhost_identity::IdentitySettings;
use skillhost_mcp::stdio::StdioLimits;
use skillhost_packages::{LockedPackage, PackageSettings};
use skillhost_server::HttpSettings;

/// The name of the table with the settings of the process sandbox.
const PROCESS: &str = "process";

/// The settings of the program.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Settings {
    /// The settings of the host.
    pub host: Config,
    /// The limits of a server on stdin and stdout.
    pub stdio: StdioLimits,
    /// The settings of the HTTP server.
    pub http: HttpSettings,
    /// The clients of the HTTP server, and the issuers of their access tokens.
    pub identity: IdentitySettings,
    /// The settings of the process sandbox.
    pub process: ProcessSettings,
    /// The sources and signers of packages.
    pub packages: PackageSettings,
    /// The locked packages that the host serves. They are checked and added after the configuration
    /// is read.
    pub loaded: Vec<LoadedPackage>,
}

/// A locked package that a host serves.
#[derive(Debug, Clone)]
pub struct LoadedPackage {
    /// The package.
    pub package: LockedPackage,
    /// The component's file, or the folder of the skill, in the store.
    pub path: PathBuf,
}

/// The settings of the process sandbox.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ProcessSettings {
    /// The extent of the process sandbox.
    pub confine: Confinement,
}

/// The extent of the process sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confinement {
    /// Confines the process as far as the kernel supports it; the log says what is missing.
    #[default]
    Auto,
    /// Refuses to start if a part of the sandbox is missing, or as root.
    Required,
    /// Does not confine the process.
    Off,
}

impl FileSettings for Settings {
    fn declare_keys(keys: &mut Keys) {
        Config::declare_keys(keys);
        keys.limits::<StdioLimits>();
        HttpSettings::declare_keys(keys);
        IdentitySettings::declare_keys(keys);
        keys.fields::<ProcessSettings>(PROCESS);
        PackageSettings::declare_keys(keys);
    }

    fn from_tables(tables: &Tables<'_>) -> anyhow::Result<Self> {
        let packages = PackageSettings::from_tables(tables)?;
        let mut host = Config::from_tables(tables)?;
        // A tools folder may have a copy of a denied component.
        host.denied_components = packages.denied.refusals();
        Ok(Self {
            host,
            stdio: tables.limits()?,
            http: HttpSettings::from_tables(tables)?,
            identity: IdentitySettings::from_tables(tables)?,
            process: tables.table(PROCESS)?,
            packages,
            loaded: Vec::new(),
        })
    }
}

impl AsMut<Config> for Settings {
    fn as_mut(&mut self) -> &mut Config {
        &mut self.host
    }
}
