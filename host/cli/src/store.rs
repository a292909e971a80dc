//! `skillhost store`: lists and cleans the store of packages.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use skillhost_packages::{Digest, PackageKind, RegistrySettings};
use skillhost_program::exit::Exit;
use skillhost_program::options::CommonOptions;
use skillhost_program::terminal::{self, format_line};
use skillhost_skills::text::count::count;

use crate::packages::Project;

/// List or clean the store of packages
#[derive(Args)]
pub(crate) struct StoreCommand {
    #[command(subcommand)]
    verb: StoreVerb,
    #[command(flatten)]
    options: CommonOptions,
}

#[derive(Subcommand)]
enum StoreVerb {
    /// List the digests in the store, the sizes of their files, and their use by
    /// this configuration
    List,
    /// Remove everything that is in no lock file used with this store
    Clean,
}

impl StoreCommand {
    pub(crate) fn execute(mut self, global_options: CommonOptions) -> anyhow::Result<Exit> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        let project = Project::open(&options, RegistrySettings::default())?;
        match self.verb {
            StoreVerb::List => {
                let mut uses: BTreeMap<&Digest, String> = BTreeMap::new();
                let previous = project.lock.previous().map(|it| (it, "earlier "));
                // Current versions come last: they replace the text of earlier ones.
                let current = project.lock.packages().map(|it| (it, ""));
                for (locked, earlier) in previous.chain(current) {
                    let content = match locked.kind {
                        PackageKind::Component => "component",
                        PackageKind::Skill => "files",
                    };
                    let mut insert = |digest, kind| {
                        uses.insert(digest, format!("{earlier}{kind} of {}", locked.name));
                    };
                    insert(&locked.content, content);
                    insert(&locked.manifest, "manifest");
                    if let Some(bundle) = &locked.bundle {
                        insert(bundle, "signature");
                    }
                }
                let kept = project.store.kept()?;
                let blobs = project.store.list()?;
                let lines = blobs.iter().map(|(digest, size)| {
                    let used = uses.get(digest).map_or_else(
                        || {
                            if kept.contains(digest) {
                                "another lock file"
                            } else {
                                "unused"
                            }
                        },
                        |used| used.as_str(),
                    );
                    format_line!("{digest}  {size} bytes  {used}")
                });
                terminal::print(&lines.collect::<Vec<_>>())?;
            }
            StoreVerb::Clean => {
                let removed = project.store.clean(&project.store.lock()?)?;
                let bytes: u64 = removed.iter().map(|(_, size)| size).sum();
                let number = count(removed.len(), "file");
                terminal::print(&[format_line!("removed {number}, {bytes} bytes in all")])?;
            }
        }
        Ok(Exit::Ok)
    }
}
