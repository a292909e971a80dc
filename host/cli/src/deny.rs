//! `skillhost deny`: denies the digest of a package, with a reason.

use clap::Args;
use skillhost_packages::{Digest, PackageKind, RegistrySettings, deny};
use skillhost_program::exit::Exit;
use skillhost_program::options::CommonOptions;
use skillhost_program::terminal::{self, format_line};

use crate::packages::Project;

/// Deny a package: it never loads, and no command adds, imports, updates to or
/// rolls back to it
///
/// Writes `[deny]` of the configuration. A running server stops serving a denied
/// package within seconds.
#[derive(Args)]
pub(crate) struct DenyCommand {
    /// Digest of a manifest, of a component or of a skill's layer: sha256:…
    #[arg(value_name = "DIGEST")]
    digest: String,
    /// Reason, which the errors show
    #[arg(long, value_name = "TEXT", default_value = "")]
    why: String,
    #[command(flatten)]
    options: CommonOptions,
}

impl DenyCommand {
    pub(crate) fn execute(mut self, global_options: CommonOptions) -> anyhow::Result<Exit> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        let digest: Digest = match self.digest.parse() {
            Ok(digest) => digest,
            Err(error) => {
                terminal::complain(format_args!("`{}`: {error:#}", self.digest.escape_debug()));
                return Ok(Exit::Usage);
            }
        };
        let project = Project::open_to_change(&options, RegistrySettings::default())?;
        let store_lock = project.store.lock()?;
        deny(&project.config_file, &digest, &self.why)?;
        drop(store_lock);
        terminal::print(&[format_line!("denied {digest}")])?;
        for locked in project.lock.packages() {
            let (kind, name) = (locked.kind, &locked.name);
            let option = match kind {
                PackageKind::Component => "",
                PackageKind::Skill => "--skill ",
            };
            if locked.digests().any(|it| *it == digest) {
                terminal::complain(format_args!(
                    "the {kind} `{name}` is locked with this digest, so the host does not start; \
                     run `skillhost rollback {option}{name}`, `update {name}` or `remove \
                     {option}{name}`"
                ));
            }
        }
        Ok(Exit::Ok)
    }
}
