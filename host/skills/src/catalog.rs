//! The catalog: the skills under the configured roots. It holds a handle to each root, and
//! looks names up through it instead of joining paths. Changes on disk are visible at once.

mod advice;
mod describe;
mod document;
mod folder_cache;
mod freshness;
mod hidden;
mod names;
mod read_budget;
mod root;
mod root_folder;
mod scan;
mod summary;
mod tree;
mod unlisted;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use rustix::io::Errno;

use crate::blocking;
use crate::broker::Opener;
use crate::check::contents::{self, SkillContents, nested_problem};
use crate::check::{Finding, check_open_folder};
use crate::descriptors;
use crate::guard::{Folder, HardLinks};
use crate::omitted::OmittedNames;
use crate::text::suggest;

use describe::describe;
pub use document::{Document, DocumentStamp};
use folder_cache::FolderCache;
pub use freshness::Freshness;
pub use hidden::HiddenFolders;
use names::CatalogNames;
pub use read_budget::ReadBudget;
use root::{Root, SkillLocation, SkillPath, cannot_open, without_dots};
pub use root_folder::MAX_DEPTH;
pub use summary::SkillSummary;
pub use unlisted::Unlisted;

/// The maximum number of entries in which a list of skills looks for nested skills. Guards
/// against: a slow list of thousands of large skills.
const MAX_WALKED: usize = 1_000_000;

/// The maximum number of reported skills that contain other skills.
const MAX_NESTED: usize = 20;

/// The skills of several roots. If several roots have a skill of the same name, the first
/// root wins.
#[derive(Debug)]
pub struct Catalog {
    roots: Vec<Root>,
    home: Option<Root>,
    hard_links: HardLinks,
    omitted: OmittedNames,
    opener: Opener,
    cache: FolderCache,
    names: CatalogNames,
}

/// A folder of skills, as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillsRoot {
    /// The folder's path.
    pub path: PathBuf,
    /// True if a symlink directly in the root can be a skill. The skill's folder is then the
    /// symlink's target, inside or outside of the root.
    pub follow_links: bool,
    /// The maximum depth of skills below the root, from 1 (folders in the root itself) to
    /// [`MAX_DEPTH`].
    ///
    /// At 2 or more, only folders with a SKILL.md are skills, and a skill does not contain
    /// others. If names collide, the skill nearest to the root keeps the name; among equals,
    /// the first by path. The others are named by their path with dots, such as `author.name`.
    pub depth: usize,
    /// The hidden folders that are searched, at a depth of 2 or more.
    pub hidden: HiddenFolders,
    /// The canonical path of a folder that must contain `path` and the targets of followed
    /// symlinks, each time one is opened. `None` if the operator named `path`.
    pub within: Option<PathBuf>,
}

/// A skill in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skill {
    /// The name of the skill's folder, or its path with dots if another skill has that name.
    pub name: String,
    /// The description from the frontmatter, cut at the specification's limit, or else the
    /// first paragraph. May be empty.
    pub description: String,
    /// The file name of the skill's SKILL.md, in its actual spelling, if the skill has one.
    pub file: Option<String>,
    /// The skill's faults, for the operator. The skill can still be read.
    pub problems: Vec<String>,
    /// The reason why lists for models leave the skill out, or `None` if they show it. Calls can
    /// name the skill in either case.
    pub unlisted: Option<Unlisted>,
}

impl Skill {
    /// Returns whether a skill can have this name: a single path component that does not
    /// start with a dot. Guests check names independently.
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
    /// There is no skill of this name.
    Unknown,
    /// The skill exists, but this process has no right to open its folder.
    Unreadable,
    /// The call named no skill, and there is no home folder.
    NoHome,
    /// The path is outside the folders that a call is allowed to read.
    Outside,
}

impl From<Errno> for FolderError {
    fn from(error: Errno) -> Self {
        match error {
            // Missing, not a folder, or a symlink that must not be followed.
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG => Self::Unknown,
            _ => Self::Unreadable,
        }
    }
}

/// The open folder of a call.
#[derive(Debug)]
pub struct CallFolder {
    /// The folder of the skill, or the home folder.
    pub folder: Folder,
    /// The skill's name. `None` for the home folder.
    pub skill: Option<String>,
    /// The caller's path inside the folder, if the call named a path and no skill.
    pub path: Option<String>,
}

impl Catalog {
    /// Opens the roots by their paths. Everything else works on the handles of these roots.
    pub fn open(roots: &[SkillsRoot], home: Option<&Path>) -> anyhow::Result<Self> {
        Self::open_with(roots, home, &Opener::DIRECT)
    }

    /// Opens the roots like [`Catalog::open`], and their files through an opener.
    pub fn open_with(
        roots: &[SkillsRoot],
        home: Option<&Path>,
        opener: &Opener,
    ) -> anyhow::Result<Self> {
        let open = |root: &SkillsRoot| {
            Root::open(root, opener).with_context(|| cannot_open("skills folder", &root.path))
        };
        let home = home.map(|path| {
            let root = Root::open(&SkillsRoot::new(path), opener);
            root.with_context(|| cannot_open("home folder", path))
        });
        Ok(Self {
            roots: roots.iter().map(open).collect::<anyhow::Result<_>>()?,
            home: home.transpose()?,
            hard_links: HardLinks::Refused,
            omitted: OmittedNames::default(),
            opener: opener.clone(),
            cache: FolderCache::new(descriptors::process_limit()),
            names: CatalogNames::default(),
        })
    }

    /// Sets whether listings read a SKILL.md with several hard links. Default: no.
    pub fn hard_links(mut self, allowed: bool) -> Self {
        self.hard_links = HardLinks::from(allowed);
        self
    }

    /// Sets the names that lists of a skill's files leave out.
    pub fn omitted_names(mut self, names: OmittedNames) -> Self {
        self.omitted = names;
        self
    }

    /// Returns a call's folder with lists that leave out the omitted names.
    pub fn for_lists(&self, opened: CallFolder) -> CallFolder {
        CallFolder {
            folder: opened.folder.without(&self.omitted),
            ..opened
        }
    }

    /// Reads the current skills.
    pub fn list(&self) -> Listing {
        self.scan(|_| true)
    }

    /// Returns whether a skill exists.
    pub fn has(&self, name: &str) -> bool {
        Skill::is_name(name)
            && (self.find_by_full_name(name).is_some()
                || self.roots.iter().any(|root| root.has(name)))
    }

    /// Returns the names of the skills, sorted, without reading the skills.
    pub fn names(&self) -> Vec<String> {
        self.shared_names(Freshness::Now).to_vec()
    }

    /// Like [`names`](Self::names), from the cache if it is fresh enough.
    pub fn shared_names(&self, freshness: Freshness) -> Arc<Vec<String>> {
        let roots = self.roots.iter().map(|root| root.names(freshness));
        self.names.merge(roots.collect())
    }

    /// Reads the current state of one skill. Returns `None` if the skill does not exist or cannot
    /// be opened, or if the work of this thread is [abandoned](blocking::is_abandoned).
    pub fn read(&self, name: &str) -> Option<Skill> {
        self.read_within(name, &mut ReadBudget::unbounded())
    }

    /// Like [`read`](Self::read), and counts what it reads in a list's budget.
    pub fn read_within(&self, name: &str, budget: &mut ReadBudget) -> Option<Skill> {
        if blocking::is_abandoned() {
            return None;
        }
        let (handle, path) = self.open_uncached(name)?;
        let folder_name = path.rsplit('/').next().unwrap_or_default();
        let folder = self.folder(handle);
        Some(describe(name.to_owned(), folder_name, folder, budget))
    }

    /// Reads a skill for a list for models. Returns `None` for an [unlisted](Unlisted) skill, and
    /// where [`Catalog::read`] returns `None`.
    pub fn read_listed(&self, name: &str) -> Option<Skill> {
        self.read(name).filter(|skill| skill.unlisted.is_none())
    }

    /// Wraps the handle of a skill's folder, with the hard-link rule of listings.
    fn folder(&self, handle: OwnedFd) -> Result<Folder, Errno> {
        Folder::new(handle, self.hard_links, self.opener.clone())
    }

    /// Opens the folder of a skill without the folder cache, which is reserved for calls.
    /// Also returns the folder's path in its root.
    fn open_uncached<'n>(&self, name: &'n str) -> Option<(OwnedFd, SkillPath<'n>)> {
        if !Skill::is_name(name) {
            return None;
        }
        for (root, name) in self.candidates(name) {
            let root = &self.roots[root];
            let Some(path) = root.path_of(name) else {
                continue;
            };
            match root.base.open_path(&path).map_err(FolderError::from) {
                Ok(handle) => return Some((handle, path)),
                Err(FolderError::Unknown) => {}
                // A skill of a later root must not appear under this name.
                Err(_) => return None,
            }
        }
        None
    }

    /// Returns problems for the operator: entries that cannot be skills, and skills whose name is
    /// not their folder's name. Does not read the skills.
    pub fn problems(&self) -> Vec<String> {
        self.scan(|_| false).problems
    }

    /// Searches the roots again for a call that did not find its skill. Returns whether the
    /// call should look again.
    ///
    /// All calls together spend at most a tenth of the time on such searches. A search holds
    /// the lease until it ends.
    pub async fn refresh(self: &Arc<Self>, lease: impl Send + 'static) -> bool {
        // Another thread would take longer than the rest of the call.
        if !self.roots.iter().any(Root::is_refresh_due) {
            return false;
        }
        let this = Arc::clone(self);
        let refreshed = blocking::run(lease, move || {
            let roots = this.roots.iter();
            roots.fold(false, |is_new, root| is_new | root.refresh())
        });
        refreshed.await.unwrap_or(false)
    }

    /// Returns the most similar names of skills, best first, without unlisted skills.
    pub fn nearest(&self, name: &str) -> Vec<String> {
        let names = self.shared_names(Freshness::Recent);
        let names = names.iter().map(String::as_str);
        let is_listed = |name: &str| self.read_listed(name).is_some();
        suggest::nearest_checked(name, names, is_listed)
    }

    /// Checks a skill against the Agent Skills specification. Returns `None` if it does not
    /// exist.
    pub fn check(&self, name: &str) -> Option<io::Result<Vec<Finding>>> {
        let (folder, path) = self.open_skill(name).ok()?;
        let folder_name = path.rsplit('/').next().unwrap_or_default();
        let folder = folder.with_hard_links(self.hard_links);
        let is_skill = |inner: &str| self.lists_folder(&folder, inner);
        Some(check_open_folder(
            folder_name,
            &folder,
            &self.omitted,
            is_skill,
        ))
    }

    /// Returns whether a folder inside a skill is itself a skill of a root.
    fn lists_folder(&self, skill: &Folder, inner: &str) -> bool {
        let Ok(skill) = skill.real_path() else {
            return false;
        };
        let path = skill.join(inner);
        path.to_str().is_some_and(|path| {
            self.roots.iter().any(|root| {
                let found = root.skill_at(path, |_| true);
                found.is_some_and(|skill| skill.rest == "." && root.has(&skill.name))
            })
        })
    }

    /// Returns a problem for each skill that contains another SKILL.md, unless that SKILL.md
    /// belongs to a skill of a root. Reads a bounded number of entries in all skills together.
    pub fn nested_skills(&self) -> Vec<String> {
        let mut left = MAX_WALKED;
        let mut problems = Vec::new();
        let mut more = 0;
        for name in self.names() {
            let Some((handle, _)) = self.open_uncached(&name) else {
                continue;
            };
            let Ok(folder) = self.folder(handle) else {
                continue;
            };
            let mut left_here = left.min(contents::MAX_ENTRIES);
            left -= left_here;
            let mut found = SkillContents::read(&folder, &self.omitted, &mut left_here);
            left += left_here;
            found
                .skills
                .retain(|inner| !self.lists_folder(&folder, inner));
            match nested_problem(&found.skills) {
                Some(problem) if problems.len() < MAX_NESTED => {
                    problems.push(format!("`{name}`: {problem}"));
                }
                Some(_) => more += 1,
                None => {}
            }
        }
        if more > 0 {
            problems.push(format!("{more} more skills contain other skills"));
        }
        problems
    }

    /// Returns the path of a skill in its root. Returns `None` if it does not exist.
    pub fn path_in_root(&self, name: &str) -> Option<String> {
        Some(self.open_skill(name).ok()?.1)
    }

    /// Opens the folder of a skill.
    pub fn skill(&self, name: &str, hard_links: HardLinks) -> Result<CallFolder, FolderError> {
        let (folder, _) = self.open_skill(name)?;
        Ok(CallFolder {
            folder: folder.with_hard_links(hard_links),
            skill: Some(name.to_owned()),
            path: None,
        })
    }

    /// Returns the canonical path of a skill's folder, for the operator. Returns `None` if the
    /// skill does not exist.
    pub fn folder_path(&self, name: &str) -> Option<PathBuf> {
        self.open_skill(name).ok()?.0.real_path().ok()
    }

    /// Opens the folder of a skill. Also returns the folder's path in its root.
    fn open_skill(&self, name: &str) -> Result<(Folder, String), FolderError> {
        if !Skill::is_name(name) {
            return Err(FolderError::Unknown);
        }
        for (root, name) in self.candidates(name) {
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

    /// Returns the roots that can have a skill, and its name in each, best first.
    fn candidates<'n>(&self, name: &'n str) -> impl Iterator<Item = (usize, &'n str)> {
        let found = self.find_by_full_name(name).into_iter();
        found.chain((0..self.roots.len()).map(move |root| (root, name)))
    }

    /// Returns the root and the name of a skill, given its full name.
    ///
    /// Calls use a full name for a skill that an earlier root hides. It is `root2.name`, with the
    /// number of the skill's root, unless an earlier root has a skill named `root2.name`. A grant
    /// for `name` does not include the hidden skill.
    fn find_by_full_name<'n>(&self, full_name: &'n str) -> Option<(usize, &'n str)> {
        let (number, name) = full_name.strip_prefix("root")?.split_once('.')?;
        let root = number.parse::<usize>().ok()?.checked_sub(1)?;
        let has_earlier = |name| self.roots[..root].iter().any(|root| root.has(name));
        let is_hidden = number.starts_with(|first: char| first.is_ascii_digit() && first != '0')
            && self.roots.get(root)?.has(name)
            && has_earlier(name)
            && !has_earlier(full_name);
        is_hidden.then_some((root, name))
    }

    /// Returns the folder at a path in a root, from the cache if the path still leads to the
    /// cached folder. Mount points are not cached, so that they can be unmounted.
    fn skill_in(&self, index: usize, path: &str) -> Result<Folder, FolderError> {
        let root = &self.roots[index];
        if let Some(folder) = self.cache.get(index, path)
            && root.base.leads_to(path, &folder)
        {
            return Ok(folder);
        }
        let handle = root.base.open_path(path)?;
        let folder = Folder::new(handle, HardLinks::Refused, self.opener.clone())?;
        if folder.shares_mount(&root.base.folder) {
            self.cache.insert(index, path, folder.clone());
        }
        Ok(folder)
    }

    /// Opens the folder of a path, for a call that names no skill. Relative paths and `~/…`
    /// are in the home folder. An absolute path is in the home folder or in a skill. `sees`
    /// returns whether the call is allowed to see a skill.
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
                    // `~name` is another user's home.
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
            if let Some(SkillLocation { name, path, rest }) = root.skill_at(&path, &sees) {
                // A skill of the same name in an earlier root may hide this one.
                let mut earlier = self.roots[..index].iter();
                if !sees(&name) || earlier.any(|root| root.has(&name)) {
                    return Err(FolderError::Unknown);
                }
                let folder = self.skill_in(index, &path)?;
                return Ok(CallFolder {
                    folder: folder.with_hard_links(hard_links),
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
            folder: home.base.folder.with_hard_links(hard_links),
            skill: None,
            path: Some(inside.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests;
