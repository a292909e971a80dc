//! Lists the skills of all roots, with the problems found on the way, for the operator.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use unicode_normalization::UnicodeNormalization as _;

use super::describe::describe;
use super::freshness::Freshness;
use super::root::Root;
use super::{Catalog, FolderError, Listing, ReadBudget, Skill};

/// The maximum number of skipped entries that get a line each, for one root and one reason. If
/// there are more, one line reports them all. Guards against: a line for each of a thousand
/// symlinks.
const MAX_ALIKE: usize = 10;

/// The maximum number of reported names that look alike.
const MAX_LOOKALIKES: usize = 10;

/// The entries of a root that are skipped, by reason.
#[derive(Default)]
struct SkippedEntries(BTreeMap<String, AlikeEntries>);

/// Entries that are skipped for the same reason.
#[derive(Default)]
struct AlikeEntries {
    /// At most [`MAX_ALIKE`] entries, including the first by path.
    paths: Vec<PathBuf>,
    count: usize,
}

impl SkippedEntries {
    fn add(&mut self, path: PathBuf, why: String) {
        let alike = self.0.entry(why).or_default();
        alike.count += 1;
        if alike.paths.len() < MAX_ALIKE {
            alike.paths.push(path);
        } else if let Some(first) = alike.paths.iter_mut().min()
            && path < *first
        {
            *first = path;
        }
    }

    /// Returns a problem for each entry, or one for all with the same reason if there are many.
    fn into_problems(self) -> impl Iterator<Item = String> {
        self.0.into_iter().flat_map(|(why, alike)| {
            let quoted = |path: &PathBuf| format!("`{}`", path.display());
            if let (Some(first), true) = (alike.paths.iter().min(), alike.count > MAX_ALIKE) {
                let more = alike.count - 1;
                return vec![format!("skipped {} and {more} more: {why}", quoted(first))];
            }
            let paths = alike.paths.iter();
            paths
                .map(|path| format!("skipped {}: {why}", quoted(path)))
                .collect()
        })
    }
}

/// Returns the problems of names that differ only in their Unicode form. For example, an accent can
/// be a separate character.
fn lookalikes<'n>(names: impl Iterator<Item = &'n String>) -> Vec<String> {
    let mut forms: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for name in names.filter(|name| !name.is_ascii()) {
        let form = name.nfc().collect();
        forms.entry(form).or_default().insert(name);
    }
    let alike = forms.iter().filter(|(_, names)| names.len() > 1);
    let mut problems: Vec<String> = alike
        .map(|(form, names)| {
            format!(
                "{} skills are named `{form}`, in different Unicode forms of the same letters; \
                 rename all but one",
                names.len()
            )
        })
        .collect();
    if let Some(more @ 1..) = problems.len().checked_sub(MAX_LOOKALIKES) {
        problems.truncate(MAX_LOOKALIKES);
        problems.push(format!(
            "{more} more names of skills have several Unicode forms"
        ));
    }
    problems
}

impl Catalog {
    /// Reads the skills that are `wanted`. Also returns the problems of all entries.
    pub(super) fn scan(&self, wanted: impl Fn(&str) -> bool) -> Listing {
        let mut listing = Listing::default();
        let mut taken = BTreeSet::new();
        let mut all_names = Vec::new();
        for (index, root) in self.roots.iter().enumerate() {
            let mut skipped = SkippedEntries::default();
            let mut names = root.scan_names(&mut skipped, &mut listing.problems);
            all_names.extend(names.iter().filter(|name| !name.is_ascii()).cloned());
            names.retain(|name| wanted(name));
            for name in names {
                let Some(path) = root.path_of(&name) else {
                    continue;
                };
                let full_path = || root.base.path.join(&*path);
                if taken.contains(&name) {
                    listing.problems.push(format!(
                        "`{}` is hidden by a skill of the same name in an earlier folder; its full \
                         name is `root{}.{name}`",
                        full_path().display(),
                        index + 1
                    ));
                    continue;
                }
                match root.base.open_path(&path) {
                    Ok(handle) => {
                        let folder_name = path.rsplit('/').next().unwrap_or(&name);
                        let folder = self.folder(handle);
                        let skill = describe(
                            name.clone(),
                            folder_name,
                            folder,
                            &mut ReadBudget::unbounded(),
                        );
                        listing.skills.push(skill);
                        taken.insert(name);
                    }
                    Err(Errno::NOTDIR | Errno::NOENT) => {}
                    Err(error) => {
                        skipped.add(full_path(), io::Error::from(error).to_string());
                        // A call for this name fails too, even if a later root has such a skill.
                        if FolderError::from(error) != FolderError::Unknown {
                            taken.insert(name);
                        }
                    }
                }
            }
            listing.problems.extend(skipped.into_problems());
        }
        listing.problems.extend(lookalikes(all_names.iter()));
        let by_name = |one: &Skill, other: &Skill| one.name.cmp(&other.name);
        listing.skills.sort_by(by_name);
        listing
    }
}

impl Root {
    /// Returns the sorted names of the entries that can be skills. Adds the problems of the
    /// other entries.
    fn scan_names(&self, skipped: &mut SkippedEntries, problems: &mut Vec<String>) -> Vec<String> {
        if let Some(tree) = self.tree() {
            let found = tree.names_as_of(&self.base, Freshness::Now);
            problems.extend_from_slice(&found.problems);
            return found.names().map(str::to_owned).collect();
        }
        let folder = &self.base.folder;
        let mut names = Vec::new();
        let mut list = || -> io::Result<()> {
            for entry in folder.all_entries()? {
                match self.base.name_of(&entry?, folder.handle(), "") {
                    Ok(name) => names.extend(name),
                    Err(entry) => skipped.add(entry.path, entry.why.to_owned()),
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
