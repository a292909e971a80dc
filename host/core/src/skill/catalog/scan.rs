//! Going through the roots a step at a time: one directory entry or one skill.
//! Whoever scans may stop between steps, or let others run.

use std::collections::BTreeSet;
use std::io;
use std::vec;

use cap_std::fs::{DirEntry, ReadDir};
use rustix::io::Errno;

use super::{Catalog, Root, Skill, describe, skill_name_of};

/// What a step has found.
pub(crate) enum Found {
    /// Nothing to tell of.
    Nothing,
    /// A skill. Those of a root come in the order of their names.
    Skill(Skill),
    /// What cannot be a skill and why, for the operator.
    Problem(String),
}

/// A scan on its way.
pub(crate) struct Scan<'a, F> {
    catalog: &'a Catalog,
    /// Which names are looked at.
    wanted: F,
    /// The next root to list.
    next: usize,
    at: At<'a>,
    /// The names of the skills that were found.
    seen: BTreeSet<String>,
}

/// Where a scan is.
enum At<'a> {
    Between,
    /// Listing a root.
    Entries(&'a Root, ReadDir, Vec<String>),
    /// Looking at what was listed, in order of names.
    Skills(&'a Root, vec::IntoIter<String>),
}

impl<'a, F: Fn(&str) -> bool> Scan<'a, F> {
    pub(super) fn new(catalog: &'a Catalog, wanted: F) -> Self {
        Self {
            catalog,
            wanted,
            next: 0,
            at: At::Between,
            seen: BTreeSet::new(),
        }
    }

    /// Goes on by a step; none where there is nothing more.
    pub(crate) fn step(&mut self) -> Option<Found> {
        match &mut self.at {
            At::Between => {
                let root = self.catalog.roots.get(self.next)?;
                self.next += 1;
                match root.folder.handle().entries() {
                    Ok(entries) => self.at = At::Entries(root, entries, Vec::new()),
                    Err(error) => return Some(Found::Problem(root.cannot_list(&error))),
                }
            }
            At::Entries(root, entries, names) => match entries.next() {
                Some(Ok(entry)) => match root.name_of(&entry) {
                    Ok(Some(name)) if (self.wanted)(&name) => names.push(name),
                    Ok(_) => {}
                    Err(problem) => return Some(Found::Problem(problem)),
                },
                end => {
                    let (root, mut names) = (*root, std::mem::take(names));
                    names.sort();
                    self.at = At::Skills(root, names.into_iter());
                    if let Some(Err(error)) = end {
                        return Some(Found::Problem(root.cannot_list(&error)));
                    }
                }
            },
            At::Skills(root, names) => match names.next() {
                Some(name) => {
                    let root = *root;
                    return Some(self.look(root, name));
                }
                None => self.at = At::Between,
            },
        }
        Some(Found::Nothing)
    }

    fn look(&mut self, root: &Root, name: String) -> Found {
        let path = || root.path.join(&name);
        if self.seen.contains(&name) {
            return Found::Problem(format!(
                "`{}` is hidden by a skill of that name in an earlier folder",
                path().display()
            ));
        }
        match root.open_skill(&name) {
            Ok(handle) => {
                self.seen.insert(name.clone());
                Found::Skill(describe(name, handle, self.catalog.hard_links))
            }
            Err(Errno::NOTDIR | Errno::NOENT) => Found::Nothing,
            Err(error) => Found::Problem(format!(
                "`{}` is left out: {}",
                path().display(),
                io::Error::from(error)
            )),
        }
    }
}

impl Root {
    /// The name of an entry, if a skill can have it; a problem, if it looks
    /// like a skill and cannot be one.
    fn name_of(&self, entry: &DirEntry) -> Result<Option<String>, String> {
        let kind = entry.file_type();
        if kind.as_ref().is_ok_and(|kind| kind.is_file()) {
            return Ok(None);
        }
        let left_out = |why: &str| {
            let path = self.path.join(entry.file_name());
            format!("`{}` is left out: {why}", path.display())
        };
        if !self.follow_links && kind.is_ok_and(|kind| kind.is_symlink()) {
            return Err(left_out(
                "it is a symlink; `follow_root_links = true` on its folder would follow it",
            ));
        }
        skill_name_of(&entry.file_name()).map_err(left_out)
    }

    fn cannot_list(&self, error: &io::Error) -> String {
        format!("`{}` cannot be listed: {error}", self.path.display())
    }

    /// The names in the root that a skill can have, sorted.
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
