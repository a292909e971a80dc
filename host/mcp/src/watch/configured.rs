//! The folders that a host is built from, by the absolute paths that they are watched
//! by, and which of its listings a change at a path concerns.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use skillhost::{HostBuilder, Skill, SkillsRoot};

/// The configured folders: skills roots first.
#[derive(Debug)]
pub(super) struct ConfiguredFolders {
    pub(super) roots: Vec<WatchRoot>,
}

/// A configured folder.
#[derive(Debug)]
pub(super) struct WatchRoot {
    pub(super) path: PathBuf,
    pub(super) holds: Holds,
}

/// The contents of a configured folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// Folders of skills, this deep.
    Skills { depth: usize, follow_links: bool },
    /// Component files.
    Tools,
}

/// The listings that a change concerns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Concern {
    pub(super) skills: bool,
    pub(super) tools: bool,
}

impl ConfiguredFolders {
    /// Returns the folders that a host is built from.
    pub(super) fn new(builder: &HostBuilder) -> anyhow::Result<Self> {
        let absolute = |path: &Path, holds| {
            let path = std::path::absolute(path)
                .with_context(|| format!("cannot watch the folder `{}`", path.display()))?;
            Ok(WatchRoot { path, holds })
        };
        let skills = |root: &SkillsRoot| {
            let holds = Holds::Skills {
                depth: root.depth,
                follow_links: root.follow_links,
            };
            absolute(&root.path, holds)
        };
        let skills = builder.skills_roots().iter().map(skills);
        let tools = builder.tool_folders().iter();
        let tools = tools.map(|folder| absolute(folder, Holds::Tools));
        let roots = skills.chain(tools).collect::<anyhow::Result<_>>()?;
        Ok(Self { roots })
    }

    /// Returns the listings that a change at this path concerns.
    pub(super) fn concern(&self, path: &Path) -> Concern {
        let mut concern = Concern::default();
        for root in &self.roots {
            match root.holds {
                Holds::Skills { .. } => concern.skills |= path.starts_with(&root.path),
                Holds::Tools => {
                    concern.tools |= path == root.path || is_component(path, &root.path);
                }
            }
        }
        concern
    }
}

impl Holds {
    /// Returns whether a folder of this name, so deep below the root, is looked into.
    pub(super) fn looks_into(self, name: &OsStr, depth: usize) -> bool {
        match self {
            // No skill has a hidden name: a repository's `.git` changes all the time.
            Self::Skills { depth: skills, .. } => {
                depth > skills || name.to_str().is_some_and(Skill::is_name)
            }
            Self::Tools => false,
        }
    }

    /// Returns whether a symlink so deep below the root is followed.
    pub(super) fn follows_links(self, depth: usize) -> bool {
        match self {
            Self::Skills {
                depth: skills,
                follow_links,
            } => depth == 0 || follow_links && depth <= skills,
            Self::Tools => depth == 0,
        }
    }
}

fn is_component(path: &Path, folder: &Path) -> bool {
    path.parent() == Some(folder) && path.extension().is_some_and(|found| found == "wasm")
}
