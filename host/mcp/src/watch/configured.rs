//! The folders that a host is built from, with the absolute paths at which they are watched,
//! and the listings that a change at a path affects.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use skillhost::{HiddenFolders, HostBuilder, Skill, SkillsRoot};
use skillhost_skills::broker::Opener;

/// The configured folders, skills roots first.
#[derive(Debug)]
pub(super) struct ConfiguredFolders {
    /// The opener of these folders and their subfolders.
    pub(super) opener: Opener,
    pub(super) roots: Vec<WatchRoot>,
}

/// A configured folder.
#[derive(Debug)]
pub(super) struct WatchRoot {
    pub(super) path: PathBuf,
    pub(super) kind: RootKind,
}

/// The kind of a configured folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RootKind {
    /// A root with skills, up to this depth.
    Skills {
        depth: usize,
        follow_links: bool,
        /// True if some hidden folders may have skills in them.
        hidden: bool,
    },
    /// A folder with component files.
    Tools,
}

/// The listings that a change affects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct AffectedListings {
    pub(super) skills: bool,
    pub(super) tools: bool,
}

impl ConfiguredFolders {
    /// Returns the folders that a host is built from.
    pub(super) fn new(builder: &HostBuilder) -> anyhow::Result<Self> {
        let watch_root = |path: &Path, kind| {
            let path = std::path::absolute(path)
                .with_context(|| format!("cannot watch the folder `{}`", path.display()))?;
            Ok(WatchRoot { path, kind })
        };
        let skills_root = |root: &SkillsRoot| {
            let kind = RootKind::Skills {
                depth: root.depth,
                follow_links: root.follow_links,
                hidden: root.hidden != HiddenFolders::Skipped,
            };
            watch_root(&root.path, kind)
        };
        let skills = builder.skills_roots().map(skills_root);
        let tool_folders = builder.tool_folders();
        let tools = tool_folders.map(|folder| watch_root(folder, RootKind::Tools));
        let roots = skills.chain(tools).collect::<anyhow::Result<_>>()?;
        let opener = builder.opener().clone();
        Ok(Self { opener, roots })
    }

    /// Returns the listings that a change at a path affects.
    pub(super) fn affected_by(&self, path: &Path) -> AffectedListings {
        let mut affected = AffectedListings::default();
        for root in &self.roots {
            match root.kind {
                RootKind::Skills { .. } => affected.skills |= path.starts_with(&root.path),
                RootKind::Tools => {
                    affected.tools |= path == root.path || is_component(path, &root.path);
                }
            }
        }
        affected
    }
}

impl RootKind {
    /// Returns whether a folder with this name, at this depth below the root, is watched.
    pub(super) fn watches_folder(self, name: &OsStr, depth: usize) -> bool {
        match self {
            // No skill has a hidden name, and a repository's `.git` changes all the time.
            Self::Skills {
                depth: skill_depth,
                hidden,
                ..
            } => {
                let is_searched = |name: &str| {
                    Skill::is_name(name) || hidden && HiddenFolders::Searched.has(name)
                };
                depth > skill_depth || name.to_str().is_some_and(is_searched)
            }
            Self::Tools => false,
        }
    }

    /// Returns whether a symlink at this depth below the root is followed.
    pub(super) fn follows_links(self, depth: usize) -> bool {
        match self {
            Self::Skills { follow_links, .. } => depth == 0 || follow_links && depth == 1,
            Self::Tools => depth == 0,
        }
    }
}

fn is_component(path: &Path, folder: &Path) -> bool {
    path.parent() == Some(folder)
        && path
            .extension()
            .is_some_and(|extension| extension == "wasm")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_hidden_folders_that_may_have_skills() {
        for (hidden, name, is_watched) in [
            (false, "a", true),
            (false, ".curated", false),
            (true, ".curated", true),
            (true, ".git", false),
            (true, "..data", false),
        ] {
            let kind = RootKind::Skills {
                depth: 2,
                follow_links: false,
                hidden,
            };
            assert_eq!(
                kind.watches_folder(OsStr::new(name), 1),
                is_watched,
                "{name}"
            );
            // A skill may have files in a hidden folder.
            assert!(kind.watches_folder(OsStr::new(name), 3), "{name}");
        }
    }
}
