//! One configured root, and its skills by name.

use std::borrow::Cow;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::freshness::Freshness;
use super::names::{FolderNames, RootNames};
use super::root_folder::{RootFolder, skill_name_of};
use super::tree::SkillTree;
use super::{FolderError, HiddenFolders, Skill, SkillsRoot};
use crate::blocking;
use crate::broker::Opener;

impl SkillsRoot {
    /// Creates a root whose skills are the folders in it. Symlinks are not followed.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            follow_links: false,
            depth: 1,
            hidden: HiddenFolders::Skipped,
            within: None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Root {
    pub(super) base: RootFolder,
    /// The canonical path, for callers who name absolute paths in this root.
    real: PathBuf,
    /// The skills by name, in a root with a depth of 2 or more.
    tree: Option<SkillTree>,
    /// The names of the skills, in a root with a depth of 1.
    pub(super) listed: FolderNames,
}

impl Root {
    pub(super) fn open(root: &SkillsRoot, opener: &Opener) -> io::Result<Self> {
        let base = RootFolder::open(root, opener)?;
        Ok(Self {
            tree: (base.depth > 1).then(|| SkillTree::of(&base)),
            real: std::fs::canonicalize(&root.path)?,
            listed: FolderNames::default(),
            base,
        })
    }

    /// Returns the skills by name, in a root with a depth of 2 or more.
    pub(super) fn tree(&self) -> Option<&SkillTree> {
        self.tree.as_ref()
    }

    /// Returns the path of a skill in this root. At a depth of 1, this is the name, even if the
    /// skill does not exist.
    pub(super) fn path_of<'n>(&self, name: &'n str) -> Option<SkillPath<'n>> {
        match &self.tree {
            None => Some(SkillPath::Name(name)),
            Some(tree) => tree.names().path_of(name).map(SkillPath::Deep),
        }
    }

    /// Opens a skill's folder by its name in the root.
    pub(super) fn open_skill(&self, name: &str) -> Result<OwnedFd, Errno> {
        self.base
            .open_path(&self.path_of(name).ok_or(Errno::NOENT)?)
    }

    /// Returns whether the root has a skill of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        // A skill that cannot be opened still exists, and hides skills of later roots.
        let opened = self.open_skill(name).map_err(FolderError::from);
        !matches!(opened, Err(FolderError::Unknown))
    }

    /// Returns the skill that contains an absolute path, and the rest of the path. `sees`
    /// returns whether the caller is allowed to see a skill.
    pub(super) fn skill_at<'p>(
        &self,
        path: &'p str,
        sees: impl Fn(&str) -> bool,
    ) -> Option<SkillLocation<'p>> {
        let inside = self.inside(path)?;
        let Some(tree) = &self.tree else {
            let (name, rest) = inside.split_once('/').unwrap_or((inside, "."));
            return Skill::is_name(name).then_some(SkillLocation {
                name: Cow::Borrowed(name),
                path: SkillPath::Name(name),
                rest,
            });
        };
        let names = tree.names();
        let ends = inside.match_indices('/').map(|(end, _)| end);
        let ends = ends.chain([inside.len()]);
        // A skill's path has no more names. Guards against: a path of a mebibyte.
        ends.take(self.base.depth).find_map(|end| {
            let (name, path) = names
                .name_of(&inside[..end])
                .filter(|(name, _)| sees(name))?;
            let rest = inside[end..].trim_start_matches('/');
            Some(SkillLocation {
                name: Cow::Owned(name),
                path: SkillPath::Deep(path),
                rest: if rest.is_empty() { "." } else { rest },
            })
        })
    }

    /// Makes an absolute path relative to this root. Returns `None` if the path is outside.
    pub(super) fn inside<'a>(&self, path: &'a str) -> Option<&'a str> {
        [&self.base.path, &self.real].into_iter().find_map(|root| {
            let rest = path.strip_prefix(root.to_str()?.trim_end_matches('/'))?;
            match rest {
                "" => Some("."),
                rest => rest.strip_prefix('/'),
            }
        })
    }

    /// Returns whether [`refresh`](Self::refresh) would search again. This is fast.
    pub(super) fn is_refresh_due(&self) -> bool {
        match &self.tree {
            Some(tree) => tree.is_refresh_due(),
            None => self.listed.is_refresh_due(&self.base.folder),
        }
    }

    /// Searches again for a call that did not find its skill, unless a search has just ended.
    /// Returns whether the call should look again.
    pub(super) fn refresh(&self) -> bool {
        match &self.tree {
            Some(tree) => tree.refresh(&self.base),
            // The call has already looked in the folder. It needs the names only for its help.
            None => {
                let now = SystemTime::now();
                self.listed.refresh(&self.base.folder, now, || self.list());
                false
            }
        }
    }

    /// Returns the names of the skills. Does not read the skills.
    pub(super) fn names(&self, freshness: Freshness) -> RootNames {
        self.names_at(freshness, SystemTime::now())
    }

    /// Like [`names`](Self::names), at a given time.
    pub(super) fn names_at(&self, freshness: Freshness, now: SystemTime) -> RootNames {
        match &self.tree {
            Some(tree) => RootNames::Searched(tree.names_as_of(&self.base, freshness)),
            None => {
                let list = || self.list();
                RootNames::Listed(self.listed.get(&self.base.folder, now, freshness, list))
            }
        }
    }

    /// Lists the names in the folder, unsorted. Also returns whether they depend on the
    /// folder alone.
    fn list(&self) -> (Vec<String>, bool) {
        let entries = self
            .base
            .folder
            .all_entries()
            .into_iter()
            .flatten()
            .flatten();
        let entries = entries.take_while(|_| !blocking::is_abandoned());
        let mut folder_only = true;
        let names = entries.filter_map(|entry| {
            let name = skill_name_of(&entry.name).ok().flatten()?;
            let is_skill = match entry.kind {
                FileType::Directory => true,
                FileType::RegularFile => false,
                // A symlink, or a file system that does not report types.
                _ => {
                    folder_only &= !self.base.follow_links;
                    self.has(&name)
                }
            };
            is_skill.then_some(name)
        });
        (names.collect(), folder_only)
    }
}

/// The path of a skill in its root.
#[derive(Debug)]
pub(super) enum SkillPath<'n> {
    /// The skill's name.
    Name(&'n str),
    /// The names of the folders, separated by `/`.
    Deep(Arc<str>),
}

impl std::ops::Deref for SkillPath<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Name(name) => name,
            Self::Deep(path) => path,
        }
    }
}

/// The skill that contains an absolute path.
pub(super) struct SkillLocation<'p> {
    /// The skill's name in its root.
    pub(super) name: Cow<'p, str>,
    /// The skill's path in its root.
    pub(super) path: SkillPath<'p>,
    /// The path inside the skill.
    pub(super) rest: &'p str,
}

/// Removes repeated separators and `.` from an absolute path, but not `..`.
pub(super) fn without_dots(path: &str) -> String {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    parts.flat_map(|part| ["/", part]).collect()
}

/// Returns the message for a folder that cannot be opened.
pub(super) fn cannot_open(what: &str, path: &Path) -> String {
    format!("cannot open the {what} `{}`", path.display())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    use super::*;

    #[test]
    fn long_path_takes_little_time() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("a/b")).unwrap();
        fs::write(place.path().join("a/b/SKILL.md"), "x").unwrap();
        let root = SkillsRoot {
            depth: 2,
            ..SkillsRoot::new(place.path())
        };
        let root = Root::open(&root, &Opener::DIRECT).unwrap();
        let path = |rest: &str| {
            place
                .path()
                .join(rest)
                .into_os_string()
                .into_string()
                .unwrap()
        };
        let short = path("a/b/SKILL.md");
        let found = root.skill_at(&short, |_| true).unwrap();
        assert_eq!((&*found.name, found.rest), ("b", "SKILL.md"));
        let long = path(&"a/".repeat(500_000));
        let now = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
        let start = now();
        assert!(root.skill_at(&long, |_| true).is_none());
        assert!(now() - start < Duration::from_secs(1));
    }

    #[test]
    fn names_depend_on_folder_unless_links_are_followed() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("a")).unwrap();
        fs::write(place.path().join("file"), "x").unwrap();
        let list = |follow_links| {
            let root = SkillsRoot {
                follow_links,
                ..SkillsRoot::new(place.path())
            };
            let (mut names, folder_only) = Root::open(&root, &Opener::DIRECT).unwrap().list();
            names.sort();
            (names.join(" "), folder_only)
        };
        for follow_links in [false, true] {
            assert_eq!(list(follow_links), ("a".to_owned(), true));
        }
        symlink("a", place.path().join("b")).unwrap();
        assert_eq!(list(false), ("a".to_owned(), true));
        assert_eq!(list(true), ("a b".to_owned(), false));
    }
}
