//! `skillhost audit`: makes keys for audit logs, verifies logs, and shows their records.

mod show;
mod verify;

use std::io;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use skillhost::Trust;
use skillhost_audit::PrivateKey;

use skillhost_program::exit::Exit;
use skillhost_program::terminal::{self, format_line};

/// Verify and show audit logs, and make the keys that sign them
#[derive(Args)]
pub(crate) struct AuditCommand {
    #[command(subcommand)]
    verb: AuditVerb,
}

#[derive(Subcommand)]
enum AuditVerb {
    /// Make a key for `key_file` of `[audit]`, and print its public key
    NewKey {
        /// New file for the private key
        file: PathBuf,
    },
    /// Print the public key of a private key
    PublicKey {
        /// File with the private key
        file: PathBuf,
    },
    /// Print the digest of a text on stdin, such as arguments or an answer, to find it in records
    Digest {
        /// File with the private key of the log
        #[arg(long, value_name = "FILE")]
        key_file: PathBuf,
    },
    Verify(verify::VerifyCommand),
    Show(show::ShowCommand),
}

impl AuditCommand {
    pub(crate) async fn execute(self, trust: &Trust) -> anyhow::Result<Exit> {
        match self.verb {
            AuditVerb::NewKey { file } => {
                let key = PrivateKey::generate()?;
                key.write(&file)?;
                terminal::print_answer(&key.public().to_pem()?)?;
            }
            AuditVerb::PublicKey { file } => {
                terminal::print_answer(&PrivateKey::read(&file, trust)?.public().to_pem()?)?;
            }
            AuditVerb::Digest { key_file } => {
                let key = PrivateKey::read(&key_file, trust)?;
                terminal::explain_wait("a text on stdin", "Ctrl-D");
                let digest = key.digest(io::stdin().lock())?;
                terminal::print(&[format_line!("{digest}")])?;
            }
            AuditVerb::Verify(verify) => return verify.execute(trust),
            AuditVerb::Show(show) => return show.execute().await,
        }
        Ok(Exit::Ok)
    }
}
