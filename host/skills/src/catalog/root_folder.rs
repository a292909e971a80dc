//! The folder of a configured root: decides which entries can be skills, and opens a skill
//! by its path, step by step. `root.rs` and `tree.rs` have the names of skills.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use super::{HiddenFolders, Skill, SkillsRoot};
use crate::broker::Opener;
use crate::entries::ListedEntry;
use crate::guard::{Folder, HardLinks, host_path};
use crate::omitted::{generation, in_current_generation, is_volume_link};

/// The maximum depth of skills below a root. Guards against: a search of all folders of a
/// machine.
pub const MAX_DEPTH: usize = 8;

/// The reason for skipping a symlink directly in a root.
const NOT_FOLLOWED: &str = "it is a symlink; `--follow-root-links`, or `follow_root_links = true` \
                            on its folder in a configuration, follows it";

#[derive(Debug)]
pub(super) struct RootFolder {
    pub(super) folder: Folder,
    pub(super) follow_links: bool,
    pub(super) depth: usize,
    pub(super) hidden: HiddenFolders,
    /// The canonical path of the folder that must contain the targets of followed symlinks.
    within: Option<PathBuf>,
    /// The configured path, for the operator.
    pub(super) path: PathBuf,
}

/// An entry that looks like a skill but cannot be one.
#[derive(Debug)]
pub(super) struct SkippedEntry {
    pub(super) path: PathBuf,
    pub(super) why: &'static str,
}

impl fmt::Display for SkippedEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "skipped `{}`: {}", self.path.display(), self.why)
    }
}

impl RootFolder {
    /// Opens the folder by its path. Everything below it is opened through this handle.
    pub(super) fn open(root: &SkillsRoot, opener: &Opener) -> io::Result<Self> {
        let folder = Dir::open_ambient_dir(&root.path, ambient_authority())?;
        let handle = folder.into_std_file().into();
        let folder = Folder::new(handle, HardLinks::Refused, opener.clone())?;
        if let Some(within) = &root.within
            && !folder.real_path()?.starts_with(within)
        {
            return Err(io::Error::other(format!(
                "it leads out of `{}`",
                within.display()
            )));
        }
        Ok(Self {
            folder,
            follow_links: root.follow_links,
            depth: root.depth.clamp(1, MAX_DEPTH),
            hidden: root.hidden.clone(),
            within: root.within.clone(),
            path: root.path.clone(),
        })
    }

    /// Opens a skill's folder by its path in the root. Follows a symlink only if it is directly in
    /// the root, and either the root's configuration allows it or it belongs to a Kubernetes volume.
    pub(super) fn open_path(&self, path: &str) -> Result<OwnedFd, Errno> {
        let is_in_root = !path.contains('/');
        let opened = self.at_parent(path, |parent, name| {
            match open_folder(parent, name, self.follows_link_at(path)) {
                Err(error @ (Errno::NOTDIR | Errno::NOENT)) if is_in_root => {
                    open_in_volume(parent, name).map_err(|_| error)
                }
                opened => opened,
            }
        })?;
        if is_in_root
            && self.follow_links
            && let Some(within) = &self.within
            && !host_path(opened.as_fd()).is_ok_and(|path| path.starts_with(within))
        {
            return Err(Errno::NOTDIR);
        }
        Ok(opened)
    }

    /// Returns whether to follow a symlink at a path in the root. Deeper symlinks are never
    /// followed, because the authors of skills may control them.
    fn follows_link_at(&self, path: &str) -> bool {
        self.follow_links && !path.contains('/')
    }

    /// Returns whether a path in the root still leads to this open folder.
    pub(super) fn leads_to(&self, path: &str, folder: &Folder) -> bool {
        let is_unchanged = |parent: BorrowedFd<'_>, name: &str| {
            Ok(folder.is_unchanged(parent, name, self.follows_link_at(path)))
        };
        self.at_parent(path, is_unchanged) == Ok(true)
    }

    /// Calls `look_up` with the parent folder of a path and the last name. Follows no symlink
    /// to the parent, except one of a Kubernetes volume in the root.
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
            let opened = open_folder(from, step, false);
            parent = Some(match opened {
                Err(Errno::NOTDIR) if parent.is_none() => open_in_volume(root, step)?,
                opened => opened?,
            });
        }
        look_up(parent.as_ref().map_or(root, |parent| parent.as_fd()), name)
    }

    /// Returns the name of an entry that can be a skill, or an error for an entry that only
    /// looks like one. `folder` is the parent, and `above` its path in the root.
    pub(super) fn name_of(
        &self,
        entry: &ListedEntry,
        folder: &Dir,
        above: &str,
    ) -> Result<Option<String>, SkippedEntry> {
        let name = skill_name_of(&entry.name);
        if entry.kind.is_file() || matches!(name, Ok(None)) {
            return Ok(None);
        }
        let skipped = |why: &'static str| SkippedEntry {
            path: self.path.join(above).join(&entry.name),
            why,
        };
        let is_in_root = above.is_empty();
        let is_followed =
            is_in_root && (self.follow_links || is_volume_link(folder.as_fd(), &entry.name));
        if entry.kind.is_symlink() && !is_followed {
            if leads_to_a_file(folder, &entry.name) {
                return Ok(None);
            }
            return Err(skipped(if is_in_root {
                NOT_FOLLOWED
            } else {
                "it is a symlink; only those directly in a folder of skills are followed"
            }));
        }
        name.map_err(skipped)
    }

    pub(super) fn cannot_list(&self, above: &str, error: &io::Error) -> String {
        format!("cannot list `{}`: {error}", self.path.join(above).display())
    }
}

/// Opens the target of a symlink of a Kubernetes volume: the folder `NAME` in the current
/// generation. Follows no other symlink, so the folder is in the volume.
fn open_in_volume(volume: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    if !is_volume_link(volume, OsStr::new(name)) {
        return Err(Errno::NOENT);
    }
    let opened = in_current_generation(volume, || {
        let current = generation(volume).ok_or(Errno::NOENT)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let current = rustix::fs::openat(volume, current, flags, Mode::empty())?;
        Ok(open_folder(current.as_fd(), name, false)?)
    });
    opened.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOENT))
}

/// Returns whether a symlink leads to something that is not a folder.
fn leads_to_a_file(folder: &Dir, name: &OsStr) -> bool {
    let found = rustix::fs::statx(folder, name, AtFlags::empty(), StatxFlags::TYPE);
    found.is_ok_and(|found| {
        FileType::from_raw_mode(u32::from(found.stx_mode)) != FileType::Directory
    })
}

/// Opens a folder by its name.
fn open_folder(parent: BorrowedFd<'_>, name: &str, follow: bool) -> Result<OwnedFd, Errno> {
    let mut flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if !follow {
        flags |= OFlags::NOFOLLOW;
    }
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// Returns the name of a skill from its folder's name. Returns `None` for a hidden folder.
pub(super) fn skill_name_of(name: &OsStr) -> Result<Option<String>, &'static str> {
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::CWD;

    use crate::catalog::{Catalog, SkillsRoot};

    use super::*;

    #[test]
    fn refuses_a_root_outside_its_required_folder() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().canonicalize().unwrap().join(name);
        for name in ["here/skills/a", "here/other/b", "elsewhere/c"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        symlink("other", path("here/inside")).unwrap();
        symlink("../elsewhere", path("here/outside")).unwrap();
        for (name, within, is_opened) in [
            ("here/skills", Some("here"), true),
            ("here/inside", Some("here"), true),
            ("here/outside", Some("here"), false),
            ("elsewhere", Some("here"), false),
            ("here/outside", None, true),
        ] {
            let root = SkillsRoot {
                within: within.map(path),
                ..SkillsRoot::new(path(name))
            };
            assert_eq!(
                RootFolder::open(&root, &Opener::DIRECT).is_ok(),
                is_opened,
                "{name}"
            );
        }
    }

    #[test]
    fn reports_unfollowed_links_except_those_to_files() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::create_dir(path("a")).unwrap();
        fs::write(path("file"), "x").unwrap();
        symlink("a", path("to-folder")).unwrap();
        symlink("file", path("to-file")).unwrap();
        symlink("nothing", path("to-nothing")).unwrap();
        let names = |follow_links| {
            let root = SkillsRoot {
                follow_links,
                ..SkillsRoot::new(place.path())
            };
            let catalog = Catalog::open(&[root], None).unwrap();
            (catalog.names(), catalog.problems())
        };
        let (skills, mut problems) = names(false);
        assert_eq!(skills, ["a"]);
        problems.sort();
        let skipped = ["to-folder", "to-nothing"].map(|name| {
            format!(
                "skipped `{}`: it is a symlink; `--follow-root-links`, or `follow_root_links = \
                 true` on its folder in a configuration, follows it",
                path(name).display()
            )
        });
        assert_eq!(problems, skipped);
        let (skills, problems) = names(true);
        assert_eq!(skills, ["a", "to-folder"]);
        assert!(problems.is_empty(), "{problems:?}");
    }

    #[test]
    fn says_which_file_or_folder_cannot_be_read() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("a")).unwrap();
        let fifo = place.path().join("a/SKILL.md");
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, fifo, FileType::Fifo, mode, 0).unwrap();
        let catalog = Catalog::open(&[SkillsRoot::new(place.path())], None).unwrap();
        let problems = catalog.read("a").unwrap().problems;
        assert!(
            problems[0].starts_with("cannot read `SKILL.md`: "),
            "{problems:?}"
        );
        let none = place.path().join("none");
        let why = |roots: &[SkillsRoot], home| Catalog::open(roots, home).unwrap_err().to_string();
        assert_eq!(
            why(&[SkillsRoot::new(&none)], None),
            format!("cannot open the skills folder `{}`", none.display())
        );
        assert_eq!(
            why(&[], Some(&none)),
            format!("cannot open the home folder `{}`", none.display())
        );
        let error = io::Error::from(Errno::IO);
        assert_eq!(
            catalog.roots[0].base.cannot_list("a", &error),
            format!("cannot list `{}/a`: {error}", place.path().display())
        );
    }
}
