//! The skills under the configured roots. The catalog holds a handle to each root and
//! looks names up through it. It never joins a name to a path, and an edit on disk
//! shows at once.

mod advice;
mod describe;
mod document;
mod folder_cache;
mod freshness;
mod names;
mod root;
mod root_folder;
mod scan;
mod tree;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use rustix::io::Errno;

use crate::check::{Finding, check_open};
use crate::descriptors;
use crate::guard::{Folder, HardLinks};
use crate::text::suggest;

use describe::describe;
pub use document::{Document, DocumentStamp};
use folder_cache::FolderCache;
pub use freshness::Freshness;
use names::CatalogNames;
use root::{Root, SkillPath, SkillPlace, cannot_open, without_dots};
pub use root_folder::MAX_DEPTH;
pub use scan::{Scan, ScanStep};

/// The skills of several roots. If roots have a skill of the same name, the first root
/// wins.
#[derive(Debug)]
pub struct Catalog {
    roots: Vec<Root>,
    home: Option<Root>,
    hard_links: HardLinks,
    cache: FolderCache,
    names: CatalogNames,
}

/// A folder of skills, as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillsRoot {
    /// The folder's path.
    pub path: PathBuf,
    /// True if a symlink can be a skill. The skill's folder is then the
    /// symlink's target, wherever that is.
    pub follow_links: bool,
    /// The number of folders that a skill may lie below the root: 1 for the folders in
    /// the root itself, at most [`MAX_DEPTH`]. From 2 on a skill is a folder with a
    /// SKILL.md, and what lies in a skill is none. The first skill of a name has it,
    /// nearest to the root and then by path; another is named by its path with dots,
    /// such as `author.name`.
    pub depth: usize,
    /// A folder, by its path without symlinks, that `path` must lead into each time it is
    /// opened. `None` if it may lead anywhere: somebody named it.
    pub within: Option<PathBuf>,
}

/// A skill in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skill {
    /// The name of its folder, or its path with dots if another skill has that name.
    pub name: String,
    /// The description in its frontmatter, cut at the specification's limit, or the
    /// first paragraph if there is none. May be empty.
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
pub enum FolderError {
    /// There is no skill of that name.
    Unknown,
    /// The skill exists, but this process may not open its folder.
    Unreadable,
    /// The call named no skill, and there is no home folder.
    NoHome,
    /// The path lies in no folder that a call may read.
    Outside,
}

impl From<Errno> for FolderError {
    fn from(error: Errno) -> Self {
        match error {
            // Missing, not a folder, or a symlink that is not followed.
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG => Self::Unknown,
            _ => Self::Unreadable,
        }
    }
}

/// A folder that is open for a call.
#[derive(Debug)]
pub struct CallFolder {
    /// The folder of the skill, or the home folder.
    pub folder: Folder,
    /// The skill's name. `None` for the home folder.
    pub skill: Option<String>,
    /// The caller's path in the folder, if the call named a path and no skill.
    pub path: Option<String>,
}

impl Catalog {
    /// Opens the roots. The file system's ambient authority enters here; everything
    /// behind it works on handles.
    pub fn open(roots: &[SkillsRoot], home: Option<&Path>) -> anyhow::Result<Self> {
        let open = |root: &SkillsRoot| {
            Root::open(root).with_context(|| cannot_open("skills folder", &root.path))
        };
        let home = home.map(|path| {
            Root::open(&SkillsRoot::new(path)).with_context(|| cannot_open("home folder", path))
        });
        Ok(Self {
            roots: roots.iter().map(open).collect::<anyhow::Result<_>>()?,
            home: home.transpose()?,
            hard_links: HardLinks::Refused,
            cache: FolderCache::new(descriptors::process_limit()),
            names: CatalogNames::default(),
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
    pub fn scan<F: Fn(&str) -> bool>(&self, wanted: F) -> Scan<'_, F> {
        Scan::new(self, wanted)
    }

    /// Returns whether there is a skill of this name.
    pub fn has(&self, name: &str) -> bool {
        Skill::is_name(name)
            && (self.hidden_skill(name).is_some() || self.roots.iter().any(|root| root.has(name)))
    }

    /// Returns the names of the skills, sorted, without reading the skills.
    pub fn names(&self) -> Vec<String> {
        self.shared_names(Freshness::Now).to_vec()
    }

    /// Returns the names of the skills, sorted, without reading the skills.
    pub fn shared_names(&self, freshness: Freshness) -> Arc<Vec<String>> {
        let roots = self.roots.iter().map(|root| root.names(freshness));
        self.names.merge(roots.collect())
    }

    /// Reads one skill as it is now. `None` if there is no skill of this name, or if it
    /// cannot be opened.
    pub fn read(&self, name: &str) -> Option<Skill> {
        let (handle, path) = self.open_uncached(name)?;
        let folder_name = path.rsplit('/').next().unwrap_or_default();
        let name = name.to_owned();
        Some(describe(name, folder_name, handle, self.hard_links))
    }

    /// Opens the folder of a skill past the cache of folders, which calls need. Returns
    /// its path in its root as well.
    fn open_uncached<'n>(&self, name: &'n str) -> Option<(OwnedFd, SkillPath<'n>)> {
        if !Skill::is_name(name) {
            return None;
        }
        for (root, inner) in self.places(name) {
            let root = &self.roots[root];
            let Some(path) = root.path_of(inner) else {
                continue;
            };
            match root.base.open_path(&path).map_err(FolderError::from) {
                Ok(handle) => return Some((handle, path)),
                Err(FolderError::Unknown) => {}
                // Another skill's text must not be shown under the name of this one.
                Err(_) => return None,
            }
        }
        None
    }

    /// Returns the entries that cannot be skills and the skills with another name than
    /// their folder's, for the operator, without reading the skills.
    pub fn problems(&self) -> Vec<String> {
        let mut scan = self.scan(|_| false);
        let steps = std::iter::from_fn(|| scan.step());
        let problems = steps.filter_map(|step| match step {
            ScanStep::Problem(problem) => Some(problem),
            ScanStep::Nothing | ScanStep::Skill(_) => None,
        });
        problems.collect()
    }

    /// Looks again for the skills of roots with depth, for a call whose skill was not
    /// found. Returns whether there may be others now.
    pub async fn refresh(&self) -> bool {
        let mut is_new = false;
        for root in &self.roots {
            if let Some(tree) = root.tree() {
                is_new |= tree.refresh(&root.base).await;
            }
        }
        is_new
    }

    /// Returns the names of skills most similar to this one, best first.
    pub fn nearest(&self, name: &str) -> Vec<String> {
        let names = self.shared_names(Freshness::Recent);
        let mut nearest = suggest::nearest(name, names.iter().map(String::as_str));
        nearest.retain(|name| self.has(name));
        nearest
    }

    /// Checks a skill by the Agent Skills specification. `None` if there is no skill of
    /// that name.
    pub fn check(&self, name: &str) -> Option<io::Result<Vec<Finding>>> {
        let (folder, path) = self.open_skill(name).ok()?;
        let folder_name = path.rsplit('/').next().unwrap_or_default();
        Some(check_open(folder_name, &folder.with(self.hard_links)))
    }

    /// Returns the path of a skill in its root. `None` if there is no skill of that name.
    pub fn path_in_root(&self, name: &str) -> Option<String> {
        Some(self.open_skill(name).ok()?.1)
    }

    /// Opens the folder of a skill.
    pub fn skill(&self, name: &str, hard_links: HardLinks) -> Result<CallFolder, FolderError> {
        let (folder, _) = self.open_skill(name)?;
        Ok(CallFolder {
            folder: folder.with(hard_links),
            skill: Some(name.to_owned()),
            path: None,
        })
    }

    /// Opens the folder of a skill, and returns its path in its root.
    fn open_skill(&self, name: &str) -> Result<(Folder, String), FolderError> {
        if !Skill::is_name(name) {
            return Err(FolderError::Unknown);
        }
        for (root, name) in self.places(name) {
            let Some(path) = self.roots[root].path_of(name) else {
                continue;
            };
            match self.skill_in(root, &path) {
                Ok(folder) => return Ok((folder, path.to_owned())),
                Err(FolderError::Unknown) => {}
                Err(error) => return Err(error),
            }
        }
        Err(FolderError::Unknown)
    }

    /// Returns the places where a skill of this name may be, best first: roots, and its
    /// name in them.
    fn places<'n>(&self, name: &'n str) -> impl Iterator<Item = (usize, &'n str)> {
        let hidden = self.hidden_skill(name).into_iter();
        hidden.chain((0..self.roots.len()).map(move |root| (root, name)))
    }

    /// Returns the root and the name in it of a skill that an earlier root hides. Its
    /// name for a call is `root2.name`, with the number of the root, unless that is a
    /// skill of an earlier root. No grant of `name` allows it.
    fn hidden_skill<'n>(&self, whole: &'n str) -> Option<(usize, &'n str)> {
        let (number, name) = whole.strip_prefix("root")?.split_once('.')?;
        let root = number.parse::<usize>().ok()?.checked_sub(1)?;
        let has_earlier = |name| self.roots[..root].iter().any(|root| root.has(name));
        let is_hidden = number.starts_with(|first: char| first.is_ascii_digit() && first != '0')
            && self.roots.get(root)?.has(name)
            && has_earlier(name)
            && !has_earlier(whole);
        is_hidden.then_some((root, name))
    }

    /// Returns the folder at a path in the root of this index, from the cache if the
    /// path still leads there. The cache does not take a folder that is its own mount:
    /// nobody could unmount it.
    fn skill_in(&self, index: usize, path: &str) -> Result<Folder, FolderError> {
        let root = &self.roots[index];
        if let Some(folder) = self.cache.get(index, path)
            && root.base.leads_to(path, &folder)
        {
            return Ok(folder);
        }
        let folder = Folder::new(root.base.open_path(path)?, HardLinks::Refused)?;
        if folder.shares_mount(&root.base.folder) {
            self.cache.insert(index, path, folder.clone());
        }
        Ok(folder)
    }

    /// Opens the folder of a path, for a call that names no skill. `~/…` and relative
    /// paths lie in the home folder. An absolute path lies in the home folder or in a
    /// skill.
    pub fn folder_of_path(
        &self,
        path: &str,
        hard_links: HardLinks,
        sees: impl Fn(&str) -> bool,
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
            if let Some(SkillPlace { name, path, rest }) = root.skill_at(&path, &sees) {
                // The path names a folder of this root, and not the skill of the
                // same name in an earlier root, which hides it.
                let mut earlier = self.roots[..index].iter();
                if !sees(&name) || earlier.any(|root| root.has(&name)) {
                    return Err(FolderError::Unknown);
                }
                let folder = self.skill_in(index, &path)?;
                return Ok(CallFolder {
                    folder: folder.with(hard_links),
                    path: Some(rest.to_owned()),
                    skill: Some(name.into_owned()),
                });
            }
        }
        Err(FolderError::Outside)
    }

    fn home_folder(&self, inside: &str, hard_links: HardLinks) -> Result<CallFolder, FolderError> {
        let home = self.home.as_ref().ok_or(FolderError::NoHome)?;
        Ok(CallFolder {
            folder: home.base.folder.with(hard_links),
            skill: None,
            path: Some(inside.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests;
