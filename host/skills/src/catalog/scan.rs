//! A scan of the roots in steps of one directory entry or one skill. Between steps the
//! caller may stop or yield.

use std::collections::BTreeSet;
use std::io;
use std::time::Instant;
use std::vec;

use rustix::io::Errno;

use super::describe::describe;
use super::root::Root;
use super::tree::{Search, SearchBounds, SkillTree};
use super::{Catalog, FolderError, Skill};
use crate::entries::EntryCursor;

/// The result of a step.
pub enum ScanStep {
    /// An entry without a skill.
    Nothing,
    /// A skill. The skills of a root are sorted by name.
    Skill(Skill),
    /// An entry that cannot be a skill and the reason, for the operator.
    Problem(String),
}

/// A scan of the roots.
pub struct Scan<'a, F> {
    catalog: &'a Catalog,
    /// The filter of names to read.
    wanted: F,
    /// The next root to list.
    next: usize,
    state: ScanState<'a>,
    /// The names of the skills so far.
    names: BTreeSet<String>,
    /// Problems of a tree that have not been returned yet.
    problems: vec::IntoIter<String>,
}

/// The state of a scan.
enum ScanState<'a> {
    BetweenRoots,
    /// Listing a root.
    Entries(&'a Root, EntryCursor, Vec<String>),
    /// Searching a root with depth, with the time of the start.
    Tree(&'a Root, &'a SkillTree, Box<Search<'a>>, Instant),
    /// Reading the listed skills in the order of their names.
    Skills(&'a Root, vec::IntoIter<String>),
}

impl<'a, F: Fn(&str) -> bool> Scan<'a, F> {
    pub(super) fn new(catalog: &'a Catalog, wanted: F) -> Self {
        Self {
            catalog,
            wanted,
            next: 0,
            state: ScanState::BetweenRoots,
            names: BTreeSet::new(),
            problems: Vec::new().into_iter(),
        }
    }

    /// Makes one step. Returns `None` at the end.
    pub fn step(&mut self) -> Option<ScanStep> {
        if let Some(problem) = self.problems.next() {
            return Some(ScanStep::Problem(problem));
        }
        match std::mem::replace(&mut self.state, ScanState::BetweenRoots) {
            ScanState::BetweenRoots => {
                let root = self.catalog.roots.get(self.next)?;
                self.next += 1;
                if let Some(tree) = root.tree() {
                    let search = Box::new(Search::new(&root.base, SearchBounds::of(&root.base)));
                    self.state = ScanState::Tree(root, tree, search, Instant::now());
                    return Some(ScanStep::Nothing);
                }
                match EntryCursor::of(root.base.folder.handle()) {
                    Ok(entries) => self.state = ScanState::Entries(root, entries, Vec::new()),
                    Err(error) => {
                        return Some(ScanStep::Problem(root.base.cannot_list("", &error)));
                    }
                }
            }
            ScanState::Entries(root, mut entries, mut names) => {
                let entry = entries.next();
                let mut step = ScanStep::Nothing;
                match entry {
                    Some(Ok(entry)) => {
                        match root.base.name_of(&entry, root.base.folder.handle(), "") {
                            Ok(Some(name)) if (self.wanted)(&name) => names.push(name),
                            Ok(_) => {}
                            Err(problem) => step = ScanStep::Problem(problem),
                        }
                        self.state = ScanState::Entries(root, entries, names);
                    }
                    end => {
                        names.sort_unstable();
                        self.state = ScanState::Skills(root, names.into_iter());
                        if let Some(Err(error)) = end {
                            step = ScanStep::Problem(root.base.cannot_list("", &error));
                        }
                    }
                }
                return Some(step);
            }
            ScanState::Tree(root, tree, mut search, start) => {
                if search.step() {
                    self.state = ScanState::Tree(root, tree, search, start);
                } else {
                    let found = tree.keep(*search, start);
                    let wanted = found.names().filter(|name| (self.wanted)(name));
                    let names: Vec<String> = wanted.map(str::to_owned).collect();
                    self.problems = found.problems.clone().into_iter();
                    self.state = ScanState::Skills(root, names.into_iter());
                }
            }
            ScanState::Skills(root, mut names) => {
                if let Some(name) = names.next() {
                    self.state = ScanState::Skills(root, names);
                    return Some(self.read_skill(root, name));
                }
            }
        }
        Some(ScanStep::Nothing)
    }

    fn read_skill(&mut self, root: &Root, name: String) -> ScanStep {
        let Some(path) = root.path_of(&name) else {
            return ScanStep::Nothing;
        };
        let shown = || root.base.path.join(&*path).display().to_string();
        if self.names.contains(&name) {
            return ScanStep::Problem(format!(
                "a skill of that name in an earlier folder hides `{}`; its own name is \
                 `root{}.{name}`",
                shown(),
                self.next
            ));
        }
        match root.base.open_path(&path) {
            Ok(handle) => {
                self.names.insert(name.clone());
                let folder_name = path.rsplit('/').next().unwrap_or(&name);
                let hard_links = self.catalog.hard_links;
                ScanStep::Skill(describe(name.clone(), folder_name, handle, hard_links))
            }
            Err(Errno::NOTDIR | Errno::NOENT) => ScanStep::Nothing,
            Err(error) => {
                let problem = format!("skipped `{}`: {}", shown(), io::Error::from(error));
                // It hides skills of later roots, as for calls.
                if FolderError::from(error) != FolderError::Unknown {
                    self.names.insert(name);
                }
                ScanStep::Problem(problem)
            }
        }
    }
}
