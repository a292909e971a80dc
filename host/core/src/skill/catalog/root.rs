//! A configured root: its handle, and its skills by name. Not here: the order of
//! several roots, which is the catalog's.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirEntry};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use super::tree::SkillTree;
use super::{Skill, SkillsRoot};
use crate::skill::guard::{Folder, HardLinks};

/// The deepest that a root looks for skills. Guards against: a search of all folders
/// of a machine.
pub const MAX_DEPTH: usize = 8;

impl SkillsRoot {
    /// Creates a root whose skills are the folders in it. No symlink is one.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            follow_links: false,
            depth: 1,
        }
    }
}

#[derive(Debug)]
pub(super) struct Root {
    pub(super) folder: Folder,
    pub(super) follow_links: bool,
    pub(super) depth: usize,
    /// The configured path, for the operator.
    pub(super) path: PathBuf,
    /// The path without symlinks, to find a caller's absolute path in it.
    real: PathBuf,
    /// The skills by name, if they may lie deeper than in the root itself.
    tree: Option<SkillTree>,
}

impl Root {
    pub(super) fn open(root: &SkillsRoot) -> io::Result<Self> {
        let folder = Dir::open_ambient_dir(&root.path, ambient_authority())?;
        let depth = root.depth.clamp(1, MAX_DEPTH);
        let mut opened = Self {
            folder: Folder::new(folder.into_std_file().into(), HardLinks::Refused)?,
            follow_links: root.follow_links,
            depth,
            path: root.path.clone(),
            real: std::fs::canonicalize(&root.path)?,
            tree: None,
        };
        if depth > 1 {
            opened.tree = Some(SkillTree::of(&opened));
        }
        Ok(opened)
    }

    /// Returns the skills by name, if the root looks deeper than into itself.
    pub(super) fn tree(&self) -> Option<&SkillTree> {
        self.tree.as_ref()
    }

    /// Returns the path in this root of the skill of a name. In a root without depth
    /// it is the name, whether the skill exists or not.
    pub(super) fn path_of<'n>(&self, name: &'n str) -> Option<SkillPath<'n>> {
        match &self.tree {
            None => Some(SkillPath::Name(name)),
            Some(tree) => tree.names().path_of(name).map(SkillPath::Deep),
        }
    }

    /// Opens a skill's folder by its name in the root.
    pub(super) fn open_skill(&self, name: &str) -> Result<OwnedFd, Errno> {
        self.open_path(&self.path_of(name).ok_or(Errno::NOENT)?)
    }

    /// Returns whether the root has a skill of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.open_skill(name).is_ok()
    }

    /// Opens a skill's folder by its path in the root. It follows a symlink only as
    /// the last step, and only if the root's configuration says so.
    pub(super) fn open_path(&self, path: &str) -> Result<OwnedFd, Errno> {
        self.at_parent(path, |parent, name| {
            open_folder(parent, name, self.follow_links)
        })
    }

    /// Returns whether a path in the root still leads to a folder that was opened by
    /// it.
    pub(super) fn leads_to(&self, path: &str, folder: &Folder) -> bool {
        let is_unchanged = |parent: BorrowedFd<'_>, name: &str| {
            Ok(folder.is_unchanged(parent, name, self.follow_links))
        };
        self.at_parent(path, is_unchanged) == Ok(true)
    }

    /// Looks up a path's last name in the folder before it, which no symlink leads to.
    fn at_parent<T>(
        &self,
        path: &str,
        look_up: impl FnOnce(BorrowedFd<'_>, &str) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let root = self.folder.handle().as_fd();
        let Some((above, name)) = path.rsplit_once('/') else {
            return look_up(root, path);
        };
        let mut parent: Option<OwnedFd> = None;
        for step in above.split('/') {
            let from = parent.as_ref().map_or(root, |parent| parent.as_fd());
            parent = Some(open_folder(from, step, false)?);
        }
        look_up(parent.as_ref().map_or(root, |parent| parent.as_fd()), name)
    }

    /// Returns the skill that an absolute path lies in, and the rest of the path in
    /// it, if the path starts with this root's.
    pub(super) fn skill_at<'p>(&self, path: &'p str) -> Option<SkillPlace<'p>> {
        let inside = self.inside(path)?;
        let Some(tree) = &self.tree else {
            let (name, rest) = inside.split_once('/').unwrap_or((inside, "."));
            return Skill::is_name(name).then_some(SkillPlace {
                name: Cow::Borrowed(name),
                path: SkillPath::Name(name),
                rest,
            });
        };
        let names = tree.names();
        let ends = inside.match_indices('/').map(|(end, _)| end);
        ends.chain([inside.len()]).find_map(|end| {
            let (name, path) = names.name_of(&inside[..end])?;
            let rest = inside[end..].trim_start_matches('/');
            Some(SkillPlace {
                name: Cow::Owned(name),
                path: SkillPath::Deep(path),
                rest: if rest.is_empty() { "." } else { rest },
            })
        })
    }

    /// Returns the rest of an absolute path that starts with this root's path.
    pub(super) fn inside<'a>(&self, path: &'a str) -> Option<&'a str> {
        [&self.path, &self.real].into_iter().find_map(|root| {
            let rest = path.strip_prefix(root.to_str()?.trim_end_matches('/'))?;
            match rest {
                "" => Some("."),
                rest => rest.strip_prefix('/'),
            }
        })
    }

    /// Returns the name of an entry that can be a skill, or the reason why an entry
    /// that looks like a skill cannot be one. `folder` has the entry, and `above` is its
    /// path in the root.
    pub(super) fn name_of(
        &self,
        entry: &DirEntry,
        folder: &Dir,
        above: &str,
    ) -> Result<Option<String>, String> {
        let kind = entry.file_type();
        if kind.as_ref().is_ok_and(|kind| kind.is_file()) {
            return Ok(None);
        }
        let left_out = |why: &str| {
            let path = self.path.join(above).join(entry.file_name());
            format!("skipped `{}`: {why}", path.display())
        };
        if !self.follow_links && kind.is_ok_and(|kind| kind.is_symlink()) {
            if leads_to_a_file(folder, &entry.file_name()) {
                return Ok(None);
            }
            return Err(left_out(
                "it is a symlink; `follow_root_links = true` on its folder follows it",
            ));
        }
        skill_name_of(&entry.file_name()).map_err(left_out)
    }

    pub(super) fn cannot_list(&self, above: &str, error: &io::Error) -> String {
        format!("cannot list `{}`: {error}", self.path.join(above).display())
    }

    /// Returns the names of the skills, in no order. Reads no skill.
    pub(super) fn names(&self) -> Vec<String> {
        if let Some(tree) = &self.tree {
            return tree.search(self).names().map(str::to_owned).collect();
        }
        let entries = self.folder.handle().entries();
        let entries = entries.into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| {
            let name = self
                .name_of(&entry, self.folder.handle(), "")
                .ok()
                .flatten()?;
            // What is no directory may be a symlink to one.
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            (is_folder || self.has(&name)).then_some(name)
        });
        names.collect()
    }
}

/// The path of a skill in its root.
#[derive(Debug)]
pub(super) enum SkillPath<'n> {
    /// The skill's name.
    Name(&'n str),
    /// Several names with `/` between them.
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

/// A skill that an absolute path lies in.
pub(super) struct SkillPlace<'p> {
    /// The skill's name in its root.
    pub(super) name: Cow<'p, str>,
    /// The skill's path in its root.
    pub(super) path: SkillPath<'p>,
    /// The rest of the path, in the skill.
    pub(super) rest: &'p str,
}

/// Returns whether a symlink leads to something that is no folder, and so no skill.
fn leads_to_a_file(folder: &Dir, name: &OsStr) -> bool {
    let found = rustix::fs::statx(folder, name, AtFlags::empty(), StatxFlags::TYPE);
    found.is_ok_and(|found| {
        FileType::from_raw_mode(u32::from(found.stx_mode)) != FileType::Directory
    })
}

/// Opens a folder by its name.
pub(super) fn open_folder(
    parent: BorrowedFd<'_>,
    name: &str,
    follow: bool,
) -> Result<OwnedFd, Errno> {
    let mut flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if !follow {
        flags |= OFlags::NOFOLLOW;
    }
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// Returns a folder's name as the name of a skill. `None` for a hidden folder.
fn skill_name_of(name: &OsStr) -> Result<Option<String>, &'static str> {
    let Some(name) = name.to_str() else {
        return Err("its name is not UTF-8");
    };
    if name.starts_with('.') {
        return Ok(None);
    }
    if !Skill::is_name(name) {
        return Err("its name contains `..`, a backslash or a control character");
    }
    Ok(Some(name.to_owned()))
}

/// Removes doubled separators and `.` from an absolute path, but not `..`.
pub(super) fn without_dots(path: &str) -> String {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    parts.flat_map(|part| ["/", part]).collect()
}

/// Returns the error of a root that cannot be opened.
pub(super) fn cannot_open(what: &str, path: &Path) -> String {
    format!("cannot open the {what} `{}`", path.display())
}
