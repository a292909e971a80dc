//! Finds and opens the SKILL.md of a skill's folder, in any spelling of upper and lower case.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, StatxFlags};
use rustix::io::Errno;

use crate::entries::EntryCursor;
use crate::guard::Folder;

/// The spellings to try first, in this order.
const SPELLINGS: [&str; 2] = ["SKILL.md", "SKILL.MD"];

/// The spellings to look for before listing a folder.
const COMMON_SPELLINGS: [&str; 3] = ["SKILL.md", "SKILL.MD", "skill.md"];

/// The maximum number of entries to list in search of another spelling. In a larger folder, each
/// spelling is tried instead. Guards against: listing a folder of a million files for every list
/// of skills.
const MAX_LISTED: usize = 1_000;

/// Returns whether a file name is SKILL.md in any case.
pub fn is_skill_md(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(SPELLINGS[0])
}

/// Opens the SKILL.md of a skill. Also returns the name of the file that it opened: `SKILL.md`,
/// else `SKILL.MD`, else the first other spelling. Returns `None` if there is no such file.
pub fn open(folder: &Folder) -> io::Result<Option<(String, File)>> {
    let found = open_first(folder, SPELLINGS.map(str::to_owned))?;
    if found.is_some() {
        return Ok(found);
    }
    let mut entries = folder.entries()?;
    let mut listed: Vec<String> = entries
        .by_ref()
        .take(MAX_LISTED)
        .filter_map(|entry| entry.ok()??.name.into_string().ok())
        .filter(|name| is_skill_md(name.as_ref()))
        .collect();
    if entries.next().is_some() {
        return open_first(folder, all_spellings());
    }
    listed.sort();
    open_first(folder, listed.into_iter().take(1))
}

/// Opens the first of these files that exists.
fn open_first(
    folder: &Folder,
    names: impl IntoIterator<Item = String>,
) -> io::Result<Option<(String, File)>> {
    for name in names {
        match folder.open_file(Path::new(&name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found.map(|file| Some((name, file))),
        }
    }
    Ok(None)
}

/// Returns all spellings in upper and lower case, sorted.
fn all_spellings() -> impl Iterator<Item = String> {
    let upper = SPELLINGS[1];
    let letters = upper.bytes().filter(u8::is_ascii_alphabetic).count();
    (0..1_u32 << letters).map(move |lower_bits| {
        let mut bit = letters;
        let spelled = upper.chars().map(|letter| {
            bit -= usize::from(letter.is_ascii_alphabetic());
            if lower_bits >> bit & 1 == 1 {
                letter.to_ascii_lowercase()
            } else {
                letter
            }
        });
        spelled.collect()
    })
}

/// Returns the reason why a SKILL.md cannot be read, if it is a symlink.
pub(crate) fn link_fault(folder: &Folder) -> Option<String> {
    let (name, path) = COMMON_SPELLINGS
        .map(|name| (name, Path::new(name)))
        .into_iter()
        .find(|(_, path)| {
            let status = folder.status_at(path, false);
            status.is_ok_and(|status| status.kind == FileType::Symlink)
        })?;
    let where_to = match folder.lookup(path, true) {
        Ok(_) => return None,
        Err(error) if error.kind() == io::ErrorKind::NotFound => "to nothing",
        // cap-std's error for a path that leads out has no code. `EXDEV` means another mount.
        Err(error)
            if error
                .raw_os_error()
                .is_none_or(|code| code == Errno::XDEV.raw_os_error()) =>
        {
            "out of the skill's folder, and no tool follows it"
        }
        Err(_) => return None,
    };
    Some(format!(
        "`{name}` is a symlink that leads {where_to}: replace it with the file itself"
    ))
}

/// Returns whether a subfolder has a SKILL.md in a common spelling. Opens no file. Accepts any
/// symlink; a listing reports one that cannot be read.
pub(crate) fn exists_in(parent: BorrowedFd<'_>, folder: &str) -> bool {
    COMMON_SPELLINGS.iter().any(|name| {
        let path = format!("{folder}/{name}");
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::statx(parent, path, flags, StatxFlags::TYPE).is_ok_and(|found| {
            FileType::from_raw_mode(u32::from(found.stx_mode)) != FileType::Directory
        })
    })
}

/// Returns whether a listed folder has a SKILL.md in any spelling. Adds the number of
/// entries that it reads to `entries`, and stops once `entries` exceeds `max`.
pub(crate) fn is_in_list(listed: EntryCursor, entries: &mut usize, max: usize) -> bool {
    let found = listed.map_while(|entry| {
        *entries += 1;
        (*entries <= max).then_some(entry)
    });
    found
        .flatten()
        .any(|entry| is_skill_md(&entry.name) && !entry.kind.is_dir())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::broker::Opener;
    use crate::guard::HardLinks;

    #[test]
    fn tries_each_spelling_once_and_in_order() {
        let all: Vec<String> = all_spellings().collect();
        assert_eq!(
            (all.len(), &*all[0], &*all[127]),
            (128, "SKILL.MD", "skill.md")
        );
        assert!(all.is_sorted_by(|one, next| one < next));
        assert!(all.iter().all(|name| is_skill_md(name.as_ref())));
    }

    #[test]
    fn finds_first_spelling_in_folders_of_any_size() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let found = || {
            let folder = fs::File::open(place.path()).unwrap();
            let folder = Folder::new(folder.into(), HardLinks::Refused, Opener::DIRECT).unwrap();
            open(&folder).unwrap().map(|(name, _)| name)
        };
        for files in [0, MAX_LISTED - 2, MAX_LISTED + 100] {
            for number in 0..files {
                fs::write(at(&format!("{number}")), "").unwrap();
            }
            assert_eq!(found(), None, "{files}");
            for name in ["skill.md", "sKILL.mD", "SKILL.MD", "SKILL.md"] {
                fs::write(at(name), "").unwrap();
                assert_eq!(found().as_deref(), Some(name), "{files}");
            }
            for name in ["skill.md", "sKILL.mD", "SKILL.MD", "SKILL.md"] {
                fs::remove_file(at(name)).unwrap();
            }
        }
    }
}
