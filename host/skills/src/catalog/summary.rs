//! Summarises one skill: its folder, files and scripts, and what its frontmatter declares. People
//! read this before any part of the skill runs.

use std::path::{Path, PathBuf};

use super::describe::read_start;
use super::{Catalog, FolderError};
use crate::entries::ListedEntries;
use crate::frontmatter::{self, Frontmatter};
use crate::guard::{Folder, PathTarget};

/// The maximum number of entries that are counted. Guards against: a folder of millions of files.
const MAX_ENTRIES: usize = 100_000;

/// The maximum depth of folders that are counted. Guards against: deeply nested folders.
const MAX_DEPTH: usize = 32;

/// The maximum number of scripts that are named. Guards against: a message as long as a folder.
const MAX_SCRIPTS: usize = 100;

/// The folder of scripts in a skill, by the Agent Skills specification.
const SCRIPTS: &str = "scripts/";

/// A summary of one skill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillSummary {
    /// The canonical path of the skill's folder.
    pub folder: PathBuf,
    /// The number of files that tools can read.
    pub files: usize,
    /// The size of these files together, in bytes.
    pub bytes: u64,
    /// The number of entries that no tool can read, such as symlinks that lead out of the folder.
    pub unreadable: usize,
    /// True if the folder has more entries than are counted.
    pub is_partial: bool,
    /// The first hundred paths of files in `scripts/`, sorted.
    pub scripts: Vec<String>,
    /// The number of further files in `scripts/`.
    pub more_scripts: usize,
    /// The fields of the frontmatter.
    pub declared: Frontmatter,
}

impl Catalog {
    /// Returns the summary of a skill. Of its files, reads only SKILL.md.
    pub fn summary(&self, name: &str) -> Result<SkillSummary, FolderError> {
        let folder = self.skill(name, self.hard_links)?.folder;
        let path = folder.real_path().map_err(|_| FolderError::Unreadable)?;
        let mut summary = SkillSummary {
            folder: path,
            ..SkillSummary::default()
        };
        summary.count_files(&folder);
        if let Ok(Some((_, Ok(text)))) = read_start(&folder) {
            summary.declared = frontmatter::read(&text).frontmatter;
        }
        Ok(summary)
    }
}

impl SkillSummary {
    /// Counts the files in the folder, level by level.
    fn count_files(&mut self, skill: &Folder) {
        let mut scripts = Vec::new();
        let mut left = MAX_ENTRIES;
        let mut level = vec![String::new()];
        for _ in 0..MAX_DEPTH {
            for above in std::mem::take(&mut level) {
                let Some(entries) = entries(skill, &above) else {
                    self.unreadable += 1;
                    continue;
                };
                for entry in entries.flatten() {
                    if left == 0 {
                        self.is_partial = true;
                        break;
                    }
                    left -= 1;
                    let Some(entry) = entry else { continue };
                    // No call can name a file whose name is not UTF-8.
                    let Ok(name) = entry.name.into_string() else {
                        self.unreadable += 1;
                        continue;
                    };
                    let path = format!("{above}{name}");
                    match skill.lookup(Path::new(&path), true) {
                        Ok(PathTarget::File(file)) => {
                            self.files += 1;
                            self.bytes = self.bytes.saturating_add(file.size);
                            if path.starts_with(SCRIPTS) {
                                scripts.push(path);
                            }
                        }
                        // Entering it would count files twice, or never end.
                        Ok(PathTarget::Folder(_)) if entry.kind.is_symlink() => {}
                        Ok(PathTarget::Folder(_)) => level.push(path + "/"),
                        Err(_) => self.unreadable += 1,
                    }
                }
            }
        }
        self.is_partial |= !level.is_empty();
        scripts.sort();
        self.more_scripts = scripts.len().saturating_sub(MAX_SCRIPTS);
        scripts.truncate(MAX_SCRIPTS);
        self.scripts = scripts;
    }
}

/// Lists a folder of a skill, at a path that is empty or ends in a slash.
fn entries(skill: &Folder, path: &str) -> Option<ListedEntries> {
    if path.is_empty() {
        return skill.entries().ok();
    }
    match skill.lookup(Path::new(path), false).ok()? {
        PathTarget::Folder(folder) => folder.entries().ok(),
        PathTarget::File(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::catalog::SkillsRoot;

    #[test]
    fn counts_readable_and_unreadable_files_once() {
        let place = tempfile::tempdir().unwrap();
        let skill = place.path().join("tea");
        fs::create_dir_all(skill.join("scripts/deep")).unwrap();
        for (path, text) in [
            ("SKILL.md", "---\nname: tea\nlicense: MIT\n---\n"),
            ("scripts/b.py", "12"),
            ("scripts/deep/a.py", "123"),
            ("notes.md", "1234"),
        ] {
            fs::write(skill.join(path), text).unwrap();
        }
        symlink(".", skill.join("loop")).unwrap();
        symlink("notes.md", skill.join("again.md")).unwrap();
        symlink("/etc/hostname", skill.join("outside")).unwrap();
        let catalog = Catalog::open(&[SkillsRoot::new(place.path())], None).unwrap();
        let summary = catalog.summary("tea").unwrap();
        assert_eq!((summary.files, summary.bytes), (5, 31 + 2 + 3 + 4 + 4));
        assert_eq!((summary.unreadable, summary.is_partial), (1, false));
        assert_eq!(summary.scripts, ["scripts/b.py", "scripts/deep/a.py"]);
        assert_eq!(summary.declared.license.unwrap().value, "MIT");
        assert_eq!(summary.folder, skill.canonicalize().unwrap());
        assert_eq!(catalog.summary("te"), Err(FolderError::Unknown));
        assert_eq!(catalog.summary("../tea"), Err(FolderError::Unknown));
    }

    #[test]
    fn names_at_most_a_hundred_scripts() {
        let place = tempfile::tempdir().unwrap();
        let scripts = place.path().join("tea/scripts");
        fs::create_dir_all(&scripts).unwrap();
        for number in 0..103 {
            fs::write(scripts.join(format!("{number}.py")), "").unwrap();
        }
        let catalog = Catalog::open(&[SkillsRoot::new(place.path())], None).unwrap();
        let summary = catalog.summary("tea").unwrap();
        assert_eq!((summary.scripts.len(), summary.more_scripts), (100, 3));
    }
}
