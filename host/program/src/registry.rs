//! The options of verbs that use a registry.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use skillhost::Trust;
use skillhost_packages::{Authorities, BlobProgress, RegistrySettings};

use crate::options::credential_files;
use crate::progress::ItemProgress;
use crate::terminal::format_line;

/// Options for a registry.
#[derive(Args)]
pub struct RegistryArguments {
    /// Trust only the certificate authorities in this file, in PEM, and use TLS
    /// even for a registry on this machine
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Stop transfers after this many minutes
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    transfer_minutes: u16,
}

impl RegistryArguments {
    /// Returns the settings of a client.
    ///
    /// # Errors
    ///
    /// Fails if the file of certificate authorities cannot be used.
    pub fn settings(&self, trust: &Trust) -> anyhow::Result<RegistrySettings> {
        let authorities = self.ca_file.as_deref();
        let authorities = authorities.map(|file| Authorities::read(file, trust));
        Ok(RegistrySettings {
            credentials: credential_files(),
            authorities: authorities.transpose()?,
            // Guards against: a registry that answers each of many requests just before the
            // deadline of that request.
            deadline: Some(Instant::now() + 60 * Duration::from_secs(self.transfer_minutes.into())),
            progress: Some(show_download),
            ..RegistrySettings::default()
        })
    }
}

/// Returns a callback that shows how much of a blob has been downloaded.
fn show_download() -> BlobProgress {
    let mut progress = ItemProgress::new();
    Box::new(move |read, size| {
        progress.show(|| format_line!("downloading: {} of {} KiB", read >> 10, size >> 10));
    })
}
