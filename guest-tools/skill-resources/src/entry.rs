//! Opens an entry of a folder, or returns the code of the reason why a listing leaves it
//! out.

use alloc::string::String;

use skillhost_guest::{Entry, Folder, NameError, PathError, SkillPath};

use crate::reason;

/// The code of the reason why a listing leaves an entry out, for the host.
pub(crate) type ReasonCode = &'static str;

/// Opens the file or folder at a path.
pub(crate) fn open(folder: &Folder, path: &str) -> Result<Entry, ReasonCode> {
    let path = SkillPath::new(path).map_err(|error| match error {
        PathError::Empty | PathError::ControlCharacter => "name-control",
        PathError::Outside => "name-outside",
    })?;
    folder.entry(&path).map_err(reason::code)
}

/// Joins a folder's path and a name. Fails if no call can use the name.
pub(crate) fn join(folder: &str, name: &str) -> Result<String, ReasonCode> {
    skillhost_guest::child_path(folder, name).map_err(|error| match error {
        NameError::Backslash => "name-backslash",
        NameError::ControlCharacter => "name-control",
    })
}
