//! Advice for an operator who named roots without skills. Often the operator meant a folder above
//! or below.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use super::Catalog;
use super::root::Root;
use super::root_folder::MAX_DEPTH;
use super::tree::{Search, SearchBounds};
use crate::skill_md;
use crate::text::count::count;

/// The additional depth in the search for the intended folder. Enough for
/// `plugins/NAME/skills/SKILL`.
const EXTRA_DEPTH: usize = 4;

/// The maximum number of folders to search. Guards against: a slow start because a home
/// folder was named.
const MAX_FOLDERS: usize = 5_000;

impl Catalog {
    /// Returns advice about roots without skills: names a folder below that has skills, or says
    /// that the root is itself a skill. Fast for roots with skills.
    pub fn advice(&self) -> Vec<String> {
        let advice = self.advice_by_root().into_iter();
        advice.map(|(_, advice)| advice).collect()
    }

    /// Returns the [advice](Self::advice), each with the path of its root. The path is empty if
    /// there are no roots.
    pub fn advice_by_root(&self) -> Vec<(PathBuf, String)> {
        if self.roots.is_empty() {
            let advice = "there are no skills: name a folder of skills by `--skills DIR` or by \
                          `skills` in a configuration";
            return vec![(PathBuf::new(), advice.to_owned())];
        }
        let advice = |root: &Root| Some((root.base.path.clone(), root.advice()?));
        self.roots.iter().filter_map(advice).collect()
    }

    /// Returns whether any folder of a root has a SKILL.md.
    pub fn has_skills(&self) -> bool {
        self.roots.iter().any(Root::has_skills)
    }

    /// Returns whether the first root is itself a skill.
    pub fn is_skill(&self) -> bool {
        self.roots.first().is_some_and(Root::is_skill)
    }
}

impl Root {
    /// Returns whether a folder in the root has a SKILL.md.
    fn has_skills(&self) -> bool {
        let mut search = Search::new(&self.base, SearchBounds::of(&self.base));
        while search.skills.is_empty() && search.step() {}
        !search.skills.is_empty()
    }

    fn is_skill(&self) -> bool {
        let folder = &self.base.folder;
        skill_md::exists_in(folder.handle().as_fd(), ".")
            || folder
                .all_entries()
                .is_ok_and(|listed| skill_md::is_in_list(listed, &mut 0, MAX_FOLDERS))
    }

    /// Returns advice about symlinks to skills that are not followed.
    fn link_advice(&self) -> Option<String> {
        let folder = self.base.folder.handle();
        let entries = self
            .base
            .folder
            .all_entries()
            .into_iter()
            .flatten()
            .flatten();
        let mut links: Vec<String> = entries
            .take(MAX_FOLDERS)
            .filter(|entry| entry.kind.is_symlink())
            .filter(|entry| self.base.name_of(entry, folder, "").is_err())
            .filter_map(|entry| entry.name.into_string().ok())
            .filter(|name| skill_md::exists_in(folder.as_fd(), name))
            .collect();
        links.sort_unstable();
        let first = links.first()?;
        let root = self.base.path.display();
        let subject = match links.len() {
            1 => format!("the symlink `{first}` leads to a skill, but is not followed"),
            many => {
                format!("{many} symlinks such as `{first}` lead to skills, but are not followed")
            }
        };
        Some(format!(
            "there are no skills in `{root}`: {subject}; `--follow-root-links` follows \
             symlinks in folders of `--skills`, and `follow_root_links = true` follows those in a \
             configured folder"
        ))
    }

    fn advice(&self) -> Option<String> {
        if self.has_skills() {
            return None;
        }
        let root = self.base.path.display();
        if self.is_skill() {
            let above = self.base.path.join("..").canonicalize();
            let above = above.as_deref().unwrap_or(Path::new("..")).display();
            return Some(format!(
                "`{root}` is a skill itself, not a folder of skills; did you mean `{above}`?"
            ));
        }
        if let Some(advice) = self.link_advice() {
            return Some(advice);
        }
        let bounds = SearchBounds {
            depth: (self.base.depth + EXTRA_DEPTH).min(MAX_DEPTH),
            folders: MAX_FOLDERS,
            hidden: true,
            ..SearchBounds::of(&self.base)
        };
        let search = Search::new(&self.base, bounds).run();
        let found = search.skills;
        let Some(first) = found.first() else {
            return Some(match search.problems.first() {
                Some(problem) => format!("no skills were found in `{root}`: {problem}"),
                None => format!("there are no skills in `{root}`: no folder in it has a SKILL.md"),
            });
        };
        let folder_count = count(found.len(), "folder");
        let verb = if found.len() == 1 { "holds" } else { "hold" };
        let above = |path: &str| {
            path.rsplit_once('/')
                .map_or("", |(above, _)| above)
                .to_owned()
        };
        let in_folder = |folder: &str| found.iter().filter(|path| above(path) == folder).count();
        let mut folders: Vec<String> = found.iter().map(|path| above(path)).collect();
        folders.dedup();
        // `max_by_key` returns the last of equals, so `rev` makes it the first.
        let best = folders.iter().rev().max_by_key(|folder| in_folder(folder));
        let best = best.cloned().unwrap_or_else(|| above(first));
        let visible = found
            .iter()
            .filter(|path| !path.split('/').any(|step| step.starts_with('.')));
        let depth = visible.map(|path| path.split('/').count()).max();
        let or_depth = depth.map_or_else(String::new, |depth| {
            format!(", or `--depth {depth}` (in a configuration `depth = {depth}`)")
        });
        Some(format!(
            "there are no skills in `{root}`, but {folder_count} below {verb} a SKILL.md: did you \
             mean `{}`{or_depth}?",
            self.base.path.join(best).display()
        ))
    }
}
