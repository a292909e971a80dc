//! Checks the files of a skill beside its SKILL.md: reports those that lists leave out, and each
//! nested SKILL.md.
//!
//! The walk through the folder is bounded. It reads names and sizes, and opens no file.

use std::collections::VecDeque;
use std::os::fd::AsFd as _;
use std::path::Path;

use super::{Finding, Rule};
use crate::entries::ListedEntry;
use crate::frontmatter::quoted;
use crate::guard::{Folder, PathTarget};
use crate::omitted::{OmittedNames, Volume, is_volume_link};
use crate::skill_md::is_skill_md;

/// The maximum number of entries of a skill that a walk reads. Guards against: a skill with a
/// million files.
pub(crate) const MAX_ENTRIES: usize = 20_000;

/// The maximum depth of a walk. Guards against: very deeply nested folders.
const MAX_DEPTH: usize = 32;

/// The rules for the files beside SKILL.md.
pub(super) const RULES: &[Rule] = &[
    Rule::warning(
        "nested-skill",
        "The folder contains another SKILL.md that is not listed as a skill and that the body does \
         not refer to.",
        "Move the inner skill's folder out of this one, or name the parent of the inner skill's \
         folder as a folder of skills.",
    ),
    Rule::warning(
        "omitted-files",
        "Lists of the skill's files leave out checkouts, packages or caches in its folder.",
        "Remove them, or change `omitted_names`. They can still be read by exact path.",
    ),
];

/// The contents of a skill's folder.
#[derive(Debug, Default)]
pub(crate) struct SkillContents {
    /// The folders of nested skills, without those inside another nested skill.
    pub(crate) skills: Vec<String>,
    /// The entries that lists leave out, without those inside another such entry.
    omitted: Vec<String>,
}

/// The number and size of all files at some paths.
#[derive(Debug, Default)]
struct TotalSize {
    files: u64,
    bytes: u64,
    /// True if the walk stopped at a limit.
    is_cut: bool,
}

/// Returns the findings about the files of a skill beside its SKILL.md. `is_expected` returns
/// whether an inner folder is allowed to have a SKILL.md.
pub(crate) fn findings(
    folder: &Folder,
    names: &OmittedNames,
    is_expected: impl Fn(&str) -> bool,
) -> Vec<Finding> {
    let mut left = MAX_ENTRIES;
    let mut contents = SkillContents::read(folder, names, &mut left);
    contents.skills.retain(|inner| !is_expected(inner));
    let nested = nested_problem(&contents.skills);
    let nested = nested.map(|message| Finding::warning("nested-skill", None, message));
    let omitted = omitted_problem(folder, &contents.omitted);
    let omitted = omitted.map(|message| Finding::warning("omitted-files", None, message));
    nested.into_iter().chain(omitted).collect()
}

/// Returns the problem of a skill that contains these other skills, if there are any.
pub(crate) fn nested_problem(skills: &[String]) -> Option<String> {
    let first = quoted(&format!("{}/SKILL.md", skills.first()?));
    Some(match skills.len() {
        1 => format!(
            "{first} counts as a file of this skill, not as a skill: move its folder out of this \
             one, or name its folder's parent as a folder of skills"
        ),
        many => format!(
            "{first} and {} more count as files of this skill, not as skills: move their folders \
             out of this one, or name their folders' parents as folders of skills",
            many - 1
        ),
    })
}

fn omitted_problem(folder: &Folder, omitted: &[String]) -> Option<String> {
    let first = quoted(omitted.first()?);
    let more = match omitted.len() {
        1 => String::new(),
        many => format!(" and {} more", many - 1),
    };
    let TotalSize {
        files,
        bytes,
        is_cut,
    } = TotalSize::of(folder, omitted);
    let least = if is_cut { "at least " } else { "" };
    let files = match files {
        1 => "1 file".to_owned(),
        files => format!("{files} files"),
    };
    Some(format!(
        "lists of the skill's files leave out {first}{more}: {least}{files} with {bytes} \
         bytes in total; `omitted_names` changes that"
    ))
}

impl SkillContents {
    /// Walks through a skill's folder, but not through entries that lists leave out. Reads at most
    /// `left` entries, and subtracts the number read.
    pub(crate) fn read(folder: &Folder, names: &OmittedNames, left: &mut usize) -> Self {
        let folder = folder.without(names);
        let mut contents = Self::default();
        let mut folders = VecDeque::from([(String::new(), 0, false)]);
        while let Some((path, depth, mut is_in_nested_skill)) = folders.pop_front() {
            let Some((opened, entries)) = list(&folder, &path, left) else {
                continue;
            };
            let is_skill = |entry: &ListedEntry| is_skill_md(&entry.name) && !entry.kind.is_dir();
            if depth > 0 && !is_in_nested_skill && entries.iter().any(is_skill) {
                contents.skills.push(path.clone());
                is_in_nested_skill = true;
            }
            let handle = opened.handle();
            let volume = Volume::of(handle.as_fd());
            for entry in entries {
                let Some(name) = entry.name.to_str() else {
                    continue;
                };
                let inner = join(&path, name);
                let volume = volume.as_ref();
                if let Some(volume) = volume
                    && volume.is_listed_elsewhere(handle.as_fd(), &entry.name)
                {
                    // Lists show a file of the current generation only through the symlink
                    // with its name, so they leave out a file without such a symlink.
                    if volume.is_current(&entry.name) {
                        let entries = list(&folder, &inner, left);
                        let entries = entries.into_iter().flat_map(|(_, entries)| entries);
                        let unlinked =
                            entries.filter(|file| !is_volume_link(handle.as_fd(), &file.name));
                        let names = unlinked.filter_map(|file| file.name.into_string().ok());
                        contents
                            .omitted
                            .extend(names.map(|name| join(&inner, &name)));
                    } else if entry.kind.is_dir() {
                        contents.omitted.push(inner);
                    }
                    continue;
                }
                let is_folder = entry.kind.is_dir()
                    || volume.is_some() && is_volume_link(handle.as_fd(), &entry.name);
                if opened.leaves_out(&entry.name) {
                    contents.omitted.push(inner);
                } else if is_folder && depth < MAX_DEPTH {
                    folders.push_back((inner, depth + 1, is_in_nested_skill));
                }
            }
        }
        contents
    }
}

impl TotalSize {
    /// Counts the files at these paths, and in folders at these paths. Follows no symlinks.
    fn of(folder: &Folder, paths: &[String]) -> Self {
        let mut total = Self::default();
        let mut left = MAX_ENTRIES;
        let paths = paths.iter().map(|path| (path.clone(), 0));
        let mut paths: VecDeque<(String, usize)> = paths.collect();
        while let Some((path, depth)) = paths.pop_front() {
            let Ok(status) = folder.status_at(Path::new(&path), false) else {
                continue;
            };
            if !status.kind.is_dir() {
                total.files += 1;
                total.bytes = total.bytes.saturating_add(status.size);
                continue;
            }
            if left == 0 || depth == MAX_DEPTH {
                total.is_cut = true;
                continue;
            }
            let entries = list(folder, &path, &mut left).map(|(_, entries)| entries);
            for entry in entries.into_iter().flatten() {
                if let Some(name) = entry.name.to_str() {
                    paths.push_back((join(&path, name), depth + 1));
                }
            }
            total.is_cut |= left == 0;
        }
        total
    }
}

/// Reads at most `left` entries of a folder, including those that lists leave out. Subtracts the
/// number read.
fn list(root: &Folder, path: &str, left: &mut usize) -> Option<(Folder, Vec<ListedEntry>)> {
    let folder = match path {
        "" => root.clone(),
        path => match root.lookup(Path::new(path), true).ok()? {
            PathTarget::Folder(folder) => folder,
            PathTarget::File(_) => return None,
        },
    };
    let entries = folder.all_entries().ok()?;
    let entries: Vec<ListedEntry> = entries.flatten().take(*left).collect();
    *left -= entries.len();
    Some((folder, entries))
}

fn join(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}/{name}"),
    }
}
