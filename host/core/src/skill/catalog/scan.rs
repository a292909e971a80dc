//! A scan of the roots in steps of one directory entry or one skill. The caller may
//! stop between steps, or let other tasks run.

use std::collections::BTreeSet;
use std::io;
use std::vec;

use cap_std::fs::{DirEntry, ReadDir};
use rustix::io::Errno;

use super::{Catalog, Root, Skill, describe, skill_name_of};

/// The result of a step.
pub(crate) enum ScanStep {
    Nothing,
    /// A skill. The skills of a root come in the order of their names.
    Skill(Skill),
    /// An entry that cannot be a skill and the reason, for the operator.
    Problem(String),
}

/// A scan of the roots.
pub(crate) struct Scan<'a, F> {
    catalog: &'a Catalog,
    /// Selects the names of the skills to read.
    wanted: F,
    /// The next root to list.
    next: usize,
    state: ScanState<'a>,
    /// The names of the skills so far.
    names: BTreeSet<String>,
}

/// The state of a scan.
enum ScanState<'a> {
    BetweenRoots,
    /// Listing a root.
    Entries(&'a Root, ReadDir, Vec<String>),
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
        }
    }

    /// Makes one step. `None` at the end.
    pub(crate) fn step(&mut self) -> Option<ScanStep> {
        match &mut self.state {
            ScanState::BetweenRoots => {
                let root = self.catalog.roots.get(self.next)?;
                self.next += 1;
                match root.folder.handle().entries() {
                    Ok(entries) => self.state = ScanState::Entries(root, entries, Vec::new()),
                    Err(error) => return Some(ScanStep::Problem(root.cannot_list(&error))),
                }
            }
            ScanState::Entries(root, entries, names) => match entries.next() {
                Some(Ok(entry)) => match root.name_of(&entry) {
                    Ok(Some(name)) if (self.wanted)(&name) => names.push(name),
                    Ok(_) => {}
                    Err(problem) => return Some(ScanStep::Problem(problem)),
                },
                end => {
                    let (root, mut names) = (*root, std::mem::take(names));
                    names.sort();
                    self.state = ScanState::Skills(root, names.into_iter());
                    if let Some(Err(error)) = end {
                        return Some(ScanStep::Problem(root.cannot_list(&error)));
                    }
                }
            },
            ScanState::Skills(root, names) => match names.next() {
                Some(name) => {
                    let root = *root;
                    return Some(self.read_skill(root, name));
                }
                None => self.state = ScanState::BetweenRoots,
            },
        }
        Some(ScanStep::Nothing)
    }

    fn read_skill(&mut self, root: &Root, name: String) -> ScanStep {
        let path = || root.path.join(&name);
        if self.names.contains(&name) {
            return ScanStep::Problem(format!(
                "a skill of that name in an earlier folder hides `{}`",
                path().display()
            ));
        }
        match root.open_skill(&name) {
            Ok(handle) => {
                self.names.insert(name.clone());
                ScanStep::Skill(describe(name, handle, self.catalog.hard_links))
            }
            Err(Errno::NOTDIR | Errno::NOENT) => ScanStep::Nothing,
            Err(error) => ScanStep::Problem(format!(
                "skipped `{}`: {}",
                path().display(),
                io::Error::from(error)
            )),
        }
    }
}

impl Root {
    /// Returns the name of an entry that can be a skill, or the reason why an entry
    /// that looks like a skill cannot be one.
    fn name_of(&self, entry: &DirEntry) -> Result<Option<String>, String> {
        let kind = entry.file_type();
        if kind.as_ref().is_ok_and(|kind| kind.is_file()) {
            return Ok(None);
        }
        let left_out = |why: &str| {
            let path = self.path.join(entry.file_name());
            format!("skipped `{}`: {why}", path.display())
        };
        if !self.follow_links && kind.is_ok_and(|kind| kind.is_symlink()) {
            return Err(left_out(
                "it is a symlink; `follow_root_links = true` on its folder follows it",
            ));
        }
        skill_name_of(&entry.file_name()).map_err(left_out)
    }

    fn cannot_list(&self, error: &io::Error) -> String {
        format!("cannot list `{}`: {error}", self.path.display())
    }

    /// Returns the names of the entries that can be skills, sorted.
    pub(super) fn names(&self) -> Vec<String> {
        let entries = self
            .folder
            .handle()
            .entries()
            .into_iter()
            .flatten()
            .flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| self.name_of(&entry).ok().flatten())
            .collect();
        names.sort();
        names
    }
}
