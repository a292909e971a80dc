//! Help for a wrong path: similar paths, the entries of a folder, and the target of a path
//! that leaves the folder. Reads names and links through the folder's handle and the guard,
//! but no files.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::guard::{Folder, PathTarget};

/// The maximum number of names in a search. Guards against: slow failures in a large
/// folder.
const MAX_NAMES: usize = 2_000;
/// The maximum depth of a search. Guards against: deeply nested folders.
const MAX_DEPTH: usize = 8;
/// The time after which a search opens no further folders. Guards against: slow file
/// systems.
const MAX_TIME: Duration = Duration::from_millis(10);
/// The maximum size of a compared path, in bytes. Guards against: a long path from a caller,
/// because comparing takes quadratic time.
const MAX_PATH_BYTES: usize = 512;
/// The maximum number of links in a path, as in Linux. Guards against: a link to itself.
const MAX_LINKS: usize = 40;
/// The maximum number of listed entries. Guards against: help that takes many tokens.
const MAX_ENTRIES: usize = 12;
/// The maximum number of similar paths.
const MAX_SIMILAR: usize = 3;
/// The minimum similarity of a path, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.85;

/// The first entries of a folder, sorted. Names of folders end in a slash.
#[derive(Debug, PartialEq, Eq)]
pub struct Entries {
    /// The names.
    pub names: Vec<String>,
    /// The number of further names, even if the guard refuses some of them.
    pub more: usize,
}

/// The target of a path that leaves the folder.
#[derive(Debug, PartialEq, Eq)]
pub enum WayOut {
    /// A path relative to the parent folder.
    Beside(String),
    /// An absolute path.
    Absolute(String),
}

/// Returns the entries of the folder at a path. Lists only entries that the guard permits.
pub fn entries(folder: &Folder, path: &str) -> Option<Entries> {
    let opened = open(folder, path)?;
    let mut names: Vec<String> = names_of(&opened, MAX_NAMES).map(|(name, _)| name).collect();
    names.sort();
    let (mut listed, mut checked) = (Vec::new(), 0);
    while listed.len() < MAX_ENTRIES
        && let Some(name) = names.get(checked)
    {
        checked += 1;
        listed.extend(permitted_path(&opened, name));
    }
    Some(Entries {
        more: names.len() - checked,
        names: listed,
    })
}

/// Returns the most similar paths in a folder, best first. Returns only paths that the
/// guard permits.
pub fn nearest(folder: &Folder, wanted: &str) -> Vec<String> {
    let wanted = plain(wanted).to_lowercase();
    if wanted.is_empty() || wanted.len() > MAX_PATH_BYTES {
        return Vec::new();
    }
    let mut similar: Vec<(f64, String)> = paths(folder)
        .into_iter()
        .map(|path| (similarity(&wanted, &path.to_lowercase()), path))
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .collect();
    similar.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let permitted = similar
        .iter()
        .filter_map(|(_, path)| permitted_path(folder, path));
    permitted.take(MAX_SIMILAR).collect()
}

/// Returns the target of a path that leaves the folder, directly or by a link. Resolves
/// links as text.
pub fn way_out(folder: &Folder, path: &str) -> Option<WayOut> {
    let mut rest: VecDeque<String> = VecDeque::new();
    let mut resolved: Vec<String> = Vec::new();
    let mut target = path.to_owned();
    for _ in 0..=MAX_LINKS {
        if target.len() > MAX_PATH_BYTES {
            return None;
        }
        if target.starts_with('/') {
            let rest: Vec<String> = std::iter::once(target).chain(rest).collect();
            return Some(WayOut::Absolute(rest.join("/")));
        }
        for part in target.rsplit('/') {
            rest.push_front(part.to_owned());
        }
        target = loop {
            let part = rest.pop_front()?;
            match part.as_str() {
                "" | "." => {}
                ".." => {
                    if resolved.pop().is_none() {
                        let rest: Vec<String> = rest.into();
                        return Some(WayOut::Beside(rest.join("/")));
                    }
                }
                _ => {
                    resolved.push(part);
                    if let Ok(target) = folder.link_target(Path::new(&resolved.join("/"))) {
                        resolved.pop();
                        break target.into_os_string().into_string().ok()?;
                    }
                }
            }
        };
    }
    None
}

/// Returns the names of a path, joined by `/`. Treats backslashes as separators, and omits
/// `.`, `..` and the scheme of a URI.
pub fn plain(path: &str) -> String {
    let path = path.split_once("://").map_or(path, |(_, rest)| rest);
    let path: String = path.chars().filter(|c| !c.is_control()).collect();
    let names = path.split(['/', '\\']).map(str::trim);
    let names: Vec<&str> = names
        .filter(|name| !matches!(*name, "" | "." | ".."))
        .collect();
    names.join("/")
}

/// Returns a path if the guard permits it. Adds a slash to the path of a folder.
fn permitted_path(folder: &Folder, path: &str) -> Option<String> {
    match folder.lookup(Path::new(path), true).ok()? {
        PathTarget::File(_) => Some(path.to_owned()),
        PathTarget::Folder(_) => Some(format!("{path}/")),
    }
}

fn open(folder: &Folder, path: &str) -> Option<Folder> {
    match folder.lookup(Path::new(path), true).ok()? {
        PathTarget::Folder(opened) => Some(opened),
        PathTarget::File(_) => None,
    }
}

/// Returns the names in a folder that a path in a call can contain, and whether each is a folder. A
/// link to a folder is not reported as a folder.
fn names_of(folder: &Folder, max: usize) -> impl Iterator<Item = (String, bool)> {
    let entries = folder.entries().into_iter().flatten().flatten();
    entries.take(max).flatten().filter_map(|entry| {
        let name = entry.name.into_string().ok()?;
        let can_be_named = !name.contains(|c: char| c == '\\' || c.is_control());
        let is_folder = entry.kind.is_dir();
        can_be_named.then_some((name, is_folder))
    })
}

/// Returns the paths in a folder, level by level, up to the limits. Does not open hidden
/// folders.
pub fn paths(folder: &Folder) -> Vec<String> {
    let start = Instant::now();
    let mut found: Vec<String> = Vec::new();
    let mut level = vec![String::new()];
    for _ in 0..MAX_DEPTH {
        let mut next = Vec::new();
        for above in std::mem::take(&mut level) {
            if found.len() >= MAX_NAMES || start.elapsed() > MAX_TIME {
                return found;
            }
            let opened = match above.as_str() {
                "" => Some(folder.clone()),
                above => open(folder, above),
            };
            let Some(opened) = opened else { continue };
            let mut names: Vec<_> = names_of(&opened, MAX_NAMES - found.len()).collect();
            names.sort();
            for (name, is_folder) in names {
                let is_hidden = name.starts_with('.');
                let path = match above.as_str() {
                    "" => name,
                    above => format!("{above}/{name}"),
                };
                if is_folder && !is_hidden {
                    next.push(path.clone());
                }
                found.push(path);
            }
        }
        level = next;
    }
    found
}

/// Returns the similarity of two paths in lower case, from 0 to 1. The last name counts
/// more than the folders.
fn similarity(wanted: &str, path: &str) -> f64 {
    let ends_with = |long: &str, short: &str| {
        let before = long.strip_suffix(short);
        before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    let (wanted_name, path_name) = (name_of(wanted), name_of(path));
    let (wanted_stem, path_stem) = (stem_of(wanted_name), stem_of(path_name));
    let has_part = |long: &str, short: &str| short.len() > 2 && long.contains(short);
    let same_folder = wanted.strip_suffix(wanted_name) == path.strip_suffix(path_name);
    let folder_bonus = if same_folder { 0.02 } else { 0.0 };
    if wanted == path {
        1.0
    } else if ends_with(wanted, path) {
        0.99
    } else if ends_with(path, wanted) {
        0.98
    } else if wanted_name == path_name {
        0.97
    } else if wanted_stem == path_stem {
        0.94 + folder_bonus
    } else if has_part(path_stem, wanted_stem) || has_part(wanted_stem, path_stem) {
        0.88 + folder_bonus
    } else {
        strsim::jaro_winkler(wanted_stem, path_stem).min(0.9) + folder_bonus
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn stem_of(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use cap_std::ambient_authority;
    use cap_std::fs::Dir;
    use tempfile::TempDir;

    use super::*;
    use crate::broker::Opener;
    use crate::guard::HardLinks;

    fn skill(files: &[&str], links: &[(&str, &str)]) -> (TempDir, Folder) {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        for (link, target) in links {
            symlink(target, root.path().join(link)).unwrap();
        }
        let folder = Dir::open_ambient_dir(root.path(), ambient_authority()).unwrap();
        let handle = folder.into_std_file().into();
        let folder = Folder::new(handle, HardLinks::Refused, Opener::DIRECT).unwrap();
        (root, folder)
    }

    #[test]
    fn finds_the_intended_path_first() {
        let files = [
            "SKILL.md",
            "docs/api_reference.md",
            "docs/setup.md",
            "scripts/convert.py",
            "scripts/lib/images.py",
            "assets/logo.svg",
        ];
        let (_root, folder) = skill(&files, &[]);
        for (wanted, meant) in [
            ("docs/API_Reference.md", "docs/api_reference.md"),
            ("docs/api-reference.md", "docs/api_reference.md"),
            ("docs/api_referense.md", "docs/api_reference.md"),
            ("docs/api.md", "docs/api_reference.md"),
            ("api_reference.md", "docs/api_reference.md"),
            ("weather/docs/setup.md", "docs/setup.md"),
            ("docs\\setup.md", "docs/setup.md"),
            ("skill://weather/docs/setup.md", "docs/setup.md"),
            ("/docs/setup.md", "docs/setup.md"),
            ("docs/setup.md\n", "docs/setup.md"),
            ("docs/setup.txt", "docs/setup.md"),
            ("references/setup.md", "docs/setup.md"),
            ("convert.sh", "scripts/convert.py"),
            ("script/convert.py", "scripts/convert.py"),
            ("scripts/images.py", "scripts/lib/images.py"),
            ("asset", "assets/"),
            ("skill.md", "SKILL.md"),
        ] {
            let found = nearest(&folder, wanted);
            assert_eq!(found.first().map(String::as_str), Some(meant), "{wanted}");
        }
        for wanted in ["", "zzz", "unrelated/thing.rs", &"a/".repeat(10_000)] {
            assert!(nearest(&folder, wanted).is_empty(), "{wanted:.20}");
        }
    }

    #[test]
    fn lists_no_entry_that_the_guard_refuses() {
        let (root, folder) = skill(
            &["a.md", "b.md", "dir/c.md", "one.md"],
            &[("b2.md", "/etc/passwd"), ("d.md", "../x"), ("e.md", "a.md")],
        );
        std::fs::hard_link(root.path().join("one.md"), root.path().join("one2.md")).unwrap();
        let found = entries(&folder, ".").unwrap();
        assert_eq!(found.names, ["a.md", "b.md", "dir/", "e.md"]);
        assert_eq!(nearest(&folder, "b3.md").first().unwrap(), "b.md");
        for wanted in ["one.txt", "d.txt"] {
            let found = nearest(&folder, wanted);
            assert!(
                !found
                    .iter()
                    .any(|path| path.starts_with("one") || path == "d.md"),
                "{found:?}"
            );
        }
        assert_eq!(entries(&folder, "a.md"), None);
        assert_eq!(entries(&folder, "d.md"), None);
    }

    #[test]
    fn says_where_a_path_leaves_the_folder() {
        let (_root, folder) = skill(
            &["a.md", "docs/b.md"],
            &[
                ("docs/out", "../../weather/docs"),
                ("hop", "docs/out/api.md"),
                ("inside", "docs/b.md"),
                ("absolute", "/skills/weather"),
                ("loop", "loop"),
            ],
        );
        let beside = |path: &str| Some(WayOut::Beside(path.to_owned()));
        for (path, way) in [
            ("a.md", None),
            ("docs/../a.md", None),
            ("inside", None),
            ("loop", None),
            ("none/at/all", None),
            ("../weather/SKILL.md", beside("weather/SKILL.md")),
            ("docs/../../x", beside("x")),
            ("../../y", beside("../y")),
            ("docs/out/api.md", beside("weather/docs/api.md")),
            ("hop", beside("weather/docs/api.md")),
            (
                "absolute/a.md",
                Some(WayOut::Absolute("/skills/weather/a.md".to_owned())),
            ),
            ("/etc", Some(WayOut::Absolute("/etc".to_owned()))),
        ] {
            assert_eq!(way_out(&folder, path), way, "{path}");
        }
    }

    #[test]
    fn searches_a_bounded_number_of_names() {
        let (root, folder) = skill(&[], &[]);
        let many = root.path().join("many");
        std::fs::create_dir(&many).unwrap();
        for index in 0..MAX_NAMES + 500 {
            std::fs::write(many.join(format!("{index}.md")), "").unwrap();
        }
        assert_eq!(paths(&folder).len(), MAX_NAMES);
        let found = entries(&folder, "many").unwrap();
        assert_eq!(
            (found.names.len(), found.more),
            (MAX_ENTRIES, MAX_NAMES - MAX_ENTRIES)
        );
    }

    #[test]
    fn does_not_search_hidden_folders() {
        let hidden = [".git/objects/setup.md", "docs/.cache/setup.md"];
        let (_root, folder) = skill(&[&hidden[..], &["docs/setup.md"]].concat(), &[]);
        assert_eq!(nearest(&folder, "setup.txt"), ["docs/setup.md"]);
        let mut paths = paths(&folder);
        paths.sort();
        assert_eq!(paths, [".git", "docs", "docs/.cache", "docs/setup.md"]);
    }
}
