//! Searches a root's folders for skills, in steps of one directory entry, so that the caller can
//! stop in between. The search is bounded, and reports where it stopped.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::vec;

use cap_std::fs::Dir;

use super::TreeNames;
use crate::catalog::HiddenFolders;
use crate::catalog::root_folder::{RootFolder, SkippedEntry};
use crate::entries::EntryCursor;
use crate::omitted::is_volume_link;
use crate::skill_md;
use crate::text::count::count;

/// The maximum number of searched folders. Guards against: a tree of a million folders,
/// such as a home folder that was named by mistake.
const MAX_FOLDERS: usize = 50_000;

/// The maximum number of directory entries. Guards against: a folder with millions of
/// files.
const MAX_ENTRIES: usize = 1_000_000;

/// The maximum number of reported problems. Guards against: a line for each of 50,000
/// symlinks.
const MAX_PROBLEMS: usize = 100;

/// The bounds of a search.
#[derive(Debug, Clone, Copy)]
pub(in crate::catalog) struct SearchBounds {
    /// The maximum depth of a skill. Folders in the root have depth 1.
    pub(in crate::catalog) depth: usize,
    /// The maximum number of folders.
    pub(in crate::catalog) folders: usize,
    /// The maximum number of directory entries.
    pub(in crate::catalog) entries: usize,
    /// True if all hidden folders are searched. If false, the root's setting decides.
    pub(in crate::catalog) hidden: bool,
}

impl SearchBounds {
    pub(in crate::catalog) fn of(root: &RootFolder) -> Self {
        Self {
            depth: root.depth,
            folders: MAX_FOLDERS,
            entries: MAX_ENTRIES,
            hidden: false,
        }
    }
}

/// A search of a root, level by level, sorted by path within a level. Does not search
/// inside skills. Follows a symlink only if its target is a skill itself.
pub(in crate::catalog) struct Search<'a> {
    root: &'a RootFolder,
    bounds: SearchBounds,
    /// The paths and depths of the folders to list.
    folders: VecDeque<(String, usize)>,
    state: SearchState,
    visited: usize,
    entries: usize,
    /// The paths of the skills found so far.
    pub(in crate::catalog) skills: Vec<String>,
    pub(in crate::catalog) problems: Vec<String>,
    more_problems: usize,
}

enum SearchState {
    BetweenFolders,
    Listing(ListedFolder, EntryCursor),
    Visiting(ListedFolder, vec::IntoIter<String>),
    Ended,
}

/// A folder during its search.
struct ListedFolder {
    path: String,
    depth: usize,
    handle: Dir,
    /// The names of its subfolders.
    names: Vec<String>,
}

impl<'a> Search<'a> {
    pub(in crate::catalog) fn new(root: &'a RootFolder, bounds: SearchBounds) -> Self {
        Self {
            root,
            bounds,
            folders: VecDeque::from([(String::new(), 0)]),
            state: SearchState::BetweenFolders,
            visited: 0,
            entries: 0,
            skills: Vec::new(),
            problems: Vec::new(),
            more_problems: 0,
        }
    }

    /// Creates a search of a root with the usual bounds.
    pub(super) fn of(root: &'a RootFolder) -> Self {
        Self::new(root, SearchBounds::of(root))
    }

    /// Runs the search to its end.
    pub(in crate::catalog) fn run(mut self) -> Self {
        while self.step() {}
        self
    }

    /// Runs the search to its end. Returns `None` if `is_over` stops it.
    pub(super) fn run_until(mut self, is_over: impl Fn() -> bool) -> Option<Self> {
        while self.step() {
            if is_over() {
                return None;
            }
        }
        Some(self)
    }

    /// Returns the names of the found skills.
    pub(super) fn into_names(mut self) -> TreeNames {
        if self.more_problems > 0 {
            let more = format!(
                "skipped {} in `{}`",
                count(self.more_problems, "more folder"),
                self.root.path.display()
            );
            self.problems.push(more);
        }
        TreeNames::new(self.root, self.skills, self.problems)
    }

    /// Makes one step. Returns `false` at the end.
    pub(in crate::catalog) fn step(&mut self) -> bool {
        match std::mem::replace(&mut self.state, SearchState::Ended) {
            SearchState::BetweenFolders => {
                let Some((path, depth)) = self.folders.pop_front() else {
                    return false;
                };
                match self.open(path, depth) {
                    Ok((folder, entries)) => self.state = SearchState::Listing(folder, entries),
                    Err(problem) => {
                        self.add_problem(problem);
                        self.state = SearchState::BetweenFolders;
                    }
                }
            }
            SearchState::Listing(mut folder, mut entries) => match entries.next() {
                Some(Ok(entry)) => {
                    self.entries += 1;
                    if self.entries > self.bounds.entries {
                        return self.stop(&folder.path, self.bounds.entries, "files and folders");
                    }
                    let name = entry.name.to_str().unwrap_or_default();
                    if entry.kind.is_dir() && self.enters_hidden(name) {
                        folder.names.push(name.to_owned());
                    }
                    match self.root.name_of(&entry, &folder.handle, &folder.path) {
                        Ok(Some(name)) => folder.names.push(name),
                        Ok(None) => {}
                        Err(skipped) => self.add_problem(skipped.to_string()),
                    }
                    self.state = SearchState::Listing(folder, entries);
                }
                end => {
                    if let Some(Err(error)) = end {
                        self.add_problem(self.root.cannot_list(&folder.path, &error));
                    }
                    let mut names = std::mem::take(&mut folder.names);
                    names.sort_unstable();
                    self.state = SearchState::Visiting(folder, names.into_iter());
                }
            },
            SearchState::Visiting(folder, mut names) => match names.next() {
                Some(name) => {
                    if self.visited == self.bounds.folders {
                        return self.stop(&folder.path, self.bounds.folders, "folders");
                    }
                    self.visited += 1;
                    self.visit(&folder, &name);
                    if self.entries > self.bounds.entries {
                        return self.stop(&folder.path, self.bounds.entries, "files and folders");
                    }
                    self.state = SearchState::Visiting(folder, names);
                }
                None => self.state = SearchState::BetweenFolders,
            },
            SearchState::Ended => return false,
        }
        true
    }

    fn open(&self, path: String, depth: usize) -> Result<(ListedFolder, EntryCursor), String> {
        let handle = if path.is_empty() {
            self.root.folder.handle().try_clone()
        } else {
            self.root
                .open_path(&path)
                .map(|handle| Dir::from_std_file(handle.into()))
                .map_err(io::Error::from)
        };
        let listed = handle.and_then(|handle| Ok((self.list(handle.as_fd(), ".")?, handle)));
        let (entries, handle) = listed.map_err(|error| self.root.cannot_list(&path, &error))?;
        let folder = ListedFolder {
            path,
            depth,
            handle,
            names: Vec::new(),
        };
        Ok((folder, entries))
    }

    /// Returns whether to search a hidden folder of this name.
    fn enters_hidden(&self, name: &str) -> bool {
        let all = HiddenFolders::Searched;
        let hidden = if self.bounds.hidden {
            &all
        } else {
            &self.root.hidden
        };
        hidden.has(name)
    }

    fn list(&self, parent: BorrowedFd<'_>, name: &str) -> io::Result<EntryCursor> {
        EntryCursor::open(parent, name, self.root.folder.opener())
    }

    /// Adds a folder to the skills, or to the folders to list.
    fn visit(&mut self, folder: &ListedFolder, name: &str) {
        let path = if folder.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}/{name}", folder.path)
        };
        let parent = folder.handle.as_fd();
        if skill_md::exists_in(parent, name) {
            self.add_skill(path, name);
            return;
        }
        // Listing refuses symlinks, so a symlink is followed only to a skill or in a volume.
        let listed = match self.list(parent, name) {
            Err(_) if is_volume_link(parent, OsStr::new(name)) => {
                let opened = self.root.open_path(&path).map_err(io::Error::from);
                opened.and_then(|opened| self.list(opened.as_fd(), "."))
            }
            listed => listed,
        };
        let Ok(listed) = listed else {
            return;
        };
        if skill_md::is_in_list(listed, &mut self.entries, self.bounds.entries) {
            self.add_skill(path, name);
        } else if folder.depth + 1 < self.bounds.depth {
            self.folders.push_back((path, folder.depth + 1));
        }
    }

    /// Adds a skill. A hidden folder is not a skill, except in a search for advice.
    fn add_skill(&mut self, path: String, name: &str) {
        if name.starts_with('.') && !self.bounds.hidden {
            let path = self.root.path.join(path);
            let why = "it has a SKILL.md, but a skill's name must not start with a dot";
            self.add_problem(SkippedEntry { path, why }.to_string());
        } else {
            self.skills.push(path);
        }
    }

    /// Ends the search at a bound. Always returns `false`.
    fn stop(&mut self, path: &str, max: usize, what: &str) -> bool {
        let folder = self.root.path.join(path);
        self.folders.clear();
        self.problems.push(format!(
            "`{}` has more than {max} {what} down to depth {}, so skills from `{}` on are left \
             out; lower `depth`, or name a folder below it",
            self.root.path.display(),
            self.bounds.depth,
            folder.display()
        ));
        false
    }

    fn add_problem(&mut self, problem: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        } else {
            self.more_problems += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::broker::Opener;
    use crate::catalog::SkillsRoot;

    fn search(path: &Path, folders: usize) -> TreeNames {
        search_entries(path, folders, MAX_ENTRIES)
    }

    fn search_entries(path: &Path, folders: usize, entries: usize) -> TreeNames {
        let root = RootFolder::open(&SkillsRoot::new(path), &Opener::DIRECT).unwrap();
        let bounds = SearchBounds {
            depth: 3,
            folders,
            entries,
            hidden: false,
        };
        Search::new(&root, bounds).run().into_names()
    }

    #[test]
    fn stops_at_the_folder_limit_and_says_where() {
        let place = tempfile::tempdir().unwrap();
        for author in ["a", "b", "c"] {
            for number in 0..10 {
                let skill = place.path().join(format!("{author}/{author}{number}"));
                fs::create_dir_all(&skill).unwrap();
                fs::write(skill.join("SKILL.md"), "x").unwrap();
            }
        }
        for (folders, found) in [(33, 30), (32, 29), (15, 12), (3, 0), (2, 0)] {
            let names = search(place.path(), folders);
            assert_eq!(names.names().count(), found, "{folders}");
            let problem = names.problems.join("; ");
            let stopped = problem.contains(&format!("more than {folders} folders"));
            assert_eq!(stopped, folders < 33, "{folders}: {problem}");
        }
        assert!(search(place.path(), 15).problems[0].contains("/b` on are left out"));
    }

    #[test]
    fn stops_at_the_entry_limit_and_says_so() {
        let place = tempfile::tempdir().unwrap();
        for skill in ["a", "b"] {
            let skill = place.path().join(skill);
            fs::create_dir(&skill).unwrap();
            fs::write(skill.join("SKILL.md"), "x").unwrap();
        }
        for number in 0..8 {
            fs::write(place.path().join(number.to_string()), "x").unwrap();
        }
        // The root has ten entries. The folders with a SKILL.md are not listed.
        for (entries, found) in [(10, 2), (9, 0), (1, 0)] {
            let names = search_entries(place.path(), 100, entries);
            assert_eq!(names.names().count(), found, "{entries}");
            let problem = names.problems.join("; ");
            let stopped = problem.contains(&format!("more than {entries} files and folders"));
            assert_eq!(stopped, found == 0, "{entries}: {problem}");
        }
    }

    #[test]
    fn reports_a_bounded_number_of_problems() {
        let place = tempfile::tempdir().unwrap();
        let link = |number: usize| {
            let link = place.path().join(number.to_string());
            std::os::unix::fs::symlink("/", link).unwrap();
        };
        (0..MAX_PROBLEMS).for_each(link);
        assert_eq!(search(place.path(), 1000).problems.len(), MAX_PROBLEMS);
        (MAX_PROBLEMS..MAX_PROBLEMS + 50).for_each(link);
        let problems = search(place.path(), 1000).problems;
        assert_eq!(problems.len(), MAX_PROBLEMS + 1);
        assert!(
            problems[MAX_PROBLEMS].starts_with("skipped 50 more "),
            "{problems:?}"
        );
    }

    #[test]
    fn counts_entries_of_all_folders_together() {
        let place = tempfile::tempdir().unwrap();
        for folder in ["a", "b", "c"] {
            let folder = place.path().join(folder);
            fs::create_dir(&folder).unwrap();
            for number in 0..5 {
                fs::write(folder.join(number.to_string()), "x").unwrap();
            }
        }
        // Three folders in the root. Their files are listed twice: once to look for a SKILL.md,
        // and once to find subfolders.
        for (entries, stops) in [(33, false), (32, true), (18, true), (12, true)] {
            let problem = search_entries(place.path(), 100, entries)
                .problems
                .join("; ");
            let says = problem.contains(&format!("more than {entries} files and folders"));
            assert_eq!(says, stops, "{entries}: {problem}");
        }
    }

    #[test]
    fn reports_limit_reached_in_lowest_folders() {
        let place = tempfile::tempdir().unwrap();
        for folder in ["a", "b"] {
            let folder = place.path().join("x/y").join(folder);
            fs::create_dir_all(&folder).unwrap();
            for number in 0..5 {
                fs::write(folder.join(number.to_string()), "x").unwrap();
            }
        }
        let zoo = place.path().join("x/y/zoo");
        fs::create_dir(&zoo).unwrap();
        // Only listing the folder finds this spelling.
        fs::write(zoo.join("Skill.mD"), "x").unwrap();
        for (entries, found) in [(25, 1), (15, 0)] {
            let names = search_entries(place.path(), 100, entries);
            assert_eq!(names.names().count(), found, "{entries}");
            assert_eq!(
                names.problems.is_empty(),
                found == 1,
                "{:?}",
                names.problems
            );
        }
    }
}
