//! Finding the SKILL.md of a folder.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use cap_std::fs::Dir;
use rustix::fs::{AtFlags, FileType, StatxFlags};
use rustix::io::Errno;

use crate::skill::entries::EntryCursor;
use crate::skill::guard::Folder;

/// The spellings that are tried by name, best first.
const SPELLINGS: [&str; 2] = ["SKILL.md", "SKILL.MD"];

/// The spellings that are looked for before a folder is listed.
const COMMON_SPELLINGS: [&str; 3] = ["SKILL.md", "SKILL.MD", "skill.md"];

/// Returns whether a file of this name is the documentation file of the folder that it
/// lies in: each spelling by case counts.
pub fn is_skill_md(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(SPELLINGS[0])
}

/// Opens the documentation file of a skill, and returns its name: `SKILL.md`, else
/// `SKILL.MD`, else the first other spelling by case. `None` if there is no such file.
pub(crate) fn open(folder: &Folder) -> io::Result<Option<(String, File)>> {
    for name in SPELLINGS {
        match folder.open_file(Path::new(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found.map(|file| Some((name.to_owned(), file))),
        }
    }
    let mut spellings: Vec<String> = EntryCursor::of(folder.handle())?
        .filter_map(|entry| entry.ok()?.name.into_string().ok())
        .filter(|name| is_skill_md(name.as_ref()))
        .collect();
    spellings.sort();
    match spellings.into_iter().next() {
        Some(name) => {
            let file = folder.open_file(Path::new(&name))?;
            Ok(Some((name, file)))
        }
        None => Ok(None),
    }
}

/// Returns the fault of a documentation file that is a symlink and cannot be read.
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
        // The guard's own refusal, and the kernel's, of another mount.
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
        "`{name}` is a symlink that leads {where_to}: put the file itself there"
    ))
}

/// Returns whether a folder in another has a documentation file under a common spelling.
/// Opens nothing. A symlink counts, wherever it leads: a listing then says that it cannot
/// be read.
pub(crate) fn is_at(parent: BorrowedFd<'_>, folder: &str) -> bool {
    COMMON_SPELLINGS.iter().any(|name| {
        let path = format!("{folder}/{name}");
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::statx(parent, path, flags, StatxFlags::TYPE).is_ok_and(|found| {
            FileType::from_raw_mode(u32::from(found.stx_mode)) != FileType::Directory
        })
    })
}

/// Returns whether a folder has a documentation file under any spelling by case. Counts
/// the entries that it looks at, and stops at the most.
pub(crate) fn is_in(folder: &Dir, entries: &mut usize, most: usize) -> bool {
    let found = EntryCursor::of(folder)
        .into_iter()
        .flatten()
        .map_while(|entry| {
            *entries += 1;
            (*entries <= most).then_some(entry)
        });
    found
        .flatten()
        .any(|entry| is_skill_md(&entry.name) && !entry.kind.is_dir())
}
