//! The options of verbs that use a registry.

use std::path::PathBuf;

use clap::Args;
use skillhost_packages::{Authorities, RegistrySettings};

use crate::options::credential_files;

/// Options for a registry.
#[derive(Args, Default)]
pub struct RegistryArguments {
    /// Trust only the certificate authorities in this file, in PEM, and use TLS
    /// also for a registry of this machine
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

impl RegistryArguments {
    /// Returns the settings of a client.
    ///
    /// # Errors
    ///
    /// If the file of authorities cannot be used.
    pub fn settings(&self) -> anyhow::Result<RegistrySettings> {
        let authorities = self.ca_file.as_deref().map(Authorities::read);
        Ok(RegistrySettings {
            credentials: credential_files(),
            authorities: authorities.transpose()?,
            ..RegistrySettings::default()
        })
    }
}
