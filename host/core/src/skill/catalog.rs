//! The skills under the configured roots. The catalog holds a handle to each root and
//! looks names up through it. It never joins a name to a path, and an edit on disk
//! shows at once.

mod folder_cache;
mod scan;

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::skill::check::{
    Finding, MAX_DESCRIPTION_CHARS, Severity, check_frontmatter, check_open,
};
use crate::skill::descriptors;
use crate::skill::frontmatter;
use crate::skill::guard::{Folder, HardLinks};
use crate::skill::skill_md;
use crate::text::suggest;

use folder_cache::FolderCache;
pub(crate) use scan::{Scan, ScanStep};

/// The skills of several roots. If roots have a skill of the same name, the first root
/// wins.
#[derive(Debug)]
pub struct Catalog {
    roots: Vec<Root>,
    home: Option<Root>,
    hard_links: HardLinks,
    cache: FolderCache,
}

/// A folder of skills, as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillsRoot {
    /// The folder's path.
    pub path: PathBuf,
    /// True if a symlink can be a skill. The skill's folder is then the
    /// symlink's target, wherever that is.
    pub follow_links: bool,
}

#[derive(Debug)]
struct Root {
    folder: Folder,
    follow_links: bool,
    /// The configured path, for the operator.
    path: PathBuf,
    /// The path without symlinks, to find a caller's absolute path in it.
    real: PathBuf,
}

/// A skill in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skill {
    /// The name of its folder.
    pub name: String,
    /// The description in its frontmatter, cut at the specification's limit. May be
    /// empty.
    pub description: String,
    /// The name of its documentation file, if it has one.
    pub file: Option<String>,
    /// Its faults, for the operator. The skill is readable all the same.
    pub problems: Vec<String>,
}

impl Skill {
    /// Returns whether a skill can have this name: one plain entry of a folder that is
    /// not hidden. The guests check names too, independently.
    pub fn is_name(name: &str) -> bool {
        !name.is_empty()
            && !name.starts_with('.')
            && !name.contains("..")
            && !name.contains(|c: char| c == '/' || c == '\\' || c.is_control())
    }
}

/// The skills of all roots, and the entries that cannot be skills.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Listing {
    /// The skills, sorted by name.
    pub skills: Vec<Skill>,
    /// Entries that cannot be skills and the reasons, for the operator.
    pub problems: Vec<String>,
}

/// The reason why a call has no folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FolderError {
    /// There is no skill of that name.
    Unknown,
    /// The skill exists, but this process may not open its folder.
    Unreadable,
    /// The call named no skill, and there is no home folder.
    NoHome,
    /// The path lies in no folder that a call may read.
    Outside,
}

/// A folder that is open for a call.
#[derive(Debug)]
pub(crate) struct CallFolder {
    pub(crate) folder: Folder,
    /// The skill's name. `None` for the home folder.
    pub(crate) skill: Option<String>,
    /// The caller's path in the folder, if the call named a path and no skill.
    pub(crate) path: Option<String>,
}

/// Most bytes of a SKILL.md that a listing reads: the limit on frontmatter and some
/// more.
const FRONTMATTER_BYTES: u64 = frontmatter::MAX_FRONTMATTER_BYTES as u64 + 1024;

impl Catalog {
    /// Opens the roots. The file system's ambient authority enters here; everything
    /// behind it works on handles.
    pub fn open(roots: &[SkillsRoot], home: Option<&Path>) -> anyhow::Result<Self> {
        let open = |root: &SkillsRoot| {
            Root::open(&root.path, root.follow_links)
                .with_context(|| cannot_open("skills folder", &root.path))
        };
        let home = home
            .map(|path| Root::open(path, false).with_context(|| cannot_open("home folder", path)));
        Ok(Self {
            roots: roots.iter().map(open).collect::<anyhow::Result<_>>()?,
            home: home.transpose()?,
            hard_links: HardLinks::Refused,
            cache: FolderCache::new(descriptors::process_limit()),
        })
    }

    /// Sets whether a listing reads a SKILL.md with several hard links. Default: no.
    pub fn hard_links(mut self, allowed: bool) -> Self {
        self.hard_links = HardLinks::from(allowed);
        self
    }

    /// Returns the present skills.
    pub fn list(&self) -> Listing {
        let mut listing = Listing::default();
        let mut scan = self.scan(|_| true);
        while let Some(step) = scan.step() {
            match step {
                ScanStep::Nothing => {}
                ScanStep::Skill(skill) => listing.skills.push(skill),
                ScanStep::Problem(problem) => listing.problems.push(problem),
            }
        }
        listing
            .skills
            .sort_by(|one, other| one.name.cmp(&other.name));
        listing
    }

    /// Returns the skills one by one, root after root. It reads each folder only when
    /// its turn comes.
    pub fn skills(&self) -> impl Iterator<Item = Skill> {
        let mut scan = self.scan(|_| true);
        let steps = std::iter::from_fn(move || scan.step());
        steps.filter_map(|step| match step {
            ScanStep::Skill(skill) => Some(skill),
            ScanStep::Nothing | ScanStep::Problem(_) => None,
        })
    }

    /// Starts a scan for the skills with wanted names.
    pub(crate) fn scan<F: Fn(&str) -> bool>(&self, wanted: F) -> Scan<'_, F> {
        Scan::new(self, wanted)
    }

    /// Returns whether there is a skill of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        Skill::is_name(name) && self.roots.iter().any(|root| root.open_skill(name).is_ok())
    }

    /// Returns the names of the skills, sorted, without reading the skills.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .roots
            .iter()
            .flat_map(|root| {
                root.names()
                    .into_iter()
                    .filter(|name| root.open_skill(name).is_ok())
            })
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Returns the names of skills most similar to this one, best first.
    pub fn nearest(&self, name: &str) -> Vec<String> {
        let mut nearest = suggest::nearest(name, self.entry_names().iter().map(String::as_str));
        nearest.retain(|name| self.has(name));
        nearest
    }

    /// Returns the names of the roots' entries that can be skills, sorted, without
    /// looking at what they lead to.
    pub(crate) fn entry_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.roots.iter().flat_map(Root::names).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Checks a skill by the Agent Skills specification. `None` if there is no skill of
    /// that name.
    pub fn check(&self, name: &str) -> Option<io::Result<Vec<Finding>>> {
        let open = self.skill(name, self.hard_links).ok()?;
        Some(check_open(name, &open.folder))
    }

    /// Opens the folder of a skill.
    pub(crate) fn skill(
        &self,
        name: &str,
        hard_links: HardLinks,
    ) -> Result<CallFolder, FolderError> {
        if !Skill::is_name(name) {
            return Err(FolderError::Unknown);
        }
        for root in 0..self.roots.len() {
            match self.skill_in(root, name) {
                Ok(folder) => {
                    return Ok(CallFolder {
                        folder: folder.with(hard_links),
                        skill: Some(name.to_owned()),
                        path: None,
                    });
                }
                // Missing, not a folder, or a symlink that is not followed.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG) => {}
                Err(_) => return Err(FolderError::Unreadable),
            }
        }
        Err(FolderError::Unknown)
    }

    /// Returns a skill's folder in the root of this index, from the cache if the name
    /// still leads there. The cache does not take a folder that is its own mount: nobody
    /// could unmount it.
    fn skill_in(&self, index: usize, name: &str) -> Result<Folder, Errno> {
        let root = &self.roots[index];
        if let Some(folder) = self.cache.get(index, name)
            && folder.is_unchanged(&root.folder, name, root.follow_links)
        {
            return Ok(folder);
        }
        let folder = Folder::new(root.open_skill(name)?, HardLinks::Refused)?;
        if folder.shares_mount(&root.folder) {
            self.cache.insert(index, name, folder.clone());
        }
        Ok(folder)
    }

    /// Opens the folder of a path, for a call that names no skill. `~/…` and relative
    /// paths lie in the home folder. An absolute path lies in the home folder or in a
    /// skill.
    pub(crate) fn folder_of_path(
        &self,
        path: &str,
        hard_links: HardLinks,
    ) -> Result<CallFolder, FolderError> {
        if !path.starts_with('/') {
            let inside = match path.strip_prefix('~') {
                None => path,
                Some("") => ".",
                Some(rest) => match rest.strip_prefix('/') {
                    Some(inside) => inside.trim_start_matches('/'),
                    // `~name`, another user's home.
                    None => return Err(FolderError::Outside),
                },
            };
            return self.home_folder(inside, hard_links);
        }
        let path = without_dots(path);
        if let Some(root) = &self.home
            && let Some(inside) = root.inside(&path)
        {
            return self.home_folder(inside, hard_links);
        }
        for (index, root) in self.roots.iter().enumerate() {
            if let Some((name, rest)) = root.inside(&path).and_then(|inside| {
                let (name, rest) = inside.split_once('/').unwrap_or((inside, "."));
                Skill::is_name(name).then_some((name, rest))
            }) {
                // The path names a folder of this root, and not the skill of the
                // same name in an earlier root, which hides it.
                let mut earlier = self.roots[..index].iter();
                if earlier.any(|root| root.open_skill(name).is_ok()) {
                    return Err(FolderError::Unknown);
                }
                return self.skill(name, hard_links).map(|open| CallFolder {
                    path: Some(rest.to_owned()),
                    ..open
                });
            }
        }
        Err(FolderError::Outside)
    }

    fn home_folder(&self, inside: &str, hard_links: HardLinks) -> Result<CallFolder, FolderError> {
        let home = self.home.as_ref().ok_or(FolderError::NoHome)?;
        Ok(CallFolder {
            folder: home.folder.with(hard_links),
            skill: None,
            path: Some(inside.to_owned()),
        })
    }
}

impl Root {
    fn open(path: &Path, follow_links: bool) -> io::Result<Self> {
        let folder = Dir::open_ambient_dir(path, ambient_authority())?;
        Ok(Self {
            folder: Folder::new(folder.into_std_file().into(), HardLinks::Refused)?,
            follow_links,
            path: path.to_owned(),
            real: std::fs::canonicalize(path)?,
        })
    }

    /// Opens a skill's folder by its name in the root. Follows a symlink only if the
    /// root's configuration says so.
    fn open_skill(&self, name: &str) -> Result<OwnedFd, Errno> {
        let mut flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if !self.follow_links {
            flags |= OFlags::NOFOLLOW;
        }
        rustix::fs::openat(self.folder.handle(), name, flags, Mode::empty())
    }

    /// Returns the rest of an absolute path that starts with this root's path.
    fn inside<'a>(&self, path: &'a str) -> Option<&'a str> {
        [&self.path, &self.real].into_iter().find_map(|root| {
            let rest = path.strip_prefix(root.to_str()?.trim_end_matches('/'))?;
            match rest {
                "" => Some("."),
                rest => rest.strip_prefix('/'),
            }
        })
    }
}

/// Removes doubled separators and `.` from an absolute path, but not `..`.
fn without_dots(path: &str) -> String {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    parts.flat_map(|part| ["/", part]).collect()
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

fn describe(name: String, handle: OwnedFd, hard_links: HardLinks) -> Skill {
    let mut skill = Skill {
        name,
        description: String::new(),
        file: None,
        problems: Vec::new(),
    };
    let folder = Folder::new(handle, hard_links).map_err(io::Error::from);
    match folder.and_then(|folder| read_start(&folder)) {
        Ok(Some((file, text))) => {
            let reading = frontmatter::read(&text);
            skill.file = Some(file);
            skill.problems = check_frontmatter(&skill.name, &reading)
                .into_iter()
                .filter(|finding| finding.severity == Severity::Error)
                .map(|finding| finding.message)
                .collect();
            let description = reading.frontmatter.description;
            let description = description.map(|found| found.value).unwrap_or_default();
            skill.description = description.chars().take(MAX_DESCRIPTION_CHARS).collect();
        }
        Ok(None) => skill.problems.push("there is no `SKILL.md`".to_owned()),
        Err(error) => skill
            .problems
            .push(format!("cannot read `SKILL.md`: {error}")),
    }
    skill
}

/// Reads the start of a folder's SKILL.md, as much as a listing needs.
fn read_start(folder: &Folder) -> io::Result<Option<(String, String)>> {
    let Some((name, file)) = skill_md::open(folder)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    file.take(FRONTMATTER_BYTES).read_to_end(&mut bytes)?;
    Ok(Some((name, String::from_utf8_lossy(&bytes).into_owned())))
}

fn cannot_open(what: &str, path: &Path) -> String {
    format!("cannot open the {what} `{}`", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_a_folder_unless_it_is_a_mount() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("skill")).unwrap();
        // Every Linux has this mount.
        for (root, name, expected) in [
            (root.path(), "skill", true),
            (Path::new("/"), "proc", false),
        ] {
            let root = SkillsRoot {
                path: root.to_owned(),
                follow_links: false,
            };
            let catalog = Catalog::open(&[root], None).unwrap();
            assert!(catalog.cache.get(0, name).is_none(), "{name}");
            catalog.skill(name, HardLinks::Refused).unwrap();
            assert_eq!(catalog.cache.get(0, name).is_some(), expected, "{name}");
        }
    }
}
