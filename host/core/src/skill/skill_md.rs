//! Finding the SKILL.md of a folder.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::skill::guard::Folder;

/// The spellings that are tried by name, best first.
const SPELLINGS: [&str; 2] = ["SKILL.md", "SKILL.MD"];

/// Opens the documentation file of a skill, and returns its name: `SKILL.md`, else
/// `SKILL.MD`, else the first other spelling by case. `None` if there is no such file.
pub(crate) fn open(folder: &Folder) -> io::Result<Option<(String, File)>> {
    for name in SPELLINGS {
        match folder.open_file(Path::new(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found.map(|file| Some((name.to_owned(), file))),
        }
    }
    let mut spellings: Vec<String> = folder
        .handle()
        .entries()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.eq_ignore_ascii_case(SPELLINGS[0]))
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
