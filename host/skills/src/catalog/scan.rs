//! A listing of all roots with their problems, for the operator.

use std::collections::BTreeSet;
use std::io;

use rustix::io::Errno;

use super::describe::describe;
use super::freshness::Freshness;
use super::root::Root;
use super::{Catalog, FolderError, Listing, Skill};

impl Catalog {
    /// Reads the skills with wanted names. Also returns the problems of all entries.
    pub(super) fn scan(&self, wanted: impl Fn(&str) -> bool) -> Listing {
        let mut listing = Listing::default();
        let mut taken = BTreeSet::new();
        for (index, root) in self.roots.iter().enumerate() {
            let mut names = root.scan_names(&mut listing.problems);
            names.retain(|name| wanted(name));
            for name in names {
                let Some(path) = root.path_of(&name) else {
                    continue;
                };
                let shown = || root.base.path.join(&*path).display().to_string();
                if taken.contains(&name) {
                    listing.problems.push(format!(
                        "`{}` is hidden by a skill of the same name in an earlier folder; its full \
                         name is `root{}.{name}`",
                        shown(),
                        index + 1
                    ));
                    continue;
                }
                match root.base.open_path(&path) {
                    Ok(handle) => {
                        let folder_name = path.rsplit('/').next().unwrap_or(&name);
                        let folder = self.folder(handle);
                        let skill = describe(name.clone(), folder_name, folder);
                        listing.skills.push(skill);
                        taken.insert(name);
                    }
                    Err(Errno::NOTDIR | Errno::NOENT) => {}
                    Err(error) => {
                        let why = io::Error::from(error);
                        listing
                            .problems
                            .push(format!("skipped `{}`: {why}", shown()));
                        // Calls do not see a later root's skill of this name either.
                        if FolderError::from(error) != FolderError::Unknown {
                            taken.insert(name);
                        }
                    }
                }
            }
        }
        let by_name = |one: &Skill, other: &Skill| one.name.cmp(&other.name);
        listing.skills.sort_by(by_name);
        listing
    }
}

impl Root {
    /// Returns the sorted names of the entries that can be skills. Adds the problems of the
    /// other entries.
    fn scan_names(&self, problems: &mut Vec<String>) -> Vec<String> {
        if let Some(tree) = self.tree() {
            let found = tree.names_as_of(&self.base, Freshness::Now);
            problems.extend_from_slice(&found.problems);
            return found.names().map(str::to_owned).collect();
        }
        let folder = &self.base.folder;
        let mut names = Vec::new();
        let mut list = || -> io::Result<()> {
            for entry in folder.entries()? {
                match self.base.name_of(&entry?, folder.handle(), "") {
                    Ok(name) => names.extend(name),
                    Err(problem) => problems.push(problem),
                }
            }
            Ok(())
        };
        if let Err(error) = list() {
            problems.push(self.base.cannot_list("", &error));
        }
        names.sort_unstable();
        names
    }
}
